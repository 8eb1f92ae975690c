"""Small retrieval benchmarks, the files that they are made of, and an encoder for their queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from toys import PictureEncoder, ScriptedChat, WordEncoder

from admire.models.encoders import Query
from admire.tasks.retrieval.passages import Passage, Split


def passage(name: str, sentence: str, usage: str = "idiomatic", **changes: Any) -> Passage:
    given = {"idiom": "night owl", "span": "night owl", "subject": ""} | changes
    return Passage(name, sentence, usage=usage, **given)


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
    """Sentences of random words, so that k1 and b matter to their order."""
    rng = np.random.default_rng(seed)

    def one(name: str) -> Passage:
        usage = str(rng.choice(["literal", "idiomatic"]))
        text = " ".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), rng.integers(3, 40)))
        return passage(name, text, usage, idiom=str(rng.choice(["x", "y"])), span=text[:3])

    return Split(tuple(one(f"q{k}") for k in range(6)), tuple(one(f"d{k}") for k in range(40)))


PIES = ("night owl", "red lamp", "big bird", "green desk", "blue tree", "small circle")


def pies(names: Sequence[str] = PIES, queries: str = "a {} in the tree") -> Split:
    """Literally a PIE stands on things, idiomatically it writes. The words are those of towers."""
    asked, documents = [], []
    for k, pie in enumerate(names):

        def one(
            name: str, text: str, usage: str, span: str = "", pie: str = pie, k: int = k
        ) -> Passage:
            return passage(
                name.replace("#", str(k)), text.format(pie), usage, idiom=pie, span=span or pie
            )

        asked += [
            one("q#l", queries, "literal"),
            one("q#i", "my sister is the {} who writes", "idiomatic"),
        ]
        documents += [
            one("d#l1", "a big {} on the desk", "literal"),
            one("d#l2", "the {} is in a small square", "literal"),
            one("d#i1", "a real {} writes at midnight", "idiomatic"),
            one("d#i2", "the woman is a {}", "idiomatic"),
            one("d#s", "a sister who writes", "simplification", "sister"),
            one("d#m", "a man at midnight", "sense", "man"),
        ]
    return Split(tuple(asked), tuple(documents))


class Listener(WordEncoder):
    """Takes prompts and spans, and remembers what it was asked."""

    def __init__(self, name: str = "words"):
        self.name = name
        self.asked: list[Query] = []

    def encode_queries(self, queries):
        self.asked += queries
        texts = [q.text[slice(*q.span)] if q.span else q.text for q in queries]
        return super().encode_texts(texts, role="query")


def told(prompt: str) -> str:
    """A chat model's answers: idiomatic where codes are written, else literal; one gloss."""
    if "or literally" in prompt:
        return "Idiomatic" if "codes" in prompt else "Literal"
    return "someone who works late"


def toys_opened(monkeypatch: pytest.MonkeyPatch, room: str) -> list[Any]:
    """Toys in place of the models that a task's command opens; what was asked for."""
    opened: list[Any] = []

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options.get("device")))
        encoder = PictureEncoder() if name in ("sight", "pictures") else WordEncoder()
        encoder.name, encoder.identity = name, f"{name}:1"
        return encoder

    def open_llm(name: str, *, url: str | None, dictionaries: Sequence[str]) -> ScriptedChat:
        opened.append((name, url))
        return ScriptedChat(told)

    monkeypatch.setattr("admire.models.encoders.open_encoder", open_encoder)
    monkeypatch.setattr(f"admire.tasks.{room}.open_encoder", open_encoder)
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
    """Task 2's files, uses (MWE, sentence, label) and pairs (MWE, sentence, paraphrase, correct)
    dealt to all of them in turn."""
    a, b = folder / "subtask_a", folder / "subtask_b"
    labelled = "DataID Language MWE Setting Previous Target Next Label"
    for k, name in enumerate(("train_zero_shot", "train_one_shot")):
        rows = [
            (f"t{j}", language, m, name, "", s, "", label) for j, (m, s, label) in enumerate(uses)
        ]
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
        for k, (_, _, _, right) in enumerate(pairs)
    ]
    unused = [("x", language, MWES[0], "None", "not", "compared")]
    table(b / "dev.csv", "ID Language MWE1 MWE2 sentence1 sentence2", rows[1::2] + unused)
    table(b / "dev.gold.csv", "ID DataID Language sim otherID", gold[1::2])
    return folder


def both_senses(
    mwes: Sequence[str] = MWES, each: int = 6
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str, bool]]]:
    """Uses of each MWE in both senses, and a right and a wrong paraphrase of each sentence."""
    uses, pairs = [], []
    for number, mwe in enumerate(mwes):
        for label, kind in (("0", "idiomatic"), ("1", "literal")):
            for k in range(each):
                sentence = f"Witness {number} saw {kind} number {k}, a {mwe} indeed."
                uses.append((mwe, sentence, label))
                words = f"true {kind}", f"wrong {kind}"
                for word, right in zip(words, (True, False), strict=True):
                    pairs.append((mwe, sentence, sentence.replace(mwe, word), right))
    return uses, pairs


FILLERS = [
    (f"filler {name}", f"A filler {name}, {k}{label}.", label)
    for name in "ab"
    for label in "01"
    for k in range(2)
]
"""Two more MWEs, because there must be three."""
