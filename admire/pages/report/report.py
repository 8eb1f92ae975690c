"""What a report shows: tables, plots, and the data of its cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["ranking", "retrieval", "senses"]
"""What was run: items ranked, documents retrieved for queries, or senses decided."""


@dataclass(frozen=True)
class Table:
    """A table in the head of a report. Cells are texts; the first of a row is its heading.

    Attributes:
        note: what stands under it.
        folded: whether it is folded away under its title, however few rows it has.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Plot:
    """A plot.

    Attributes:
        svg: an ``svg`` element. Its colours are the page's custom properties, so that it follows
            light and dark.
        words: what it shows, for people who cannot see it.
    """

    title: str
    svg: str
    words: str


@dataclass(frozen=True)
class Report:
    """All that a page shows.

    Attributes:
        data: what the cards show, as JSON; ``admire/pages/report/README.md`` says what is in it.
        pictures: thumbnails as data URIs, by the ids that ``data`` names them by.
        linked: whether ``data`` names picture files in place of ids.
    """

    title: str
    kind: Kind
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    data: Mapping[str, Any]
    pictures: Mapping[str, str] = field(default_factory=dict, repr=False)
    linked: bool = False
