"""How dictionaries are named and opened."""

import logging
from pathlib import Path

import pytest
from lexica import wiktionary, wordnet

from admire.core.errors import UserError
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
    ("names", "hint"),
    [
        (["kaiki:a.jsonl"], "Did you mean 'kaikki'"),
        (["glossary:"], "Available: glossary:FILE, kaikki:FILE, wordnet"),
        (["wordnet:x"], "'wordnet:x'"),
        ([""], "''"),
        (["glossary:nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_wrong_name_is_refused(names: list[str], hint: str):
    with pytest.raises(UserError, match=hint):
        open_dictionaries(names)


def test_without_a_wordnet_it_is_said_how_to_get_one(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "admire")
    monkeypatch.setattr("admire.senses.dictionaries.opening.find_wordnet", lambda: None)
    assert open_dictionaries(["wordnet"]) == ()
    (warning,) = caplog.messages
    assert "ADMIRE_WORDNET" in warning
