import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import answer
from toys import PictureEncoder, ScriptedChat, WordEncoder, explains

from admire import rank
from admire.apps.search import (
    SearchResult,
    SearchSettings,
    index_texts,
    read_texts,
    search_index,
    write_index,
)
from admire.apps.search.encoding import EncoderRecord
from admire.apps.search.index import EntriesInMemory, Index
from admire.apps.search.search import scoring_for
from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.rankers.settings import Scoring, Settings

LATE = ["Someone who works late at night.", "A bird on a branch.", "A night owl on a branch."]
IDIOMATIC = "A Night Owl codes this."
LITERAL = "The night owl flew off."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"id": name, "text": text} for name, text in zip("abc", LATE, strict=True)]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def toys() -> dict[str, Any]:
    return {"llm": ScriptedChat(answer), "encoder": WordEncoder()}


def check_like(result: SearchResult, peer: Any, names: Iterable[str]) -> None:
    assert [entry.name for entry, _ in result.entries] == list(peer.order)
    scores = {entry.name: score for entry, score in result.entries}
    assert scores == pytest.approx(dict(zip(names, peer.scores, strict=True)), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "sense", "best"), [(IDIOMATIC, "idiomatic", "a"), (LITERAL, "literal", "c")]
)
def test_a_search_is_rank_with_the_texts_as_candidates(file, text, sense, best):
    result = search_index(text, "night owl", str(file), SearchSettings(contrast=0.0), **toys())
    assert result.reading is not None
    assert (result.reading.sense.label, result.reading.gloss) == (sense, "someone who works late")
    assert result.entries[0][0].name == best
    item = Item("night owl", text, "en", candidates=tuple(read_texts(file)))
    settings = Settings(track="caption", scoring=Scoring.paper(gate="soft", standardise="item"))
    run = rank([item], settings, llms=[ScriptedChat(answer)], encoder=WordEncoder())
    (peer,) = run.rankings
    check_like(result, peer, "abc")


SHOWN = {
    "bird.png": ("a bird with wings", "a night owl"),
    "late.png": ("a person awake late", "a lamp at night"),
    "owl.png": ("an owl in a tree", None),
    "red.png": ("a red bicycle", None),
}
"""What pictures show, and their captions."""


@pytest.mark.parametrize("sense", ["Idiomatic", "Literal"])
@pytest.mark.parametrize(
    "changes", [{}, {"image_weight": 0.5, "texts": ("gloss", "scene", "compound")}]
)
def test_pictures_are_found_as_rank_would_order_them(tmp_path, sense, changes):
    changes = {"contrast": 0.0} | changes  # in a collection unlikeness is no gain
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name, (shows, caption) in SHOWN.items():
        (pictures / name).write_text(shows)
        if caption:
            (pictures / name).with_suffix(".txt").write_text(caption)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    candidates = (Candidate(name, pictures / name, text) for name, (_, text) in SHOWN.items())
    item = Item("night owl", "My sister is a night owl.", "en", candidates=tuple(candidates))
    models = {"llm": explains(sense), "encoder": PictureEncoder()}
    asked = item.sentence, "night owl", tmp_path / "index", SearchSettings(**changes)
    result = search_index(*asked, **models)
    settings = Settings(scoring=replace(Scoring(standardise="item"), **changes))
    (peer,) = rank([item], settings, llms=[explains(sense)], encoder=PictureEncoder()).rankings
    assert result.pictures
    check_like(result, peer, SHOWN)


def test_pictures_of_a_weak_encoder_count_less_beside_captions():
    def scoring(name: str, *tracks: str, **changes: Any) -> Scoring:
        encoder = EncoderRecord(name=name, identity=name)
        index = Index(encoder, tracks, EntriesInMemory([], {}))
        return scoring_for(SearchSettings(**changes), index)

    item = Scoring(standardise="item")
    assert scoring("sight", "image", "caption") == replace(item, image_weight=0.5)
    assert scoring("sight", "image", "caption", image_weight=2.0).image_weight == 2
    assert scoring("sight", "image") == scoring("mclip:x", "image", "caption") == item
    assert scoring("e5", "caption") == Scoring.paper(gate="soft", standardise="item")


@pytest.mark.parametrize("query", ["compound", "sentence"])
def test_plain_cosine_asks_no_chat_model(file, query):
    models = toys()
    settings = SearchSettings(query=query, top=1)
    result = search_index("Night owl on a branch", "Night owl", file, settings, **models)
    assert result.reading is None
    assert [text.name for text, _ in result.entries] == ["c"]
    assert models["llm"].prompts == []


def test_an_index_is_searched_like_its_file_but_only_with_its_encoder(file, tmp_path):
    write_index(file, WordEncoder(), tmp_path / "index")
    expected = search_index(IDIOMATIC, "night owl", file, **toys()).entries
    for index in (tmp_path / "index", index_texts(read_texts(file), WordEncoder())):
        entries = search_index(IDIOMATIC, "night owl", index, **toys()).entries
        assert [text for text, _ in entries] == [text for text, _ in expected]
    other = WordEncoder()
    other.name, other.identity = "others", "others:1"
    with pytest.raises(UserError, match=r"index: .*'words' \(words:1\).*'others' \(others:1\)"):
        search_index(IDIOMATIC, "night owl", tmp_path / "index", encoder=other)


@pytest.mark.parametrize("span", ["early bird", ""])
def test_a_span_that_is_not_in_the_text_is_named(file, span):
    with pytest.raises(UserError, match=f"'{span}' is not in it: “{IDIOMATIC}”") as caught:
        search_index(IDIOMATIC, span, file, **toys())
    assert caught.value.settings == ("span",)
