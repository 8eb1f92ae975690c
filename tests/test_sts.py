"""Idiomatic STS: files of pairs and of groups, evaluation, ratings by a chat model, expressions as
tokens, and the command."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from commands import chat_server, run
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from toys import WordEncoder

from admire.encoders.cached import CachedEncoder
from admire.errors import UserError
from admire.prompts import Prompts
from admire.sts import mwes
from admire.sts.evaluation import (
    compare,
    evaluate,
    rate,
    read_rating,
    spearman,
    write_submission,
)
from admire.sts.pairs import Group, Pair, read_groups, read_pairs, without

Row = dict[str, str]


def dev(name: str = "1", **changes: str) -> Row:
    """A row of Task 2B's dev file."""
    return {
        "ID": name,
        "Language": "EN",
        "MWE1": "night owl",
        "MWE2": "None",
        "sentence1": "My sister is a night owl.",
        "sentence2": "My sister is a late sleeper.",
    } | changes


def gold(name: str = "1", sim: str = "1", other: str = "", **changes: str) -> Row:
    return {"ID": name, "DataID": "d", "Language": "EN", "sim": sim, "otherID": other} | changes


def train(name: str = "t.1", **changes: str) -> Row:
    """A row of Task 2B's training file."""
    return {
        "ID": name,
        "MWE1": "night owl",
        "MWE2": "None",
        "Language": "EN",
        "sentence_1": "My sister is a night owl.",
        "sentence_2": "My sister is a late sleeper.",
        "sim": "1",
        "alternative_1": "",
        "alternative_2": "",
    } | changes


def wrong(name: str = "t.2", **changes: str) -> Row:
    """A row with an incorrect paraphrase."""
    return train(
        name,
        sentence_2="My sister is a dark bird.",
        sim="None",
        alternative_1="My sister is a late sleeper.",
        alternative_2="My sister is a dark bird.",
        **changes,
    )


TABLE_6 = (
    {
        "S": "有的网友{付之一笑}, 同时也有15名网友积极响应",
        "A_c": "有的网友{一笑了之}, 同时也有15名网友积极响应",
        "A_i": "有的网友{大笑不止}, 同时也有15名网友积极响应",
        "sim": "",
    },
    {
        "S": "这个丑闻有可能使政治生涯{戛然而止}。",
        "A_c": "这个丑闻有可能使政治生涯{突然中断}。",
        "A_i": "",
        "sim": "1.0",
    },
    {
        "S": "然而, 大多数白马皮肤呈粉红色。",
        "A_c": "",
        "A_i": "然而, 大多数粉红马有白色皮肤。",
        "sim": "0.0",
    },
)
BENCHMARK = "split\tgenre\tdataset\tyear\tsid\tscore\tsentence1\tsentence2\n"


def benchmark(*rows: Sequence[str]) -> str:
    """STS Benchmark's text of rows with split, score and two sentences."""
    lines = (f"{s}\tg\td\t2012\t1\t{score}\t{a}\t{b}\n" for s, score, a, b in rows)
    return BENCHMARK + "".join(lines)


def assin(*rows: Sequence[str]) -> str:
    """ASSIN2's text of rows with a similarity and two sentences."""
    root = ElementTree.Element("entailment-corpus")
    for number, (similarity, first, second) in enumerate(rows, start=1):
        pair = ElementTree.SubElement(root, "pair", id=f"{number}", similarity=similarity)
        ElementTree.SubElement(pair, "t").text = first
        ElementTree.SubElement(pair, "h").text = second
    return ElementTree.tostring(root, encoding="unicode")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_text(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


# ------------------------------------------------------------------------------- reading pairs


def test_the_dev_file_takes_similarities_from_its_gold_or_those_of_another_pair(write_table):
    data = write_table(
        dev("7"),
        dev("8", sentence2="My sister is a dark bird."),
        dev("9", sentence1="My sister is a late sleeper.", sentence2="My sister is a dark bird."),
        dev("10", Language="PT", MWE1="None", sentence1="Um homem.", sentence2="Uma mulher."),
        name="dev.csv",
    )
    told = write_table(
        gold("10", "0.35"), gold("8", "", "9"), gold("7", "1", "9"), name="dev.gold.csv"
    )
    late, bird = "My sister is a late sleeper.", "My sister is a dark bird."
    owl = "My sister is a night owl."
    found = read_pairs(data, told)
    assert found == [
        Pair("7", "en", owl, late, 1.0, None, "night owl"),
        Pair("8", "en", owl, bird, None, (late, bird), "night owl"),
        Pair("9", "en", late, bird, None, None, "night owl"),
        Pair("10", "pt", "Um homem.", "Uma mulher.", 0.35, None, None),
    ]
    assert [pair.gold for pair in found] == [True, True, False, True]


def test_the_dev_file_can_be_read_without_its_gold(write_table):
    (pair,) = read_pairs(write_table(dev(), name="dev.csv"))
    assert (pair.similarity, pair.reference, pair.gold) == (None, None, False)


def test_the_training_file_tells_similarities_or_alternatives_itself(write_table):
    data = write_table(
        train(), wrong(), train("t.3", MWE1="", sim="0.25", Language="gl"), name="train.csv"
    )
    first, second, third = read_pairs(data)
    assert (first.similarity, first.reference, first.mwe) == (1.0, None, "night owl")
    assert second == Pair(
        "t.2",
        "en",
        "My sister is a night owl.",
        "My sister is a dark bird.",
        None,
        ("My sister is a late sleeper.", "My sister is a dark bird."),
        "night owl",
    )
    assert (third.similarity, third.mwe, third.language) == (0.25, None, "gl")


@pytest.mark.parametrize("name", ["chengyu.csv", "chengyu.tsv"])
def test_chengyusts_has_its_idioms_in_braces_as_table_6_prints_them(write_table, name):
    first, second, third = read_pairs(write_table(*TABLE_6, name=name))
    assert first == Pair(
        "1",
        "zh",
        "有的网友付之一笑, 同时也有15名网友积极响应",
        "有的网友大笑不止, 同时也有15名网友积极响应",
        None,
        (
            "有的网友一笑了之, 同时也有15名网友积极响应",
            "有的网友大笑不止, 同时也有15名网友积极响应",
        ),
        "付之一笑",
    )
    assert second == Pair(
        "2",
        "zh",
        "这个丑闻有可能使政治生涯戛然而止。",
        "这个丑闻有可能使政治生涯突然中断。",
        1.0,
        None,
        "戛然而止",
    )
    assert third == Pair(
        "3",
        "zh",
        "然而, 大多数白马皮肤呈粉红色。",
        "然而, 大多数粉红马有白色皮肤。",
        0.0,
        None,
        None,
    )


def test_chengyusts_may_have_its_idioms_and_ids_in_columns(write_table):
    rows = [
        {name: cell.replace("{", "").replace("}", "") for name, cell in row.items()}
        | {"idiom": idiom, "ID": f"c{idiom}"}
        for row, idiom in zip(TABLE_6, ("付之一笑", "戛然而止", ""), strict=True)
    ]
    marked = read_pairs(write_table(*TABLE_6, name="marked.csv"))
    found = read_pairs(write_table(*rows, name="column.csv"))
    assert found == [replace(m, name=r["ID"]) for m, r in zip(marked, rows, strict=True)]


def test_a_quotation_mark_of_the_sts_benchmark_is_a_character(write):
    text = benchmark(
        ("train", "5.000", 'He said "no.', "He declined."),
        ("train", "2.5", "A man.", '"A woman.'),
        ("dev", "0", '"', "NA"),
    )
    found = read_pairs(write("sts.tsv", text))
    assert [(p.first, p.second, p.similarity) for p in found] == [
        ('He said "no.', "He declined.", 1.0),
        ("A man.", '"A woman.', 0.5),
        ('"', "NA", 0.0),
    ]
    assert {(p.language, p.mwe, p.reference) for p in found} == {("en", None, None)}


def test_a_split_of_the_sts_benchmark_is_chosen(write):
    rows = [(split, "1", f"A {split}.", "One.") for split in ("train", "dev", "test", "dev")]
    path = write("sts.tsv", benchmark(*rows).replace("\n", "\r\n"))
    assert len(read_pairs(path)) == 4
    found = read_pairs(path, split="dev")
    assert [(pair.name, pair.first) for pair in found] == [("2", "A dev."), ("4", "A dev.")]


def test_assin_has_its_scores_divided_by_5(write):
    path = write("assin.xml", assin(("4.5", "Um cão & um gato", "“Dois” <animais>")))
    assert read_pairs(path) == [Pair("1", "pt", "Um cão & um gato", "“Dois” <animais>", 0.9)]


CELLS = st.text(
    st.one_of(
        st.sampled_from(",;'\"\n é|“”{}\\NAx"),
        st.characters(exclude_categories=("Cs", "Cc", "Cn"), exclude_characters="\u2028\u2029"),
    ),
    min_size=1,
).filter(lambda text: text == text.strip())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@given(rows=st.lists(st.tuples(CELLS, CELLS, st.sampled_from(("EN", "PT", "GL"))), min_size=1))
def test_sentences_of_task_2b_are_read_as_they_were_written(place, rows):
    table = [
        dev(f"{k}", Language=language, sentence1=one, sentence2=other)
        for k, (one, other, language) in enumerate(rows)
    ]
    pd.DataFrame(table).to_csv(place / "dev.csv", index=False)
    found = read_pairs(place / "dev.csv")
    assert [(p.first, p.second, p.language.upper()) for p in found] == rows


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1))
def test_sentences_of_the_sts_benchmark_are_read_as_they_were_written(place, rows):
    assume(not any("\n" in cell for row in rows for cell in row))
    path = place / "sts.tsv"
    path.write_text(benchmark(*(("dev", "3", *row) for row in rows)), encoding="utf-8")
    assert [(p.first, p.second) for p in read_pairs(path)] == rows


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1))
def test_sentences_of_assin_are_read_as_they_were_written(place, rows):
    path = place / "assin.xml"
    path.write_text(assin(*(("5", *row) for row in rows)), encoding="utf-8")
    assert [(p.first, p.second) for p in read_pairs(path)] == rows


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("column", ["ID", "Language", "MWE1", "sentence1", "sentence2"])
def test_a_column_that_the_dev_file_lacks_is_named(write_table, column):
    row = dev()
    del row[column]
    path = write_table(row, name="dev.csv")
    with pytest.raises(UserError, match=rf"dev\.csv: the column '{column}' is missing\..*MWE2"):
        read_pairs(path)


@pytest.mark.parametrize("column", sorted(set(train()) - {"sentence_1", "MWE2"}))
def test_a_column_that_the_training_file_lacks_is_named(write_table, column):
    row = train()
    del row[column]
    path = write_table(row, name="train.csv")
    for read in (read_pairs, read_groups):
        with pytest.raises(UserError, match=rf"train\.csv: the column '{column}' is missing"):
            read(path)


@pytest.mark.parametrize("column", ["S", "A_i", "sim"])
def test_a_column_that_chengyusts_lacks_is_named(write_table, column):
    path = write_table(
        {name: cell for name, cell in TABLE_6[0].items() if name != column}, name="c.csv"
    )
    for read in (read_pairs, read_groups):
        with pytest.raises(UserError, match=rf"c\.csv: the column '{column}' is missing"):
            read(path)


@pytest.mark.parametrize("column", ["ID", "sim", "otherID"])
def test_a_column_that_the_gold_lacks_is_named(write_table, column):
    row = gold()
    del row[column]
    told = write_table(row, name="gold.csv")
    with pytest.raises(UserError, match=rf"gold\.csv: the column '{column}' is missing"):
        read_pairs(write_table(dev(), name="dev.csv"), told)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (dev("2", Language="FR"), r"row 2, Language: is 'FR', not one of EN, PT, GL, ZH"),
        (dev("2", Language=""), r"row 2, Language: is ''"),
        (dev("2", sentence1="  "), r"row 2, sentence1: is empty"),
        (dev("2", sentence2=""), r"row 2, sentence2: is empty"),
        (dev("1"), r"ID: '1' is there twice"),
    ],
)
def test_a_row_of_the_dev_file_that_cannot_be_used_is_named(write_table, row, message):
    with pytest.raises(UserError, match=rf"dev\.csv, {message}"):
        read_pairs(write_table(dev(), row, name="dev.csv"))


NO_SIMILARITIES = ["1.01", "-0.1", "much", "nan", "inf", "0,5"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (gold("3"), r"ID: '3' is not in \S+dev\.csv"),
        (gold("2", "", "3"), r"otherID: '3' is not in \S+dev\.csv, and there is no sim"),
        (gold("2", "", ""), r"otherID: '' is not in \S+dev\.csv, and there is no sim"),
        *((gold("2", cell), f"sim: is '{cell}', not from 0 to 1") for cell in NO_SIMILARITIES),
    ],
)
def test_a_row_of_the_gold_that_cannot_be_used_is_named(write_table, row, message):
    data = write_table(dev("1"), dev("2"), name="dev.csv")
    with pytest.raises(UserError, match=rf"gold\.csv, row 2, {message}"):
        read_pairs(data, write_table(gold("1"), row, name="gold.csv"))


def test_an_id_that_the_gold_has_twice_is_named(write_table):
    told = write_table(gold("1", "1"), gold("1", "0"), name="gold.csv")
    with pytest.raises(UserError, match=r"gold\.csv.*'1'"):
        read_pairs(write_table(dev(), name="dev.csv"), told)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        *((train(sim=cell), f"sim: is '{cell}', not from 0 to 1") for cell in NO_SIMILARITIES),
        (train(Language="xx"), "Language: is 'xx'"),
        (train(sentence_1=""), "sentence_1: is empty"),
        (train(sentence_2=" "), "sentence_2: is empty"),
        (wrong() | {"alternative_1": ""}, "alternative_1: is empty"),
        (wrong() | {"alternative_2": ""}, "alternative_2: is empty"),
    ],
)
def test_a_row_of_the_training_file_that_cannot_be_used_is_named(write_table, row, message):
    path = write_table(train("t.0"), row, name="train.csv")
    for read in (read_pairs, read_groups):
        with pytest.raises(UserError, match=rf"train\.csv, row 2, {message}"):
            read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"S": ""}, "has no sentence in S"),
        ({"S": "{}"}, "has no sentence in S"),
        ({"A_c": "", "A_i": "", "sim": "1"}, "or none to compare"),
        ({"sim": "0.5"}, "sim: a row with both A_c and A_i has no sim of its own"),
        ({"A_c": ""}, "sim: is empty, and A_c or A_i is as well"),
        ({"A_i": ""}, "sim: is empty, and A_c or A_i is as well"),
        ({"A_i": "", "sim": "2"}, "sim: is '2', not from 0 to 1"),
        ({"A_i": "", "sim": "alike"}, "sim: is 'alike', not from 0 to 1"),
    ],
)
def test_a_row_of_chengyusts_that_cannot_be_used_is_named(write_table, changes, message):
    path = write_table(TABLE_6[1], TABLE_6[0] | changes, name="c.csv")
    for read in (read_pairs, read_groups):
        with pytest.raises(UserError, match=rf"c\.csv, row 2.*{message}"):
            read(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("dev", "5.1", "One.", "Two."), "score: is '5.1', not from 0 to 5"),
        (("dev", "-1", "One.", "Two."), "score: is '-1', not from 0 to 5"),
        (("dev", "", "One.", "Two."), "score: is '', not from 0 to 5"),
        (("dev", "1", " ", "Two."), "sentence1: is empty"),
        (("dev", "1", "One.", ""), "sentence2: is empty"),
    ],
)
def test_a_row_of_the_sts_benchmark_that_cannot_be_used_is_named(write, row, message):
    path = write("sts.tsv", benchmark(("train", "5", "A man.", "A man."), row))
    with pytest.raises(UserError, match=rf"sts\.tsv, row 2, {message}"):
        read_pairs(path)


def test_a_row_of_the_sts_benchmark_with_too_many_cells_is_no_well_formed_table(write):
    rows = [("train", "5", "A man.", "A man."), ("train", "5", "A man.", "A man.\tcaptions")]
    with pytest.raises(UserError, match=r"sts\.tsv"):
        read_pairs(write("sts.tsv", benchmark(*rows)))


def test_a_row_of_the_sts_benchmark_with_too_few_cells_has_empty_ones(write):
    with pytest.raises(UserError, match=r"sts\.tsv, row 1, sentence2: is empty"):
        read_pairs(write("sts.tsv", BENCHMARK + "dev\tg\td\t2012\t1\t3.0\tA man.\n"))


def test_a_split_that_is_not_there_is_named(write):
    path = write("sts.tsv", benchmark(("train", "5", "A man.", "A man.")))
    with pytest.raises(UserError, match=r"sts\.tsv: has no pairs of the split test"):
        read_pairs(path, split="test")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("5.5", "Um.", "Dois."), "similarity: is '5.5', not from 0 to 5"),
        (("", "Um.", "Dois."), "similarity: is '', not from 0 to 5"),
        (("1", "", "Dois."), "t: is empty"),
        (("1", "Um.", " "), "h: is empty"),
    ],
)
def test_a_pair_of_assin_that_cannot_be_used_is_named(write, row, message):
    path = write("assin.xml", assin(("1", "Um.", "Dois."), row))
    with pytest.raises(UserError, match=rf"assin\.xml, row 2, {message}"):
        read_pairs(path)


def test_a_pair_of_assin_without_its_parts_is_named(write):
    with pytest.raises(UserError, match=r"assin\.xml, row 1, t: is empty"):
        read_pairs(write("assin.xml", "<a><pair similarity='1'><h>Um.</h></pair></a>"))
    with pytest.raises(UserError, match=r"assin\.xml, row 1, similarity: is ''"):
        read_pairs(write("assin.xml", "<a><pair><t>Um.</t><h>Um.</h></pair></a>"))


@pytest.mark.parametrize("text", ["<a><pair></a>", "sim,1", "<a>&nbsp;</a>"])
def test_xml_that_is_not_well_formed_is_named(write, text):
    with pytest.raises(UserError, match=r"assin\.xml: is not well-formed XML \(.*line 1"):
        read_pairs(write("assin.xml", text))


@pytest.mark.parametrize("name", ["dev.csv", "sts.tsv", "assin.xml"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_named(write, name, text):
    with pytest.raises(UserError, match=rf"{name}: the file is empty"):
        read_pairs(write(name, text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dev.csv", ",".join(dev()) + "\n"),
        ("train.csv", ",".join(train()) + "\n"),
        ("c.csv", "S,A_c,A_i,sim\n"),
        ("sts.tsv", BENCHMARK),
        ("assin.xml", "<entailment-corpus/>"),
    ],
)
def test_a_file_without_pairs_is_named(write, name, text):
    with pytest.raises(UserError, match=rf"{name}: has no pairs\.$"):
        read_pairs(write(name, text))


def test_a_gold_file_for_a_file_that_needs_none_is_refused(write_table, write):
    told = write_table(gold(), name="gold.csv")
    for path in (
        write_table(train(), name="train.csv"),
        write_table(*TABLE_6, name="chengyu.csv"),
        write("sts.tsv", benchmark(("train", "5", "A man.", "A man."))),
        write("assin.xml", assin(("1", "Um.", "Dois."))),
    ):
        with pytest.raises(
            UserError, match=rf"{path.name}: tells its similarities itself\. Leave the gold file"
        ):
            read_pairs(path, told)


# ---------------------------------------------------------------------------------------- groups


def test_rows_of_one_sentence_make_one_group(write_table):
    data = write_table(
        train("t.1"),
        train("t.2", sentence_1="He is a big fish.", sentence_2="He matters.", MWE1="big fish"),
        wrong("t.3"),
        train("t.4", sentence_2="My sister is up late."),
        wrong("t.5") | {"sentence_2": "My sister is a dark duck."},
        train("t.6", Language="PT"),
        name="train.csv",
    )
    owl = "My sister is a night owl."
    late = "My sister is a late sleeper."
    assert read_groups(data) == [
        Group(
            owl,
            (late, "My sister is up late."),
            ("My sister is a dark bird.", "My sister is a dark duck."),
            "en",
            "night owl",
        ),
        Group("He is a big fish.", ("He matters.",), (), "en", "big fish"),
        Group(owl, (late,), (), "pt", "night owl"),
    ]


def test_a_group_of_task_2b_without_a_correct_paraphrase_is_named(write_table):
    data = write_table(train(), wrong("t.2", sentence_1="An owl."), wrong("t.3"), name="train.csv")
    with pytest.raises(
        UserError, match=r"train\.csv, row 2: the sentence has no correct paraphrase.*“An owl\.”"
    ):
        read_groups(data)


def test_a_group_of_task_2b_is_made_of_rows_with_sim_1_or_none(write_table):
    data = write_table(train(), train("t.2", sim="0.5"), name="train.csv")
    with pytest.raises(UserError, match=r"train\.csv, row 2, sim: is 0\.5, not 1 or None"):
        read_groups(data)


def test_groups_of_chengyusts_may_lack_either_paraphrase(write_table):
    again = {"S": TABLE_6[0]["S"], "A_c": "有的网友{笑了}", "A_i": "", "sim": "1"}
    first, second, third = read_groups(write_table(*TABLE_6, again, TABLE_6[0], name="c.csv"))
    assert first == Group(
        "有的网友付之一笑, 同时也有15名网友积极响应",
        ("有的网友一笑了之, 同时也有15名网友积极响应", "有的网友笑了"),
        ("有的网友大笑不止, 同时也有15名网友积极响应",),
        "zh",
        "付之一笑",
    )
    assert (len(second.correct), second.incorrect) == (1, ())
    assert (third.correct, len(third.incorrect), third.mwe) == ((), 1, None)


def test_chengyusts_is_not_learned_from_with_a_similarity_between(write_table):
    path = write_table(TABLE_6[1], TABLE_6[1] | {"sim": "0.5"}, name="c.csv")
    with pytest.raises(UserError, match=r"c\.csv, row 2, sim: is 0\.5; to learn from it"):
        read_groups(path)


def test_groups_are_read_from_no_other_file(write_table, write):
    with pytest.raises(UserError, match=r"dev\.csv: the column 'sentence_1' is missing"):
        read_groups(write_table(dev(), name="dev.csv"))
    with pytest.raises(UserError, match=r"sts\.tsv: the column 'sentence_1' is missing"):
        read_groups(write("sts.tsv", benchmark(("train", "5", "A man.", "A man."))))


@pytest.mark.parametrize("columns", ["S,A_c,A_i,sim", ",".join(train())])
def test_a_file_without_groups_is_named(write, columns):
    with pytest.raises(UserError, match=r"file\.csv"):
        read_groups(write("file.csv", columns + "\n"))


def pair(first: str, second: str = "x", **options: Any) -> Pair:
    return Pair(f"{first}-{second}", "en", first, second, **options)


def test_pairs_that_share_a_sentence_on_either_side_are_left_out():
    pairs = [pair("a", "b"), pair("c", "d"), pair("e", "f"), pair("g", "h")]
    assert without(pairs, [pair("b", "c"), pair("x", "g")]) == [pair("e", "f")]
    assert without(pairs, []) == pairs


# ------------------------------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> Path:
    from conftest import SHARED

    folder = SHARED / "semeval2022_task2" / "subtask_b"
    if not folder.is_dir():
        pytest.skip(f"needs SemEval-2022 Task 2B in {folder}")
    return folder


def test_the_real_dev_file_is_scored_on_the_pairs_that_the_organisers_score(task):
    pairs = read_pairs(task / "dev.csv", task / "dev.gold.csv")
    table = pd.read_csv(task / "dev.csv", dtype=str, keep_default_na=False)
    assert [(p.name, p.first, p.second) for p in pairs] == [
        (r["ID"], r["sentence1"].strip(), r["sentence2"].strip()) for r in table.to_dict("records")
    ]
    scored = evaluate(pairs, compare(pairs, WordEncoder()))
    found = {(r["language"], r["subset"]): r["n"] for r in scored.to_dict("records")}
    assert found == {
        ("en", "all"): 921,
        ("en", "idiom"): 521,
        ("en", "sts"): 400,
        ("pt", "all"): 854,
        ("pt", "idiom"): 454,
        ("pt", "sts"): 400,
        ("all", "all"): 1775,
        ("all", "idiom"): 975,
        ("all", "sts"): 800,
    }
    assert scored["spearman"].between(-1, 1).all()
    by_subset = scored.set_index(["language", "subset"])["spearman"]
    assert by_subset["en", "sts"] > 0.4, "words in common tell something of plain pairs"
    assert sum(pair.reference is not None for pair in pairs) == 217 + 189


def test_the_real_training_file_has_a_correct_paraphrase_in_every_group(task):
    groups = read_groups(task / "train_data.csv")
    pairs = read_pairs(task / "train_data.csv")
    assert all(group.correct and group.mwe for group in groups)
    assert sum(len(g.correct) + len(g.incorrect) for g in groups) == len(pairs) == 6572
    assert len({(g.language, g.sentence) for g in groups}) == len(groups)


def test_real_plain_pairs_are_read_whole(shared):
    folder = shared / "sts"
    if not folder.is_dir():
        pytest.skip(f"needs STS Benchmark and ASSIN2 in {folder}")
    sizes = {"train": 5749, "dev": 1500, "test": 1379}
    path = folder / "stsbenchmark.tsv"
    assert len(read_pairs(path)) == sum(sizes.values()) == 8628
    assert {name: len(read_pairs(path, split=name)) for name in sizes} == sizes
    found = read_pairs(folder / "assin2-train-only.xml")
    assert len(found) == 6500
    assert {pair.similarity for pair in found} >= {0.2, 1.0}


# ------------------------------------------------------------------------------------ evaluation


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.floats(-1, 1).map(lambda x: round(x, 1))), min_size=2)
)
def test_the_correlation_is_scipys_ties_included(values):
    one, other = zip(*values, strict=True)
    found = spearman(one, other)
    if len(set(one)) < 2 or len(set(other)) < 2:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(one, other).statistic, abs=1e-12)


PREDICTED = {
    ("a1", "a2"): 0.9,
    ("b1", "b2"): 0.3,
    ("b3", "b2"): 0.6,
    ("c1", "c2"): 0.5,
    ("d1", "d2"): 0.4,
    ("e1", "e2"): 0.7,
    ("f1", "f2"): 0.2,
    ("g1", "g2"): 0.8,
}
WORKED = [
    Pair("1", "en", "a1", "a2", 1.0, None, "x"),
    Pair("2", "en", "b1", "b2", None, ("b3", "b2"), "x"),
    Pair("3", "en", "b3", "b2", None, None, "x"),
    Pair("4", "en", "c1", "c2", 1.0, None, "y"),
    Pair("5", "en", "d1", "d2", 0.2),
    Pair("6", "en", "e1", "e2", 0.8),
    Pair("7", "pt", "f1", "f2", 1.0, None, "z"),
    Pair("8", "pt", "g1", "g2", 0.5, None, "z"),
]
BY_HAND = [
    ("en", "all", 5, 7 / math.sqrt(10 * 9.5)),
    ("en", "idiom", 3, 1.5 / math.sqrt(2 * 1.5)),
    ("en", "sts", 2, 1.0),
    ("pt", "all", 2, -1.0),
    ("pt", "idiom", 2, -1.0),
    ("all", "all", 7, 1 / math.sqrt(28 * 26)),
    ("all", "idiom", 5, -1 / math.sqrt(10 * 8)),
    ("all", "sts", 2, 1.0),
]


def rows(scored: pd.DataFrame) -> list[tuple]:
    return list(scored.itertuples(index=False, name=None))


def assert_figures(found: Sequence[tuple], wanted: Sequence[tuple]) -> None:
    assert [row[:3] for row in found] == [row[:3] for row in wanted]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in wanted], nan_ok=True)


def test_figures_are_those_worked_out_by_hand():
    scored = evaluate(WORKED, PREDICTED)
    assert list(scored.columns) == ["language", "subset", "n", "spearman"]
    assert_figures(rows(scored), BY_HAND)


def test_the_gold_of_a_pair_with_a_reference_follows_the_prediction():
    moved = PREDICTED | {("b3", "b2"): 0.1}  # now it is below all other golds
    found = {row[:2]: row[3] for row in rows(evaluate(WORKED, moved))}
    golds = [1, 0.1, 1, 0.2, 0.8]
    assert found["en", "all"] == pytest.approx(
        spearmanr([0.9, 0.3, 0.5, 0.4, 0.7], golds).statistic
    )
    assert found["en", "all"] != pytest.approx(BY_HAND[0][3])


@given(st.permutations(WORKED))
def test_the_order_of_pairs_does_not_matter(pairs):
    assert_figures(rows(evaluate(pairs, PREDICTED)), BY_HAND)


def test_one_language_alone_has_no_rows_for_all_together():
    found = rows(evaluate(WORKED[:6], PREDICTED))
    assert_figures(found, BY_HAND[:3])


def test_pairs_that_were_not_rated_or_have_no_gold_are_left_out():
    rated = {asked: value for asked, value in PREDICTED.items() if asked != ("b3", "b2")}
    counts = {row[:2]: row[2] for row in rows(evaluate(WORKED, rated))}
    assert counts["en", "all"] == 4, "the gold of the second pair is not known"
    del rated["a1", "a2"]
    counts = {row[:2]: row[2] for row in rows(evaluate(WORKED, rated))}
    assert (counts["en", "all"], counts["en", "idiom"], counts["en", "sts"]) == (3, 1, 2)
    assert evaluate(WORKED, {}).empty
    assert evaluate([WORKED[2]], PREDICTED).empty


def test_constant_predictions_have_no_correlation():
    scored = evaluate(WORKED, dict.fromkeys(PREDICTED, 0.5))
    assert len(scored) == len(BY_HAND)
    assert scored["spearman"].isna().all()


def test_constant_golds_have_no_correlation():
    pairs = [replace(one, similarity=1.0, reference=None) for one in WORKED]
    assert evaluate(pairs, PREDICTED)["spearman"].isna().all()


class Vectors:
    """An encoder with the vectors that it is given."""

    name = identity = "vectors"
    batch = 8

    def __init__(self, vectors: Mapping[str, Sequence[float]]):
        self.vectors = vectors
        self.asked: list[tuple[list[str], str]] = []

    def encode_texts(self, texts: Sequence[str], *, role: str) -> np.ndarray:
        self.asked.append((list(texts), role))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_similarities_are_cosines_of_pairs_and_of_their_references_each_encoded_once():
    encoder = Vectors({"A": (1, 0), "B": (0, 1), "C": (0.6, 0.8), "D": (-1, 0)})
    pairs = [pair("a", "b"), pair("a", "c", reference=("d", "c")), pair("b", "c"), pair("a", "b")]
    found = compare(pairs, encoder, str.upper)
    wanted = {("a", "b"): 0, ("a", "c"): 0.6, ("b", "c"): 0.8, ("d", "c"): -0.6}
    assert found == pytest.approx(wanted)
    ((texts, role),) = encoder.asked
    assert (sorted(texts), role) == (["A", "B", "C", "D"], "query")


# ------------------------------------------------------------------------------------ submission


def test_a_submission_has_a_row_for_each_pair_in_their_order(tmp_path):
    path = tmp_path / "deep" / "submission.csv"
    pairs = [WORKED[7], *WORKED[:7]]
    write_submission(path, pairs, PREDICTED | {("g1", "g2"): -0.12345678}, "pre_train")
    assert path.read_bytes().decode().split("\n") == [
        "ID,Language,Setting,Sim",
        "8,PT,pre_train,-0.123457",
        "1,EN,pre_train,0.900000",
        "2,EN,pre_train,0.300000",
        "3,EN,pre_train,0.600000",
        "4,EN,pre_train,0.500000",
        "5,EN,pre_train,0.400000",
        "6,EN,pre_train,0.700000",
        "7,PT,pre_train,0.200000",
        "",
    ]
    assert [one.name for one in path.parent.iterdir()] == ["submission.csv"]


def test_a_submission_with_missing_ratings_is_not_written(tmp_path):
    path = tmp_path / "submission.csv"
    path.write_text("the one before")
    rated = {asked: value for asked, value in PREDICTED.items() if asked[0] not in ("c1", "e1")}
    with pytest.raises(UserError, match=r"submission\.csv: is not written.* 2 pairs.*such as 4"):
        write_submission(path, WORKED, rated, "fine_tune")
    assert path.read_text() == "the one before"
    assert [one.name for one in tmp_path.iterdir()] == ["submission.csv"]


def test_nothing_is_left_half_written_where_the_submission_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "folder", tmp_path / "file" / "submission.csv"):
        with pytest.raises(UserError, match=rf"{path.name}: cannot be written"):
            write_submission(path, WORKED, PREDICTED, "fine_tune")
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_submission_before_stays_where_the_new_one_fails_on_the_way(tmp_path):
    path = tmp_path / "submission.csv"
    path.write_text("the one before")
    broken = dict(PREDICTED) | {("g1", "g2"): "no number"}
    with pytest.raises(ValueError, match="format"):
        write_submission(path, WORKED, broken, "fine_tune")  # type: ignore[arg-type]
    assert path.read_text() == "the one before"
    assert [one.name for one in tmp_path.iterdir()] == ["submission.csv"]


# ----------------------------------------------------------------------------------------- rater


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("0.75", 0.75),
        ("0,8", 0.8),
        ("Similarity: 1", 1.0),
        ("0", 0.0),
        (" **0.30**\n", 0.3),
        ("It is 0.5.", 0.5),
        ("1.0", 1.0),
        ("85%", None),
        ("1%", None),
        ("0.5%", None),
        ("between 0.2 and 0.4", None),
        ("0.2-0.4", None),
        ("8/10", None),
        ("7", None),
        ("1.01", None),
        ("-0.1", None),
        ("-1", None),
        ("", None),
        ("Very similar.", None),
    ],
)
def test_a_reply_is_a_rating_if_it_has_one_number_from_0_to_1(reply, rating):
    assert read_rating(reply) == rating


@pytest.mark.parametrize("reply", [".1", "Similarity: .01"])
def test_a_number_may_begin_with_its_point(reply):
    assert read_rating(reply) in (None, float(reply.split()[-1]))


@pytest.mark.parametrize("reply", ["1 %", "0.9 %", "\u22120.5"])
def test_a_percentage_with_a_space_or_a_printed_minus_is_no_rating(reply):
    assert read_rating(reply) is None


@given(
    st.one_of(
        st.text(),
        st.text("0123456789.,-% eE/\u0661\u22122"),
        st.floats().map(repr),
        st.floats(0, 1).map(lambda x: f"Similarity: {x:.2f}"),
    )
)
def test_a_rating_is_never_outside_0_to_1(reply):
    rating = read_rating(reply)
    assert rating is None or 0 <= rating <= 1


@given(st.integers(0, 100), st.sampled_from(("{}", "Similarity: {}", "{}.", "**{}**")))
def test_every_two_decimals_are_read(hundredths, around):
    assert read_rating(around.format(f"{hundredths / 100:.2f}")) == hundredths / 100


class Moody:
    """A chat model with the replies that it is given, which remembers how it was asked."""

    name = identity = "moody"
    parallel = 1

    def __init__(self, *replies: str):
        self.replies = iter(replies)
        self.asked: list[tuple[str, float, int]] = []

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        self.asked.append((prompt, temperature, seed))
        return next(self.replies)


def test_a_reply_without_a_rating_is_asked_for_again_with_another_seed_and_temperature():
    llm = Moody("Hm.", "7", "0.4")
    found = rate([pair("An owl.", "A bird.")], llm, Prompts(), seed=5)
    assert found == {("An owl.", "A bird."): 0.4}
    prompts, temperatures, seeds = zip(*llm.asked, strict=True)
    assert len(set(prompts)) == 1
    assert temperatures == (0.0, 1.0, 1.0)
    assert seeds == (5, 6, 7)
    last = prompts[0].rindex("Sentence 1")
    assert '"An owl."' in prompts[0][last:]
    assert prompts[0].index('"An owl."') < prompts[0].index('"A bird."')


def test_a_pair_without_a_rating_after_three_tries_has_none():
    llm = Moody("Hm.", "7", "", "0.5")
    found = rate([pair("a", "b"), pair("c", "d")], llm, Prompts())
    assert found == {("c", "d"): 0.5}
    assert [seed for _, _, seed in llm.asked] == [0, 1, 2, 0]


def test_references_are_rated_too_and_equal_pairs_once():
    llm = Moody("0.1", "0.2", "0.3")
    pairs = [pair("a", "b"), pair("c", "d", reference=("e", "d")), pair("a", "b")]
    assert rate(pairs, llm, Prompts()) == {("a", "b"): 0.1, ("c", "d"): 0.2, ("e", "d"): 0.3}
    assert len(llm.asked) == 3


def test_as_many_pairs_are_rated_at_a_time_as_the_model_allows():
    met = threading.Barrier(4, timeout=30)

    class Four(Moody):
        parallel = 4

        def ask(self, prompt: str, **options: Any) -> str:
            met.wait()
            return re.findall(r"0\.\d", prompt)[-1]

    pairs = [pair(f"owl {k}", f"0.{k}") for k in range(8)]
    found = rate(pairs, Four(), Prompts())
    assert found == {(f"owl {k}", f"0.{k}"): k / 10 for k in range(8)}


def test_an_error_names_the_pair_and_says_how_to_go_on():
    class Broken(Moody):
        def ask(self, prompt: str, **options: Any) -> str:
            raise UserError("The server is gone.")

    wanted = "'An owl.': The server is gone. What was answered so far is kept"
    with pytest.raises(UserError, match=re.escape(wanted)):
        rate([pair("An owl.", "A bird.")], Broken(), Prompts())


def test_sentences_go_into_the_prompt_as_they_are():
    llm = Moody("1")
    rate([pair('{{ "x" }} & <b>', "“são” 朝三暮四")], llm, Prompts())
    assert '{{ "x" }} & <b>' in llm.asked[0][0]
    assert "“são” 朝三暮四" in llm.asked[0][0]


# ------------------------------------------------------------------------------------------ mwes


@pytest.mark.parametrize(
    ("mwe", "wanted"),
    [
        ("home run", "IDhomerunID"),
        ("small fry", "IDsmallfryID"),
        ("Home-Run", "IDhomerunID"),
        ("pão duro", "IDpãoduroID"),
        ("devil's advocate", "IDdevilsadvocateID"),
        ("朝三暮四", "ID朝三暮四ID"),
        ("nine_to 5", "IDnineto5ID"),
    ],
)
def test_a_token_is_of_the_form_that_the_paper_prints(mwe, wanted):
    assert mwes.token(mwe) == wanted


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("a night owl.", "a IDnightowlID."),
        ("Night Owl, NIGHT OWL", "IDnightowlID, IDnightowlID"),
        ("the night-owl’s lamp", "the IDnightowlID’s lamp"),
        ("“night  owl”", "“IDnightowlID”"),
        ("night\nowl", "IDnightowlID"),
        ("a night owls’ club", "a night owls’ club"),
        ("midnight owl", "midnight owl"),
        ("a nightowl", "a nightowl"),
        ("owl night", "owl night"),
        ("night owlé", "night owlé"),
    ],
)
def test_each_use_is_marked_and_no_part_of_a_longer_word(sentence, wanted):
    assert mwes.mark(sentence, "night owl") == wanted
    assert mwes.mark(sentence, "Night-Owl") == wanted


def test_letters_beyond_ascii_and_characters_with_a_meaning_in_patterns_are_marked():
    assert mwes.mark("Um PÃO-DURO, um pão duro.", "pão duro") == "Um IDpãoduroID, um IDpãoduroID."
    assert mwes.mark("a c++ (d.) e", "c++ (d.)") == "a IDcdID e"
    assert mwes.mark("Two cat's  eyes.", "cat's eyes") == "Two IDcatseyesID."
    assert mwes.mark("abd", "a.d") == "abd"


def test_a_chinese_idiom_is_marked_within_its_sentence():
    found = mwes.mark("这些规定朝三暮四，叫人无所适从。", "朝三暮四")
    assert found == "这些规定ID朝三暮四ID，叫人无所适从。"


@pytest.mark.parametrize("sentence", ["It was night. Owl and cat", "at night, owl by owl"])
def test_words_of_two_clauses_are_no_expression(sentence):
    assert mwes.mark(sentence, "night owl") == sentence


def owning(*names: str) -> Any:
    """A model that has these tokens."""
    vocabulary = {mwes.token(name): k for k, name in enumerate(names)}
    return SimpleNamespace(tokenizer=SimpleNamespace(get_added_vocab=lambda: vocabulary))


@pytest.mark.parametrize("order", [1, -1])
def test_the_longest_of_overlapping_expressions_is_marked_first(order):
    names = ("night", "big night owl", "night owl")[::order]
    read = mwes.reader(owning(*names), names)
    found = read("a big night owl, a night owl, a night")
    assert found == "a IDbignightowlID, a IDnightowlID, a IDnightID"


def test_only_expressions_that_the_model_has_tokens_of_are_marked():
    read = mwes.reader(owning("night owl"), ["night owl", "big fish"])
    assert read("a big fish, a night owl") == "a big fish, a IDnightowlID"
    unasked = mwes.reader(owning("night owl"), ["big fish"])
    assert unasked("a night owl") == "a night owl"


ORDER = """
from types import SimpleNamespace
from admire.sts import mwes
names = [f"{a} {b}" for a, b in ("ab", "bc", "cd", "de", "ef")]
have = {mwes.token(name): 0 for name in names}
model = SimpleNamespace(tokenizer=SimpleNamespace(get_added_vocab=lambda: have))
print(mwes.reader(model, names)("a b c d e f"))
"""


def test_overlapping_expressions_of_one_length_are_marked_alike_in_every_process(monkeypatch):
    found = set()
    for seed in ("1", "2", "3", "4"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        done = subprocess.run(
            [sys.executable, "-c", ORDER], capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1, found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("torch", "sentence_transformers", "open_clip"):
        pytest.importorskip(package, reason="needs the extra 'clip'")
    from towers import save_sentence_transformer

    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture
def tiny(saved: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(saved), device="cpu")


def embeddings(model: Any) -> np.ndarray:
    return model[0].model.get_input_embeddings().weight.detach().numpy().copy()


def ids(model: Any, text: str) -> list[int]:
    return list(model.tokenizer(text, add_special_tokens=False)["input_ids"])


OTHERS = ["a big bird in the tree", "my sister writes at midnight", "night", "the owl, the lamp"]


def test_each_expression_becomes_one_token_that_begins_as_the_mean_of_its_parts(tiny):
    before, size = embeddings(tiny), len(tiny.tokenizer)
    mwes.extend(tiny, ["night owl", "big red bird", "night owl"])
    assert len(tiny.tokenizer) == size + 2
    after = embeddings(tiny)
    assert len(after) == size + 2
    assert np.array_equal(after[:size], before)
    for mwe in ("night owl", "big red bird"):
        (one,) = ids(tiny, mwes.token(mwe))
        parts = ids(tiny, mwe)
        assert one >= size
        assert len(parts) == len(mwe.split()), "the words alone are still read as words"
        assert np.allclose(after[one], before[parts].mean(axis=0), atol=1e-7)
    marked = mwes.mark("a night owl writes", "night owl")
    assert len(ids(tiny, marked)) == len(ids(tiny, "a night owl writes")) - 1


def test_a_token_begins_the_same_whatever_the_order_of_its_spellings(saved):
    from sentence_transformers import SentenceTransformer

    begun = []
    for names in (["night owl", "Night Owl"], ["Night Owl", "night owl"]):
        model = SentenceTransformer(str(saved), device="cpu")
        mwes.extend(model, names)
        begun.append(embeddings(model)[-1])
    assert np.allclose(*begun, atol=1e-7)


def test_encodings_of_other_sentences_are_as_before(tiny):
    before = tiny.encode(OTHERS)
    mwes.extend(tiny, ["night owl", "big red bird"])
    assert np.allclose(tiny.encode(OTHERS), before, atol=1e-6)


def test_a_token_that_the_model_has_keeps_what_it_has_learned(tiny):
    import torch

    mwes.extend(tiny, ["night owl"])
    (one,) = ids(tiny, "IDnightowlID")
    with torch.no_grad():
        tiny[0].model.get_input_embeddings().weight[one] = 7.0
    size = len(tiny.tokenizer)
    mwes.extend(tiny, ["night owl", "red lamp"])
    assert len(tiny.tokenizer) == size + 1
    assert (embeddings(tiny)[one] == 7).all()
    (other,) = ids(tiny, "IDredlampID")
    wanted = embeddings(tiny)[ids(tiny, "red lamp")].mean(axis=0)
    assert np.allclose(embeddings(tiny)[other], wanted, atol=1e-7)


def test_a_model_that_is_saved_and_opened_again_has_its_tokens(tiny, tmp_path):
    from admire.encoders import open_encoder

    mwes.extend(tiny, ["night owl"])
    texts = [*OTHERS, "a IDnightowlID"]
    wanted = tiny.encode(texts, normalize_embeddings=True)
    tiny.save(str(tmp_path / "out"), create_model_card=False)
    again = open_encoder(f"sbert:{tmp_path / 'out'}", device="cpu")
    assert np.allclose(again.encode_texts(texts, role="query"), wanted, atol=1e-6)
    read = mwes.reader(again.encoder.model, ["night owl", "red lamp"])
    assert read("a night owl, a red lamp") == "a IDnightowlID, a red lamp"


def test_a_model_without_tokens_reads_sentences_as_they_are(tiny):
    read = mwes.reader(tiny, ["night owl"])
    assert [read(text) for text in (*OTHERS, "a night owl")] == [*OTHERS, "a night owl"]


# --------------------------------------------------------------------------------- the command


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every encoder that is asked for is WordEncoder; returns the list of names and devices."""
    opened: list[tuple[str, str]] = []

    def open_words(name: str, *, device: str = "auto") -> CachedEncoder:
        opened.append((name, device))
        return CachedEncoder(WordEncoder())

    monkeypatch.setattr("admire.encoders.open_encoder", open_words)
    return opened


@pytest.fixture
def chat(httpserver) -> list[str]:
    return ["--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1")]


@pytest.fixture
def files(write_table) -> tuple[Path, Path]:
    """A dev file with English and Portuguese, and its gold."""
    data = write_table(
        dev("1"),
        dev("2", sentence2="My sister is a dark bird."),
        dev("3", sentence1="My sister is a late sleeper.", sentence2="My sister is a dark bird."),
        dev("4", MWE1="None", sentence1="A man sits.", sentence2="A man sits down."),
        dev("5", MWE1="None", sentence1="A man sits.", sentence2="The lamp burns."),
        dev("6", Language="PT", sentence1="Um pão-duro.", sentence2="Um avarento."),
        dev("7", Language="PT", sentence1="Um pão-duro.", sentence2="Um pão velho."),
        name="dev.csv",
    )
    told = write_table(
        gold("1"), gold("2", "", "3"), gold("4", "0.9"), gold("5", "0"), gold("6"), gold("7", "0"),
        name="gold.csv",
    )  # fmt: skip
    return data, told


def test_the_command_prints_what_evaluation_gives(capsys, files, words):
    data, told = files
    code, out, err = run(capsys, "sts", data, "--gold", told, "--json", "--device", "cpu")
    assert code == 0, err
    assert words == [("e5", "cpu")]
    pairs = read_pairs(data, told)
    wanted = rows(evaluate(pairs, compare(pairs, WordEncoder())))
    found = json.loads(out)
    assert list(found[0]) == ["language", "subset", "n", "spearman"]
    assert [tuple(row.values())[:3] for row in found] == [row[:3] for row in wanted]
    figures = [math.nan if row["spearman"] is None else row["spearman"] for row in found]
    assert figures == pytest.approx([row[3] for row in wanted], nan_ok=True, abs=1e-8)
    assert Counter(row["language"] for row in found) == {"en": 3, "pt": 2, "all": 3}

    code, out, err = run(capsys, "sts", data, "--gold", told)
    assert code == 0, err
    line = r"\b(en|pt|all)\W+(all|idiom|sts)\W+(\d+)[^-\w]+(-?\d\.\d{3}|undefined \(all equal\))"
    assert re.findall(line, out) == [
        (language, subset, f"{n}", "undefined (all equal)" if math.isnan(rho) else f"{rho:.3f}")
        for language, subset, n, rho in wanted
    ]


def test_the_command_says_where_a_correlation_is_undefined(capsys, write_table, words):
    data = write_table(dev("1"), dev("2"), name="dev.csv")
    told = write_table(gold("1"), gold("2", "0"), name="gold.csv")
    code, out, _ = run(capsys, "sts", data, "--gold", told)
    assert code == 0
    assert out.count("undefined (all equal)") == 2
    code, out, _ = run(capsys, "sts", data, "--gold", told, "--json")
    assert [row["spearman"] for row in json.loads(out)] == [None, None]


def test_the_command_writes_a_submission_of_every_row_without_a_gold(
    capsys, files, words, tmp_path
):
    out = tmp_path / "run" / "submission.csv"
    code, printed, err = run(capsys, "sts", files[0], "--out", out)
    assert (code, printed) == (0, "")
    assert f"Wrote {out}, 7 pairs" in err
    table = pd.read_csv(out, dtype=str)
    assert list(table["ID"]) == list("1234567")
    assert set(table["Setting"]) == {"fine_tune"}
    assert list(table["Language"]) == ["EN"] * 5 + ["PT"] * 2
    wanted = compare(read_pairs(files[0]), WordEncoder())
    similarities = [wanted[one.first, one.second] for one in read_pairs(files[0])]
    assert list(table["Sim"].astype(float)) == pytest.approx(similarities, abs=1e-6)


def test_the_command_writes_and_scores_at_once_pairs_outside_the_gold_too(
    capsys, files, words, tmp_path
):
    data, told = files
    out = tmp_path / "submission.csv"
    code, printed, _ = run(
        capsys, "sts", data, "--gold", told, "--out", out, "--setting", "pre_train", "--json"
    )
    assert code == 0
    assert json.loads(printed)[-3]["n"] == 6
    table = pd.read_csv(out, dtype=str)
    assert (len(table), set(table["Setting"])) == (7, {"pre_train"})


def test_the_command_chooses_a_split(capsys, write, words):
    text = benchmark(
        *((split, f"{k}", "A man sits.", "A man sits down." * k) for split in ("dev", "test")
          for k in (1, 2, 3)),
        ("test", "0", "A man sits.", "Birds."),
    )  # fmt: skip
    path = write("sts.tsv", text)
    counts = {}
    for split in ("dev", "test"):
        code, out, _ = run(capsys, "sts", path, "--split", split, "--json")
        assert code == 0
        counts[split] = {row["subset"]: row["n"] for row in json.loads(out)}
    assert counts == {"dev": {"all": 3, "sts": 3}, "test": {"all": 4, "sts": 4}}


def test_the_command_asks_a_chat_model_in_place_of_an_encoder(
    capsys, files, words, httpserver, chat
):
    def answer(prompt: str) -> str:
        asked = prompt[prompt.rindex("Sentence 1") :]
        return "0,9" if "late" in asked or "down" in asked else "0.1"

    data, told = files
    prompts = chat_server(httpserver, answer)
    code, out, err = run(capsys, "sts", data, "--gold", told, "--json", *chat)
    assert code == 0, err
    assert not words
    assert len(prompts) == 7
    assert "no rating" not in err
    found = {(row["language"], row["subset"]): row for row in json.loads(out)}
    # The gold of the second pair is the rating of the third, 0.9.
    wanted = spearmanr([0.9, 0.1, 0.9, 0.1], [1, 0.9, 0.9, 0]).statistic
    assert found["en", "all"]["spearman"] == pytest.approx(wanted)
    assert found["pt", "all"]["spearman"] is None
    run(capsys, "sts", data, "--gold", told, *chat)
    assert len(prompts) == 7, "replies are kept"


def test_the_command_leaves_pairs_without_a_rating_out_and_counts_them(
    capsys, files, httpserver, chat, tmp_path
):
    def answer(prompt: str) -> str:
        asked = prompt[prompt.rindex("Sentence 1") :]
        return "I cannot say." if "lamp" in asked else f"0.{len(asked) % 10}"

    data, told = files
    prompts = chat_server(httpserver, answer)
    code, out, err = run(capsys, "sts", data, "--gold", told, "--json", *chat)
    assert code == 0, err
    assert "1 of 7 pairs were given no rating" in err
    assert len(prompts) == 6 + 3
    assert json.loads(out)[0]["n"] == 3

    target = tmp_path / "submission.csv"
    code, out, err = run(capsys, "sts", data, "--out", target, *chat)
    assert (code, out) == (2, "")
    assert "submission.csv: is not written, because 1 pairs have no rating, such as 5" in err
    assert not target.exists()


def test_the_command_counts_pairs_that_are_left_out_for_their_reference(
    capsys, write_table, httpserver, chat
):
    def answer(prompt: str) -> str:
        asked = prompt[prompt.rindex("Sentence 1") :]
        return "I cannot say." if "一笑了之" in asked else "0.4"

    chat_server(httpserver, answer)
    code, out, err = run(capsys, "sts", write_table(*TABLE_6, name="chengyu.csv"), "--json", *chat)
    assert code == 0
    assert json.loads(out)[0]["n"] == 2
    assert "1 of 3 pairs" in err


def test_the_command_rates_anew_with_another_seed(capsys, files, httpserver, chat):
    prompts = chat_server(httpserver, lambda prompt: "0.5")
    for seed, asked in ((0, 7), (0, 7), (1, 14)):
        assert run(capsys, "sts", files[0], "--gold", files[1], "--seed", seed, *chat)[0] == 0
        assert len(prompts) == asked


def test_the_command_gives_a_fine_tuned_model_the_tokens_that_it_has(
    capsys, tiny, tmp_path, write_table
):
    import torch

    mwes.extend(tiny, ["night owl"])
    (one,) = ids(tiny, "IDnightowlID")
    with torch.no_grad():
        weights = tiny[0].model.get_input_embeddings().weight
        weights[one] = -weights[one] * 3
    tiny.save(str(tmp_path / "model"), create_model_card=False)
    sentences = ["my sister is a night owl", "my sister writes", "a Night-Owl in the tree"]
    data = write_table(
        dev("1", sentence1=sentences[0], sentence2=sentences[1]),
        dev("2", sentence1=sentences[2], sentence2=sentences[1]),
        name="dev.csv",
    )
    code, _, err = run(
        capsys, "sts", data, "--encoder", f"sbert:{tmp_path / 'model'}", "--device", "cpu",
        "--out", tmp_path / "submission.csv",
    )  # fmt: skip
    assert code == 0, err
    table = pd.read_csv(tmp_path / "submission.csv")
    marked = [mwes.mark(text, "night owl") for text in sentences]
    for texts, same in ((marked, True), (sentences, False)):
        owl, writes, bird = tiny.encode(texts, normalize_embeddings=True)
        close = np.allclose(table["Sim"], [owl @ writes, bird @ writes], atol=1e-5)
        assert close == same


@pytest.mark.parametrize(
    ("row", "told", "message"),
    [
        (dev(Language="FR"), gold(), "dev.csv, row 1, Language: is 'FR'"),
        (dev(), gold("2"), "gold.csv, row 1, ID: '2' is not in"),
        (dev(), gold("1", "", "9"), "gold.csv, row 1, otherID: '9' is not in"),
        (dev(), gold("1", "2"), "gold.csv, row 1, sim: is '2', not from 0 to 1"),
        (dev(sentence1=""), gold(), "dev.csv, row 1, sentence1: is empty"),
        ({"ID": "1", "text": "An owl."}, gold(), "dev.csv: the column 'Language' is missing"),
        (train(), gold(), "dev.csv: tells its similarities itself"),
    ],
)
def test_bad_input_ends_the_command_with_one_message(
    capsys, words, write_table, tmp_path, row, told, message
):
    data, golden = write_table(row, name="dev.csv"), write_table(told, name="gold.csv")
    out = tmp_path / "submission.csv"
    code, printed, err = run(capsys, "sts", data, "--gold", golden, "--out", out)
    assert (code, printed) == (2, "")
    assert err.startswith("admire: ")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert not words, "it is found before a model is loaded"
    assert not out.exists()


def test_the_command_needs_a_gold_or_a_place_for_a_submission(capsys, words, files):
    code, out, err = run(capsys, "sts", files[0])
    assert (code, out) == (2, "")
    assert "tells no similarities. Give --gold, or --out" in err
    assert not words


def test_the_command_names_a_submission_that_cannot_be_written(capsys, words, files, tmp_path):
    (tmp_path / "file").write_text("mine")
    code, _, err = run(capsys, "sts", files[0], "--out", tmp_path / "file" / "submission.csv")
    assert code == 2
    assert "submission.csv: cannot be written" in err
    assert "Traceback" not in err


def test_a_shuffled_file_has_the_same_figures(capsys, files, words):
    data, told = files
    code, wanted, _ = run(capsys, "sts", data, "--gold", told, "--json")
    assert code == 0
    for path, seed in ((data, 1), (told, 2)):
        header, *lines = path.read_text().splitlines(keepends=True)
        Random(seed).shuffle(lines)
        path.write_text(header + "".join(lines))
    assert run(capsys, "sts", data, "--gold", told, "--json")[1] == wanted
