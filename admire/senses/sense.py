"""A decision between the two senses, and the table in which ``admire sense`` writes decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from admire.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from admire.items import Item, SenseLabel


@dataclass(frozen=True)
class Sense:
    """A decision and the votes that it is based on.

    Attributes:
        label: the sense; None where no vote could be read.
        probability: of the idiomatic sense, from 0 to 1: the share among the votes that could be
            read, or the mean of the detector's heads.
        idiomatic, literal, unparsed: how many votes were for each sense, or could not be read.
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


UNDECIDED = Sense(None, 0.5)
"""The sense of a compound that nobody has been asked about."""


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """The sense with more votes; None if there are no votes.

    A tie is literal, because language models often take literal uses for idiomatic ones, and
    hardly ever the reverse.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


def given(item: Item) -> Sense:
    """The sense that the data gives, as one vote.

    Raises:
        UserError: the data gives none.
    """
    if item.sentence_type is None:
        raise UserError(
            f"'{item.compound}': no sentence_type is given. Let the sense be decided in another "
            "way.",
            "sense",
        )
    idiomatic = int(item.sentence_type == "idiomatic")
    return Sense(item.sentence_type, float(idiomatic), idiomatic, 1 - idiomatic)


def sense_table(items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """One row for each item: what the data gives, what was decided, the votes and the confidence.

    The columns are compound, sentence, sentence_type (None if not given), predicted_type (None if
    no vote could be read), idiomatic, literal, unparsed (numbers of votes) and confidence, from
    0.5 to 1.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "compound": [item.compound for item in items],
            "sentence": [item.sentence for item in items],
            "sentence_type": [item.sentence_type for item in items],
            "predicted_type": [sense.label for sense in senses],
            "idiomatic": [sense.idiomatic for sense in senses],
            "literal": [sense.literal for sense in senses],
            "unparsed": [sense.unparsed for sense in senses],
            "confidence": [round(sense.confidence, 4) for sense in senses],
        }
    )


def known_senses(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of :func:`sense_table` whose sense is given, with the column accuracy (0 or 1)."""
    known = table[table["sentence_type"].notna()]
    return known.assign(accuracy=(known["predicted_type"] == known["sentence_type"]).astype(float))
