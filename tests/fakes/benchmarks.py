"""Small retrieval benchmarks, the files that they are made of, and an encoder for their queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from toys import PictureEncoder, ScriptedChat, WordEncoder

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


class RecordingEncoder(WordEncoder):
    """Takes prompts and spans, and records the queries."""

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
    opened: list[Any] = []

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options.get("device")))
        encoder = PictureEncoder() if name in ("sight", "pictures") else WordEncoder()
        encoder.name, encoder.identity = name, f"{name}:1"
        return encoder

    def open_llm(name: str, *, url: str | None, **options: Any) -> ScriptedChat:
        opened.append((name, url))
        return ScriptedChat(answer)

    monkeypatch.setattr("admire.encoders.open_encoder", open_encoder)
    monkeypatch.setattr(f"admire.{module}.open_encoder", open_encoder)
    monkeypatch.setattr("admire.tasks.retrieval.queries.open_source", open_llm)
    return opened


# -------------------------------------------------------------- the files of SemEval-2022 Task 2

MWES = ("night owl", "home run", "cold feet", "red tape", "big fish", "hot air", "swan song")
"""In both senses; enough for every split to have some."""


def table(path: Path, columns: str, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(list(rows), columns=columns.split()).to_csv(path, index=False)


def semeval(
    folder: Path,
    uses: Sequence[tuple[str, str, str]],
    pairs: Sequence[tuple[str, str, str, bool]] = (),
    language: str = "EN",
) -> Path:
    """Write Task 2's files, with the uses and pairs dealt to all of them in turn.

    Args:
        uses: MWE, sentence and label.
        pairs: MWE, sentence, paraphrase and whether it is correct.
    """
    a, b = folder / "subtask_a", folder / "subtask_b"
    labelled = "DataID Language MWE Setting Previous Target Next Label"
    for k, name in enumerate(("train_zero_shot", "train_one_shot")):
        rows = [(f"t{j}", language, m, name, "", s, "", c) for j, (m, s, c) in enumerate(uses)]
        table(a / f"{name}.csv", labelled, rows[k::3])
    rows = [(str(k), language, m, "", s, "") for k, (m, s, _) in enumerate(uses)]
    gold = [(str(k), f"dev.{k}", language, label) for k, (_, _, label) in enumerate(uses)]
    table(a / "dev.csv", "ID Language MWE Previous Target Next", rows[2::3])
    table(a / "dev_gold.csv", "ID DataID Language Label", gold[2::3][::-1])
    rows = [
        (f"t{k}", m, "None", language, s, p, "1" if right else "None", s, p)
        for k, (m, s, p, right) in enumerate(pairs)
    ]
    columns = "ID MWE1 MWE2 Language sentence_1 sentence_2 sim alternative_1 alternative_2"
    plain = ("sts", "None", "None", language, "A plane.", "An airplane.", "1", "", "")
    table(b / "train_data.csv", columns, [*rows[::2], plain])
    rows = [(str(k), language, m, "None", s, p) for k, (m, s, p, _) in enumerate(pairs)]
    gold = [
        (str(k), f"dev.{k}", language, "1" if right else "", str(k))
        for k, (*_, right) in enumerate(pairs)
    ]
    unused = [("x", language, MWES[0], "None", "not", "compared")]
    table(b / "dev.csv", "ID Language MWE1 MWE2 sentence1 sentence2", rows[1::2] + unused)
    table(b / "dev.gold.csv", "ID DataID Language sim otherID", gold[1::2])
    return folder


def both_senses(
    mwes: Sequence[str] = MWES, each: int = 6
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str, bool]]]:
    """Make uses of each MWE in both senses, each with a correct and an incorrect paraphrase."""
    uses, pairs = [], []
    for number, mwe in enumerate(mwes):
        for label, kind in (("0", "idiomatic"), ("1", "literal")):
            for k in range(each):
                sentence = f"Witness {number} saw {kind} number {k}, a {mwe} indeed."
                uses.append((mwe, sentence, label))
                for word, right in (("true", True), ("wrong", False)):
                    pairs.append((mwe, sentence, sentence.replace(mwe, f"{word} {kind}"), right))
    return uses, pairs


FILLERS = [
    (f"filler {name}", f"A filler {name}, {k}{label}.", label)
    for name in "ab"
    for label in "01"
    for k in range(2)
]
"""Two more MWEs, because there must be three."""
