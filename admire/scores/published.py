"""Published figures on AdMIRe's Subtask A, and the place of ours among them.

``published.json`` holds the figures with their sources: all rows of UoR-NCL's paper, and the first
five systems of the task's overview.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from admire.base.choices import PublishedSet
from admire.base.errors import UserError
from admire.base.schema import check_setting
from admire.data.items import Item
from admire.scores.metrics import wilson_interval

log = logging.getLogger("admire")

RANKED = ("top1", "dcg")
"""The figures by which systems are placed."""


@dataclass(frozen=True)
class Standing:
    """The place of a figure among published ones, from 1.

    Attributes:
        place: one more than the number of better systems.
        best, worst: the places at the ends of the figure's interval.
        of: the number of places: of systems and one for ours.
    """

    metric: str
    mean: float
    low: float
    high: float
    place: int
    best: int
    worst: int
    of: int

    def __str__(self) -> str:
        reach = f"from place {self.best} to {self.worst}"
        if self.best == self.worst:
            reach = f"no further than place {self.place}"
        return (
            f"{self.metric} {self.mean:.3f} [{self.low:.3f}, {self.high:.3f}] would be place "
            f"{self.place} of {self.of}; the interval reaches {reach}."
        )


def published_systems(name: PublishedSet) -> pd.DataFrame:
    """What was published on a set, sorted by DCG.

    Returns:
        A row for each system: ``system``, ``source``, ``people`` (whether it is people), ``top1``,
        ``low`` and ``high`` (its 95 % interval by Wilson; NaN for people), ``dcg``,
        ``corr_official`` (NaN if not published) and ``decimals`` (of the published figures).

    Raises:
        UserError: there is no such set.
    """
    check_setting("published", name, PublishedSet)
    data = _data()
    rows = []
    for one in data["systems"]:
        if name in one["sets"]:
            figures = dict(zip(data["figures"], one["sets"][name], strict=True))
            people = one.get("people", False)
            interval = wilson_interval(figures["top1"], data["sets"][name])
            low, high = (math.nan, math.nan) if people else interval
            source = data["sources"][one["source"]]
            rows.append(
                {
                    "system": one["system"],
                    "source": source["told"],
                    "people": people,
                    **figures,
                    "low": low,
                    "high": high,
                    "decimals": source["decimals"],
                }
            )
    table = pd.DataFrame(rows).astype({"corr_official": float})
    return table.sort_values(["dcg", "top1"], ascending=False, kind="stable", ignore_index=True)


def check_fits(name: PublishedSet, gold: Sequence[Item]) -> None:
    """Warn if the gold cannot be that of the published set.

    Raises:
        UserError: the gold is not of Subtask A.
    """
    if any(item.sequence or item.expected_item for item in gold):
        raise UserError("The published figures are of Subtask A, the gold is not.", "published")
    items = _data()["sets"][name]
    if len(gold) != items:
        log.warning(
            "The gold has %d items, %s has %d: the published figures are for other items.",
            len(gold),
            name,
            items,
        )
    if note := _data()["notes"].get(name):
        log.warning("%s: %s", name, note)


def standings(summary: pd.DataFrame, systems: pd.DataFrame) -> list[Standing]:
    """The places of our top-1 and DCG among systems; people have no place.

    Args:
        summary: of :func:`admire.scores.evaluation.summarise`; the group ``all`` counts.
        systems: see :func:`published_systems`.
    """
    others = systems[~systems["people"]]
    ours = of_all_items(summary)
    places = []
    for metric in RANKED:
        mean, low, high = (ours[metric][name] for name in ("mean", "low", "high"))
        place, best, worst = (_place(figure, metric, others) for figure in (mean, high, low))
        places.append(Standing(metric, mean, low, high, place, best, worst, len(others) + 1))
    return places


def of_all_items(summary: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The rows of :func:`admire.scores.evaluation.summarise` on all items, by metric."""
    rows = summary[summary["group"] == "all"].to_dict("records")
    return {row["metric"]: {str(name): value for name, value in row.items()} for row in rows}


def _place(figure: float, metric: str, systems: pd.DataFrame) -> int:
    """One more than the number of better systems, at their number of decimals."""
    rounded = [round(figure, decimals) for decimals in systems["decimals"]]
    return 1 + int((systems[metric] > rounded).sum())


def within(systems: pd.DataFrame, standing: Standing) -> pd.Series[bool]:
    """Whether each system's figure is in the interval of ours."""
    places = systems["decimals"]
    low = [round(standing.low, decimals) for decimals in places]
    high = [round(standing.high, decimals) for decimals in places]
    return (systems[standing.metric] >= low) & (systems[standing.metric] <= high)


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).with_name("published.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
