"""Published figures on AdMIRe and AdMIRe 2, and the place of ours among them.

``published.csv`` has a row for each system of a board, the best first: the organisers' results page
(https://semeval2025-task1.github.io/), UoR-NCL's paper, the human figures of the task's overview,
and figures on AdMIRe 2, which has no board. An entry of the organisers with the figures of its
team's paper is in the paper's row. ``n`` is empty for figures that are not shares of the set's
items. ``published.json`` has the sources, the sizes of the sets and notes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from admire.core.choices import BoardTrack, PublishedSet
from admire.core.errors import UserError
from admire.core.schema import check_setting
from admire.data.items import Item
from admire.data.languages import base_language
from admire.metrics.figures import MACRO, figure_text
from admire.metrics.metrics import wilson_interval

Subtask = Literal["a", "b"]

COLUMNS = ("item_accuracy", "sense_accuracy", "top1", "dcg", "ndcg5", "corr_official")
"""All figures that were published."""
FEW = 30  #: below so many items a place is a range first


@dataclass(frozen=True)
class Board:
    """What was published on a set, in a subtask and a track."""

    set: PublishedSet
    subtask: Subtask
    track: BoardTrack

    def __str__(self) -> str:
        return f"{self.set}, Subtask {self.subtask.upper()}, {self.track}"

    @property
    def ranked(self) -> tuple[str, str]:
        """The figures by which systems are placed; the second one decides ties of the first."""
        if self.subtask == "b":
            return "item_accuracy", "sense_accuracy"
        return "top1", "ndcg5" if self.set == "admire2" else "dcg"


@dataclass(frozen=True)
class Standing:
    """The place of a figure of ``n`` items among published ones, from 1.

    Attributes:
        best, worst: the places at the ends of the figure's interval.
        of: the number of places: of systems and one for ours.
        track: of the board.
    """

    metric: str
    mean: float
    low: float
    high: float
    place: int
    best: int
    worst: int
    of: int
    track: str
    n: int

    @property
    def text(self) -> str:
        """The place, and those at the ends of the interval; of few items these come first."""
        if self.best == self.worst:
            return f"{self.place} of {self.of}"
        if self.n < FEW:
            return f"{self.best} to {self.worst} of {self.of} ({self.place} by the mean)"
        return f"{self.place} of {self.of} (from {self.best} to {self.worst})"

    def __str__(self) -> str:
        figure = figure_text(self.mean, self.low, self.high)
        return f"{self.metric} {figure} would be place {self.text}, {self.track}, {self.n} items."


def boards(
    name: PublishedSet, subtask: Subtask, track: BoardTrack | None
) -> tuple[list[Board], list[str]]:
    """Return the boards of a set in a track, or in every track for None, and notes on them.

    If nothing was published in the track, they are those of ``image+caption``.
    """
    check_setting("published", name, PublishedSet)
    data = _data()
    if name not in data["items"][subtask]:
        sets = ", ".join(data["items"][subtask])
        raise UserError(
            f"On {name} no figures were published for Subtask {subtask.upper()}, but on {sets}.",
            "published",
        )
    of_set = (Board(name, subtask, board_track) for board_track in get_args(BoardTrack))
    every = [board for board in of_set if not published_systems(board).empty]
    notes = [data["notes"][name]] if name in data["notes"] else []
    chosen = [board for board in every if track in (None, board.track)]
    if not chosen:
        notes.append(
            f"On {name} no figures were published for captions alone; these systems saw images."
        )
    return chosen or every, notes


def published_systems(board: Board) -> pd.DataFrame:
    """Return the systems published on a board, the best by its first figure first.

    Returns:
        A row for each system: ``system``, ``source``, ``placed`` (whether it has a place: an entry
        of the organisers' board, or any system without such a board; people have none), the
        published ones of :data:`COLUMNS` (NaN where a system lacks one), ``low`` and ``high`` (of
        the first figure, its 95 % interval by Wilson; NaN for people and macro-averages) and
        ``decimals``.
    """
    table = _table()
    of_board = [table[name] == getattr(board, name) for name in ("set", "subtask", "track")]
    rows = table[np.logical_and.reduce(of_board)].reset_index(drop=True)
    shares = zip(rows[board.ranked[0]], rows["n"], strict=True)
    ends = [(math.nan, math.nan) if math.isnan(n) else wilson_interval(p, n) for p, n in shares]
    rows[["low", "high"]] = pd.DataFrame(ends, columns=["low", "high"], index=rows.index)
    sources = [_data()["sources"][source] for source in rows["source"]]
    rows["source"] = [source["text"] for source in sources]
    rows["decimals"] = [source["decimals"] for source in sources]
    columns = [name for name in COLUMNS if rows[name].notna().any()]
    return rows[["system", "source", "placed", *columns, "low", "high", "decimals"]]


def describe_misfit(name: PublishedSet, gold: Sequence[Item]) -> str | None:
    """Say why the gold cannot be that of the published set; None where it can."""
    if not all(item.has_sense for item in gold):
        raise UserError("The published figures are not of V-WSD, and the gold is.", "published")
    items = _data()["items"][subtask_of(gold)].get(name, len(gold))
    if len(gold) == items:
        return None
    sizes = f"The gold has {len(gold)} items, {name} has {items}"
    return f"{sizes}: the published figures are for other items."


def recognise_set(gold: Sequence[Item], path: str) -> PublishedSet | None:
    """Recognise a published set by its language, number of items and name; None if unsure.

    The name of the file, or of its folder, must have the word ``dev``, ``test``, ``extended`` (or
    the language tag ``xe`` or ``xp``) or ``both``.
    """
    language, *others = {item.language for item in gold}
    if others or not all(item.has_sense for item in gold):
        return None
    file = PurePath(path.replace("\\", "/"))
    for text in (f"{file.name} {language}", file.parent.name):
        words = set(re.split(r"[^a-z]+", text.lower()))
        words |= {"extended"} if words & {"xe", "xp"} else set()
        for name, items in _data()["items"][subtask_of(gold)].items():
            base, _, part = name.partition("-")
            if (base, items) == (base_language(language), len(gold)) and part in words:
                return cast("PublishedSet", name)
    return None


def subtask_of(gold: Sequence[Item]) -> Subtask:
    return "b" if any(item.gold_column == "expected_item" for item in gold) else "a"


def standings(summary: pd.DataFrame, systems: pd.DataFrame, board: Board) -> list[Standing]:
    """Return our places among the published systems that have one.

    Of two equal figures the board's other figure decides; without it, places are shared.
    """
    others, ours = systems[systems["placed"]], our_figures(summary, board)
    first, second = board.ranked
    places = []
    for metric, tie in ((first, second), (second, first)):
        if metric not in ours or metric not in others:
            continue
        place, best, worst = (
            1 + int(is_better(others, ours, metric, tie, end=end).sum())
            for end in ("mean", "high", "low")
        )
        count = int(others[metric].notna().sum()) + 1
        mean, low, high, n = (ours[metric][name] for name in ("mean", "low", "high", "n"))
        if math.isnan(low):
            best, worst = 1, count  # there is no interval
        places.append(Standing(metric, mean, low, high, place, best, worst, count, board.track, n))
    return places


def our_figures(summary: pd.DataFrame, board: Board) -> dict[str, dict[str, Any]]:
    """Return the rows of figures that are compared, by metric: of all items, or macro-averages."""
    macro = board.set == "admire2" and (summary["group"] == MACRO).any()
    rows: Any = summary[summary["group"] == (MACRO if macro else "all")].to_dict("records")
    return {row["metric"]: row for row in rows}


def is_better(
    systems: pd.DataFrame,
    ours: Mapping[str, Mapping[str, Any]],
    metric: str,
    tie: str,
    *,
    end: Literal["mean", "low", "high"] = "mean",
) -> pd.Series[bool]:
    """Return whether each system is better than we are, at its number of decimals.

    Args:
        tie: the figure that decides where those of ``metric`` are equal.
        end: of our intervals.
    """
    figure, other = (
        _at_decimals(systems, ours[name][end] if name in ours else math.nan)
        for name in (metric, tie)
    )
    better = systems[metric] > figure
    if tie in systems:
        better |= (systems[metric] == figure) & (systems[tie] > other)
    return better


def in_interval(systems: pd.DataFrame, standing: Standing) -> pd.Series[bool]:
    """Return whether each system's figure is in the interval of ours."""
    figures = systems[standing.metric]
    low, high = (_at_decimals(systems, end) for end in (standing.low, standing.high))
    return (figures >= low) & (figures <= high)


def _at_decimals(systems: pd.DataFrame, figure: float) -> list[float]:
    return [round(figure, decimals) for decimals in systems["decimals"]]


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).with_name("published.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


@cache
def _table() -> pd.DataFrame:
    return pd.read_csv(Path(__file__).with_name("published.csv"))
