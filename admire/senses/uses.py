"""Uses of expressions in sentences: what detectors read, and the files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from admire.base.errors import UserError, needs_extra
from admire.base.files import read_table, read_text
from admire.base.schema import Text, read_as
from admire.data.items import Item, SenseLabel
from admire.data.reader import read_items
from admire.senses.sense import LanguageTag

Setting = Literal["zero_shot", "one_shot"]
"""Task 2A's settings: whether the MWEs of the evaluation were unseen in training, or seen once."""

LABELS: tuple[SenseLabel, SenseLabel] = ("idiomatic", "literal")
"""What Task 2A's labels 0 and 1 mean."""

CONTEXT = ("Previous", "Next")
"""The columns with the sentences before and after the one that holds the MWE."""


@dataclass(frozen=True)
class Use:
    """A row of Task 2A: an MWE in a sentence, with the sentences before and after it."""

    item: Item
    previous: str = ""
    following: str = ""
    id: str = ""


class _Row(BaseModel):
    """A row of Task 2A; the aliases are its columns."""

    language: LanguageTag = Field(alias="Language")
    mwe: Text = Field(alias="MWE")
    target: Text = Field(alias="Target")
    label: Literal["0", "1"] | None = Field(None, alias="Label")
    previous: str = Field("", alias="Previous")
    following: str = Field("", alias="Next")
    id: str = Field("", alias="ID")


def read_uses(path: Path, gold: Path | None = None, *, required: Sequence[str] = ()) -> list[Use]:
    """Read the rows of a Task 2A file: Language, MWE, Target, and the other columns if present.

    Args:
        gold: a file with the columns ID and Label (0: idiomatic, 1: literal), for a file without
            labels. With labels in neither file, the senses are None.
        required: those of the columns ID, Previous, Next and Label that must be present.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    needed = ("Language", "MWE", "Target", *required, *(["ID"] if gold else []))
    table = read_table(path, needed)
    if table.empty:
        raise UserError(f"{path}: holds no rows.")
    labels = _labels(gold) if gold else {}
    uses = []
    for number, cells in enumerate(table.to_dict("records"), start=1):
        where = f"{path}, row {number}"
        if gold:
            if cells["ID"] not in labels:
                raise UserError(f"{where}, ID: '{cells['ID']}' has no label in {gold}.")
            where = f"{where}, labelled in {gold}"
            cells["Label"] = labels[cells["ID"]]
        row = read_as(_Row, cells, where)
        sense = LABELS[int(row.label)] if row.label else None
        item = Item(row.mwe, row.target, row.language, sentence_type=sense)
        uses.append(Use(item, row.previous, row.following, row.id))
    return uses


def _labels(path: Path) -> dict[str, str]:
    """The label of each ID in a gold file."""
    table = read_table(path, ("ID", "Label"))
    twice = table["ID"][table["ID"].duplicated()]
    if len(twice):
        raise UserError(f"{path}, row {twice.index[0] + 1}, ID: '{twice.iloc[0]}' occurs twice.")
    return dict(zip(table["ID"], table["Label"], strict=True))


def read_idiomaticity(path: Path, gold: Path | None = None) -> list[Item]:
    """Items whose sense is known, from a Task 2A file or one that ``admire rank`` reads.

    Args:
        gold: see :func:`read_uses`.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    if gold or _is_task2a(path):
        required = () if gold else ("Label",)
        return [use.item for use in read_uses(path, gold, required=required)]
    items = read_items(path)
    for number, item in enumerate(items, start=1):
        if item.sentence_type is None:
            raise UserError(f"{path}, row {number}, sentence_type: is empty or missing.")
    return items


def read_compounds(path: Path) -> list[str]:
    """The compounds of a file of Task 2A, of one that ``admire rank`` reads, or of a ``.txt``.

    A text file has one compound a line.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    if path.suffix == ".txt":
        return [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if _is_task2a(path):
        return [use.item.compound for use in read_uses(path)]
    return [item.compound for item in read_items(path)]


def _is_task2a(path: Path) -> bool:
    return path.suffix == ".csv" and "MWE" in read_table(path, ())


def context_columns(setting: Setting) -> tuple[str, ...]:
    """The columns that a classifier reads in this setting, besides the sentence and the MWE."""
    return CONTEXT if setting == "zero_shot" else ()


def macro_f1(gold: Sequence[SenseLabel | None], predicted: Sequence[SenseLabel | None]) -> float:
    """The mean of the senses' F1 scores as the organisers compute it, from 0 to 1.

    Raises:
        UserError: scikit-learn is missing.
    """
    with needs_extra("train", "Macro F1"):
        from sklearn.metrics import f1_score
    return float(f1_score(gold, predicted, average="macro", zero_division=0))
