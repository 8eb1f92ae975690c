from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sentences import GROUPS, PAIRS, asked, dev, gold, sentences, training_rows, write_benchmark

from admire.core.errors import UserError
from admire.tasks.sts.pairs import Group, Pair, read_groups, read_pairs
from admire.tasks.sts.rows import (
    as_pairs,
    dealt,
    filled_triples,
    hold_out_groups,
    hold_out_pairs,
    labelled,
    mixed,
    read_training_data,
    repeated,
    triples,
)


def test_labels_are_those_of_table_1():
    groups = [
        Group("s1", ("c1",), ("i1",), "en", "home run"),
        Group("s2", ("c2",), ("i2", "i3"), "en", "small fry"),
        Group("s3", ("c3", "c4"), (), "en", "small fry"),
        Group("s4", ("c5",), ("i4",), "en"),
    ]
    rows = labelled(groups)
    assert [row["sentence"] for row in rows] == [
        "s1", "c1", "i1", "s2", "c2", "i2", "i3", "s3", "c3", "c4", "s4", "c5", "i4",
    ]  # fmt: skip
    assert [row["label"] for row in rows] == [0, 0, 1, 2, 2, 3, 4, 5, 5, 5, 6, 6, 7]


def test_groups_of_rare_expressions_are_repeated_and_no_other():
    rare = Group("s1", ("c1",), (), "en", "home run")
    same = replace(rare, sentence="s2", mwe="Home Run")
    portuguese = replace(rare, language="pt")
    plain = Group("s3", ("c3",), (), "en")
    many = [Group(f"m{k}", ("c",), (), "en", "small fry") for k in range(5)]
    groups = [rare, plain, *many, same, portuguese]
    again = [rare, same, portuguese, portuguese, portuguese]
    assert repeated(groups, 4) == groups + again, "in their order"
    assert repeated(groups, 1) == groups


def test_triples_are_each_correct_with_each_incorrect_paraphrase():
    groups = [Group("s", ("a", "b"), ("x", "y"), "en"), Group("t", ("c",), (), "en")]
    assert [tuple(row.values()) for row in triples(groups)] == [
        ("s", "a", "x"), ("s", "a", "y"), ("s", "b", "x"), ("s", "b", "y"),
    ]  # fmt: skip
    assert list(triples(groups)[0]) == ["anchor", "positive", "negative"]
    with pytest.raises(UserError, match="No group has both"):
        triples(groups[1:])


@pytest.mark.parametrize("seed", range(3))
def test_what_a_triple_lacks_is_the_sentence_itself_or_one_of_another_group(seed):
    groups = [
        Group("s", (), ("x",), "zh"),
        Group("t", ("c", "d"), (), "zh"),
        Group("u", (), (), "zh"),
        Group("v", ("e",), ("y", "z"), "zh"),
        Group("s", ("f",), (), "zh"),
    ]
    rows = [tuple(row.values()) for row in filled_triples(groups, np.random.default_rng(seed))]
    assert rows[0] == ("s", "s", "x")
    assert [row[:2] for row in rows] == [
        ("s", "s"), ("t", "c"), ("t", "d"), ("u", "u"), ("v", "e"), ("v", "e"),
        ("s", "f"),
    ]  # fmt: skip
    assert [row[2] for row in rows[4:6]] == ["y", "z"]
    assert rows[6][2] in ("t", "u", "v"), "another row of the same sentence is none of another"
    assert {rows[1][2], rows[2][2]} <= {"s", "u", "v"}
    assert rows[3][2] in ("s", "t", "v")
    with pytest.raises(UserError, match="no other sentence"):
        filled_triples(groups[1:2], np.random.default_rng(seed))


MANY = [
    Group(f"{m} {k}", (f"{m} {k} right",), (f"{m} {k} wrong",), "en", m if k % 2 else m.upper())
    for k in range(5)
    for m in (f"mwe {name}" for name in "abcdefghij")
] + [Group(f"plain {k}", (f"plain {k} right",), (), "en") for k in range(10)]


@pytest.mark.parametrize("seed", range(3))
def test_of_each_expression_that_is_held_out_one_group_stays(seed):
    kept, held = hold_out_groups(MANY, 0.3, seed)
    assert not sentences(kept) & asked(held)
    assert sentences(kept) | asked(held) == sentences(MANY)
    names = {pair.mwe.casefold() for pair in held if pair.mwe}
    counts = Counter(group.mwe.casefold() for group in kept if group.mwe)
    assert counts == {f"mwe {n}": 1 if f"mwe {n}" in names else 5 for n in "abcdefghij"}
    single = {pair.first for pair in held if not pair.mwe}
    assert len(names) + len(single) == 6, "3 of 10 of either, together"


def test_a_paraphrase_of_two_groups_is_not_on_both_sides():
    kept, held = hold_out_groups([replace(group, correct=("The same.",)) for group in MANY], 0.4)
    assert held
    assert not sentences(kept) & asked(held)


def test_held_out_groups_become_the_pairs_of_the_task():
    groups = [Group("s", ("c", "d"), ("x",), "pt", "pão duro"), Group("t", (), ("y",), "zh")]
    assert [replace(pair, name="") for pair in as_pairs(groups)] == [
        Pair("", "pt", "s", "c", 1.0, None, "pão duro"),
        Pair("", "pt", "s", "d", 1.0, None, "pão duro"),
        Pair("", "pt", "s", "x", None, ("c", "x"), "pão duro"),
        Pair("", "zh", "t", "y", 0.0, None, None),
    ]


def test_held_out_pairs_share_no_sentence_with_those_to_train_on():
    pairs = [Pair(f"{k}", "en", f"a{k}", f"b{k // 2}", 0.5) for k in range(40)]
    for seed in range(5):
        kept, held = hold_out_pairs(pairs, 0.2, seed)
        assert len(held) == 8
        assert kept == [pair for pair in pairs if not asked([pair]) & asked(held)]
    assert hold_out_pairs(pairs, 0.2, 1) == hold_out_pairs(pairs, 0.2, 1)
    assert hold_out_pairs(pairs, 0.2, 1) != hold_out_pairs(pairs, 0.2, 2)


def test_groups_of_like_length_stand_together_and_none_is_lost():
    count = 2500
    groups = [Group(f"{k} " + "a " * (k * 7919 % 101), (f"c{k}",), (), "en") for k in range(count)]
    order = dealt(groups, np.random.default_rng(0))
    assert Counter(order) == Counter(groups)
    lengths = [len(group.sentence) for group in order]
    assert sum(b < a for a, b in pairwise(lengths)) == 2
    assert dealt(groups, np.random.default_rng(0)) == order
    assert dealt(groups, np.random.default_rng(1)) != order


def test_each_batch_of_mixed_pairs_has_short_and_long_ones():
    long = [{"first": f"{number} " * 40, "kind": 1} for number in range(900)]
    short = [{"first": f"{number}", "kind": 0} for number in range(900)]
    rows = mixed(short, long, np.random.default_rng(0))
    shares = [sum(row["kind"] for row in rows[k : k + 60]) / 60 for k in range(0, 1800, 60)]
    assert 0.2 < min(shares) < max(shares) < 0.8
    # In each thousand, neighbours are of like length within their kind.
    lengths = [len(row["first"]) for row in rows[:900] if row["kind"]]
    assert lengths == sorted(lengths)


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    return write_table(*training_rows(GROUPS), name="train.csv")


@pytest.fixture
def stsb(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "sts.tsv")


def test_pairs_are_mixed_in_but_for_those_of_files_to_leave_out(data, stsb, write_table):
    files = {
        "validation": write_table(dev("1"), dev("2"), name="dev.csv"),
        "validation_gold": write_table(gold("1"), gold("2", "0"), name="gold.csv"),
    }
    left = write_table(dev(sentence1=PAIRS[0].first, sentence2="x"), name="left.csv")
    found = read_training_data([data], "adaptive", sts=[stsb], leave_out=[left], **files)
    assert found.groups == read_groups(data)
    assert found.validation == read_pairs(*files.values())
    assert [p.first for p in found.pairs] == [p.first for p in PAIRS[1:12]], "of the split train"


def test_expressions_are_read_of_a_file_of_the_task_or_of_a_list(data, stsb, write_table, tmp_path):
    listed = tmp_path / "mwes.txt"
    listed.write_text("big cheese\n\n  pão duro \n", encoding="utf-8")
    pairs = write_table(dev("1"), dev("2", MWE1="None"), name="dev.csv")
    found = read_training_data([stsb], "regression", mwes=[listed, pairs])
    assert found.mwes == ["big cheese", "pão duro", "night owl"]


def test_pairs_of_the_split_dev_choose_the_epoch(stsb):
    found = read_training_data([stsb], "cosent", validation=stsb)
    assert [p.first for p in found.pairs] == [p.first for p in PAIRS[:12]]
    assert [p.first for p in found.validation] == [p.first for p in PAIRS[12:]]
