"""What a report shows: tables, plots, and the data of its cards; and how it names things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from admire.core import registry

Kind = Literal["ranking", "retrieval", "senses", "table"]
"""What was run: items ranked, documents retrieved for queries, senses decided, or a recipe."""

OTHER_FIGURES = {
    "accuracy": ("accuracy", "The share of sentences whose sense is predicted rightly."),
    "r_precision": (
        "R-precision",
        "Of the first R documents, the share that is relevant, where R documents are.",
    ),
    "ndcg": ("nDCG@10", "How far up the relevant documents stand among the first ten; at best 1."),
}
"""Names and meanings of figures that are no metrics of rankings."""


def describe_figure(name: str) -> tuple[str, str]:
    """Return what people call a figure, and what it means; empty if it is no known figure."""
    if name in registry.names("metric"):
        metric = registry.find("metric", name)
        return metric.heading or name, metric.about
    return OTHER_FIGURES.get(name, (name, ""))


@dataclass(frozen=True)
class Table:
    """A table in the head of a report. Cells are texts; the first of a row is its heading.

    Attributes:
        note: what stands under it.
        folded: whether it is folded away under its title, however few rows it has.
        bold: cells that stand out, each as the place of its row and of its column; the note says
            why they do.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    folded: bool = False
    bold: frozenset[tuple[int, int]] = frozenset()


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
        data: what the cards show, as JSON; ``docs/report.md`` says what is in it.
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


def plain_name(name: str) -> str:
    """Return the name of a chat model, encoder or dictionary, of a path the last part alone.

    ``gguf:/home/me/model.gguf`` → ``gguf:model.gguf``. Names of repositories stay:
    ``sbert:intfloat/multilingual-e5-small``.
    """
    family, colon, source = name.partition(":")
    of_files = ("gguf", "recorded", "run", "kaikki", "glossary")
    model, slash, path = source.partition("/")
    if family in of_files or source.startswith(("/", ".", "~")) or "\\" in source:
        return family + colon + file_name(source)
    if slash and path.startswith(("/", ".", "~")):  # openclip:MODEL/PATH
        return f"{family}:{model}/{file_name(path)}"
    return name


def file_name(path: str) -> str:
    """Return the last part of a path, of Windows too."""
    return PurePath(path.replace("\\", "/")).name


def run_names(paths: Sequence[str | Path]) -> list[str]:
    """Return the names of the runs' folders, numbered if several are the same."""
    names = [Path(path).resolve().name for path in paths]
    return [
        f"{name} ({names[:place].count(name) + 1})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]
