"""Fuses runs of the same items into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.choices import Fusion
from admire.core.errors import UserError
from admire.core.schema import Weight, check_setting
from admire.metrics.leakage import merge_leaks
from admire.pipeline.ranking import FusedRun, Ranking, Run, blocks, part_column
from admire.pipeline.record import (
    VERSION,
    Tallies,
    count_item,
    source_record,
    summarise_languages,
    versions,
)
from admire.pipeline.run_folder import (
    read_rankings,
    read_record,
    read_rows,
    submission_names,
    write_blocks,
)
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

    The probability of the idiomatic sense is the weighted mean of those of the runs, and the sense
    the likelier one; in a tie, the first run's. Runs without a sense do not count, and given
    senses, which have no probability, only if no run predicts one: then most runs by weight
    decide. Meanings are the first run's that has some.

    Args:
        folders: two run folders or more, those of fused runs included.
        weights: one for each, at least 0; None for equal weights.
        method: see :func:`admire.rankers.scorer.comparable`.

    Raises:
        UserError: a folder is not a run, the items or candidates differ, or a weight is invalid.
    """
    fused, finish = _fusing(folders, weights, method)
    return Run(tuple(fused), finish())


def write_fused(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    weights: Sequence[float] | None = None,
    method: Fusion = "scores",
) -> list[Path]:
    """Fuse runs as :func:`fuse`, and write the run folder, with one block of items in memory."""
    fused, finish = _fusing(folders, weights, method)
    languages = [row.language for folder in folders[:1] for row in read_rows(Path(folder))]
    names = submission_names(finish(), languages)
    return write_blocks(blocks(fused), Path(out), names, finish)


def _fusing(
    folders: Sequence[str | Path], weights: Sequence[float] | None, method: Fusion
) -> tuple[Iterator[Ranking], Callable[[], dict[str, Any]]]:
    """Return the fused rankings, and what returns the record after the last."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    paths = [Path(folder) for folder in folders]
    shares = [1.0] * len(paths) if weights is None else weights
    check_setting("method", method, Fusion)
    records = [read_record(path) for path in paths]
    for weight in shares:
        check_setting("weight", weight, Weight)
    if len(shares) != len(paths):
        raise UserError(f"{len(paths)} runs need as many weights, not {len(shares)}.", "weight")
    if shares and not any(shares):
        raise UserError("All weights are 0. At least one must be greater.", "weight")
    tallies: Tallies = {}

    def fused() -> Iterator[Ranking]:
        for rankings in read_same(paths):
            ranking = _fuse_item(rankings, paths, shares, method)
            count_item(tallies, ranking)
            yield ranking

    def finish() -> dict[str, Any]:
        trained: dict[str, bool] = {}  # by language, whether all detectors were trained on it
        for row in (row for record in records for row in record.get("languages", ())):
            if (own := row["detector_trained"]) is not None:
                trained[row["language"]] = trained.get(row["language"], True) and own
        return {
            "version": VERSION,
            "source": records[0]["source"],
            "started": started,
            "items": sum(tally["items"] for tally in tallies.values()),
            "fusion": method,
            "fused": [
                {
                    "run": str(path),
                    "weight": weight,
                    "sha256": source_record(path / "scores.csv")["sha256"],
                    "record": record,
                }
                for path, weight, record in zip(paths, shares, records, strict=True)
            ],
            "languages": summarise_languages(tallies, trained),
            "versions": versions(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    return fused(), finish


def read_same(folders: Sequence[Path]) -> Iterator[list[Ranking]]:
    """Yield each item's rankings by runs of the same items, with the first's item and candidates.

    An item's gold is that of the first run that has it. A UserError names the first difference.
    """
    if len(folders) < 2:
        raise UserError("Give two run folders or more.")
    runs = [read_rankings(folder, read_record(folder)) for folder in folders]
    for number, rankings in enumerate(zip_longest(*runs), start=1):
        first, *others = rankings
        if not all(rankings):
            counts = [sum(1 for _ in read_rows(folder)) for folder in folders]
            other = next(k for k, count in enumerate(counts) if count != counts[0])
            raise UserError(
                f"{folders[other]}: has {counts[other]} items, {folders[0]} has {counts[0]}. Only "
                "runs of the same items can be fused."
            )
        pairs = zip(folders[1:], others, strict=True)
        same = [first, *(_paired(first, other, folders[0], of, number) for of, other in pairs)]
        sense = next(filter(None, (ranking.sentence_type for ranking in same)), None)
        order = next(filter(None, (ranking.expected_order for ranking in same)), None)
        item = replace(first.item, sentence_type=sense, expected_order=order)
        yield [ranking.with_item(item) for ranking in same]


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
    own: dict[str, Any] = {}
    if interpretations:
        sense = interpretations[0].sense
        own["predicted_type"] = sense.label or ""
        own["probability_idiomatic"] = sense.probability_idiomatic
        own["confidence"] = sense.confidence
    columns, shares, fused = dict[str, Any](), dict[str, Any](), list[FusedRun]()
    runs = zip(folders, weights, rankings, strict=True)
    for k, (folder, weight, ranking) in enumerate(runs, start=1):
        fused.append(FusedRun(run=str(folder), weight=weight, order=ranking.order))
        columns[f"score{k}"] = ranking.scores
        columns[f"rank{k}"] = [1 + ranking.order.index(name) for name in item.names]
        share = weight / sum(weights) * comparable(ranking.scores, method)
        shares[part_column(Part(f"run{k}", None, share))] = share
    seen = merge_leaks(ranking.seen for ranking in rankings)
    last = tuple(name for name in item.names if all(name in r.uncompared for r in rankings))
    return Ranking.of(
        item,
        scores,
        [(own, columns | shares)],
        interpretations,
        fused=tuple(fused),
        seen=seen,
        uncompared=last,
    )


def _fuse_senses(
    rankings: Sequence[Ranking], weights: Sequence[float]
) -> tuple[Interpretation, ...]:
    """Return the sense by the runs that have one; empty if no run has one."""
    readings = [reading for ranking in rankings for reading in ranking.interpretations]
    if not readings:
        return ()
    no_sense = all(reading.sense == NO_SENSE for reading in readings)
    sense = NO_SENSE if no_sense else _mean_sense(rankings, weights)
    idiomatic = next(filter(None, (reading.idiomatic for reading in readings)), NO_MEANING)
    literal = next(filter(None, (reading.literal for reading in readings)), NO_MEANING)
    return (Interpretation("fused", sense, idiomatic, literal),)


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
        sense = replace(sense, label=decided[0][1])
    if not predicted:
        return likelier(sense.label == "idiomatic", "given")
    return sense
