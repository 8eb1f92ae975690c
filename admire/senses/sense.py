"""A sense that was decided, and what the decision rests on."""

from __future__ import annotations

from dataclasses import dataclass

from admire.errors import UserError
from admire.items import Item, SenseLabel


@dataclass(frozen=True)
class Sense:
    """A decision and what it rests on.

    ``label`` is None where no vote could be read. ``probability`` is that of the idiomatic sense,
    in [0, 1]: the share of the votes that could be read, or the mean of the detector's heads.
    """

    label: SenseLabel | None
    probability: float
    idiomatic: int = 0
    literal: int = 0
    unparsed: int = 0

    @property
    def confidence(self) -> float:
        """How sure the decision is, from 0.5 to 1."""
        return max(self.probability, 1 - self.probability)


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """The sense with more votes, None where there are none.

    A tie is literal: language models are known to call literal uses idiomatic, hardly ever the
    other way.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


def given(item: Item) -> Sense:
    """The sense that the data says, as one vote.

    Raises:
        UserError: the data does not say.
    """
    if item.sentence_type is None:
        raise UserError(f"'{item.compound}': no sentence_type is given. Use another --sense.")
    idiomatic = int(item.sentence_type == "idiomatic")
    return Sense(item.sentence_type, float(idiomatic), idiomatic, 1 - idiomatic)
