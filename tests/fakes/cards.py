"""The data of a report's cards, of runs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from admire import Run
from admire.apps.report.gallery import Cards
from admire.data.items import item_keys


def gallery(runs: Sequence[Run], names: Sequence[str] = ("run",)) -> dict[str, Any]:
    """What the page's script reads, without pictures."""
    keys = [item_keys(ranking.item for ranking in run.rankings) for run in runs]
    keyed = [zip(own, run.rankings, strict=True) for own, run in zip(keys, runs, strict=True)]
    data = Cards(keyed, [run.record for run in runs]).data(names, {})
    return data | {"items": list(data["items"])}
