"""Princeton's WordNet, from small made-up files in its format."""

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
