"""SemEval-2022 Task 2A, idiomaticity detection: its files, and detectors run and scored on them."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from admire.cards import warn_of_use
from admire.errors import UserError, needs_extra
from admire.files import read_table, read_text
from admire.items import Item, SenseLabel, read_items
from admire.languages import check_language
from admire.senses.sense import Sense, known_senses, sense_table, write_senses
from admire.storage import write_whole

if TYPE_CHECKING:
    from admire.senses.detector import Detector

log = logging.getLogger("admire")

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
            raise UserError(f"{path}, row {number}, ID: '{name}' occurs twice.")
        found[name] = number, label
    return found


def _sense_of(label: str, where: str) -> SenseLabel:
    if label not in ("0", "1"):
        raise UserError(f"{where} is '{label}', not 0 or 1.")
    return LABELS[int(label)]


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


def detect_uses(
    data: Path,
    detector: Detector,
    *,
    gold: Path | None = None,
    out: Path | None = None,
    setting: Setting | None = None,
    table: Path | None = None,
) -> list[Score]:
    """Decide every row of a Task 2A file, and score the decisions where the senses are known.

    Args:
        gold: a file with the columns ID and Label, where the data has no labels.
        out: a submission to write, see :func:`write_predictions`.
        setting: the submission's setting; None is the detector's own, or else zero_shot.
        table: a TSV to write, see :func:`admire.senses.write_senses`.

    Returns:
        The scores of each language and of all rows; none if the senses are not known.

    Raises:
        UserError: a file cannot be read or written, or there is neither a label to compare with
            nor a file to write.
    """
    uses = read_uses(data, gold, required=(*detector.columns, *(["ID"] if out else [])))
    labelled = uses[0].item.sentence_type is not None  # then all of them are
    if not (labelled or out or table):
        raise UserError(
            f"{data}: has no labels to compare with. Give a gold file, or write a submission.",
            "gold",
            "out",
        )
    senses = detector.classify(uses)
    items = [use.item for use in uses]
    if out:
        write_predictions(out, uses, senses, setting or detector.setting or "zero_shot")
        log.info("Wrote %s", out)
    if table:
        write_senses(table, items, senses)
        log.info("Wrote %s", table)
    if not labelled:
        return []
    scores = score_senses(items, senses)
    known = known_senses(sense_table(items, senses))
    warn_of_use(items, detector, known, ["accuracy"], str(data))
    return scores


def write_predictions(
    path: Path, uses: Sequence[Use], senses: Sequence[Sense], setting: Setting
) -> None:
    """Write a submission as Task 2A's organisers read it, with ID, Language, Setting and Label.

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
    """How well the uses of a language, or of ``all`` languages, were decided.

    Attributes:
        n: how many uses there are.
        macro_f1, accuracy: from 0 to 1.
    """

    language: str
    n: int
    macro_f1: float
    accuracy: float


def score_senses(items: Sequence[Item], senses: Sequence[Sense]) -> list[Score]:
    """Task 2A's macro F1 and the accuracy for each language in alphabetical order, then for all.

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
    """The mean of the senses' F1 scores as the organisers compute it, from 0 to 1.

    Raises:
        UserError: scikit-learn is missing.
    """
    with needs_extra("train", "Macro F1"):
        from sklearn.metrics import f1_score
    return float(f1_score(gold, told, average="macro", zero_division=0))
