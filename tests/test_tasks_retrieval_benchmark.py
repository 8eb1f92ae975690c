from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks import FILLERS, MWES, USAGES, both_senses, semeval
from repeats import quickly

from admire.core.errors import UserError
from admire.tasks.retrieval.benchmark import (
    KINDS,
    SENSES,
    build_benchmark,
    count_benchmark,
    write_benchmark,
)
from admire.tasks.retrieval.passages import Passage, Split, read_split
from admire.tasks.retrieval.settings import SPLITS
from admire.tasks.sts.pairs import read_pairs


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return semeval(tmp_path / "task2", *both_senses())


def all_documents(splits: dict[str, Split]) -> list[Passage]:
    return [document for split in splits.values() for document in split.documents]


def test_no_mwe_stands_in_two_splits_and_each_is_in_one(small):
    splits = build_benchmark(small, "en")
    assert tuple(splits) == SPLITS
    mwes = [{query.idiom for query in split.queries} for split in splits.values()]
    assert mwes == [{document.idiom for document in split.documents} for split in splits.values()]
    assert Counter(mwe for part in mwes for mwe in part) == Counter(MWES)
    assert [len(part) for part in mwes] == [4, 1, 2]  # of 7: 50, 15 and 35 percent, rounded


@pytest.mark.parametrize(("queries", "each", "count"), [(2, 6, 2), (9, 6, 3), (3, 5, 2)])
def test_at_most_so_many_sentences_and_at_most_half_become_queries(tmp_path, queries, each, count):
    splits = build_benchmark(semeval(tmp_path, *both_senses(each=each)), "en", queries=queries)
    by_usage = Counter(
        (query.idiom, query.usage) for split in splits.values() for query in split.queries
    )
    assert by_usage == {(mwe, usage): count for mwe in MWES for usage in SENSES}
    indexed = Counter((document.idiom, document.usage) for document in all_documents(splits))
    for mwe in MWES:
        left = each - count
        assert [indexed[mwe, usage] for usage in USAGES] == [left, left, left, 0, 2 * left]


def test_correct_paraphrases_are_simplifications_and_incorrect_ones_distractors(small):
    documents = all_documents(build_benchmark(small, "en"))
    for usage, sources, spans in (
        ("simplification", {"idiomatic"}, {"true idiomatic"}),
        ("distractor", set(SENSES), {"wrong idiomatic", "wrong literal"}),
    ):
        originals = {d.sentence for d in documents if d.usage in sources}
        paraphrases = [d for d in documents if d.usage == usage]
        assert {d.span for d in paraphrases} == spans
        assert {d.sentence.replace(d.span, d.idiom) for d in paraphrases} == originals


def test_a_benchmark_is_written_and_read(small, tmp_path):
    splits = build_benchmark(small, "en", seed=3)
    assert splits == build_benchmark(small, "en", seed=3)
    assert splits != build_benchmark(small, "en", seed=4)
    ids = [p.id for split in splits.values() for p in split.queries + split.documents]
    assert len(set(ids)) == len(ids)
    out = tmp_path / "built"
    for _ in range(2):  # its own folder is replaced
        write_benchmark(out, splits)
        assert {name: read_split(str(out), name) for name in SPLITS} == splits


def test_a_span_that_stands_in_the_sentence_before_gets_the_right_occurrence(tmp_path):
    uses = [
        ("night owl", f"A person met the night owl {k} {label}.", label)
        for label in "01"
        for k in range(4)
    ]
    pairs = [(mwe, text, text.replace(mwe, "person"), True) for mwe, text, _ in uses]
    splits = build_benchmark(semeval(tmp_path, uses + FILLERS, pairs), "en")
    simplifications = [d for d in all_documents(splits) if d.usage == "simplification"]
    assert len(simplifications) == 2
    for document in simplifications:
        assert (document.span, document.occurrence) == ("person", 2)
        assert document.sentence[: document.place[0]] == "A person met the "


@pytest.mark.parametrize(
    ("sentence", "paraphrase", "span"),
    [
        ("He hit a home run, then left.", "He hit a big success, then left.", "big success"),
        ("Um pé-frio chegou.", "Um azarado chegou.", "azarado"),
        ("He felt blue about it.", "He felt very blue about it.", "very"),
        ("Full of hot air.", "Full of.", None),  # there is nothing to mark
    ],
)
def test_the_words_of_a_paraphrase_that_replace_others_are_marked(
    tmp_path, sentence, paraphrase, span
):
    mwe = "the mwe"
    uses = [(mwe, f"{sentence} {k} the mwe {label}", label) for k in range(2) for label in "01"]
    pairs = [(mwe, use, use.replace(sentence, paraphrase), True) for _, use, _ in uses]
    splits = build_benchmark(semeval(tmp_path, uses + FILLERS, pairs), "en")
    simplifications = [d for d in all_documents(splits) if d.usage == "simplification"]
    assert [d.span for d in simplifications] == ([span] if span else [])
    assert all(d.sentence[slice(*d.place)] == span for d in simplifications)


def test_a_paraphrase_that_repeats_words_is_compared_at_once(tmp_path):
    first, second = (" ".join(f"a {sign}{k}" for k in range(500)) for sign in "xy")
    uses = [("the mwe", f"{first} {k} the mwe {c}", c) for k in range(2) for c in "01"]
    pairs = [("the mwe", use, use.replace(first, second), True) for _, use, _ in uses]
    with quickly(5):
        splits = build_benchmark(semeval(tmp_path, uses + FILLERS, pairs), "en")
    assert "simplification" in {d.usage for d in all_documents(splits)}


def test_only_sentences_of_the_language_count_and_three_mwes_are_needed(tmp_path):
    semeval(tmp_path, *both_senses(), language="PT")
    assert {d.idiom for d in all_documents(build_benchmark(tmp_path, "pt"))} == set(MWES)
    with pytest.raises(UserError, match=rf"{tmp_path}.*'en'.*pt\.") as caught:
        build_benchmark(tmp_path, "en")
    assert caught.value.settings == ("lang",)
    few = semeval(tmp_path / "few", [("night owl", f"A night owl {k}.", "0") for k in range(6)])
    with pytest.raises(UserError, match="few: has 0 MWEs"):
        build_benchmark(few, "en")


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_benchmark_of_the_real_files_is_sound(shared: Path, language):
    task = shared / "semeval2022_task2"
    splits = build_benchmark(task, language)
    b = task / "subtask_b"
    pairs = read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv")
    seen: set[str] = set()
    for split in splits.values():
        queries = {query.sentence for query in split.queries}
        paraphrases = {pair.second for pair in pairs if pair.gold and pair.first in queries}
        assert not {document.sentence for document in split.documents} & (queries | paraphrases)
        mwes = {query.idiom for query in split.queries}
        assert mwes
        assert mwes == {document.idiom for document in split.documents}
        assert not mwes & seen
        seen |= mwes
        assert {document.usage for document in split.documents} == set(KINDS)
        for passage in split.queries + split.documents:
            span = passage.span
            assert passage.sentence[slice(*passage.place)] == span == span.strip()
            if passage.usage in SENSES:
                assert span.casefold().startswith(passage.idiom)
    counts = count_benchmark(splits).set_index("split").loc["test"]
    expected = {"en": (30, 150, 1054), "pt": (9, 49, 270)}[language]
    assert (counts["MWEs"], counts["queries"], counts[list(KINDS)].sum()) == expected
