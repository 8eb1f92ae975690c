"""A ranker that asks a chat model about each caption."""

from collections.abc import Sequence

from admire.base.registry import register
from admire.data.items import Item
from admire.models.llm import Question
from admire.rankers import Answer, Ranker
from admire.senses.interpretation import Interpretation


@register("ranker", "overlap")
class Overlap(Ranker):
    """Asks whether a caption shows what is meant; yes counts 1."""

    task = "Asking about captions"

    def questions(self, item: Item, reading: Interpretation | None) -> list[Question]:
        meant = reading.meant if reading else item.compound
        return [
            Question(f"Does “{candidate.caption}” show {meant}?", purpose="ranking")
            for candidate in item.candidates
        ]

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> list[float]:
        return [float("yes" in answer.reply) for answer in answers]
