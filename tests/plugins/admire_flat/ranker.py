"""A ranker that asks a chat model about each caption."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from admire.core.registry import register
from admire.data.items import Item
from admire.llm import Question
from admire.rankers import Answer, Ranker
from admire.senses.interpretation import Interpretation


class OverlapSettings(BaseModel):
    yes: float = Field(1.0, gt=0, description="What a yes counts.")


@register("ranker", "overlap", settings=OverlapSettings)
class Overlap(Ranker):
    """Asks whether a caption shows what is meant."""

    def __init__(self, settings: OverlapSettings):
        self.own = settings

    def questions(self, item: Item, reading: Interpretation | None) -> list[Question]:
        meant = reading.meant if reading else item.compound
        return [
            Question(f"Does “{candidate.caption}” show {meant}?", purpose="ranking")
            for candidate in item.candidates
        ]

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> list[float]:
        return [self.own.yes * ("yes" in answer.reply) for answer in answers]
