"""A run's first items as cards in a notebook: the report's, drawn without a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from markupsafe import Markup

from admire.apps.report.gallery import Cards
from admire.apps.report.pictures import make_thumbnails
from admire.apps.report.report import read_file, template
from admire.core.progress import hidden_progress
from admire.pipeline.ranking import Run

MOST = 20  #: how many items are shown: a notebook's file keeps all pictures that it shows


def run_cards(run: Run) -> str:
    """Return a run's first items as HTML without a script, which notebooks strip, or a request."""
    cards = Cards([enumerate(run.rankings[:MOST])], [run.record])
    with hidden_progress():
        thumbnails, pictures = make_thumbnails(cards.files if find_spec("PIL") else [])
    # The cards' styles hold inside an element of the class ``admire`` alone.
    inside = re.sub(r"^( *)(:root|body) ", r"\1& ", read_file("cards.css"), flags=re.MULTILINE)
    return template("notebook.html.j2", signed=_signed, ratio=_ratio).render(
        style=Markup(f".admire {{\n{inside}}}"),
        cards=list(cards.data(["run"], thumbnails)["items"]),
        pictures={f"#{key}": address for key, address in pictures.items()},
        more=len(run.rankings) - len(cards),
    )


def _signed(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if text == "0.00" else ("−" if value < 0 else "+") + text


def _ratio(things: Sequence[Mapping[str, Any]]) -> str:
    """Width to height of the pictures' frames, as in cards.js."""
    sized = [thing["width"] / thing["height"] for thing in things if thing["picture"]]
    return f"{min(1.6, max(0.75, sum(sized) / len(sized))):.3f}" if sized else "4 / 3"
