"""A decision between the two senses, with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import Field

from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.metrics.metrics import confidence

By = Literal["detector", "captions", "given", "recorded", "fused"]
"""What decides a sense without votes; ``captions`` are those of a sequence (Subtask B), and
``fused`` is the mean of several runs."""


@dataclass(frozen=True)
class Sense:
    """A decision between the senses, with its evidence.

    Attributes:
        label: the sense; None if no vote could be parsed, and in :data:`NO_SENSE`.
        probability_idiomatic: from 0 to 1: the share among the valid votes, or the mean of the
            detector's heads. A given sense has 0 or 1.
        idiomatic, literal, unparsed: how many votes were for each sense, or could not be parsed.
        by: what decided it instead of votes.
    """

    label: SenseLabel | None
    probability_idiomatic: Annotated[float, Field(ge=0, le=1)]
    idiomatic: int = 0
    literal: int = 0
    unparsed: int = 0
    by: By | None = None

    def __str__(self) -> str:
        """Return the sense with its votes, or with its confidence and what decided it."""
        label = self.label or "unknown"
        if self.by:
            is_sure = self.confidence is None or self.probability_idiomatic in (0, 1)
            sure = "" if is_sure else f", confidence {self.confidence:.2f}"
            return f"{label}{sure} ({self.by})"
        unread = f", {self.unparsed} unread" if self.unparsed else ""
        return f"{label} ({self.idiomatic}:{self.literal}{unread})"

    @property
    def is_unsure(self) -> bool:
        """Whether both readings of the item are shown: most wrong senses are in this band."""
        return self.label is not None and 0.40 <= self.probability_idiomatic <= 0.65

    @property
    def confidence(self) -> float | None:
        """The probability of the label, from 0 to 1; None if it was given, or there is none."""
        if self.label is None or self.by == "given":
            return None
        return confidence(self.probability_idiomatic, self.label)


NO_SENSE = Sense(None, 1.0)
"""Marks an item without a sense to decide: a word in a phrase, as in V-WSD."""


def mean_probability(senses: Iterable[Sense]) -> float | None:
    """Return the mean over several decisions on one use; None if no vote could be parsed."""
    voted = [*filter(attrgetter("label"), senses)]
    return sum(map(attrgetter("probability_idiomatic"), voted)) / len(voted) if voted else None


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """Return the sense with more votes; None without votes.

    A tie is literal: language models rarely mistake idiomatic uses for literal ones.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


def likelier(probability: float, by: By) -> Sense:
    """Return the likelier sense, from the probability of the idiomatic one."""
    return Sense("idiomatic" if probability > 0.5 else "literal", float(probability), by=by)


def given(item: Item) -> Sense:
    """Return the sense in the data; a UserError if they contain none."""
    if item.sentence_type is None:
        raise UserError(
            f"'{item.compound}': sentence_type is missing. Decide the sense in another way.",
            "sense",
        )
    return likelier(item.sentence_type == "idiomatic", "given")
