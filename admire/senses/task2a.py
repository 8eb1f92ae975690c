"""SemEval-2022 Task 2A, idiomaticity detection: reads its files, runs and scores detectors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, Field

from admire.core import registry
from admire.core.errors import UserError
from admire.core.files import TABLES, add_table, numbered_rows, read_table, read_text
from admire.core.schema import Text, read_as
from admire.core.storage import suffix_of, write_whole
from admire.data.items import Item, SenseLabel
from admire.data.limits import limited
from admire.data.reader import read_items
from admire.metrics.figures import interval
from admire.metrics.leakage import warn_if_leaked
from admire.metrics.metrics import Drawn, Statistic, apply_to_all, bootstrap_intervals, mean
from admire.senses.detector import Detector
from admire.senses.sense import Sense
from admire.senses.sense_table import LanguageTag, known_senses, sense_table, write_senses
from admire.senses.settings import Setting, Use

log = logging.getLogger("admire")

LABELS: tuple[SenseLabel, SenseLabel] = ("idiomatic", "literal")
"""The senses of Task 2A's labels 0 and 1."""

FIGURES = ("macro_f1", "f1_of_averages", "accuracy")  #: the metrics for decisions


class _Row(BaseModel):
    language: LanguageTag = Field(alias="Language")
    mwe: Annotated[Text, *limited("compound")] = Field(alias="MWE")
    target: Annotated[Text, *limited("sentence")] = Field(alias="Target")
    label: Literal["0", "1"] | None = Field(None, alias="Label")
    previous: Annotated[str, *limited("text")] = Field("", alias="Previous")
    following: Annotated[str, *limited("text")] = Field("", alias="Next")
    id: Annotated[str, *limited("id")] = Field("", alias="ID")


def read_uses(path: Path, gold: Path | None = None, *, required: Sequence[str] = ()) -> list[Use]:
    """Read a Task 2A file: Language, MWE, Target, and the other columns if present.

    Args:
        gold: a file with the columns ID and Label (0: idiomatic, 1: literal), for a file without
            labels. Without labels in either file, the senses are None.
        required: other columns that must be present, of ID, Previous, Next and Label.
    """
    table = read_table(path, ("Language", "MWE", "Target", *required, *(["ID"] if gold else [])))
    if table.empty:
        raise UserError(f"{path}: contains no rows.")
    if gold:
        listed = read_table(gold, ("ID", "Label"))
        labels, ids = listed.set_index("ID")["Label"], table["ID"]
        for file, wrong, fault in (
            (gold, listed["ID"][listed["ID"].duplicated()], "occurs twice"),
            (path, ids[~ids.isin(labels.index)], f"has no label in {gold}"),
        ):
            if len(wrong):
                place = f"{file}, row {wrong.index[0] + 1}, ID"
                raise UserError(f"{place}: '{wrong.iloc[0]}' {fault}.")
        table["Label"] = table["ID"].map(labels)
    labelled = f", labelled in {gold}" if gold else ""
    uses = []
    for number, cells in numbered_rows(table):
        row = read_as(_Row, cells, f"{path}, row {number}{labelled}")
        sense = LABELS[int(row.label)] if row.label else None
        item = Item(row.mwe, row.target, row.language, sentence_type=sense)
        uses.append(Use(item, row.previous, row.following, row.id))
    return uses


def read_idiomaticity(path: Path) -> list[Item]:
    """Read items from a Task 2A file, or one that ``admire rank`` reads; each must have a sense."""
    if _is_task2a(path):
        return [use.item for use in read_uses(path, required=("Label",))]
    items = read_items(path)
    for number, item in enumerate(items, start=1):
        if item.sentence_type is None:
            raise UserError(f"{path}, row {number}, sentence_type: is empty or missing.")
    return items


def read_compounds(path: Path) -> list[str]:
    """Read the compounds of a Task 2A file, of one that ``admire rank`` reads, or of a ``.txt``."""
    if path.suffix.lower() == ".txt":
        return [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if _is_task2a(path):
        return [use.item.compound for use in read_uses(path)]
    return [item.compound for item in read_items(path)]


def _is_task2a(path: Path) -> bool:
    return suffix_of(path) in TABLES and "MWE" in read_table(path, ())


def detect_uses(
    data: Path,
    detector: Detector,
    *,
    gold: Path | None = None,
    out: Path | None = None,
    setting: Setting | None = None,
    table: Path | None = None,
    limit: int | None = None,
) -> pd.DataFrame | None:
    """Decide the sense of every row of a Task 2A file, and score the decisions if it has labels.

    Args:
        gold: a file with the columns ID and Label, if the data have no labels.
        out: a submission to write, see :func:`write_predictions`.
        setting: the submission's setting (default: the detector's own, or zero_shot).
        table: a TSV to write, see :func:`admire.senses.write_senses`.
        limit: read only the first rows, at most this number; None for all.

    Returns:
        :func:`score_senses`; None without labels, which needs a file to write.
    """
    required = (*detector.columns, *(["ID"] if out else []))
    uses = read_uses(data, gold, required=required)[:limit]
    labelled = uses[0].item.sentence_type is not None  # then all of them are
    if not (labelled or out or table):
        raise UserError(
            f"{data}: has no labels. Give the gold, or write a submission.", "gold", "out"
        )
    with registry.blamed(detector):
        senses = registry.checked(detector, detector.classify(uses), Sense, len(uses))
    items = [use.item for use in uses]
    if out:
        write_predictions(out, uses, senses, setting or detector.setting or "zero_shot")
        log.info("Wrote %s (%d rows)", out, len(uses))
    if table:
        write_senses(table, items, senses)
        log.info("Wrote %s (%d rows)", table, len(uses))
    if not labelled:
        return None
    scores = score_senses(items, senses)
    labels = known_senses(sense_table(items, senses))
    warn_if_leaked(items, detector, labels, ["accuracy"], str(data))
    return scores


def write_predictions(
    path: Path, uses: Sequence[Use], senses: Sequence[Sense], setting: Setting
) -> None:
    """Write a submission as Task 2A's organisers read it, with ID, Language, Setting and Label."""
    columns = {
        "ID": [use.id for use in uses],
        "Language": [use.item.language.upper() for use in uses],
        "Setting": setting,
        "Label": [int(sense.label != "idiomatic") for sense in senses],
    }
    with write_whole(path) as file:
        add_table(file, pd.DataFrame(columns))


def score_senses(items: Sequence[Item], senses: Sequence[Sense], *, seed: int = 0) -> pd.DataFrame:
    """Return Task 2A's macro F1 and the accuracy of each language, alphabetically, and of all rows.

    The columns are ``language, n``, and of each of :data:`FIGURES` its value from 0 to 1 and the
    ends of its 95 % interval (``macro_f1, macro_f1_low, macro_f1_high`` …) by bootstrap over the
    rows, see :func:`admire.metrics.figures.interval`. ``f1_of_averages`` is YNU-HPCC's macro F1.
    """
    table = sense_table(items, senses)
    rows = []
    for language, part in [*table.groupby("language"), ("all", table)]:
        gold, predicted = part["sentence_type"], part["predicted_type"]
        macro = (sampled_macro_f1(gold, predicted, of_averages=k) for k in (False, True))
        statistics = *macro, mean(gold == predicted)
        n, row = len(part), {"language": language, "n": len(part)}
        intervals = bootstrap_intervals(statistics, n, seed=seed)
        for name, statistic, ends in zip(FIGURES, statistics, intervals, strict=True):
            figure = apply_to_all(statistic, n)
            low, high = interval(figure, n, ends, share=name == "accuracy")
            row |= {name: figure, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def macro_f1(gold: Sequence[SenseLabel | None], predicted: Sequence[SenseLabel | None]) -> float:
    """Return the mean F1 score of both senses, as the organisers compute it, from 0 to 1.

    A sense that is neither in the gold nor predicted is left out of the mean.
    """
    return apply_to_all(sampled_macro_f1(gold, predicted), len(gold))


def sampled_macro_f1(
    gold: Sequence[SenseLabel | None],
    predicted: Sequence[SenseLabel | None],
    *,
    of_averages: bool = False,
) -> Statistic:
    """Return :func:`macro_f1` as a statistic of samples; or the F1 of the senses' mean precision
    and recall, ``of_averages`` (YNU-HPCC, section 3.2)."""
    labels = np.array(LABELS, object)[:, None]
    sides = [labels == np.array(side, object) for side in (gold, predicted)]

    def scores(drawn: Drawn) -> npt.NDArray[np.float64]:
        of_gold, of_predicted = (side[:, drawn] for side in sides)  # (senses, samples, rows)
        hits = (of_gold & of_predicted).sum(axis=2)
        counts = of_predicted.sum(axis=2), of_gold.sum(axis=2)
        present = np.maximum((sum(counts) > 0).sum(axis=0), 1)
        precision, recall = (hits / np.maximum(count, 1) for count in counts)
        if of_averages:
            precision, recall = (part.sum(axis=0) / present for part in (precision, recall))
        f1: npt.NDArray[np.float64] = 2 * precision * recall
        f1 /= np.maximum(precision + recall, np.finfo(float).tiny)
        return f1 if of_averages else f1.sum(axis=0) / present

    return scores
