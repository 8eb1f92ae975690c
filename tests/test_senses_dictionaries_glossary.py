"""Glossaries: tables of one's own."""

from pathlib import Path

import pytest
from conftest import refused

from admire.senses.dictionaries import Glossary, look_up

HEAD = "expression,language,sense,gloss"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_what_it_says(tmp_path: Path, end: str, suffix: str, mark: str):
    rows = [
        HEAD + ",note",
        "Night-Owl,en,idiomatic,an owl at night,x",
        "night owl,en,literal,a bird,",
        "null,en,,nothing,",
        f"pé frio,pt-BR,,{'x' * 100_000},",
    ]
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
def test_a_wrong_cell_is_named(tmp_path: Path, text: str, place: str):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    refused(path, place, read=Glossary)
