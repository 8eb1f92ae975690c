"""A ranker that asks a chat model about each caption."""

from pydantic import BaseModel, Field

from admire.core.registry import register
from admire.data.items import Item
from admire.llm import Conversation, Question
from admire.rankers import Ranker
from admire.senses.interpretation import Interpretation


class OverlapSettings(BaseModel):
    yes: float = Field(1.0, gt=0, description="What a yes counts.")


@register("ranker", "overlap", settings=OverlapSettings)
class Overlap(Ranker):
    """Asks whether a caption shows what is meant."""

    def __init__(self, settings: OverlapSettings):
        self.own = settings

    def scores(self, item: Item, reading: Interpretation | None) -> Conversation[list[float]]:
        meant = reading.meant if reading else item.compound
        replies = yield [
            Question(f"Does “{candidate.caption}” show {meant}?") for candidate in item.candidates
        ]
        return [self.own.yes * ("yes" in reply.text) for reply in replies]
