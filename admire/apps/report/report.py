"""What a report shows and how it names things; its page: one file that makes no request."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from admire.core import registry

NUMBER = re.compile(r"–$|[+-]?\d[\d.,]*%?( \[.*\]| of \d+)?$")

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
"""Names and meanings of figures other than metrics of rankings."""


def describe_figure(name: str) -> tuple[str, str]:
    """Return a figure's name for people and its meaning; empty if it is unknown."""
    if name in registry.names("metric"):
        metric = registry.find("metric", name)
        return metric.heading or name, metric.about
    return OTHER_FIGURES.get(name, (name, ""))


@dataclass(frozen=True)
class Table:
    """A table in the head of a report. Cells are texts; the first of a row is its heading.

    Attributes:
        folded: whether it is folded away under its title, however few rows it has.
        bold: rows and columns of the cells that stand out; the note says why they do.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    folded: bool = False
    bold: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Plot:
    """A plot: an ``svg`` element in the page's colours, and words for people who cannot see it."""

    title: str
    svg: str
    words: str


@dataclass(frozen=True)
class Report:
    """All that a page shows; ``docs/report.md`` says what is in ``data``.

    ``pictures`` are data URIs by the ids in the data; if ``linked``, it names files instead.
    """

    title: str
    kind: Kind
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    data: Mapping[str, Any]
    pictures: Mapping[str, str] = field(default_factory=dict, repr=False)
    linked: bool = False


def short_name(name: str) -> str:
    """Return the name of a chat model, encoder or dictionary, of a path the last part alone.

    A relative path is shown as it was written: it cannot be told from a model's name on the hub.
    """
    family, colon, source = name.partition(":")
    model, slash, path = source.partition("/")
    if source.startswith(("/", ".", "~")) or "\\" in source:
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


def render(report: Report) -> Iterator[str]:
    """Yield the page, complete, in pieces: styles, scripts, data and pictures are inside.

    A content security policy in the page forbids every request, and all scripts and styles but
    those that this module puts there.
    """
    cards = report.data.get("items", ())
    style = read_file("cards.css") + read_file("page.css")
    scripts = [read_file("cards.js"), read_file("report.js")] if cards else []
    pictures = "data: file: 'self'" if report.linked else "data:"
    described = map(describe_figure, report.data.get("metrics", ()))

    def folded(table: Table) -> bool:  # one of many rows without figures, under its title
        has_figures = any(describe_figure(name)[1] for name in table.headings)
        return table.folded or (len(table.rows) > 8 and not has_figures)

    def numeric(table: Table) -> list[bool]:  # columns of numbers alone are set flush right
        columns = enumerate(zip(*table.rows, strict=True))
        flags = [k > 0 and all(map(NUMBER.match, cells)) for k, cells in columns]
        return flags or [False] * len(table.headings)

    filters: Any = {"hinted": describe_figure, "numeric": numeric, "folded": folded, "line": _line}
    pieces = template("report.html.j2", **filters).generate(
        report=report,
        policy=(
            f"default-src 'none'; script-src {_hashes(*scripts)}; style-src {_hashes(style)}; "
            "style-src-attr 'unsafe-inline'; "
            f"img-src {pictures}; base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=_json({**report.data, "items": []}).split('"items":[]'),
        cards=map(_json, cards),
        votes=any('"votes":' in _json(card) for card in cards),
        plots=[(plot, Markup(plot.svg)) for plot in report.plots],
        figures=[(name, meaning) for name, meaning in described if meaning],
    )
    for piece in pieces:
        yield re.sub("[\ud800-\udfff]", "?", piece)  # a JSON file may hold half of a surrogate pair


def _json(value: object) -> Markup:
    """Return a value as JSON that no HTML parser can leave."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", r"\u003c"))


def _hashes(*texts: str) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def _line(report: Report) -> str:
    """Return the figures of all items and the time that was taken in one line."""
    tables = {table.title: table for table in report.tables}
    parts = ["Figures, settings, time"]
    if figures := tables.get("Figures"):
        kind, _, *metrics = figures.headings
        names = [describe_figure(metric)[0] for metric in metrics]
        first, *others = figures.rows
        of_all = zip(names[:2], first[2:], strict=False)
        parts = [f"{first[1]} {kind.lower()}", *(f"{name} {figure}" for name, figure in of_all)]
        if kind == "Run":
            parts = [f"{row[0]} {names[0]} {row[2]}" for row in (first, *others[:3])]
            parts += ["…"] if others[3:] else []
    if (seconds := tables.get("Seconds")) and len(seconds.headings) == 2:
        parts.append(f"{sum(float(cell.replace(',', '')) for _, cell in seconds.rows):,.1f} s")
    return " · ".join(parts)


def read_file(name: str) -> str:
    """Read a file of this folder."""
    return (files("admire.apps.report") / name).read_text(encoding="utf-8")


def template(name: str, **filters: Callable[[Any], Any]) -> jinja2.Template:
    """Return a template of this folder, with filters of its own."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= filters
    return environment.from_string(read_file(name))
