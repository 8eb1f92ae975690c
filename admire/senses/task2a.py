"""SemEval-2022 Task 2A, idiomaticity detection: its files, and detectors run and scored on them."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from admire.base.errors import UserError
from admire.base.storage import write_whole
from admire.data.items import Item
from admire.scores.leakage import warn_if_seen
from admire.senses.sense import Sense, known_senses, sense_table, write_senses
from admire.senses.uses import Setting, Use, macro_f1, read_uses

if TYPE_CHECKING:
    from admire.senses.detector import Detector

log = logging.getLogger("admire")


def detect_uses(
    data: Path,
    detector: Detector,
    *,
    gold: Path | None = None,
    out: Path | None = None,
    setting: Setting | None = None,
    table: Path | None = None,
) -> pd.DataFrame | None:
    """Decide every row of a Task 2A file, and score the decisions where the senses are known.

    Args:
        gold: a file with the columns ID and Label, where the data has no labels.
        out: a submission to write, see :func:`write_predictions`.
        setting: the submission's setting; None is the detector's own, or else zero_shot.
        table: a TSV to write, see :func:`admire.senses.write_senses`.

    Returns:
        The scores of each language and of all rows, see :func:`score_senses`; None if the senses
        are not known.

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
        return None
    scores = score_senses(items, senses)
    known = known_senses(sense_table(items, senses))
    warn_if_seen(items, detector, known, ["accuracy"], str(data))
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


def score_senses(items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """Task 2A's macro F1 and the accuracy for each language in alphabetical order, then for all.

    Returns:
        A row each: ``language, n, macro_f1, accuracy``, figures from 0 to 1.

    Raises:
        UserError: scikit-learn is missing.
    """
    table = sense_table(items, senses)
    parts = [*table.groupby("language"), ("all", table)]
    rows = []
    for language, part in parts:
        gold, predicted = part["sentence_type"], part["predicted_type"]
        figures = macro_f1(list(gold), list(predicted)), float((gold == predicted).mean())
        rows.append((language, len(part), *figures))
    return pd.DataFrame(rows, columns=["language", "n", "macro_f1", "accuracy"])
