"""A decision between the two senses, and the table in which ``admire sense`` writes decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from admire.core.errors import UserError
from admire.core.files import add_table, numbered_rows, read_table
from admire.core.schema import Text, read_as
from admire.core.storage import write_whole
from admire.data.items import Item, SenseLabel
from admire.data.limits import Limit
from admire.data.rows import SenseCell, language_cell
from admire.metrics.metrics import confidence

LanguageTag = Annotated[Text, AfterValidator(language_cell), Limit("language")]

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
    probability_idiomatic: float
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
    probabilities = [sense.probability_idiomatic for sense in senses if sense.label]
    return sum(probabilities) / len(probabilities) if probabilities else None


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """Return the sense with more votes; None without votes.

    A tie is literal, because language models often mistake literal uses for idiomatic ones, and
    rarely the reverse.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


def likelier(probability: float, by: By) -> Sense:
    """Return the likelier sense, from the probability of the idiomatic one."""
    return Sense("idiomatic" if probability > 0.5 else "literal", float(probability), by=by)


def given(item: Item) -> Sense:
    """Return the sense in the data.

    Raises:
        UserError: the data contain none.
    """
    if item.sentence_type is None:
        raise UserError(
            f"'{item.compound}': sentence_type is missing. Decide the sense in another way.",
            "sense",
        )
    return likelier(item.sentence_type == "idiomatic", "given")


def sense_table(items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """Return one row per item with the given and the decided sense.

    The columns are compound, sentence, sentence_type (None if not given), predicted_type (None if
    no vote could be read), idiomatic, literal, unparsed (numbers of votes, empty where none were
    cast), confidence (the probability of predicted_type), language, probability_idiomatic, and by
    (what decided it in place of votes).
    """
    return pd.DataFrame(
        {
            "compound": [item.compound for item in items],
            "sentence": [item.sentence for item in items],
            "sentence_type": [item.sentence_type for item in items],
            "predicted_type": [sense.label for sense in senses],
            **{
                name: pd.array([None if s.by else getattr(s, name) for s in senses], dtype="Int64")
                for name in ("idiomatic", "literal", "unparsed")
            },
            "confidence": [s.confidence and round(s.confidence, 4) for s in senses],
            "language": [item.language for item in items],
            "probability_idiomatic": [round(sense.probability_idiomatic, 4) for sense in senses],
            "by": [sense.by for sense in senses],
        }
    )


def write_senses(path: Path, items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """Write the :func:`sense_table` as a TSV that :func:`admire.read_items` reads; return it.

    Its texts are exactly those of the data, so a spreadsheet may take one for a formula. A file
    that cannot be written is a UserError.
    """
    table = sense_table(items, senses)
    with write_whole(path) as file:
        add_table(file, table, separator="\t")
    return table


Votes = Annotated[int, Field(ge=0), BeforeValidator(lambda cell: cell or 0)]


class _Row(BaseModel):
    compound: Annotated[str, Limit("compound")]
    sentence: Annotated[str, Limit("sentence")]
    sentence_type: SenseCell
    predicted_type: SenseCell
    idiomatic: Votes
    literal: Votes
    unparsed: Votes
    language: LanguageTag
    probability_idiomatic: float = Field(ge=0, le=1, allow_inf_nan=False)
    by: Annotated[By | None, BeforeValidator(lambda cell: cell or None)]


def read_senses(path: Path) -> tuple[list[Item], list[Sense]]:
    """Read what :func:`write_senses` wrote: the items and their senses.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    items, senses = [], []
    for number, cells in numbered_rows(read_table(path, tuple(_Row.model_fields))):
        row = read_as(_Row, cells, f"{path}, row {number}")
        gold = row.sentence_type
        items.append(Item(row.compound, row.sentence, row.language, sentence_type=gold))
        votes = row.idiomatic, row.literal, row.unparsed
        senses.append(Sense(row.predicted_type, row.probability_idiomatic, *votes, row.by))
    if not items:
        raise UserError(f"{path}: contains no rows.")
    return items, senses


def known_senses(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of :func:`sense_table` with a given sense, and a column accuracy (0 or 1)."""
    rows = table[table["sentence_type"].notna()]
    return rows.assign(accuracy=(rows["predicted_type"] == rows["sentence_type"]).astype(float))
