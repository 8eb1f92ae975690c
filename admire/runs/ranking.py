"""What a run gives: a ranking for each item, in blocks or all together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from admire.data.items import Item, SenseLabel
from admire.data.submission import Prediction
from admire.rankers import Judgement
from admire.rankers.scorer import Scores
from admire.scores.cards import Seen
from admire.senses.interpretation import Interpretation
from admire.senses.sense import majority, mean_probability

BLOCK = 512
"""How many items are ranked and written together."""

Thing = TypeVar("Thing")


def blocks(things: Iterable[Thing]) -> Iterator[list[Thing]]:
    """The things in lists of :data:`BLOCK`."""
    rest = iter(things)
    while block := list(islice(rest, BLOCK)):
        yield block


@dataclass(frozen=True)
class Ranking:
    """One item's result.

    Attributes:
        interpretations: one for each chat model; none where the query is a baseline.
        scores: the ensemble's score of each candidate, in the item's order.
        order: the candidates' names from best to worst.
        parts: for scores.csv, one row for each ranker, model and candidate.
        judgements: what chat models that looked at the candidates made of them, one for each ranker
            and model.
        fused: the runs that it is fused from: ``run``, ``weight`` and ``order``.
        seen: which kinds of its parts the ``head`` or ``detector`` of the run saw in training; see
            :func:`admire.scores.cards.seen_by`.
        unsure: whether the sense is less sure than the run asks for, see
            :attr:`admire.rankers.settings.Settings.abstain_below`.
    """

    item: Item
    interpretations: tuple[Interpretation, ...]
    scores: Scores
    order: tuple[str, ...]
    parts: tuple[dict[str, Any], ...] = field(repr=False)
    judgements: tuple[Judgement, ...] = field(default=(), repr=False)
    fused: tuple[dict[str, Any], ...] = ()
    seen: Seen = field(default_factory=dict)
    unsure: bool = False

    @property
    def predicted_type(self) -> SenseLabel | None:
        """The sense that all models give, or else the majority of their votes.

        None for a baseline, or where no vote could be read.
        """
        labels = {i.sense.label for i in self.interpretations}
        if len(labels) == 1:
            return labels.pop()
        idiomatic = sum(i.sense.idiomatic for i in self.interpretations)
        literal = sum(i.sense.literal for i in self.interpretations)
        return majority(idiomatic, literal)

    @property
    def probability(self) -> float | None:
        """That of the idiomatic sense, the mean of the chat models; None as for the sense."""
        return mean_probability(one.sense for one in self.interpretations)

    @property
    def prediction(self) -> Prediction:
        """What a submission says of the item."""
        return Prediction(
            self.item.compound,
            self.item.sentence,
            self.order,
            self.predicted_type,
            self.order[0] if self.item.sequence else None,
            self.probability,
            self.unsure,
            self.item.language,
        )


@dataclass(frozen=True)
class Run:
    """The rankings of a set of items, and the record of how they were made."""

    rankings: tuple[Ranking, ...]
    record: dict[str, Any]

    def predictions(self) -> list[Prediction]:
        """What a submission says of each item."""
        return [ranking.prediction for ranking in self.rankings]
