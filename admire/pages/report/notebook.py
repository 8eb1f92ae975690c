"""A run's first items as cards in a notebook: the report's, drawn without a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from admire.base.progress import hidden_progress
from admire.pages.report.gallery import gallery
from admire.pages.report.thumbnails import Shown, make_thumbnails
from admire.runs.ranking import Run

MOST = 20
"""How many items are shown: a notebook's file keeps all pictures that it shows."""


def run_cards(run: Run) -> str:
    """Return a run's first items as HTML: no script, which notebooks strip, and no request.

    The styles hold only inside. What knows no styles, or strips them, still shows pictures and
    texts in their order.
    """
    first = replace(run, rankings=run.rankings[:MOST])
    files = [
        thing.image
        for ranking in first.rankings
        for thing in (*ranking.item.candidates, *ranking.item.sequence)
        if thing.image
    ]
    thumbnails: Mapping[Path, Shown] = {}
    pictures: Mapping[str, str] = {}
    if files and find_spec("PIL"):
        with hidden_progress():
            thumbnails, pictures = make_thumbnails(files)
    cards = gallery([first], ["run"], thumbnails)["items"]
    return _template().render(
        style=Markup(_style()),
        cards=cards,
        pictures={f"#{key}": address for key, address in pictures.items()},
        more=len(run.rankings) - len(cards),
    )


@cache
def _style() -> str:
    """Return the cards' styles, which hold inside an element of the class ``admire`` alone."""
    cards = (files("admire.pages.report") / "cards.css").read_text(encoding="utf-8")
    inside = re.sub(r"^( *)(:root|body) ", r"\1& ", cards, flags=re.MULTILINE)
    return f".admire {{\n{inside}}}"


def _signed(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if text == "0.00" else ("−" if value < 0 else "+") + text


def _ratio(things: Sequence[Mapping[str, Any]]) -> str:
    """Width to height of the pictures' frames, as in cards.js."""
    sized = [
        candidate["width"] / candidate["height"] for candidate in things if candidate["picture"]
    ]
    return f"{min(1.6, max(0.75, sum(sized) / len(sized))):.3f}" if sized else "4 / 3"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"signed": _signed, "ratio": _ratio}
    text = (files("admire.pages.report") / "notebook.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text)
