import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import refused

from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.prompts import FOLDER, Prompts

SHOWN = ["A lamp is lit.", "An owl sleeps."]
VALUES = {
    "compound": "night owl",
    "sentence": "My sister is a night owl.",
    "sequence": SHOWN,
    "hint": ["who stays up late"],
    "word": "owl",
}
SHIPPED = sorted(file.name for file in FOLDER.glob("*.j2"))
OF_TEXTS = {"paraphrase_en.j2", "similarity_en.j2"}  #: prompts about texts that hold no compound
OF_CANDIDATES = {"likelihood_en.j2", "listwise_en.j2", "pairwise_en.j2", "pointwise_en.j2"}
"""Prompts that show candidates; test_rankers_shown.py is about them."""


@pytest.mark.parametrize("file", sorted({*SHIPPED} - OF_TEXTS - OF_CANDIDATES))
def test_a_shipped_prompt_holds_what_it_asks_about(file: str):
    prompt, language = file.removesuffix(".j2").split("_")
    text = Prompts().render(prompt, language, **VALUES)
    assert "night owl" in text
    # What a compound's words say, and neutral contexts, do not depend on the sentence.
    apart = ("literal", "neutral", "word", "words")
    needs = prompt not in apart and not prompt.startswith("sequence")
    assert ('"My sister is a night owl."' in text) == needs
    shows = prompt in ("sequence", "sequence-sense")
    assert all(caption in text for caption in SHOWN) == shows
    assert ('"who stays up late"' in text) == (prompt in ("idiomatic", "literal", "word"))
    assert ('"owl"' in text) == (prompt == "word")
    assert not re.search("{[{%]", text)
    assert text == text.strip()


def test_without_a_sentence_no_line_stands_for_it():
    item = Item("kıl payı 1", "", "tr")
    for prompt in ("idiomatic", "gloss"):
        text = Prompts().about(item, prompt)
        whole = Prompts().about(replace(item, sentence="Bir."), prompt)
        assert '""' not in text
        assert len(whole.splitlines()) == len(text.splitlines()) + 1


def test_votes_and_the_gloss_name_a_language_other_than_english():
    sentence = "Ele é uma ave rara."
    item = Item("ave rara", sentence, "pt-br")
    sense, gloss = (Prompts().about(item, prompt) for prompt in ("sense", "gloss"))
    assert f'Sentence in Portuguese: "{sentence}"' in sense
    assert 'Idiom in Portuguese: "ave rara"' in gloss
    shown = replace(item, sentence="", sequence=(Candidate("a.png", caption="A lamp."),))
    assert 'Phrase in Portuguese: "ave rara"' in Prompts().about(shown, "sequence-sense")
    for language in ("en", "xe", "qx"):  # English, and one that has no name here
        assert f'\nSentence: "{sentence}"' in Prompts().about(
            replace(item, language=language), "sense"
        )


def test_the_number_behind_a_compound_stays_out_of_prompts():
    item = Item("kıl payı 1", "Kıl payı kurtuldu.", "tr")
    for prompt in ("sense", "gloss", "idiomatic", "literal", "detect", "neutral"):
        text = Prompts().about(item, prompt)
        assert "kıl payı" in text
        assert "kıl payı 1" not in text


LEFT_OUT = Path(__file__).parents[2] / "shared" / "data" / "leave_out_compounds.txt"


@pytest.mark.skipif(not LEFT_OUT.is_file(), reason="needs ../shared/data/leave_out_compounds.txt")
@pytest.mark.parametrize("file", ["idiomatic_en.j2", "literal_en.j2"])
def test_no_example_in_a_prompt_is_a_compound_that_is_measured_on(file: str):
    text = (FOLDER / file).read_text().casefold()
    named = LEFT_OUT.read_text(encoding="utf-8").casefold().splitlines()
    assert [compound for compound in named if compound in text] == []


def test_a_folder_of_ones_own_lies_over_the_shipped_one(tmp_path: Path):
    (tmp_path / "sense_en.j2").write_text("Mine: {{ compound }}\n")
    (tmp_path / "gloss_pt.j2").write_text("O que é {{ compound }}?\n")
    prompts = Prompts(tmp_path)
    assert prompts.render("sense", "en", **VALUES) == "Mine: night owl"
    assert prompts.render("sense", "pt", **VALUES) == "Mine: night owl"
    assert prompts.render("gloss", "pt", **VALUES) == "O que é night owl?"
    assert prompts.render("gloss", "en", **VALUES) == Prompts().render("gloss", "en", **VALUES)


@pytest.mark.parametrize(
    "template", ["{{ compound", "{{ compoud }}", "{{ compound + 1 }}", "é {{ compound }}"]
)
def test_a_template_with_a_mistake_is_named(tmp_path: Path, template: str):
    (tmp_path / "sense_en.j2").write_text(template, encoding="latin-1")
    with pytest.raises(UserError, match="prompt template 'sense"):
        Prompts(tmp_path).render("sense", "en", **VALUES)


def test_what_is_no_folder_is_refused_at_once(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("x")
    for path in (file, tmp_path / "missing"):
        refused(path, read=Prompts)


def test_fingerprints_are_of_every_template_in_use(tmp_path: Path):
    own = {"sense_en.j2": b"mine", "gloss_pt.j2": b"minha"}
    for name, text in (own | {"notes.txt": b"no template"}).items():
        (tmp_path / name).write_bytes(text)
    shipped = Prompts().fingerprints
    assert sorted(shipped) == SHIPPED
    digests = {name: hashlib.sha256(text).hexdigest() for name, text in own.items()}
    assert Prompts(tmp_path).fingerprints == shipped | digests
