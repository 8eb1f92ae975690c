"""Fusing runs of the same items into one, each item by :mod:`admire.rankers.scorer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from admire.base.choices import Fusion
from admire.base.errors import UserError
from admire.base.schema import Weight, check_setting
from admire.data.items import SenseLabel
from admire.rankers.scorer import fuse_scores
from admire.runs.past_runs import read_record, read_run
from admire.runs.ranking import FusedRun, Ranking, Run
from admire.runs.record import VERSION, source_record, versions
from admire.scores.leakage import merge_seen
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import NO_MEANING
from admire.senses.sense import NO_SENSE, Sense


def fuse(
    folders: Sequence[str | Path],
    *,
    weights: Sequence[float] | None = None,
    method: Fusion = "scores",
) -> Run:
    """Fuse runs of the same items into one.

    The sense of an item is the one that most of the runs take, by weight; in a tie, that of the
    first of them. Runs without a sense have no say in it. Meanings are the first run's that has
    some. In the fused run's folder, scores.csv has a row for each candidate with its score and rank
    in every run (``score1``, ``rank1``, …), and run.json the records of the runs.

    Args:
        folders: two run folders or more, those of fused runs included.
        weights: one for each, at least 0; equal ones where they are None.
        method: see :func:`admire.rankers.scorer.comparable`.

    Raises:
        UserError: a folder is not a run, the items or candidates differ, or a weight is wrong.
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
        raise UserError("All weights are 0. One run at least has to count.", "weight")
    fused = [_fuse_item(rankings, paths, weights, method) for rankings in zip(*runs, strict=True)]
    records = [read_record(path) for path in paths]
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
                "record": of_run,
            }
            for path, weight, of_run in zip(paths, weights, records, strict=True)
        ],
        "versions": versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Run(tuple(fused), record)


def read_same(folders: Sequence[Path]) -> list[list[Ranking]]:
    """Read runs of the same items, all with the first run's items and candidates.

    An item's gold is that of the first run that knows it.

    Raises:
        UserError: there are fewer than two, a folder is not a run, or the runs are not of the same
            items and candidates; the message names the first difference.
    """
    if len(folders) < 2:
        raise UserError("Give two run folders or more.")
    first, *others = ([*read_run(folder).rankings] for folder in folders)
    same = [first]
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
        [ranking.with_item(item) for ranking, item in zip(run, items, strict=True)] for run in same
    ]


def _paired(ranking: Ranking, other: Ranking, first: Path, second: Path, number: int) -> Ranking:
    """Return the other run's ranking with its candidates in the first run's order."""
    item, there = ranking.item, other.item
    if (item.compound, item.sentence) != (there.compound, there.sentence):
        raise UserError(
            f"Item {number} is '{item.compound}' in “{item.sentence}” in {first}, and "
            f"'{there.compound}' in “{there.sentence}” in {second}. Only runs of the same items "
            "can be fused."
        )
    names = [candidate.name for candidate in item.candidates]
    scores = {c.name: value for c, value in zip(there.candidates, other.scores, strict=True)}
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
    for j, name in enumerate(candidate.name for candidate in item.candidates):
        row: dict[str, object] = {"candidate": name}
        if interpretations:
            row["predicted_type"] = interpretations[0].sense.label or ""
        for k, ranking in enumerate(rankings, start=1):
            row |= {f"score{k}": ranking.scores[j], f"rank{k}": 1 + ranking.order.index(name)}
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
        seen=merge_seen(ranking.seen for ranking in rankings),
    )


def _fuse_senses(
    rankings: Sequence[Ranking], weights: Sequence[float]
) -> tuple[Interpretation, ...]:
    """Return the sense of most runs, with a vote for each; nothing where no run has a sense."""
    labels = [ranking.predicted_type for ranking in rankings]
    readings = [reading for ranking in rankings for reading in ranking.interpretations]
    if not readings:
        return ()
    idiomatic, literal = (
        sum(w for w, label in zip(weights, labels, strict=True) if label == sense)
        for sense in ("idiomatic", "literal")
    )
    chosen: SenseLabel | None = "idiomatic" if idiomatic > literal else "literal"
    if math.isclose(idiomatic, literal):
        chosen = next(filter(None, labels), None)
    counted = idiomatic + literal
    share = idiomatic / counted if counted else {"idiomatic": 1.0, None: 0.5}.get(chosen, 0.0)
    votes = labels.count("idiomatic"), labels.count("literal"), labels.count(None)
    none = all(reading.sense == NO_SENSE for reading in readings)
    sense = NO_SENSE if none else Sense(chosen, share, *votes)
    idiomatic_meaning = next(filter(None, (r.idiomatic for r in readings)), NO_MEANING)
    literal_meaning = next(filter(None, (r.literal for r in readings)), NO_MEANING)
    return (Interpretation("fused", sense, idiomatic_meaning, literal_meaning),)
