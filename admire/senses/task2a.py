"""SemEval-2022 Task 2A, idiomaticity detection: its files, and how detectors are scored on them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from admire.errors import UserError
from admire.files import read_table
from admire.items import Item, SenseLabel
from admire.languages import check_language
from admire.senses.sense import Sense
from admire.storage import write_whole

Setting = Literal["zero_shot", "one_shot"]
"""Task 2A's settings: whether the MWEs of the evaluation were unseen in training, or seen once."""

LABELS: tuple[SenseLabel, SenseLabel] = ("idiomatic", "literal")
"""What Task 2A's labels 0 and 1 mean."""


@dataclass(frozen=True)
class Use:
    """A row of Task 2A: an MWE in a sentence, and what stands before and after that."""

    item: Item
    previous: str = ""
    following: str = ""
    id: str = ""


def read_uses(path: Path, gold: Path | None = None, *, required: Sequence[str] = ()) -> list[Use]:
    """The rows of a Task 2A file: Language, MWE, Target, and what it has of the other columns.

    Args:
        gold: file with the columns ID and Label (0: idiomatic, 1: not) where the other has no
            Label. Without either the senses are None.
        required: columns, of ID, Previous, Next and Label, that have to be there.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    needed = ("Language", "MWE", "Target", *required, *(["ID"] if gold else []))
    table = read_table(path, needed)
    if table.empty:
        raise UserError(f"{path}: holds no rows.")
    known = _gold(gold) if gold else {}
    uses = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        for column in ("MWE", "Target"):
            if not row[column].strip():
                raise UserError(f"{path}, row {number}, {column}: is empty.")
        try:
            language = check_language(row["Language"].strip())
        except UserError as error:
            raise UserError(f"{path}, row {number}, Language: {error}") from None
        sense = None
        if gold:
            where = f"{path}, row {number}, ID: '{row['ID']}' has no label in {gold}"
            if row["ID"] not in known:
                raise UserError(f"{where}.")
            gold_row, label = known[row["ID"]]
            sense = _sense_of(label, f"{where}: its row {gold_row}, Label,")
        elif "Label" in row:
            sense = _sense_of(row["Label"], f"{path}, row {number}, Label:")
        item = Item(row["MWE"], row["Target"], language, sentence_type=sense)
        uses.append(Use(item, row.get("Previous", ""), row.get("Next", ""), row.get("ID", "")))
    return uses


def _gold(path: Path) -> dict[str, tuple[int, str]]:
    """The row and label of each ID in a gold file."""
    table = read_table(path, ("ID", "Label"))
    found: dict[str, tuple[int, str]] = {}
    pairs = zip(table["ID"], table["Label"], strict=True)
    for number, (name, label) in enumerate(pairs, start=1):
        if name in found:
            raise UserError(f"{path}, row {number}, ID: '{name}' is there twice.")
        found[name] = number, label
    return found


def _sense_of(label: str, where: str) -> SenseLabel:
    if label not in ("0", "1"):
        raise UserError(f"{where} is '{label}', not 0 or 1.")
    return LABELS[int(label)]


def read_idiomaticity(path: Path, gold: Path | None = None) -> list[Item]:
    """Labelled items of a Task 2A file, with its labels or those of a gold file, joined on ID.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    required = () if gold else ("Label",)
    return [use.item for use in read_uses(path, gold, required=required)]


def write_predictions(
    path: Path, uses: Sequence[Use], senses: Sequence[Sense], setting: Setting
) -> None:
    """Write a submission as Task 2A's organisers read it: ID, Language, Setting, Label.

    Raises:
        UserError: the file cannot be written.
    """
    with write_whole(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("ID", "Language", "Setting", "Label"))
        for use, sense in zip(uses, senses, strict=True):
            label = int(sense.label != "idiomatic")
            writer.writerow((use.id, use.item.language.upper(), setting, label))


@dataclass(frozen=True)
class Score:
    """How well ``n`` uses of a language, or of ``all``, were decided; figures from 0 to 1."""

    language: str
    n: int
    macro_f1: float
    accuracy: float


def score_senses(items: Sequence[Item], senses: Sequence[Sense]) -> list[Score]:
    """Task 2A's macro F1, and the accuracy, for each language in order, and for all of them.

    Raises:
        UserError: scikit-learn is missing.
    """
    languages = sorted({item.language for item in items})
    pairs = list(zip(items, senses, strict=True))
    found = []
    for language in (*languages, "all"):
        chosen = [(i, s) for i, s in pairs if language in (i.language, "all")]
        gold = [item.sentence_type for item, _ in chosen]
        told = [sense.label for _, sense in chosen]
        right = sum(one == other for one, other in zip(gold, told, strict=True))
        found.append(Score(language, len(chosen), macro_f1(gold, told), right / len(chosen)))
    return found


def macro_f1(gold: Sequence[SenseLabel | None], told: Sequence[SenseLabel | None]) -> float:
    """Mean of the F1 scores of the senses that occur, as the organisers compute it, from 0 to 1.

    Raises:
        UserError: scikit-learn is missing.
    """
    try:
        from sklearn.metrics import f1_score
    except ImportError as error:
        raise UserError(
            "Macro F1 needs scikit-learn: the extra 'train' (pip install '.[train]')."
        ) from error
    return float(f1_score(gold, told, average="macro", zero_division=0))
