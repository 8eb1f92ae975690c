from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sentences import BENCHMARK, TABLE_6, assin, benchmark, dev, gold, pair, train, wrong

from admire.base.errors import UserError
from admire.tasks.sts.pairs import Group, Pair, read_groups, read_pairs, without


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_text(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


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


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(CELLS, CELLS, st.sampled_from(("EN", "PT", "GL"))), min_size=1))
def test_sentences_of_task_2b_are_read_as_they_were_written(place, rows):
    table = [
        dev(f"{k}", Language=language, sentence1=one, sentence2=other)
        for k, (one, other, language) in enumerate(rows)
    ]
    pd.DataFrame(table).to_csv(place / "dev.csv", index=False)
    found = read_pairs(place / "dev.csv")
    assert [(p.first, p.second, p.language.upper()) for p in found] == rows


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1))
def test_sentences_of_the_sts_benchmark_are_read_as_they_were_written(place, rows):
    assume(not any("\n" in cell for row in rows for cell in row))
    path = place / "sts.tsv"
    path.write_text(benchmark(*(("dev", "3", *row) for row in rows)), encoding="utf-8")
    assert [(p.first, p.second) for p in read_pairs(path)] == rows


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
            UserError, match=rf"{path.name}: has its own similarities\. Leave the gold file"
        ):
            read_pairs(path, told)


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


def test_pairs_that_share_a_sentence_on_either_side_are_left_out():
    pairs = [pair("a", "b"), pair("c", "d"), pair("e", "f"), pair("g", "h")]
    assert without(pairs, [pair("b", "c"), pair("x", "g")]) == [pair("e", "f")]
    assert without(pairs, []) == pairs


def test_a_split_of_the_sts_benchmark_is_chosen(write):
    rows = [(split, "1", f"A {split}.", "One.") for split in ("train", "dev", "test", "dev")]
    path = write("sts.tsv", benchmark(*rows).replace("\n", "\r\n"))
    assert len(read_pairs(path)) == 4
    found = read_pairs(path, split="dev")
    assert [(pair.name, pair.first) for pair in found] == [("2", "A dev."), ("4", "A dev.")]


def test_chengyusts_may_have_its_idioms_and_ids_in_columns(write_table):
    rows = [
        {name: cell.replace("{", "").replace("}", "") for name, cell in row.items()}
        | {"idiom": idiom, "ID": f"c{idiom}"}
        for row, idiom in zip(TABLE_6, ("付之一笑", "戛然而止", ""), strict=True)
    ]
    marked = read_pairs(write_table(*TABLE_6, name="marked.csv"))
    found = read_pairs(write_table(*rows, name="column.csv"))
    assert found == [replace(m, name=r["ID"]) for m, r in zip(marked, rows, strict=True)]


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> Path:
    from conftest import SHARED

    folder = SHARED / "semeval2022_task2" / "subtask_b"
    if not folder.is_dir():
        pytest.skip(f"needs SemEval-2022 Task 2B in {folder}")
    return folder


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
