"""Pages of reports: what they may load, and that data stay data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from admire.pages.report import Plot, Report, Table
from admire.pages.report.page import FIGURES, render

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>\u2028\u202e\"' \ud800"
PICTURE = "data:image/webp;base64,AAAA"


class Page(HTMLParser):
    """The elements of a page: ``(tag, attributes, text up to the next tag)``."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def all(self, tag: str, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (found, text)
            for name, found, text in self.elements
            if name == tag and attributes.items() <= found.items()
        ]

    @property
    def scripts(self) -> list[str]:
        """Those that run."""
        return [text for attributes, text in self.all("script") if "type" not in attributes]


def report(text: str = "night owl", **changes: Any) -> Report:
    """A report with one item, in which every text is the same."""
    candidate = {"name": text, "caption": text, "picture": "#p1", "width": 320, "height": 200}
    item = {
        "number": 1,
        "compound": text,
        "sentence": [[text, True]],
        "language": "en",
        "candidates": [candidate, {**candidate, "picture": None}],
        "runs": [None],
    }
    return replace(
        Report(
            title=text,
            kind="ranking",
            tables=(
                Table("Figures", ("Items", "n", "dcg"), (("all", "15", "-3.1 [-3.2, 3]"),), text),
                Table(text, (text, text), tuple((text, text) for _ in range(20))),
            ),
            plots=(Plot(text, '<svg role="img"><title>Margins</title></svg>', text),),
            data={"kind": "ranking", "runs": [{"name": text}], "metrics": ["dcg"], "items": [item]},
            pictures={"p1": PICTURE},
        ),
        **changes,
    )


def test_policy_forbids_every_request() -> None:
    text = render(report())
    rules = re.findall(r"([\w-]+) ([^;\"]*)[;\"]", text[text.index("default-src") :])
    policy = dict(rules[:7])
    assert policy.pop("style-src-attr") == "'unsafe-inline'"
    assert policy["img-src"] == "data:"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert all(policy[name].startswith("'sha256-") for name in ("script-src", "style-src"))


def test_hostile_texts_stay_texts() -> None:
    text = render(report(HOSTILE))
    text.encode()  # a lone surrogate of the data cannot be written
    page, tame = Page(text), Page(render(report("night owl")))
    assert [tag for tag, *_ in page.elements] == [tag for tag, *_ in tame.elements]
    assert page.scripts == tame.scripts
    [(_, data)] = page.all("script", id="data")
    assert "<" not in data
    assert data.isascii()
    assert json.loads(data) == json.loads(json.dumps(report(HOSTILE).data))


def test_head_is_readable_without_a_script() -> None:
    text = render(report())
    assert '<abbr title="Discounted cumulative gain' in text
    assert '<td dir="auto" class="number">−3.1 [−3.2, 3]</td>' in text
    assert "<svg" in text
    assert "<noscript>" in text
    assert text.count("<table>") == 2
    folded = re.search(r'<details class="table">\s*<summary>night owl</summary>', text)
    assert folded  # it has many rows


def test_tables_and_cards_call_figures_the_same() -> None:
    [cards, _] = Page(render(report())).scripts
    found = re.search(r"const FIGURES = \{(.*?)\n  \};", cards, re.DOTALL)
    assert found
    on_cards = dict(re.findall(r'^    (\w+): \["([^"]+)"', found[1], re.MULTILINE))
    assert on_cards == {name: called for name, (called, _) in FIGURES.items()}
