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
from admire.collections.index import index_texts, write_index
from admire.collections.search import SearchSettings, search_texts
from admire.collections.texts import read_texts
from admire.errors import UserError
from admire.items import Candidate, Item
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
    found = search_texts(text, "night owl", file, **toys())
    assert found.reading is not None
    assert (found.reading.sense.label, found.reading.gloss) == (sense, "someone who works late")
    assert found.texts[0][0].name == best
    scores = [score for _, score in found.texts]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_a_search_is_rank_with_the_texts_as_candidates(file):
    found = search_texts(IDIOMATIC, "night owl", file, SearchSettings(contrast=0.5), **toys())
    item = Item("night owl", IDIOMATIC, "en", candidates=tuple(read_texts(file)))
    scoring = Scoring(gate="soft", contrast=0.5, standardise=True)
    (peer,) = admire.rank(
        [item],
        Settings(track="caption", scoring=scoring),
        llms=[ScriptedChat(told)],
        encoder=WordEncoder(),
    ).rankings
    assert [text.name for text, _ in found.texts] == list(peer.order)
    scores = dict(zip("abc", peer.scores, strict=True))
    assert {text.name: score for text, score in found.texts} == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize(("query", "best"), [("compound", "c"), ("sentence", "c")])
def test_plain_cosine_asks_no_chat_model(file, query, best):
    models = toys()
    settings = SearchSettings(query=query, top=1)
    found = search_texts("Night owl on a branch", "Night owl", file, settings, **models)
    assert found.reading is None
    assert [text.name for text, _ in found.texts] == [best]
    assert models["llm"].prompts == []


def test_an_index_is_searched_like_its_file_but_only_with_its_encoder(file, tmp_path):
    write_index(read_texts(file), WordEncoder(), tmp_path / "index")
    wanted = search_texts(IDIOMATIC, "night owl", file, **toys()).texts
    for index in (tmp_path / "index", index_texts(read_texts(file), WordEncoder())):
        found = search_texts(IDIOMATIC, "night owl", index, **toys()).texts
        assert [text for text, _ in found] == [text for text, _ in wanted]
    other = WordEncoder()
    other.name, other.identity = "others", "others:1"
    message = (
        r"index: was made with the encoder 'words' \(words:1\), not with 'others' \(others:1\)"
    )
    with pytest.raises(UserError, match=message):
        search_texts(IDIOMATIC, "night owl", tmp_path / "index", encoder=other)


def test_a_folder_that_is_no_index_is_named(tmp_path):
    with pytest.raises(UserError, match="is no index, or damaged"):
        search_texts(IDIOMATIC, "night owl", tmp_path, **toys())


@pytest.mark.parametrize("span", ["early bird", ""])
def test_a_span_that_is_not_in_the_text_is_named(file, span):
    with pytest.raises(UserError) as caught:
        search_texts(IDIOMATIC, span, file, **toys())
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


# ---------------------------------------------------------------------------------- reading texts


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".tsv"])
def test_texts_of_every_kind_are_read_and_numbered_where_they_have_no_ids(tmp_path, suffix):
    path = write(tmp_path / f"texts{suffix}", [{"text": text} for text in LATE])
    numbers = "135" if suffix == ".txt" else "123"  # lines, some of them blank
    assert read_texts(path) == [
        Candidate(name, caption=text) for name, text in zip(numbers, LATE, strict=True)
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_ids_are_kept(tmp_path, suffix):
    rows = [{"id": "x 1", "text": "An owl.", "more": "y"}, {"id": "", "text": "A bat.", "more": ""}]
    found = read_texts(write(tmp_path / f"texts{suffix}", rows))
    assert found == [Candidate("x 1", caption="An owl."), Candidate("2", caption="A bat.")]


def test_ids_may_be_numbered_from_zero(tmp_path):
    path = write(tmp_path / "texts.jsonl", [{"id": k, "text": f"Owl {k}."} for k in range(3)])
    assert [one.name for one in read_texts(path)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", "[]", ": expected a .txt, .jsonl, .csv or .tsv file"),
        ("t.txt", "\n \n", ": the file is empty"),
        ("t.csv", "text\n", ": holds no texts"),
        ("t.jsonl", '{"text": "a"}\n{"text": ""}', ", row 2, text: is missing or empty"),
        ("t.jsonl", '{"text": "a"}\n\n{"id": 3}', ", row 3, text: is missing or empty"),
        ("t.jsonl", '{"text": 7}', ", row 1, text: is missing or empty"),
        ("t.jsonl", '{"text": "a"}\n[]', ", row 2: is not a JSON object"),
        ("t.jsonl", '{"text": "\\ud800"}', ", row 1: holds half a surrogate pair"),
        ("t.jsonl", '{"id": "x", "text": "a"}\n' * 2, ", row 2, id: 'x' stands in two rows"),
        ("t.csv", "id,text\nx,a\ny, \n", ", row 2, text: is missing or empty"),
        ("t.csv", "id,sentence\nx,a\n", ": the column 'text' is missing. The file has: id, sen"),
    ],
)
def test_file_row_and_column_of_what_cannot_be_used_are_named(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_texts(path)
    assert f"{path}{words}" in str(caught.value)
