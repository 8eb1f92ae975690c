import os
from pathlib import Path

import pytest
from conftest import refused
from lexica import WIKTIONARY, wiktionary

from admire.core.progress import progress_told_to
from admire.core.storage import cache_dir
from admire.senses.dictionaries import Glossary, Kaikki, look_up
from admire.senses.dictionaries.entries import GLOSS


def indexes() -> list[str]:
    return sorted(path.name for path in (cache_dir() / "dictionaries").glob("*"))


@pytest.mark.parametrize("name", ["words.jsonl", "words.jsonl.gz"])
def test_what_wiktionary_says(tmp_path: Path, name: str):
    path = wiktionary(tmp_path / name)
    told: list[tuple[int, int]] = []
    with progress_told_to(lambda what, done, total: told.append((done, total))):
        dictionary = Kaikki(path)

    assert told[-1] == (100, 100)
    assert dictionary.languages == {"en", "pt", "zh"}
    known = look_up([dictionary], "Nightowls", "en")
    (person,), (bird,) = known.idiomatic, known.literal
    assert (person.expression, person.gloss) == ("night owl", "Awake at night.")
    assert (person.tags, person.examples, person.part) == (("idiomatic",), ("Owls!",), "noun")
    assert bird.gloss == "An owl of the night."
    assert look_up([dictionary], "pé-frio", "pt-br").idiomatic[0].source == f"kaikki:{path}"
    (snake,) = look_up([dictionary], "画蛇添足", "zh").idiomatic
    assert len(snake.gloss) == GLOSS
    assert dictionary.entries("nightowl", "pt") == []


def test_it_is_read_once_and_again_when_it_has_changed(tmp_path: Path):
    path = wiktionary(tmp_path / "words.jsonl")
    first = Kaikki(path)
    made = indexes()

    with progress_told_to(lambda *_: pytest.fail("read again")):
        assert Kaikki(path).identity == first.identity
    compressed = wiktionary(tmp_path / "same.jsonl.gz")
    assert Kaikki(compressed).identity == first.identity

    wiktionary(path, [*WIKTIONARY, {**WIKTIONARY[1], "word": "early bird"}])
    second = Kaikki(path)
    assert second.identity != first.identity
    assert second.entries("earlybird", "en")
    assert made[0] in indexes()
    assert len(indexes()) == 2  # a file has one index


def test_a_damaged_index_is_made_again(tmp_path: Path):
    path = wiktionary(tmp_path / "words.jsonl")
    identity = Kaikki(path).identity
    (name,) = indexes()
    (cache_dir() / "dictionaries" / name).write_bytes(b"no database at all" * 99)
    assert Kaikki(path).identity == identity


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b'{"word": "night owl", "senses": [', "row 3"),
        (b'{"word": "a", "senses": [{"glosses": "b"}]}', "row 3, senses[0].glosses"),
        (b'{"word": "\xff"}', "row 3"),
        (b'{"word": "\\ud800"}', "row 3"),
        (b"[" * 100_000, "row 3"),
    ],
)
def test_a_damaged_line_is_named_and_leaves_nothing(tmp_path: Path, line: bytes, place: str):
    path = wiktionary(tmp_path / "words.jsonl", WIKTIONARY[:1])
    path.write_bytes(path.read_bytes() + b"\n" + line + b"\n")
    refused(path, place, read=Kaikki)
    assert indexes() == []


def test_a_cut_archive_is_damaged(tmp_path: Path):
    path = wiktionary(tmp_path / "words.jsonl.gz")
    whole = path.read_bytes()
    for content, row in ((whole[:-20], ""), (whole[:-4], ""), (b"no archive", "1")):
        path.write_bytes(content)
        refused(path, f", row {row}", read=Kaikki)
        assert indexes() == []


def test_a_killed_indexing_leaves_nothing_half_written(tmp_path: Path):
    path = wiktionary(tmp_path / "words.jsonl", WIKTIONARY * 50)
    if not (child := os.fork()):
        with progress_told_to(lambda what, done, total: os.kill(os.getpid(), 9)):
            Kaikki(path)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert [name for name in indexes() if not name.startswith(".")] == []
    assert len(Kaikki(path).entries("nightowl", "en")) == 100
    assert len(indexes()) == 1


HEAD = "expression,language,sense,gloss"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_what_a_glossary_says(tmp_path: Path, end: str, suffix: str, mark: str):
    rows = [HEAD + ",note", "Night-Owl,en,idiomatic,an owl at night,x"]
    rows += ["night owl,en,literal,a bird,", "null,en,,nothing,"]
    rows += [f"pé frio,pt-BR,,{'x' * 100_000},"]
    path = tmp_path / f"mine.{suffix}"
    path.write_bytes(end.join(rows).replace(",", mark).encode())
    dictionary = Glossary(path)

    known = look_up([dictionary], "night owls", "xe")
    assert [one.gloss for one in known.idiomatic] == ["an owl at night"]
    assert [one.gloss for one in known.literal] == ["a bird"]
    assert known.idiomatic[0].tags == ("idiomatic",)
    assert look_up([dictionary], "null", "en").idiomatic[0].tags == ()
    assert len(look_up([dictionary], "Pé-frio", "pt").idiomatic[0].gloss) == 300
    assert dictionary.languages == {"en", "pt"}
    assert dictionary.identity.startswith("glossary:")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("expression,language,gloss\na,en,b", "'sense'"),
        (f"{HEAD}\na,en,,b\na,en,figurative,b", "row 2, sense: cannot be 'figurative'"),
    ],
)
def test_a_wrong_cell_of_a_glossary_is_named(tmp_path: Path, text: str, place: str):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    refused(path, place, read=Glossary)
