import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st
from toys import OWL

from admire import Candidate, Item, UserError, rank, read_items
from admire.augment.captions import read_rewritten
from admire.data.limits import LIMITS, check_text
from admire.data.reader import take_items
from admire.data.submission import read_submission
from admire.senses.dictionaries import Glossary
from admire.senses.recorded_replies import open_replies
from admire.senses.sense_table import read_senses
from admire.senses.task2a import read_uses
from admire.tasks.retrieval.passages import read_passages
from admire.tasks.sts.pairs import read_pairs


def spoilt(column: str) -> list[tuple[str, str]]:
    most = LIMITS[column]
    return [
        ("x" * (most + 1), f"has {most + 1:,} characters, more than {most:,}"),
        ("x\0x", "contains a NUL character"),
        ("x\ud800x", "contains half a surrogate pair"),
    ]


@given(st.sampled_from([*LIMITS]), st.text(st.characters(exclude_characters="\0")))
def test_a_text_is_whatever_utf_8_can_hold(column: str, text: str):
    if text.isascii() or text.encode(errors="replace").decode() == text:
        folded = check_text(column, text)
        assert check_text(column, folded) == folded
        if re.fullmatch(r"(\w+ )*\w+", text, re.ASCII):
            assert folded == text
    else:
        with pytest.raises(ValueError, match="half a surrogate"):
            check_text(column, text)
    whole = "x" * LIMITS[column]
    assert check_text(column, whole) == whole


@pytest.mark.parametrize(
    "odd",
    [
        *("cold\u00a0feet", "cold\nfeet", "cold\tfeet", "cold\u2009feet", "cold \r\n feet"),
        *("co\u00adld\u200b feet\ufeff", "\u200ecold\u202a \u2060feet\u202c", "c\x07old\u3164feet"),
        *("cold\ufe0f feet\U000e0100", "co\u180bld\u115ffeet", "cold\u1160f\u17b4eet\U0001d173"),
    ],
)
def test_what_nobody_sees_is_not_read(odd: str):
    (item,) = take_items([Item(odd, f"He got {odd}.", candidates=(Candidate("a"),))])
    assert (item.compound, item.sentence) == ("cold feet", "He got cold feet.")
    assert not {*check_text("caption", odd)} - {*"cold feet\n"}


def test_letters_have_one_form_and_joiners_and_the_lines_of_captions_stay():
    for column in ("image", "sentence", "caption"):
        assert check_text(column, unicodedata.normalize("NFD", "maçã.png")) == "maçã.png"
    assert check_text("sentence", "می\u200cخواهم क्\u200dष") == "می\u200cخواهم क्\u200dष"
    assert check_text("caption", "**A**  b\r\n\n c\u2028d\xa0e") == "**A**  b\n\n c\nd e"


ROW = {
    "compound": "night owl",
    "sentence": "My sister is a night owl.",
    "candidates": [{"image": "a.png", "caption": "a bird"}, {"caption": "a lamp"}],
}
PLACES = [
    ("compound", "compound", lambda text: {"compound": text}),
    ("sentence", "sentence", lambda text: {"sentence": text}),
    ("language", "language", lambda text: {"language": text}),
    ("sentence_type", "sentence_type", lambda text: {"sentence_type": text}),
    ("expected_item", "image", lambda text: {"expected_item": text}),
    ("expected_order", "expected_order", lambda text: {"expected_order": text}),
    ("expected_order", "image", lambda text: {"expected_order": [text, "a.png"]}),
    ("candidate 1, image", "image", lambda text: one(image=text)),
    ("candidate 1, caption", "caption", lambda text: one(caption=text)),
    ("sequence 1, caption", "caption", lambda text: {"sequence": one(caption=text)["candidates"]}),
]


def one(**cells: str) -> dict[str, Any]:
    return {"candidates": [{"caption": "a bird", **cells}, {"caption": "a lamp"}]}


@pytest.mark.parametrize(("place", "column", "changes"), PLACES)
def test_a_row_in_memory(place: str, column: str, changes: Callable[[str], Any]):
    for text, why in spoilt(column):
        with pytest.raises(UserError, match=rf"rows, row 2.*, {place}: {why}") as caught:
            rank([ROW, ROW | changes(text)])
        assert len(str(caught.value).encode()) < 300


@pytest.mark.parametrize(
    ("place", "column", "changes"),
    [
        ("word", "word", lambda text: {"word": text}),
        ("expected_order 1", "image", lambda text: {"expected_order": (text, "a.png")}),
        ("candidate 1, name", "image", lambda text: {"candidates": (Candidate(text),)}),
        (
            "sequence 1, caption",
            "caption",
            lambda text: {"sequence": (Candidate("x", None, text),)},
        ),
    ],
)
def test_an_item_made_by_hand(place: str, column: str, changes: Callable[[str], Any]):
    for text, why in spoilt(column):
        with pytest.raises(UserError, match=rf"item 2, {place}: {why}"):
            rank([OWL, replace(OWL, **changes(text))])


CAPTIONS = {"image1_caption": "a bird", "image2_caption": "a lamp"}
ITEM = {"compound": "night owl", "sentence": "A night owl."}
USE = {"Language": "EN", "MWE": "night owl", "Target": "A night owl.", "Label": "0"}
VOTES = dict.fromkeys(("sentence_type", "predicted_type", "idiomatic", "literal", "unparsed"), "")
VOTES |= {"language": "en", "probability_idiomatic": "1", "by": ""}
ORDER = "['a.png', 'b.png']"
GLOSS = {"expression": "night owl", "language": "en", "sense": "", "gloss": "a bird"}
REWRITE = {"caption": "a", "kind": "paraphrase", "made_by": "x", "text": "b"}
PAIR = {"ID": "1", "Language": "EN", "MWE1": "night owl", "sentence1": "A", "sentence2": "B"}
PASSAGE = {"id": "1", "sentence": "A night owl.", "idiom": "night owl", "span": "night owl"}
PASSAGE["usage"] = "idiomatic"
CSV: dict[str, tuple[Callable[[Path], object], dict[str, str], str, str]] = {
    "set": (read_items, ITEM | CAPTIONS, "image2_caption", "caption"),
    "submission": (read_submission, ITEM | {"expected_order": ORDER}, "sentence", "sentence"),
    "uses": (read_uses, USE, "Previous", "text"),
    "senses": (read_senses, ITEM | VOTES, "predicted_type", "sentence_type"),
    "pairs": (read_pairs, PAIR, "sentence1", "sentence"),
    "replies": (open_replies, ITEM | {"sense": "literal", "meaning": "x"}, "meaning", "definition"),
    "glossary": (Glossary, GLOSS, "expression", "compound"),
    "rewrites": (read_rewritten, REWRITE, "text", "caption"),
}


@pytest.mark.parametrize("name", CSV)
def test_a_file(tmp_path: Path, name: str):
    reader, row, cell, column = CSV[name]
    path = tmp_path / f"{name}.csv"
    for text, why in spoilt(column)[:2]:
        rows = [row | {cell: row.get(cell, "")}, row | {cell: text}]
        pd.DataFrame(rows).to_csv(path, index=False)
        message = refused(path, "row 2", why, read=reader)
        place = re.sub("image(.)_(name|caption)", "candidate.*", cell)
        assert re.search(rf"{place}:? {why}", message)
        assert len(message) < 300 + len(str(path))


def test_a_recorded_meaning_is_a_text(tmp_path: Path):
    path = tmp_path / "recorded.csv"
    path.write_text("compound,sense,meaning\nelbow grease,idiomatic,x\nowl,idiomatic,nan\n")
    refused(path, "row 2, meaning: is 'nan', which programs write for no text", read=open_replies)


@pytest.mark.parametrize(("spoil", "why"), [("\0", "NUL"), ("\ud800", "half a surrogate pair")])
def test_json_with_escapes_that_are_no_text(tmp_path: Path, spoil: str, why: str):
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (ROW, ROW | {"sentence": spoil})))
    refused(path, "row 2", why)
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps(PASSAGE | {"sentence": f"A night owl{spoil}"}))
    refused(path, "row 1", why, read=read_passages)
