import logging
from pathlib import Path

import pytest
from lexica import wiktionary, wordnet

from admire.core.errors import UserError
from admire.senses.dictionaries import WordNet, find_wordnet, look_up, open_dictionaries


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


@pytest.mark.parametrize(("end", "shift"), [("\n", 0), ("\r\n", 0), ("\n", 3)])
def test_what_wordnet_says(tmp_path: Path, end: str, shift: int):
    dictionary = WordNet(wordnet(tmp_path, end, shift))
    assert dictionary.identity.startswith("wordnet:")

    for expression, idiomatic, literal in (
        ("Spring chickens", ["someone of few years"], ["a tender chicken for the pan"]),
        ("flea market", ["a market of used things, out of doors"], []),
        ("black-sheep", ["who brings shame on a family"], ["a sheep whose wool is black"]),
        ("guinea pig", ["who is tried something out on"], ["a small plump rodent kept as a pet"]),
        ("cat_s eyes", ["a small reflector in the road"], []),
        ("spilled the secret beans", ["tell what was secret"], []),
        ("elbow grease", [], []),
    ):
        entries = look_up([dictionary], expression, "en")
        assert [*entries.glosses("idiomatic")] == idiomatic
        assert [*entries.glosses("literal")] == literal
    owl = look_up([dictionary], "nightowls", "en").idiomatic[0]
    assert (owl.expression, owl.source, owl.part) == ("night owl", "wordnet", "noun")
    assert (owl.tags, owl.examples) == (("noun.person",), ("she's an owl", "owls, all"))
    assert look_up([dictionary], "color-blind", "en").idiomatic[0].expression == "colour-blind"


def test_line_ends_do_not_change_wordnets_identity_but_words_do(tmp_path: Path):
    unix, windows = wordnet(tmp_path / "a"), wordnet(tmp_path / "b", "\r\n")
    assert WordNet(unix).identity == WordNet(windows).identity
    index = windows / "index.noun"
    index.write_bytes(index.read_bytes().replace(b"flea", b"free"))
    assert WordNet(unix).identity != WordNet(windows).identity


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = wordnet(tmp_path) / "data.noun"
    monkeypatch.setenv("ADMIRE_WORDNET", str(tmp_path))
    folder = find_wordnet()
    assert folder == tmp_path
    path.unlink()
    with pytest.raises(UserError, match=rf"{path}: cannot be read"):
        look_up([WordNet(folder)], "black sheep", "en")


def test_it_is_found_where_packages_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ADMIRE_WORDNET", raising=False)
    nltk = wordnet(tmp_path / "nltk" / "corpora" / "wordnet")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    folder = find_wordnet()
    assert folder == nltk or (folder / "index.noun").is_file()  # others come before
