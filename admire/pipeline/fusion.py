"""Fuses runs of the same items into one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.choices import Fusion
from admire.core.errors import UserError
from admire.core.schema import Weight, check_setting
from admire.metrics.leakage import merge_leaks
from admire.pipeline.language_summary import Tallies, count_items, summarise_languages
from admire.pipeline.past_runs import read_run
from admire.pipeline.ranking import FusedRun, Ranking, Run
from admire.pipeline.record import VERSION, source_record, versions
from admire.pipeline.score_parts import part_column
from admire.rankers.judgement import Part
from admire.rankers.scorer import comparable, fuse_scores
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import NO_MEANING
from admire.senses.sense import NO_SENSE, Sense, likelier


def fuse(
    folders: Sequence[str | Path],
    *,
    weights: Sequence[float] | None = None,
    method: Fusion = "scores",
) -> Run:
    """Fuse runs of the same items into one.

    The probability of an item's idiomatic sense is the weighted mean of those of the runs, and
    its sense the likelier one; in a tie, that of the first run. Runs without a sense do not count,
    and given senses, which have no probability, only if no run predicts one: then most runs by
    weight decide. Meanings are the first run's that has some.

    In the fused run's folder, scores.csv has a row for each candidate with its score and rank in
    every run (``score1``, ``rank1``, …), and run.json the records of the runs.

    Args:
        folders: two run folders or more, those of fused runs included.
        weights: one for each, at least 0; None for equal weights.
        method: see :func:`admire.rankers.scorer.comparable`.

    Raises:
        UserError: a folder is not a run, the items or candidates differ, or a weight is invalid.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    paths = [Path(folder) for folder in folders]
    weights = [1.0] * len(paths) if weights is None else weights
    check_setting("method", method, Fusion)
    runs = read_same(paths)
    for weight in weights:
        check_setting("weight", weight, Weight)
    if len(weights) != len(paths):
        raise UserError(f"{len(paths)} runs need as many weights, not {len(weights)}.", "weight")
    if not any(weights):
        raise UserError("All weights are 0. At least one must be greater.", "weight")
    same = zip(*(run.rankings for run in runs), strict=True)
    fused = [_fuse_item(rankings, paths, weights, method) for rankings in same]
    records = [run.record for run in runs]
    tallies: Tallies = {}
    count_items(tallies, fused)
    record = {
        "version": VERSION,
        "source": records[0]["source"],
        "started": started,
        "items": len(fused),
        "fusion": method,
        "fused": [
            {
                "run": str(path),
                "weight": weight,
                "sha256": source_record(path / "scores.csv")["sha256"],
                "record": run_record,
            }
            for path, weight, run_record in zip(paths, weights, records, strict=True)
        ],
        "languages": summarise_languages(tallies, _trained(records)),
        "versions": versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Run(tuple(fused), record)


def _trained(records: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Return by language whether all detectors of some runs were trained on it."""
    trained: dict[str, bool] = {}
    for record in records:
        for row in record.get("languages", ()):
            if row["detector_trained"] is not None:
                language = row["language"]
                trained[language] = trained.get(language, True) and row["detector_trained"]
    return trained


def read_same(folders: Sequence[Path]) -> list[Run]:
    """Read runs of the same items, all with the first run's items and candidates.

    An item's gold is that of the first run that has it.

    Raises:
        UserError: there are fewer than two, a folder is not a run, or the runs are not of the same
            items and candidates; the message names the first difference.
    """
    if len(folders) < 2:
        raise UserError("Give two run folders or more.")
    runs = [read_run(folder) for folder in folders]
    first, *others = (run.rankings for run in runs)
    same: list[Sequence[Ranking]] = [first]
    for folder, rankings in zip(folders[1:], others, strict=True):
        paired = enumerate(zip(first, rankings, strict=False), start=1)
        same.append([_paired(a, b, folders[0], folder, number) for number, (a, b) in paired])
        if len(first) != len(rankings):
            raise UserError(
                f"{folder}: has {len(rankings)} items, {folders[0]} has {len(first)}. Only runs "
                "of the same items can be fused."
            )
    items = []
    for first_ranking, *rest in zip(*same, strict=True):
        types = (ranking.sentence_type for ranking in (first_ranking, *rest))
        orders = (ranking.expected_order for ranking in (first_ranking, *rest))
        gold = next(filter(None, types), None), next(filter(None, orders), None)
        items.append(replace(first_ranking.item, sentence_type=gold[0], expected_order=gold[1]))
    return [
        replace(run, rankings=tuple(map(Ranking.with_item, rankings, items)))
        for run, rankings in zip(runs, same, strict=True)
    ]


def _paired(ranking: Ranking, other: Ranking, first: Path, second: Path, number: int) -> Ranking:
    """Return the other run's ranking with its candidates in the first run's order."""
    item, other_item = ranking.item, other.item
    if (item.compound, item.sentence) != (other_item.compound, other_item.sentence):
        raise UserError(
            f"Item {number} is '{item.compound}' in “{item.sentence}” in {first}, and "
            f"'{other_item.compound}' in “{other_item.sentence}” in {second}. Only runs of the "
            "same items can be fused."
        )
    names = item.names
    scores = {c.name: value for c, value in zip(other_item.candidates, other.scores, strict=True)}
    different = sorted(set(names) ^ set(scores))
    if different:
        has, lacks = (first, second) if different[0] in names else (second, first)
        raise UserError(
            f"Item {number} ('{item.compound}') has the candidate '{different[0]}' in {has}, but "
            f"not in {lacks}. Only runs of the same candidates can be fused."
        )
    aligned = np.array([scores[name] for name in names])
    return other.model_copy(update={"candidates": item.candidates, "scores": aligned})


def _fuse_item(
    rankings: Sequence[Ranking], folders: Sequence[Path], weights: Sequence[float], method: Fusion
) -> Ranking:
    item = rankings[0].item
    scores = fuse_scores([ranking.scores for ranking in rankings], weights, method)
    interpretations = _fuse_senses(rankings, weights)
    parts = []
    total = sum(weights)
    shares = [
        weight / total * comparable(ranking.scores, method)
        for weight, ranking in zip(weights, rankings, strict=True)
    ]
    for j, name in enumerate(item.names):
        row: dict[str, object] = {"candidate": name}
        if interpretations:
            sense = interpretations[0].sense
            row |= {
                "predicted_type": sense.label or "",
                "probability_idiomatic": sense.probability_idiomatic,
                "confidence": sense.confidence,
            }
        for k, ranking in enumerate(rankings, start=1):
            row |= {f"score{k}": ranking.scores[j], f"rank{k}": 1 + ranking.order.index(name)}
        for k, share in enumerate(shares, start=1):
            row[part_column(Part(f"run{k}", None, share))] = share[j]
        parts.append(row)
    fused = tuple(
        FusedRun(str(folder), weight, ranking.order)
        for folder, weight, ranking in zip(folders, weights, rankings, strict=True)
    )
    return Ranking.of(
        item,
        scores,
        parts,
        interpretations,
        fused=fused,
        seen=merge_leaks(ranking.seen for ranking in rankings),
    )


def _fuse_senses(
    rankings: Sequence[Ranking], weights: Sequence[float]
) -> tuple[Interpretation, ...]:
    """Return the sense by the runs that have one; empty if no run has one."""
    readings = [reading for ranking in rankings for reading in ranking.interpretations]
    if not readings:
        return ()
    idiomatic_meaning = next(filter(None, (r.idiomatic for r in readings)), NO_MEANING)
    literal_meaning = next(filter(None, (r.literal for r in readings)), NO_MEANING)
    sense = _mean_sense(rankings, weights)
    if all(reading.sense == NO_SENSE for reading in readings):
        sense = NO_SENSE
    return (Interpretation("fused", sense, idiomatic_meaning, literal_meaning),)


def _mean_sense(rankings: Sequence[Ranking], weights: Sequence[float]) -> Sense:
    """Return the sense by the mean probability of runs; by most runs if all senses were given."""
    decided = [
        (ranking.probability_idiomatic, ranking.predicted_type, weight)
        for ranking, weight in zip(rankings, weights, strict=True)
        if ranking.predicted_type
    ]
    predicted = [p for p, *_ in decided if p is not None]
    if predicted:
        decided = [row for row in decided if row[0] is not None]
    if not decided:
        return Sense(None, 0.5, by="fused")
    shares = [float(label == "idiomatic") if p is None else p for p, label, _ in decided]
    counts = [weight for *_, weight in decided]
    mean = float(np.average(shares, weights=counts if any(counts) else None))
    sense = likelier(mean, "fused")
    if math.isclose(mean, 0.5):
        _, first, _ = decided[0]
        sense = replace(sense, label=first)
    if not predicted:
        return likelier(sense.label == "idiomatic", "given")
    return sense
