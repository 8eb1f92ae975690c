"""Many heads on the same embeddings, on all cores: grids of settings and cross-validation."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from admire.core.errors import UserError, needs_extra
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.core.storage import only_writer, write_whole, writing
from admire.data.items import Item
from admire.data.submission import Prediction
from admire.encoders.training_settings import HeadTraining
from admire.metrics.figures import describe_ties, paired_difference, summarise
from admire.metrics.item_figures import score_items
from admire.rankers.scorer import Scores, rank_and_tie
from admire.tasks.training.heads import (
    choose_glosses,
    fit_and_test_head,
    head_scores,
    warn_of_shared_samples,
    warn_of_ties,
)
from admire.tasks.training.triplets import Indices, Triplets, check_soft_negatives, split_compounds

with needs_extra("train", "A sweep"):
    import joblib

log = logging.getLogger("admire")


def head_grid(base: HeadTraining, axes: Mapping[str, Sequence[float]]) -> list[HeadTraining]:
    """Combine all values of the axes, by the setting's name; the others are those of ``base``."""
    return [
        replace(base, **dict(zip(axes, values, strict=True)))  # type: ignore[arg-type]
        for values in itertools.product(*axes.values())
    ]


def check_heads(
    items: Sequence[Item],
    settings: Sequence[HeadTraining],
    out: Path | None = None,
    *,
    folds: int | None = None,
    seed: int = 0,
) -> None:
    """Check whether heads can be trained on items, before anything is asked or encoded: by
    :func:`cross_validate_heads`, or if ``folds`` are None by :func:`sweep_heads`.

    Raises:
        UserError: there are too few compounds for the split, the folds or the soft negatives, or no
            idiomatic items where glosses alone are wanted; or ``out`` is not the file of a sweep.
    """
    if out and out.exists():
        _read_lines(out)
    compounds = [item.compound.casefold() for item in items]
    # The other items are compared with their compounds, see true_queries.
    gloss = np.array([not item.has_sense or item.sentence_type == "idiomatic" for item in items])
    for setting, (pool, validation, _) in _jobs(compounds, settings, folds, seed):
        anchors = choose_glosses(gloss, pool, validation)[0] if setting.glosses_only else pool
        check_soft_negatives(compounds, anchors, pool, setting.soft_negatives)


def sweep_heads(
    data: Triplets, settings: Sequence[HeadTraining], out: Path, *, processes: int | None = None
) -> pd.DataFrame:
    """Train a head with each of the settings, and return a row for each, in their order.

    Each result becomes a line of ``out`` at once. Heads that are in ``out`` already, with the same
    data and settings, are not trained again, so an interrupted sweep resumes. By default each core
    has a process.

    Returns:
        A table with a column for each setting, ``epoch`` and ``validation_loss`` of the best
        epoch, top-1 accuracy on the test samples with the head (``test_top1``) and without one
        (``none_top1``), and ``history``.
    """
    jobs = _jobs(data.compounds, settings)
    splits = {setting.seed: parts for setting, parts in jobs}
    outcomes = _outcomes(data, jobs, out, processes)
    warn_of_shared_samples(data, [*splits.values()], "the heads")
    for _, _, test in splits.values():
        warn_of_ties(data, test)
    rows = [asdict(s) | outcome for s, outcome in zip(settings, outcomes, strict=True)]
    return pd.DataFrame(rows).drop(columns="scores")


def compare_heads(
    items: Sequence[Item],
    without: Sequence[Prediction],
    having: Sequence[Prediction],
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Return tables of the figures without heads and with them, as :func:`cross_validate_heads`
    ranks the items, and of the difference item by item, by their titles. Ties are warned of."""
    plain, headed = (score_items(items, orders, "head") for orders in (without, having))
    for which, scored in (("Without a head", plain), ("In the head's space", headed)):
        if note := describe_ties(scored):
            log.warning("%s: %s", which, note)
    return {
        "without a head": summarise(plain, seed=seed),
        "in the head's space": summarise(headed, seed=seed),
        "second minus first": paired_difference(plain, headed, seed=seed),
    }


def cross_validate_heads(
    items: Sequence[Item],
    data: Triplets,
    settings: Sequence[HeadTraining],
    out: Path | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    processes: int | None = None,
) -> tuple[list[Prediction], list[Prediction]]:
    """Rank items without a head, and with heads that have not seen the item's compound.

    The compounds are dealt into folds. For each fold, heads are trained on nine tenths of the
    other compounds and validated on the rest. With several settings, the head with the lowest
    validation loss ranks the fold, which has no part in the choice (nested cross-validation).
    Results are kept as by :func:`sweep_heads`, unless ``out`` is None.
    """
    jobs = _jobs(data.compounds, settings, folds, seed)
    parts = [part for _, part in jobs[:: len(settings)]]
    outcomes = _outcomes(data, jobs, out, processes)
    warn_of_shared_samples(data, parts, "their heads")
    plain = head_scores(data, np.arange(len(items)))
    headed = plain.copy()
    for k, (_, _, held) in enumerate(parts):
        tried = outcomes[k * len(settings) : (k + 1) * len(settings)]
        headed[held] = min(tried, key=lambda outcome: outcome["validation_loss"])["scores"]
    return _predictions(items, plain), _predictions(items, headed)


def _predictions(items: Sequence[Item], scores: Scores) -> list[Prediction]:
    predictions = []
    for item, row in zip(items, scores, strict=True):
        order, tied = rank_and_tie(item.names, row[: len(item.names)])
        predictions.append(
            Prediction(item.compound, item.sentence, order, item.sentence_type, tied_first=tied)
        )
    return predictions


_Parts = tuple[Indices, Indices, Indices]
_Job = tuple[HeadTraining, _Parts]
"""A head to train: its settings, and the samples for training, validation and test."""


def _jobs(
    compounds: Sequence[str],
    settings: Sequence[HeadTraining],
    folds: int | None = None,
    seed: int = 0,
) -> list[_Job]:
    """Combine all settings with the split of each, or with each of the folds."""
    if folds is None:
        splits = {own: split_compounds(compounds, own) for own in {s.seed for s in settings}}
        return [(s, splits[s.seed]) for s in settings]
    names, compound = np.unique(np.array(compounds), return_inverse=True)
    if len(names) < folds:
        raise UserError(f"{folds} folds need {folds} compounds, not {len(names)}.", "folds")
    fold, jobs = np.random.default_rng(seed).permutation(len(names)) % folds, list[_Job]()
    for left_out in range(folds):
        others = np.flatnonzero(fold != left_out)
        others = np.random.default_rng([seed, left_out]).permutation(others)
        validating = np.isin(compound, others[: max(1, round(0.1 * len(others)))])
        held = fold[compound] == left_out
        parts = map(np.flatnonzero, (~held & ~validating, validating, held))
        jobs += itertools.product(settings, [cast("_Parts", tuple(parts))])
    return jobs


def _key(job: _Job) -> str:
    settings, parts = job
    digest = hashlib.sha256(repr([part.tolist() for part in parts]).encode())
    return json.dumps([asdict(settings), digest.hexdigest()])


def _outcomes(
    data: Triplets, jobs: Sequence[_Job], out: Path | None, processes: int | None
) -> list[dict[str, Any]]:
    """Return the result of each job. Results are read from ``out`` and added to it as lines."""
    with only_writer(out) if out else nullcontext():
        hashed = hashlib.sha256(json.dumps([data.compounds, data.modalities]).encode())
        for array in (data.anchors, data.documents, data.present, data.positive):
            hashed.update(array.tobytes())
        digest = hashed.hexdigest()
        before = _read_lines(out) if out and out.exists() else []
        if out:  # without a last line that was cut short; fails here if it cannot be written
            with write_whole(out) as file:
                file.writelines(json.dumps(row) + "\n" for row in before)
        done = {row["job"]: row["outcome"] for row in before if row["data"] == digest}
        missing = [job for job in jobs if _key(job) not in done]
        work = joblib.Parallel(
            processes or cores(),
            return_as="generator_unordered",
            max_nbytes=None,  # else workers get read-only memory maps, which torch warns of
        )
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            results = work(joblib.delayed(_outcome)(data, job) for job in missing)
            task = f"Training {len(missing)} heads"
            for key, outcome in show_progress(results, task, len(missing)):
                done[key] = outcome
                if out:
                    line = json.dumps({"data": digest, "job": key, "outcome": outcome})
                    with writing(out), out.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
        return [done[_key(job)] for job in jobs]


def _outcome(data: Triplets, job: _Job) -> tuple[str, dict[str, Any]]:
    settings, parts = job
    head, history, outcome = fit_and_test_head(data, settings, parts)
    scores = head_scores(data, parts[2], head).tolist()
    return _key(job), outcome | {"scores": scores, "history": [*map(asdict, history)]}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the results of a sweep, without a last line that was cut short."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        if all({"data", "job", "outcome"} <= row.keys() for row in rows):
            return rows
    except (ValueError, AttributeError):
        pass
    raise UserError(f"{path}: is not the file of a sweep. Choose another.", "out")
