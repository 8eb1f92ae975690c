import json
import re
from html import unescape

from admire.apps.report.report import Plot, Report, Table, render

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>\u2028\u202e\"' \ud800"


def report(text: str = "night owl") -> Report:
    candidate = {"name": text, "caption": text, "picture": "#p1", "width": 320, "height": 200}
    item = {
        "number": 1,
        "compound": text,
        "sentence": [[text, True]],
        "language": "en",
        "candidates": [candidate, {**candidate, "picture": None}],
        "runs": [None],
    }
    return Report(
        title=text,
        kind="ranking",
        tables=(
            Table("Figures", ("Items", "n", "dcg"), (("all", "15", "-3.1 [-3.2, 3]"),), text),
            Table(text, (text, text), tuple((text, text) for _ in range(20))),
        ),
        plots=(Plot(text, '<svg role="img"><title>Drawn</title></svg>', text),),
        data={"kind": "ranking", "runs": [{"name": text}], "metrics": ["dcg"], "items": [item]},
        pictures={"p1": "data:image/webp;base64,AAAA"},
    )


def page(text: str = "night owl") -> str:
    return "".join(render(report(text)))


def test_policy_forbids_every_request() -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page())
    assert found
    policy = dict(rule.split(maxsplit=1) for rule in unescape(found[1]).split("; "))
    assert policy.pop("style-src-attr") == "'unsafe-inline'"
    assert policy["img-src"] == "data:"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert all(policy[name].startswith("'sha256-") for name in ("script-src", "style-src"))


def test_hostile_texts_stay_texts() -> None:
    text, tame = page(HOSTILE), page()
    text.encode()  # a lone surrogate of the data cannot be written
    assert re.findall("<[a-z/!]+", text) == re.findall("<[a-z/!]+", tame)
    [data] = re.findall('<script type="application/json" id="data">(.*)</script>', text)
    assert data.isascii()
    assert json.loads(data) == json.loads(json.dumps(report(HOSTILE).data))


def test_head_is_readable_without_a_script() -> None:
    text = page()
    assert '<abbr title="Discounted cumulative gain' in text
    assert '<td dir="auto" class="number">−3.1 [−3.2, 3]</td>' in text
    assert "<svg" in text
    assert "<noscript>" in text
    assert re.search(r'<details id="head">\s*<summary>15 items · DCG -3.1 \[-3.2, 3\]<', text)
    assert text.count("<table>") == 2
    assert re.search(r'<details class="table">\s*<summary>night owl</summary>', text)  # many rows
