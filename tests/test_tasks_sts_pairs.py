import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import refused
from sentences import TABLE_6, assin, benchmark, dev, gold, pair, train, wrong

from admire.core.errors import UserError
from admire.tasks.sts.pairs import (
    SPLITS,
    Group,
    Pair,
    count_pairs,
    read_groups,
    read_pairs,
    without,
)

OWL, LATE = "My sister is a night owl.", "My sister is a late sleeper."
BIRD = "My sister is a dark bird."


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_dev_file_takes_similarities_from_its_gold_or_those_of_another_pair(write_table):
    data = write_table(
        dev("7"),
        dev("8", sentence2=BIRD),
        dev("9", sentence1=LATE, sentence2=BIRD),
        dev("10", Language="PT", MWE1="None", sentence1="Um homem.", sentence2="Uma mulher."),
        name="dev.csv",
    )
    scores = write_table(
        gold("10", "0.35"), gold("8", "", "9"), gold("7", "1", "9"), name="dev.gold.csv"
    )
    pairs = read_pairs(data, scores)
    assert pairs == [
        Pair("7", "en", OWL, LATE, 1.0, None, "night owl"),
        Pair("8", "en", OWL, BIRD, None, (LATE, BIRD), "night owl"),
        Pair("9", "en", LATE, BIRD, None, None, "night owl"),
        Pair("10", "pt", "Um homem.", "Uma mulher.", 0.35),
    ]
    assert [pair.gold for pair in pairs] == [True, True, False, True]


def test_the_training_file_tells_similarities_or_alternatives_itself(write_table):
    data = write_table(
        train(), wrong(), train("t.3", MWE1="", sim="0.25", Language="gl"), name="train.csv"
    )
    assert read_pairs(data) == [
        Pair("t.1", "en", OWL, LATE, 1.0, None, "night owl"),
        Pair("t.2", "en", OWL, BIRD, None, (LATE, BIRD), "night owl"),
        Pair("t.3", "gl", OWL, LATE, 0.25),
    ]


@pytest.mark.parametrize("name", ["chengyu.csv", "chengyu.tsv"])
def test_chengyusts_has_its_idioms_in_braces_as_table_6_prints_them(write_table, name):
    first, second, third = (
        [re.sub("[{}]", "", row[name]) for name in ("S", "A_c", "A_i")] for row in TABLE_6
    )
    assert read_pairs(write_table(*TABLE_6, name=name)) == [
        Pair("1", "zh", first[0], first[2], None, (first[1], first[2]), "付之一笑"),
        Pair("2", "zh", second[0], second[1], 1.0, None, "戛然而止"),
        Pair("3", "zh", third[0], third[2], 0.0),
    ]


def test_pairs_are_counted_as_in_table_5(write_table):
    counts = count_pairs(read_pairs(write_table(*TABLE_6, *TABLE_6[:2], name="c.csv")))
    assert counts.to_numpy().tolist() == [
        ["all", 2, 2, 3, 5],
        ["idiom", 2, 2, 2, 4],
        ["sts", 0, 0, 1, 1],
    ]


def test_a_folder_has_a_file_for_each_split(write_table, tmp_path):
    refused(tmp_path, "has no train.csv, dev.csv, test.csv", read=read_pairs)
    files = [write_table(TABLE_6[k], name=f"{split}.csv") for k, split in enumerate(SPLITS)]
    train, dev, test = map(read_pairs, files)
    assert read_pairs(tmp_path) == [*train, *dev, *test]
    assert read_pairs(tmp_path, split="dev") == dev
    assert read_groups(tmp_path) == read_groups(files[0])
    with pytest.raises(UserError, match=r"final\.csv: cannot be read"):
        read_pairs(tmp_path, split="final")


def test_assin_has_its_scores_divided_by_5(tmp_path):
    path = write(tmp_path / "assin.xml", assin(("4.5", "Um cão & um gato", "“Dois” <animais>")))
    assert read_pairs(path) == [Pair("1", "pt", "Um cão & um gato", "“Dois” <animais>", 0.9)]


NO_SIM = {name: cell for name, cell in train().items() if name != "sim"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([dev(), dev("2", Language="FR")], ", row 2, Language: "),
        ([dev(), dev("2", sentence1="  ")], ", row 2, sentence1: "),
        ([NO_SIM], ": the column 'sim' "),
        ([train(), train("t.2", sim="much")], ", row 2, sim: "),
        ([train(), wrong() | {"alternative_1": ""}], ", row 2, alternative_1: "),
        ([TABLE_6[1], TABLE_6[0] | {"S": "{}"}], ", row 2, S: "),
        ([TABLE_6[0] | {"sim": "0.5"}], ", row 1, sim: there must be either a sim or both"),
    ],
)
def test_a_row_of_a_table_that_cannot_be_used_is_named(write_table, rows, message):
    path = write_table(*rows, name="pairs.csv")
    groups = {"sentence_1", "S"} & set(rows[0])
    for read in (read_pairs, read_groups) if groups else (read_pairs,):
        assert refused(path, read=read).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([gold("1"), gold("3")], "gold.csv, row 2, ID: '3' is not in"),
        ([gold("1"), gold("2", "", "3")], "gold.csv, row 2, otherID: '3' "),
        ([gold("1"), gold("1", "0")], "gold.csv, row 2, ID: '1' appears twice"),
    ],
)
def test_a_row_of_the_gold_that_cannot_be_used_is_named(write_table, rows, message):
    data = write_table(dev("1"), dev("2"), name="dev.csv")
    refused(write_table(*rows, name="gold.csv"), message, read=partial(read_pairs, data))


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
    late, dark = (LATE, "My sister is up late."), (BIRD, "My sister is a dark duck.")
    assert read_groups(data) == [
        Group(OWL, late, dark, "en", "night owl"),
        Group("He is a big fish.", ("He matters.",), (), "en", "big fish"),
        Group(OWL, (LATE,), (), "pt", "night owl"),
    ]


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


def test_pairs_that_share_a_sentence_on_either_side_are_left_out():
    pairs = [pair("a", "b"), pair("c", "d"), pair("e", "f"), pair("g", "h")]
    assert without(pairs, [pair("b", "c"), pair("x", "g")]) == [pair("e", "f")]
    assert without(pairs, []) == pairs


def test_a_split_of_the_sts_benchmark_is_chosen(tmp_path):
    rows = [(split, "1", f"A {split}.", "One.") for split in ("train", "dev", "test", "dev")]
    path = write(tmp_path / "sts.tsv", benchmark(*rows).replace("\n", "\r\n"))
    assert len(read_pairs(path)) == 4
    quoted = benchmark(("dev", "3", '"A man, said he.', "It's “so”;"))
    assert read_pairs(write(tmp_path / "quoted.tsv", quoted))[0].first == '"A man, said he.'
    second = Pair("2", "en", "A dev.", "One.", 0.2)
    assert read_pairs(path, split="dev") == [second, replace(second, name="4")]


def test_chengyusts_may_have_its_idioms_and_ids_in_columns(write_table):
    rows = [
        {name: cell.replace("{", "").replace("}", "") for name, cell in row.items()}
        | {"idiom": idiom, "ID": f"c{idiom}"}
        for row, idiom in zip(TABLE_6, ("付之一笑", "戛然而止", ""), strict=True)
    ]
    marked = read_pairs(write_table(*TABLE_6, name="marked.csv"))
    found = read_pairs(write_table(*rows, name="column.csv"))
    assert found == [replace(m, name=r["ID"]) for m, r in zip(marked, rows, strict=True)]


@pytest.mark.ci
def test_the_real_training_file_has_a_correct_paraphrase_in_every_group(shared):
    path = shared / "semeval2022_task2" / "subtask_b" / "train_data.csv"
    groups, pairs = read_groups(path), read_pairs(path)
    assert all(group.correct and group.mwe for group in groups)
    assert sum(len(g.correct) + len(g.incorrect) for g in groups) == len(pairs) == 6572
    assert len({(g.language, g.sentence) for g in groups}) == len(groups)


@pytest.mark.ci
def test_real_plain_pairs_are_read_whole(shared):
    folder = shared / "sts"
    sizes = {"train": 5749, "dev": 1500, "test": 1379}
    path = folder / "stsbenchmark.tsv"
    assert len(read_pairs(path)) == sum(sizes.values()) == 8628
    assert {name: len(read_pairs(path, split=name)) for name in sizes} == sizes
    pairs = read_pairs(folder / "assin2-train-only.xml")
    assert len(pairs) == 6500
    assert {pair.similarity for pair in pairs} >= {0.2, 1.0}
