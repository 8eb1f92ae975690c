"""What others published on AdMIRe's Subtask A, and where figures of ours stand among that.

``published.json`` holds the figures, each system with its source. They are few: all rows of
UoR-NCL's paper, and the first five systems of the task's overview.
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
    """Where a figure stands among those published, from 1; as many places as systems and ours.

    Attributes:
        place: one more than there are better systems.
        best, worst: the places at the ends of the figure's interval.
        of: how many places there are.
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
    """What was published on a set, the best by DCG first.

    Returns:
        A row for each system: ``system``, ``source``, ``people`` (whether it is people), ``top1``,
        ``low`` and ``high`` (its 95 % interval by Wilson; NaN for people), ``dcg``,
        ``corr_official`` (NaN where it was not published) and ``decimals``, to which figures were
        rounded.

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
            said = {"system": one["system"], "source": source["told"], "people": people}
            more = {"low": low, "high": high, "decimals": source["decimals"]}
            rows.append({**said, **figures, **more})
    table = pd.DataFrame(rows).astype({"corr_official": float})
    return table.sort_values(["dcg", "top1"], ascending=False, kind="stable", ignore_index=True)


def check_fits(name: PublishedSet, gold: Sequence[Item]) -> None:
    """Warn where the gold cannot be that of the published set.

    Raises:
        UserError: the gold is not of Subtask A.
    """
    if any(item.sequence or item.expected_item for item in gold):
        raise UserError("The published figures are of Subtask A, the gold is not.", "published")
    items = _data()["sets"][name]
    if len(gold) != items:
        log.warning(
            "The gold has %d items, and %s has %d: the published figures are of others.",
            len(gold),
            name,
            items,
        )
    if note := _data()["notes"].get(name):
        log.warning("%s: %s", name, note)


def standings(summary: pd.DataFrame, systems: pd.DataFrame) -> list[Standing]:
    """Where our top-1 and our DCG stand among systems; people have no place.

    Args:
        summary: of :func:`admire.scores.evaluation.summarise`; the group ``all`` counts.
        systems: see :func:`published_systems`.
    """
    others = systems[~systems["people"]]
    ours = of_all_items(summary)
    found = []
    for metric in RANKED:
        mean, low, high = (ours[metric][one] for one in ("mean", "low", "high"))
        place, best, worst = (_place(one, metric, others) for one in (mean, high, low))
        found.append(Standing(metric, mean, low, high, place, best, worst, len(others) + 1))
    return found


def of_all_items(summary: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The rows of :func:`admire.scores.evaluation.summarise` on all items, by metric."""
    rows = summary[summary["group"] == "all"].to_dict("records")
    return {row["metric"]: {str(name): value for name, value in row.items()} for row in rows}


def _place(figure: float, metric: str, systems: pd.DataFrame) -> int:
    """One more than there are systems that are better, as far as their decimals tell."""
    rounded = [round(figure, decimals) for decimals in systems["decimals"]]
    return 1 + int((systems[metric] > rounded).sum())


def within(systems: pd.DataFrame, standing: Standing) -> pd.Series[bool]:
    """Whether each system's figure lies in the interval of ours."""
    places = systems["decimals"]
    low = [round(standing.low, decimals) for decimals in places]
    high = [round(standing.high, decimals) for decimals in places]
    return (systems[standing.metric] >= low) & (systems[standing.metric] <= high)


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).with_name("published.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
