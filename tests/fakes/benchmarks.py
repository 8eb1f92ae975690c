"""Small retrieval benchmarks, their files, and an encoder for their queries."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from toys import PictureEncoder, ScriptedChat, WordEncoder, opens

from admire.encoders import Query
from admire.tasks.retrieval.passages import Passage, Split
from admire.tasks.retrieval.settings import QueryForm, Usage

USAGES, QUERY_FORMS = get_args(Usage), get_args(QueryForm)


def passage(name: str, sentence: str, usage: str = "idiomatic", **changes: Any) -> Passage:
    fields = {"idiom": "night owl", "span": "night owl", "subject": ""} | changes
    return Passage(name, sentence, usage=usage, **fields)


OWLS = Split(
    (
        passage("q1", "A night owl codes late.", subject="Technology"),
        passage("q2", "The night owl flew off.", "literal", subject="Environment"),
    ),
    (
        passage("d1", "She is a night owl who codes."),
        passage("d2", "A night owl flew over the barn.", "literal"),
        passage("d3", "She codes late into the night.", "simplification", span="codes late"),
        passage("d4", "Some people work best after midnight.", "sense", span="Some people"),
        passage("d5", "She is a dark bird who codes.", "distractor", span="dark bird"),
        passage("d6", "It got cold feet.", "literal", idiom="cold feet", span="cold feet"),
    ),
)


def scattered(seed: int) -> Split:
    """Make sentences of random words, so that k1 and b matter to their order."""
    rng = np.random.default_rng(seed)

    def draw(name: str) -> Passage:
        usage = str(rng.choice(["literal", "idiomatic"]))
        text = " ".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), rng.integers(3, 40)))
        return passage(name, text, usage, idiom=str(rng.choice(["x", "y"])), span=text[:3])

    return Split(tuple(draw(f"q{k}") for k in range(6)), tuple(draw(f"d{k}") for k in range(40)))


PIES = ("night owl", "red lamp", "big bird", "green desk", "blue tree", "small circle")


def pies(names: Sequence[str] = PIES, queries: str = "a {} in the tree") -> Split:
    """Make uses of PIEs in the words of towers: literal ones lie about, idiomatic ones write."""
    templates = (
        ("q{}l", queries, "literal", ""),
        ("q{}i", "my sister is the {} who writes", "idiomatic", ""),
        ("d{}l1", "a big {} on the desk", "literal", ""),
        ("d{}l2", "the {} is in a small square", "literal", ""),
        ("d{}i1", "a real {} writes at midnight", "idiomatic", ""),
        ("d{}i2", "the woman is a {}", "idiomatic", ""),
        ("d{}s", "a sister who writes", "simplification", "sister"),
        ("d{}m", "a man at midnight", "sense", "man"),
    )
    passages = [
        passage(name.format(k), text.format(pie), usage, idiom=pie, span=span or pie)
        for k, pie in enumerate(names)
        for name, text, usage, span in templates
    ]
    return Split(
        tuple(p for p in passages if p.id.startswith("q")),
        tuple(p for p in passages if p.id.startswith("d")),
    )


def write_split(folder: Path, split: str, content: Split) -> None:
    (folder / split).mkdir(parents=True, exist_ok=True)
    for name, passages in (("queries", content.queries), ("indexes", content.documents)):
        rows = [asdict(passage) for passage in passages]
        (folder / split / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")


class RecordingEncoder(WordEncoder):
    def __init__(self, name: str = "words"):
        self.name = name
        self.queries: list[Query] = []

    def encode_queries(self, queries):
        self.queries += queries
        texts = [q.text[slice(*q.span)] if q.span else q.text for q in queries]
        return super().encode_texts(texts, role="query")


def answer(prompt: str) -> str:
    """Answer as a chat model: idiomatic where codes are written, else literal; one gloss."""
    if "or literally" in prompt:
        return "Idiomatic" if "codes" in prompt else "Literal"
    return "someone who works late"


def toys_opened(monkeypatch: pytest.MonkeyPatch, module: str) -> list[Any]:
    """Put toys in place of the models that a task's command opens; return their names."""
    opened: list[Any] = opens(monkeypatch, ScriptedChat(answer))

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options.get("device")))
        encoder = PictureEncoder() if name in ("sight", "pictures") else WordEncoder()
        encoder.name, encoder.identity = name, f"{name}:1"
        return encoder

    for place in ("encoders", module):
        monkeypatch.setattr(f"admire.{place}.open_encoder", open_encoder)
    return opened
