"""Lexicons of the package ``wn`` from 1.0 on, and what is said of the older one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from lexica import lexical_markup

from admire.base.errors import UserError
from admire.senses.dictionaries import Lexicon, look_up, open_dictionaries

try:
    NEW = not version("wn").startswith("0.")
except PackageNotFoundError:
    NEW = False


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not NEW:
        pytest.skip("needs wn from 1.0 on")
    import wn

    monkeypatch.setattr(wn.config, "_dbpath", tmp_path / "wn.db")
    monkeypatch.setattr(wn.config, "_data_directory", tmp_path)


@pytest.fixture
def lexicons(empty: None, tmp_path: Path) -> None:
    import wn

    wn.config.allow_multithreading = True
    wn.add(lexical_markup(tmp_path / "made_up.xml"), progress_handler=None)


def test_what_it_says(lexicons: None):
    (dictionary,) = open_dictionaries(["wn:oewn"])
    assert (dictionary.name, dictionary.languages) == ("wn:oewn:1", {"en"})
    known = look_up([dictionary], "Black-Sheep", "en")
    (person,), (animal,) = known.idiomatic, known.literal
    assert (person.gloss, person.examples) == ("who brings shame on a family", ("our black sheep",))
    assert (animal.tags, animal.part, animal.source) == (("noun.animal",), "n", "wn:oewn:1")
    assert look_up([dictionary], "nightowls", "en").idiomatic[0].expression == "Night-owl"


def test_a_lexicon_without_glosses_takes_those_of_the_one_it_builds_on(lexicons: None):
    dictionary = Lexicon("omw-pt:1")
    (entry,) = look_up([dictionary], "ovelha negra", "pt-br").idiomatic
    assert (entry.expression, entry.gloss) == ("ovelha negra", "who brings shame on a family")
    assert dictionary.identity != Lexicon("oewn:1").identity
    assert dictionary.identity == Lexicon("omw-pt").identity


def test_threads_may_ask_it(lexicons: None):
    dictionary = Lexicon("oewn")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: len(dictionary.entries("blacksheep", "en")), range(50)))
    assert set(found) == {2}


def test_an_unknown_lexicon_is_told_what_there_is(lexicons: None):
    with pytest.raises(UserError, match=r"'wn:omw-fr:2'.*oewn:1, omw-pt:1"):
        Lexicon("omw-fr:2")


def test_what_to_do_about_an_empty_database_is_said_and_a_damaged_one_is_named(
    empty: None, tmp_path: Path
):
    with pytest.raises(UserError, match="python -m wn download"):
        Lexicon("oewn:2024")
    (tmp_path / "wn.db").write_bytes(b"no database" * 999)
    with pytest.raises(UserError, match="wn's database"):
        Lexicon("oewn")


def test_an_english_lexicon_serves_as_wordnet(lexicons: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("admire.senses.dictionaries.opening.find_wordnet", lambda: None)
    assert [lexicon.name for lexicon in open_dictionaries(["wordnet"])] == ["wn:oewn:1"]


@pytest.mark.parametrize("old", ["0.0.23", "0.9.5"])
def test_the_older_package_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
):
    (tmp_path / "wn").mkdir()
    (tmp_path / "wn" / "__init__.py").write_text("raise SystemExit('was imported')")
    about = tmp_path / f"wn-{old}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: wn\nVersion: {old}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=rf"{old} is installed.*pip install 'wn>=1,<2'") as caught:
        open_dictionaries(["wn:oewn:2024"])
    assert caught.value.settings == ("dictionaries",)


@pytest.mark.skipif(NEW, reason="wn is installed")
def test_without_the_package_it_is_told_what_to_install():
    with pytest.raises(UserError, match="pip install 'wn>=1,<2'"):
        open_dictionaries(["wn:oewn:2024"])
