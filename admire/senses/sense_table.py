"""The table in which ``admire sense`` writes decisions, and from which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from admire.core.errors import UserError
from admire.core.files import add_table, numbered_rows, read_table
from admire.core.schema import Text, read_as
from admire.core.storage import write_whole
from admire.data.items import Item
from admire.data.limits import limited
from admire.data.schema import SenseCell, language_cell
from admire.senses.sense import By, Sense

LanguageTag = Annotated[Text, AfterValidator(language_cell), *limited("language")]


def sense_table(items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """Return one row per item with the given and the decided sense.

    The sense is None if it was not given, or no vote could be read; the numbers of votes are empty
    if none were cast; confidence is the probability of predicted_type.
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

    Its texts are exactly those of the data, so a spreadsheet may take one for a formula.
    """
    table = sense_table(items, senses)
    with write_whole(path) as file:
        add_table(file, table, separator="\t")
    return table


Votes = Annotated[int, Field(ge=0), BeforeValidator(lambda cell: cell or 0)]


class _Row(BaseModel):
    compound: Annotated[str, *limited("compound")]
    sentence: Annotated[str, *limited("sentence")]
    sentence_type: SenseCell
    predicted_type: SenseCell
    idiomatic: Votes
    literal: Votes
    unparsed: Votes
    language: LanguageTag
    probability_idiomatic: float = Field(ge=0, le=1, allow_inf_nan=False)
    by: Annotated[By | None, BeforeValidator(lambda cell: cell or None)]


def read_senses(path: Path) -> tuple[list[Item], list[Sense]]:
    """Read the items and senses that :func:`write_senses` wrote; errors name row and column."""
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
