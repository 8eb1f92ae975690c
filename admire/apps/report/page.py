"""A report as one HTML file that needs no network and can make no request."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from admire.apps.report.report import Report, Table, describe_figure

NUMBER = re.compile(r"–$|[+-]?\d[\d.,]*%?( \[.*\]| of \d+)?$")


def render(report: Report) -> str:
    """Return the page of :func:`stream` as one text."""
    return "".join(stream(report))


def stream(report: Report) -> Iterator[str]:
    """Yield the page, complete, in pieces: styles, scripts, data and pictures are inside.

    A content security policy in the page forbids every request, and all scripts and styles but
    those that this module puts there.

    Raises:
        ValueError: the data hold a number that JSON lacks, such as NaN.
    """
    style = read_file("cards.css") + read_file("page.css")
    scripts = [read_file("cards.js"), read_file("report.js")] if report.data.get("items") else []
    pictures = "data: file: 'self'" if report.linked else "data:"
    described = map(describe_figure, report.data.get("metrics", ()))
    figures = [(name, meaning) for name, meaning in described if meaning]
    filled = template(
        "report.html.j2", hinted=describe_figure, numeric=_numeric, folded=_folded, line=_line
    )
    pieces = filled.generate(
        report=report,
        policy=(
            f"default-src 'none'; script-src {_hashes(*scripts)}; style-src {_hashes(style)}; "
            "style-src-attr 'unsafe-inline'; "
            f"img-src {pictures}; base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=map(Markup, _json(report.data)),
        votes=any('"votes":' in piece for piece in _json(report.data)),
        plots=[(plot, Markup(plot.svg)) for plot in report.plots],
        figures=figures,
    )
    for piece in pieces:
        yield re.sub("[\ud800-\udfff]", "?", piece)  # a JSON file may hold half of a surrogate pair


def _json(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the data as JSON, card by card."""
    encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

    def encoded(value: object) -> str:
        return encoder.encode(value).replace("<", r"\u003c")  # no HTML parser can leave it

    before, cards, after = encoded({**data, "items": []}).partition('"items":[')
    yield before + cards
    for number, card in enumerate(data.get("items", ())):
        yield "," * bool(number) + encoded(card)
    yield after


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


def _folded(table: Table) -> bool:
    """Return whether a table stands under its folded title: one of many rows without figures."""
    return table.folded or (
        len(table.rows) > 8 and not any(describe_figure(name)[1] for name in table.headings)
    )


def _numeric(table: Table) -> list[bool]:
    """Return whether each column holds only numbers, which are set flush right."""
    return [
        k > 0 and all(NUMBER.match(cell) for cell in cells)
        for k, cells in enumerate(zip(*table.rows, strict=True))
    ] or [False] * len(table.headings)


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
