"""Princeton's WordNet, from small made-up files in its format."""

from __future__ import annotations

from pathlib import Path

import pytest
from lexica import wordnet

from admire.core.errors import UserError
from admire.senses.dictionaries import WordNet, find_wordnet, look_up


@pytest.mark.parametrize(("end", "shift"), [("\n", 0), ("\r\n", 0), ("\n", 3)])
def test_what_it_says(tmp_path: Path, end: str, shift: int):
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


def test_line_ends_do_not_change_its_identity_but_words_do(tmp_path: Path):
    unix, windows = wordnet(tmp_path / "a"), wordnet(tmp_path / "b", "\r\n")
    assert WordNet(unix).identity == WordNet(windows).identity
    index = windows / "index.noun"
    index.write_bytes(index.read_bytes().replace(b"flea", b"free"))
    assert WordNet(unix).identity != WordNet(windows).identity


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("data.noun", b" 01 black_sheep", b" zz black_sheep"),
        ("data.noun", b"\n0", b"\n9"),
        ("index.noun", b"black_sheep n 2", b"black_sheep n many"),
        ("index.noun", b"black_sheep n 2", b"black_sheep n 99"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, old: bytes, new: bytes):
    path = wordnet(tmp_path) / file
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(UserError, match=rf"{tmp_path}: .* is damaged at 'black_sheep'"):
        look_up([WordNet(tmp_path)], "black sheep", "en")


@pytest.mark.parametrize(("old", "new"), [(b" | who brings", b" who brings"), (b"wool", b"\xff")])
def test_other_damage_stays_where_it_is(tmp_path: Path, old: bytes, new: bytes):
    path = wordnet(tmp_path) / "data.noun"
    path.write_bytes(path.read_bytes().replace(old, new))
    assert look_up([WordNet(tmp_path)], "black sheep", "en").literal
    assert look_up([WordNet(tmp_path)], "night owl", "en").idiomatic


def test_a_folder_without_a_file_is_no_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (wordnet(tmp_path) / "data.adv").unlink()
    monkeypatch.setenv("ADMIRE_WORDNET", str(tmp_path))
    assert find_wordnet() == tmp_path
    with pytest.raises(UserError, match=r"data\.adv") as caught:
        WordNet(tmp_path)
    assert caught.value.settings == ("dictionaries",)


def test_it_is_found_where_packages_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ADMIRE_WORDNET", raising=False)
    nltk = wordnet(tmp_path / "nltk" / "corpora" / "wordnet")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    folder = find_wordnet()
    assert folder == nltk or (folder / "index.noun").is_file()  # others come before
    monkeypatch.setenv("ADMIRE_WORDNET", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"ADMIRE_WORDNET.*nowhere"):
        find_wordnet()
