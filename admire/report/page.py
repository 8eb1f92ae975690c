"""A report as one HTML file that needs no network and can make no request."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from admire.report.report import Report

TERMS = {
    "top-1": "The share of items whose best candidate is ranked first.",
    "DCG": "Discounted cumulative gain: how far up the two best candidates by gold stand. 3.631 is "
    "the most that five candidates can have; random orders have 2.359 on average.",
    "corr_official": "The task's own correlation, which compares the alphabetical ranks of file "
    "names. It is there to compare with published figures.",
    "corr_rank": "Spearman's correlation of the predicted order with the gold order, from −1 to 1.",
    "item accuracy": "The share of items whose sequence is continued by the right candidate.",
    "sense accuracy": "The share of items whose sense is told rightly.",
    "accuracy": "The share of sentences whose sense is told rightly.",
    "R-precision": "Of the first R documents, the share that is relevant; R is how many are.",
    "nDCG@10": "How far up the relevant documents stand among the first ten; at best 1.",
    "interval": "In brackets: the 95 % bootstrap interval over items. If other items of the same "
    "kind were drawn, the mean would mostly lie there.",
    "loss": "What an item falls short of the best figure; the figure is DCG in a ranking, nDCG@10 "
    "in a retrieval, and the probability of the true sense where senses are decided.",
    "confidence": "The probability of the predicted sense, from 0.5 to 1.",
    "votes": "How often the chat model was asked for the sense, and what it said. Unread answers "
    "are counted apart.",
    "margin": "How far the score of the first candidate is above that of the second.",
    "agreement": "How far the orders of several runs, or several answers of one chat model, agree: "
    "1 is the same order.",
    "score and its parts": "A candidate's score is the sum of its parts. A bar to the right raises "
    "the candidate, one to the left lowers it. Parts say how like a candidate is to a text: the "
    "definitions and the scene of each sense, or the compound itself.",
}
"""What a newcomer may want to look up, in the order in which it is told."""

TERMS_OF = {
    "ranking": (
        "top-1 DCG corr_official corr_rank interval loss confidence votes margin agreement"
    ).split()
    + ["score and its parts"],
    "retrieval": ["R-precision", "nDCG@10", "interval", "loss", "confidence"],
    "senses": ["accuracy", "interval", "loss", "confidence", "votes"],
}
TERMS_OF_SEQUENCES = ["item accuracy", "sense accuracy"]

MANY_ROWS = 8
"""A table with more rows than these is folded away, under its title."""


def render(report: Report) -> str:
    """The page, complete: styles, scripts, data and pictures are inside.

    A content security policy in the page forbids every request, and all scripts and styles but
    those that this module puts there.

    Raises:
        ValueError: the data hold a number that JSON lacks, such as NaN.
    """
    style, scripts = _style(), _scripts()
    return _template().render(
        report=report,
        policy=_policy(style, scripts, linked=report.linked),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=_json(report.data),
        plots=[(plot, Markup(plot.svg)) for plot in report.plots],
        terms=[(term, TERMS[term]) for term in _terms(report)],
        many=MANY_ROWS,
    )


def _policy(style: str, scripts: list[str], *, linked: bool) -> str:
    hashes = " ".join(map(_hash, scripts))
    pictures = "data: file: 'self'" if linked else "data:"
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; "
        f"img-src {pictures}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> Markup:
    """JSON that no HTML parser can leave: ASCII, and no ``<`` in it."""
    return Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c"))


def _terms(report: Report) -> list[str]:
    terms = TERMS_OF[report.kind]
    return TERMS_OF_SEQUENCES + terms[4:] if "item_accuracy" in report.data["metrics"] else terms


def is_number(cell: str) -> bool:
    """Whether a cell is set flush right, as figures are."""
    return bool(re.match(r"[+−-]?[$€]?\d[\d,.]*($|[ %][^A-Za-z]*$| \[| s$)", cell))


@cache
def _style() -> str:
    return _read("cards.css") + _read("page.css")


@cache
def _scripts() -> list[str]:
    return [_read("cards.js"), _read("report.js")]


def _read(name: str) -> str:
    return (files("admire.report") / name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.tests["number"] = is_number
    return environment.from_string(_read("report.html.j2"))
