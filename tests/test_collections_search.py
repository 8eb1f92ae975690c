from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import told
from toys import ScriptedChat, WordEncoder

import admire
from admire.collections import SearchSettings, index_texts, read_texts, search_index, write_index
from admire.errors import UserError
from admire.items import Item
from admire.scorer import Scoring
from admire.settings import Settings

LATE = ["Someone who works late at night.", "A bird on a branch.", "A night owl on a branch."]
IDIOMATIC = "A Night Owl codes this."
LITERAL = "The night owl flew off."


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    elif path.suffix == ".txt":
        path.write_text("\n\n".join(row["text"] for row in rows))
    else:
        with path.open("w", newline="") as file:
            kind = csv.excel_tab if path.suffix == ".tsv" else csv.excel
            writer = csv.DictWriter(file, list(rows[0]), dialect=kind)
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"id": name, "text": text} for name, text in zip("abc", LATE, strict=True)]
    return write(tmp_path / "texts.jsonl", rows)


def toys() -> dict[str, Any]:
    return {"llm": ScriptedChat(told), "encoder": WordEncoder()}


# ------------------------------------------------------------------------------------- searching


@pytest.mark.parametrize(
    ("text", "sense", "best"), [(IDIOMATIC, "idiomatic", "a"), (LITERAL, "literal", "c")]
)
def test_a_search_answers_in_the_sense_that_is_meant(file, text, sense, best):
    found = search_index(text, "night owl", file, **toys())
    assert found.reading is not None
    assert (found.reading.sense.label, found.reading.gloss) == (sense, "someone who works late")
    assert found.things[0][0].name == best
    scores = [score for _, score in found.things]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_a_search_is_rank_with_the_texts_as_candidates(file):
    found = search_index(IDIOMATIC, "night owl", file, SearchSettings(contrast=0.5), **toys())
    item = Item("night owl", IDIOMATIC, "en", candidates=tuple(read_texts(file)))
    scoring = Scoring(gate="soft", contrast=0.5, standardise=True)
    (peer,) = admire.rank(
        [item],
        Settings(track="caption", scoring=scoring),
        llms=[ScriptedChat(told)],
        encoder=WordEncoder(),
    ).rankings
    assert [text.name for text, _ in found.things] == list(peer.order)
    scores = dict(zip("abc", peer.scores, strict=True))
    assert {text.name: score for text, score in found.things} == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize(("query", "best"), [("compound", "c"), ("sentence", "c")])
def test_plain_cosine_asks_no_chat_model(file, query, best):
    models = toys()
    settings = SearchSettings(query=query, top=1)
    found = search_index("Night owl on a branch", "Night owl", file, settings, **models)
    assert found.reading is None
    assert [text.name for text, _ in found.things] == [best]
    assert models["llm"].prompts == []


def test_an_index_is_searched_like_its_file_but_only_with_its_encoder(file, tmp_path):
    write_index(file, WordEncoder(), tmp_path / "index")
    wanted = search_index(IDIOMATIC, "night owl", file, **toys()).things
    for index in (tmp_path / "index", index_texts(read_texts(file), WordEncoder())):
        found = search_index(IDIOMATIC, "night owl", index, **toys()).things
        assert [text for text, _ in found] == [text for text, _ in wanted]
    other = WordEncoder()
    other.name, other.identity = "others", "others:1"
    message = (
        r"index: was made with the encoder 'words' \(words:1\), not with 'others' \(others:1\)"
    )
    with pytest.raises(UserError, match=message):
        search_index(IDIOMATIC, "night owl", tmp_path / "index", encoder=other)


def test_a_folder_that_is_no_index_is_named(tmp_path):
    with pytest.raises(UserError, match="is no index, or damaged"):
        search_index(IDIOMATIC, "night owl", tmp_path, **toys())


@pytest.mark.parametrize("span", ["early bird", ""])
def test_a_span_that_is_not_in_the_text_is_named(file, span):
    with pytest.raises(UserError) as caught:
        search_index(IDIOMATIC, span, file, **toys())
    assert str(caught.value) == f"span: '{span}' is not in it: “{IDIOMATIC}”."
    assert caught.value.settings == ("span",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": "compund"}, "Did you mean 'compound'?"),
        ({"top": 0}, "top cannot be 0: it is a whole number of at least 1"),
        ({"contrast": -1.0}, "contrast cannot be -1.0"),
        ({"sense": "votes"}, "Did you mean 'vote'?"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        SearchSettings(**changes)
