from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks import FILLERS, MWES, both_senses, semeval

from admire.base.errors import UserError
from admire.tasks.retrieval.benchmark import (
    KINDS,
    SENSES,
    build_benchmark,
    count_benchmark,
    write_benchmark,
)
from admire.tasks.retrieval.modes import SPLITS, USAGES
from admire.tasks.retrieval.passages import Passage, Split, read_split
from admire.tasks.sts.pairs import read_pairs


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return semeval(tmp_path / "task2", *both_senses())


def all_documents(splits: dict[str, Split]) -> list[Passage]:
    return [document for split in splits.values() for document in split.documents]


def test_no_mwe_stands_in_two_splits_and_each_is_in_one(small):
    splits = build_benchmark(small, "en")
    assert tuple(splits) == SPLITS
    of = [{one.idiom for one in split.queries} for split in splits.values()]
    assert of == [{one.idiom for one in split.documents} for split in splits.values()]
    assert Counter(mwe for mwes in of for mwe in mwes) == Counter(MWES)
    assert [len(mwes) for mwes in of] == [4, 1, 2]  # of 7: 50, 15 and 35 percent, rounded


@pytest.mark.parametrize(("queries", "each", "asked"), [(2, 6, 2), (9, 6, 3), (3, 5, 2)])
def test_queries_are_so_many_at_most_and_at_most_half(tmp_path, queries, each, asked):
    splits = build_benchmark(semeval(tmp_path, *both_senses(each=each)), "en", queries=queries)
    counted = Counter(
        (query.idiom, query.usage) for split in splits.values() for query in split.queries
    )
    assert counted == {(mwe, usage): asked for mwe in MWES for usage in SENSES}
    indexed = Counter((one.idiom, one.usage) for one in all_documents(splits))
    for mwe in MWES:
        left = each - asked
        assert [indexed[mwe, usage] for usage in USAGES] == [left, left, left, 0, 2 * left]


def test_right_paraphrases_of_idiomatic_documents_simplify_and_wrong_ones_distract(small):
    documents = all_documents(build_benchmark(small, "en"))
    for usage, of, spans in (
        ("simplification", {"idiomatic"}, {"true idiomatic"}),
        ("distractor", set(SENSES), {"wrong idiomatic", "wrong literal"}),
    ):
        whole = {one.sentence for one in documents if one.usage in of}
        found = [one for one in documents if one.usage == usage]
        assert {one.span for one in found} == spans
        assert {one.sentence.replace(one.span, one.idiom) for one in found} == whole


def test_a_benchmark_is_written_and_read(small, tmp_path):
    splits = build_benchmark(small, "en", seed=3)
    assert splits == build_benchmark(small, "en", seed=3)
    assert splits != build_benchmark(small, "en", seed=4)
    passages = [one for split in splits.values() for one in split.queries + split.documents]
    assert len({one.id for one in passages}) == len(passages)
    out = tmp_path / "built"
    for _ in range(2):  # its own folder is replaced
        write_benchmark(out, splits)
        assert {name: read_split(str(out), name) for name in SPLITS} == splits


def test_a_span_that_stands_in_the_sentence_before_gets_the_right_occurrence(tmp_path):
    uses, pairs = [], []
    for label in "01":
        for k in range(4):
            sentence = f"A person met the night owl {k} {label}."
            uses.append(("night owl", sentence, label))
            pairs.append(("night owl", sentence, sentence.replace("night owl", "person"), True))
    splits = build_benchmark(semeval(tmp_path, uses + FILLERS, pairs), "en")
    found = [one for one in all_documents(splits) if one.usage == "simplification"]
    assert len(found) == 2
    for one in found:
        assert (one.span, one.occurrence) == ("person", 2)
        assert one.sentence[: one.place[0]] == "A person met the "


@pytest.mark.parametrize(
    ("sentence", "paraphrase", "span"),
    [
        ("He hit a home run, then left.", "He hit a big success, then left.", "big success"),
        ("Um pé-frio chegou.", "Um azarado chegou.", "azarado"),
        ("He felt blue about it.", "He felt very blue about it.", "very"),
        ("Full of hot air.", "Full of.", None),  # there is nothing to mark
    ],
)
def test_the_words_that_a_paraphrase_has_in_place_of_others_are_marked(
    tmp_path, sentence, paraphrase, span
):
    mwe = "the mwe"
    uses = [(mwe, f"{sentence} {k} the mwe {label}", label) for k in range(2) for label in "01"]
    pairs = [(mwe, use, use.replace(sentence, paraphrase), True) for _, use, _ in uses]
    splits = build_benchmark(semeval(tmp_path, uses + FILLERS, pairs), "en")
    found = [one for one in all_documents(splits) if one.usage == "simplification"]
    assert [one.span for one in found] == ([span] if span else [])
    assert [one.sentence[slice(*one.place)] for one in found] == ([span] if span else [])


def test_only_sentences_of_the_language_are_taken_and_mwes_must_be_three(tmp_path):
    semeval(tmp_path, *both_senses(), language="PT")
    assert {one.idiom for one in all_documents(build_benchmark(tmp_path, "pt"))} == set(MWES)
    with pytest.raises(UserError, match=r"has no sentences in 'en'. There are: pt\.") as caught:
        build_benchmark(tmp_path, "en")
    assert str(tmp_path) in str(caught.value)
    few = semeval(tmp_path / "few", [("night owl", f"A night owl {k}.", "0") for k in range(6)])
    with pytest.raises(UserError, match="few: has 0 MWEs that are used in both senses in 'en'"):
        build_benchmark(few, "en")


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_benchmark_of_the_real_files_is_sound(shared: Path, language):
    task = shared / "semeval2022_task2"
    splits = build_benchmark(task, language)
    b = task / "subtask_b"
    pairs = read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv")
    seen: set[str] = set()
    for split in splits.values():
        asked = {query.sentence for query in split.queries}
        told = {pair.second for pair in pairs if pair.gold and pair.first in asked}
        assert not {document.sentence for document in split.documents} & (asked | told)
        mwes = {query.idiom for query in split.queries}
        assert mwes
        assert mwes == {document.idiom for document in split.documents}
        assert not mwes & seen
        seen |= mwes
        assert {one.usage for one in split.documents} == set(KINDS)
        for one in split.queries + split.documents:
            assert one.sentence[slice(*one.place)] == one.span == one.span.strip()
            if one.usage in SENSES:
                assert one.span.casefold().startswith(one.idiom)
    counts = count_benchmark(splits).set_index("split").loc["test"]
    wanted = {"en": (30, 150, 1054), "pt": (9, 49, 270)}[language]
    assert (counts["MWEs"], counts["queries"], counts[list(KINDS)].sum()) == wanted
