"""Texts with a marked span: where spans are, what is relevant, files and what is refused of them;
and the benchmark that is built from SemEval-2022 Task 2."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import hide
from hypothesis import given
from hypothesis import strategies as st

from admire.errors import UserError
from admire.retrieval.benchmark import build
from admire.retrieval.passages import (
    SPLITS,
    USAGES,
    Passage,
    Split,
    locate,
    read_passages,
    read_split,
    relevant,
    write_split,
)
from admire.sts.pairs import read_pairs

QUERY_USAGES = ("literal", "idiomatic")


def row(**changes: Any) -> dict[str, Any]:
    """A row as IdioLink's files have it; None leaves a column out."""
    full = {
        "id": "d1",
        "sentence": "My sister is a night owl.",
        "idiom": "night owl",
        "span": "night owl",
        "subject": "Culture",
        "usage": "idiomatic",
        "is_gold": True,
    } | changes
    return {name: value for name, value in full.items() if value is not None}


def passage(**changes: Any) -> Passage:
    return Passage(**row(**changes))


def write(path: Path, rows: Sequence[Any]) -> Path:
    """The rows as a JSON list or as JSON lines, as the file's name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(one, ensure_ascii=False) for one in rows]
    text = "\n".join(lines) if path.suffix == ".jsonl" else "[" + ",".join(lines) + "]"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(params=[".json", ".jsonl"])
def path(request, tmp_path) -> Path:
    return tmp_path / f"indexes{request.param}"


def refused(path: Path, *words: str, usages: Sequence[str] = USAGES) -> str:
    """The message that reading ends in; it names the file and holds the words."""
    with pytest.raises(UserError) as caught:
        read_passages(path, usages)
    message = str(caught.value)
    for word in (str(path), *words):
        assert word in message
    return message


# --------------------------------------------------------------------------- where a span stands


@pytest.mark.parametrize(
    ("text", "span", "occurrence", "place"),
    [
        ("a night owl", "night owl", 1, (2, 11)),
        ("owl to owl to owl", "owl", 2, (7, 10)),
        ("owl to owl to owl", "owl", 3, (14, 17)),
        ("Night Owl, that is her", "night owl", 1, (0, 9)),
        ("Owl and OWL", "owl", 2, (8, 11)),
        ("Owl or owl", "owl", 1, (7, 10)),  # as written before any other case
        ("Owl or owl", "Owl", 1, (0, 3)),
        ("haha ha", "haha", 1, (0, 4)),
        ("hahaha", "haha", 2, (2, 6)),  # occurrences may overlap
        ("aaaa", "aa", 3, (2, 4)),
        ("İki gece kuşu", "gece kuşu", 1, (4, 13)),
        ("İİİ is Turkish", "İ", 3, (2, 3)),
        ("straße und strasse", "strasse", 1, (11, 18)),
    ],
)
def test_the_nth_occurrence_is_found_as_written_or_else_in_any_case(text, span, occurrence, place):
    assert locate(text, span, occurrence) == place


@pytest.mark.parametrize(
    ("text", "span", "occurrence", "message"),
    [
        ("a night owl", "day owl", 1, "'day owl' is not in it"),
        ("a night owl", "night owl", 2, "'night owl' is not in it 2 times"),
        ("a night owl", "", 1, "'' is not in it"),
        ("", "owl", 1, "'owl' is not in it"),
    ],
)
def test_a_span_that_the_text_does_not_have_so_often_is_refused(text, span, occurrence, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        locate(text, span, occurrence)


LETTERS = st.text("aAbBİi\u0307ßẞ ", max_size=12)


def starts(text: str, span: str) -> list[int]:
    return [k for k in range(len(text)) if span and text[k:].startswith(span)]


@given(LETTERS, LETTERS, st.integers(1, 4))
def test_places_are_those_of_a_plain_search_as_far_as_it_finds_the_span(text, span, occurrence):
    exact = starts(text, span)
    if len(exact) >= occurrence:
        start = exact[occurrence - 1]
        assert locate(text, span, occurrence) == (start, start + len(span))


@given(
    st.text("aAbBßñÑ ", max_size=12), st.text("aAbBñÑ", min_size=1, max_size=2), st.integers(1, 4)
)
def test_where_case_alone_differs_any_case_counts(text, span, occurrence):
    exact, folded = starts(text, span), starts(text.lower(), span.lower())
    found = exact if len(exact) >= occurrence else folded
    if len(found) >= occurrence:
        start = found[occurrence - 1]
        assert locate(text, span, occurrence) == (start, start + len(span))
    else:
        with pytest.raises(ValueError, match="is not in it"):
            locate(text, span, occurrence)


@given(LETTERS, LETTERS, st.integers(1, 4))
def test_a_place_is_never_another_text_though_lower_case_may_be_longer(text, span, occurrence):
    try:
        start, end = locate(text, span, occurrence)
    except ValueError:
        return
    assert 0 <= start < end <= len(text)
    assert text[start:end].lower() == span.lower()


def test_a_passage_tells_the_place_of_its_span():
    one = passage(sentence="An owl saw an owl.", span="owl", occurrence=2)
    start, end = one.place
    assert (start, end) == (14, 17)
    assert one.sentence[start:end] == "owl"


# ------------------------------------------------------------------------------------ relevance


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [("literal", {"literal"}), ("idiomatic", {"idiomatic", "simplification", "sense"})],
)
def test_relevant_is_the_same_pie_in_the_same_sense(usage, wanted):
    query = passage(id="q", usage=usage)
    documents = [passage(id=usage, usage=usage) for usage in USAGES]
    assert {d.id for d in documents if relevant(query, d)} == wanted
    others = [replace(d, idiom="night owls") for d in documents]
    assert not any(relevant(query, d) for d in others)


def test_the_case_of_a_pie_does_not_matter():
    assert relevant(passage(idiom="Night Owl"), passage(idiom="night owl"))


# ---------------------------------------------------------------------------------------- files


def test_a_file_is_read_in_order_with_every_column(path):
    rows = [
        row(),
        row(id="d2", sentence="Owl, owl.", span="owl", occurrence=1, subject="", is_gold=False),
        row(id="d3", usage="sense", sentence="Sie schläft spät – “spät”!", span="“spät”"),
    ]
    assert read_passages(write(path, rows)) == [Passage(**one) for one in rows]


def test_what_may_be_left_out_of_a_row(path):
    (one,) = read_passages(write(path, [row(subject=None, is_gold=None)]))
    assert (one.subject, one.is_gold, one.occurrence) == ("", True, 1)


def test_ids_may_be_numbers(path):
    found = read_passages(write(path, [row(id=7), row(id=8)]))
    assert [one.id for one in found] == ["7", "8"]


def test_ids_may_be_numbered_from_zero(path):
    found = read_passages(write(path, [row(id=0), row(id=1)]))
    assert [one.id for one in found] == ["0", "1"]


def test_blank_lines_of_a_jsonl_file_count_as_rows_but_hold_nothing(tmp_path):
    path = tmp_path / "indexes.jsonl"
    path.write_text(f"\n{json.dumps(row())}\n\n{json.dumps(row(usage='odd'))}\n")
    refused(path, "row 4, usage: 'odd'")


def test_a_missing_file_is_named(path):
    refused(path, "cannot be read (No such file or directory)")


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_empty_file_is_named(path, content):
    path.write_text(content)
    refused(path, "is empty")


def test_a_list_without_passages_is_named(tmp_path):
    refused(write(tmp_path / "indexes.json", []), "holds no passages")


def test_text_that_is_not_json_is_named_with_its_row_if_it_has_one(tmp_path):
    path = tmp_path / "indexes.json"
    path.write_text("[{]")
    refused(path, "is not JSON (")
    path.write_text("[" * 100_000)
    refused(path, "is not JSON (")
    lines = tmp_path / "indexes.jsonl"
    lines.write_text(f"{json.dumps(row())}\n{{\n")
    refused(lines, "row 2: is not JSON (")


def test_json_that_is_no_list_is_refused(tmp_path):
    path = tmp_path / "indexes.json"
    path.write_text(json.dumps({"passages": [row()]}))
    refused(path, "is not a JSON list of passages")


def test_a_file_that_is_not_utf_8_is_named(path):
    path.write_bytes(b'[{"id": "\xff"}]')
    refused(path, "is not UTF-8")


@pytest.mark.parametrize("one", [[1], "night owl", 3, None])
def test_a_row_that_is_no_object_is_named(path, one):
    refused(write(path, [row(), one]), "row 2: is not a JSON object")


@pytest.mark.parametrize("column", ["id", "sentence", "idiom", "span", "usage"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_or_empty_column_is_named(path, column, value):
    rows = [row(), row(**({"id": "d2"} | {column: value}))]
    refused(write(path, rows), f"row 2, {column}: is missing or empty")


def test_a_column_that_is_null_is_missing(path):
    refused(write(path, [row() | {"span": None}]), "row 1, span: is missing or empty")


@pytest.mark.parametrize("usage", ["figurative", "Idiomatic", ["idiomatic"], 1])
def test_an_unknown_usage_is_named_beside_those_there_are(path, usage):
    rows = [row(), row(id="d2", usage=usage)]
    refused(write(path, rows), f"row 2, usage: '{usage}' is not one of", ", ".join(USAGES))


def test_queries_have_fewer_usages_than_documents(path):
    write(path, [row(usage="sense")])
    assert read_passages(path)
    refused(path, "row 1, usage: 'sense' is not one of literal, idiomatic.", usages=QUERY_USAGES)


def test_a_span_that_is_not_in_its_sentence_is_named_beside_the_sentence(path):
    rows = [row(), row(id="d2", span="early bird")]
    refused(write(path, rows), "row 2, span: 'early bird' is not in it: “My sister is a night owl")


def test_an_occurrence_that_the_sentence_lacks_is_named(path):
    refused(write(path, [row(occurrence=2)]), "row 1, span: 'night owl' is not in it 2 times")


@pytest.mark.parametrize("occurrence", [0, -1, 1.5, "2", True, []])
def test_an_occurrence_that_is_no_number_from_1_is_named(path, occurrence):
    rows = [row(), row(id="d2", occurrence=occurrence)]
    refused(write(path, rows), f"row 2, occurrence: '{occurrence}' is not a number from 1")


def test_an_id_that_stands_in_two_rows_is_named(path):
    rows = [row(), row(id="d2"), row()]
    refused(write(path, rows), "row 3, id: 'd1' stands in two rows")


def test_a_number_and_its_digits_are_one_id(path):
    refused(write(path, [row(id=7), row(id="7")]), "row 2, id: '7' stands in two rows")


def test_half_a_surrogate_pair_is_refused(path):
    line = json.dumps(row(id="\ud800"))
    path.write_text(line if path.suffix == ".jsonl" else f"[{line}]")
    refused(path, "row 1")


# --------------------------------------------------------------------------------------- splits


def benchmark_folder(folder: Path, suffix: str = ".json", split: str = "test") -> Path:
    queries = [row(id=f"q-{usage}", usage=usage) for usage in QUERY_USAGES]
    write(folder / split / f"queries{suffix}", queries)
    write(folder / split / f"indexes{suffix}", [row(id=usage, usage=usage) for usage in USAGES])
    return folder


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_split_has_its_queries_and_documents(tmp_path, suffix):
    found = read_split(str(benchmark_folder(tmp_path, suffix)), "test")
    assert [query.id for query in found.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in found.documents] == list(USAGES)


def test_both_files_need_not_be_of_one_kind(tmp_path):
    benchmark_folder(tmp_path)
    (tmp_path / "test/indexes.json").unlink()
    write(tmp_path / "test/indexes.jsonl", [row(id="only")])
    assert [d.id for d in read_split(str(tmp_path), "test").documents] == ["only"]


@pytest.mark.parametrize("usages", [("literal",), ("sense", "literal"), USAGES[1:]])
def test_an_index_can_be_restricted_to_usages_and_keeps_its_order(tmp_path, usages):
    benchmark_folder(tmp_path)
    found = read_split(str(tmp_path), "test", usages)
    assert [d.id for d in found.documents] == [usage for usage in USAGES if usage in usages]
    assert found.queries == read_split(str(tmp_path), "test").queries


def test_a_split_can_be_restricted_to_what_people_checked(tmp_path):
    checked = Split(
        tuple(passage(id=f"q{k}", is_gold=k < 1) for k in range(3)),
        tuple(passage(id=f"d{k}", is_gold=k > 0) for k in range(3)),
    )
    write_split(tmp_path, "test", checked)
    found = read_split(str(tmp_path), "test", gold=True)
    assert [q.id for q in found.queries] == ["q0"]
    assert [d.id for d in found.documents] == ["d1", "d2"]
    write_split(tmp_path, "test", Split(checked.queries[1:], checked.documents))
    with pytest.raises(UserError, match="no documents or no queries that people checked"):
        read_split(str(tmp_path), "test", gold=True)


def split_refused(source: object, *words: str, split: str = "test", usages=()) -> None:
    with pytest.raises(UserError) as caught:
        read_split(str(source), split, usages)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_usage_of_the_index_is_refused(tmp_path):
    benchmark_folder(tmp_path)
    split_refused(tmp_path, "'figurative' is no usage", ", ".join(USAGES), usages=["figurative"])


def test_an_index_without_documents_of_the_usages_is_refused(tmp_path):
    benchmark_folder(tmp_path)
    write(tmp_path / "test/indexes.json", [row()])
    split_refused(
        tmp_path,
        str(tmp_path),
        "the split 'test' has no documents or no queries of literal, sense",
        usages=["literal", "sense"],
    )


def test_an_empty_index_is_refused(tmp_path):
    benchmark_folder(tmp_path)
    path = write(tmp_path / "test/indexes.json", [])
    split_refused(tmp_path, f"{path}: holds no passages")


@pytest.mark.parametrize("name", ["queries", "indexes"])
def test_a_folder_without_a_file_is_told_what_is_missing(tmp_path, name):
    benchmark_folder(tmp_path)
    (tmp_path / f"test/{name}.json").unlink()
    split_refused(tmp_path, str(tmp_path), f"has no test/{name}.json (or .jsonl)")


def test_a_folder_without_the_split_is_told_which_splits_there_are(tmp_path):
    benchmark_folder(tmp_path)
    split_refused(tmp_path, "has no val/queries.json", "train, val, test", split="val")


def test_a_query_of_a_document_usage_is_refused(tmp_path):
    benchmark_folder(tmp_path)
    path = write(tmp_path / "test/queries.json", [row(usage="simplification")])
    split_refused(tmp_path, f"{path}, row 1, usage: 'simplification'")


def test_any_other_name_is_a_dataset_on_the_hub(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
    benchmark_folder(tmp_path, ".jsonl")
    asked = []

    def hub_file(repository: str, *names: str, **options: Any) -> Path:
        asked.append((repository, names, options))
        return tmp_path / names[-1]

    monkeypatch.setattr("admire.encoders.hub.hub_file", hub_file)
    found = read_split("Intellexus/IdioLink", "test", ["sense"])
    assert [query.id for query in found.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in found.documents] == ["sense"]
    assert asked == [
        (
            "Intellexus/IdioLink",
            (f"test/{name}.json", f"test/{name}.jsonl"),
            {"kind": "dataset"},
        )
        for name in ("queries", "indexes")
    ]


def test_without_the_hubs_package_a_name_that_is_no_folder_says_what_is_missing(
    monkeypatch, tmp_path
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    hide(monkeypatch, "huggingface_hub")
    split_refused("some/where", "some/where: is no folder", "extra 'clip'")


def test_what_was_written_is_read_the_same(tmp_path):
    content = Split(
        (passage(id="q", occurrence=2, sentence="An owl, an owl.", span="owl"),),
        tuple(passage(id=f"d {usage}", usage=usage, subject="Ärzte") for usage in USAGES),
    )
    write_split(tmp_path / "new", "val", content)
    assert read_split(str(tmp_path / "new"), "val") == content
    written = (tmp_path / "new/val/indexes.json").read_text(encoding="utf-8")
    assert "Ärzte" in written
    assert json.loads(written) == [asdict(one) for one in content.documents]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"file/test/queries\.json: cannot be written"):
        write_split(tmp_path / "file", "test", Split((passage(),), (passage(),)))


# ---------------------------------------------------------------- the benchmark, from small files

MWES = ("night owl", "home run", "cold feet", "red tape", "big fish", "hot air", "swan song")
"""In both senses; enough for every split to have some."""


def table(path: Path, columns: str, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(list(rows), columns=columns.split()).to_csv(path, index=False)


def semeval(
    folder: Path,
    uses: Sequence[tuple[str, str, str]],
    pairs: Sequence[tuple[str, str, str, bool]] = (),
    language: str = "EN",
) -> Path:
    """Task 2's files, uses (MWE, sentence, label) and pairs (MWE, sentence, paraphrase, correct)
    dealt to all of them in turn."""
    a, b = folder / "subtask_a", folder / "subtask_b"
    labelled = "DataID Language MWE Setting Previous Target Next Label"
    for k, name in enumerate(("train_zero_shot", "train_one_shot")):
        rows = [
            (f"t{j}", language, m, name, "", s, "", label) for j, (m, s, label) in enumerate(uses)
        ]
        table(a / f"{name}.csv", labelled, rows[k::3])
    rows = [(str(k), language, m, "", s, "") for k, (m, s, _) in enumerate(uses)]
    gold = [(str(k), f"dev.{k}", language, label) for k, (_, _, label) in enumerate(uses)]
    table(a / "dev.csv", "ID Language MWE Previous Target Next", rows[2::3])
    table(a / "dev_gold.csv", "ID DataID Language Label", gold[2::3][::-1])
    rows = [
        (f"t{k}", m, "None", language, s, p, "1" if right else "None", s, p)
        for k, (m, s, p, right) in enumerate(pairs)
    ]
    columns = "ID MWE1 MWE2 Language sentence_1 sentence_2 sim alternative_1 alternative_2"
    plain = ("sts", "None", "None", language, "A plane.", "An airplane.", "1", "", "")
    table(b / "train_data.csv", columns, [*rows[::2], plain])
    rows = [(str(k), language, m, "None", s, p) for k, (m, s, p, _) in enumerate(pairs)]
    gold = [
        (str(k), f"dev.{k}", language, "1" if right else "", str(k))
        for k, (_, _, _, right) in enumerate(pairs)
    ]
    unused = [("x", language, MWES[0], "None", "not", "compared")]
    table(b / "dev.csv", "ID Language MWE1 MWE2 sentence1 sentence2", rows[1::2] + unused)
    table(b / "dev.gold.csv", "ID DataID Language sim otherID", gold[1::2])
    return folder


def both_senses(
    mwes: Sequence[str] = MWES, each: int = 6
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str, bool]]]:
    """Uses of each MWE in both senses, and a right and a wrong paraphrase of each sentence."""
    uses, pairs = [], []
    for number, mwe in enumerate(mwes):
        for label, kind in (("0", "idiomatic"), ("1", "literal")):
            for k in range(each):
                sentence = f"Witness {number} saw {kind} number {k}, a {mwe} indeed."
                uses.append((mwe, sentence, label))
                words = f"true {kind}", f"wrong {kind}"
                for word, right in zip(words, (True, False), strict=True):
                    pairs.append((mwe, sentence, sentence.replace(mwe, word), right))
    return uses, pairs


@pytest.fixture
def small(tmp_path) -> Path:
    return semeval(tmp_path / "task2", *both_senses())


def all_documents(splits: dict[str, Split]) -> list[Passage]:
    return [document for split in splits.values() for document in split.documents]


def test_no_mwe_stands_in_two_splits_and_each_is_in_one(small):
    splits = build(small, "en")
    assert tuple(splits) == SPLITS
    of = [{one.idiom for one in split.queries} for split in splits.values()]
    assert of == [{one.idiom for one in split.documents} for split in splits.values()]
    assert Counter(mwe for mwes in of for mwe in mwes) == Counter(MWES)
    assert [len(mwes) for mwes in of] == [4, 1, 2]  # of 7: 50, 15 and 35 percent, rounded


def test_senses_are_those_of_the_labels_and_zero_is_idiomatic(small):
    for split in build(small, "en").values():
        for one in split.queries + split.documents:
            kind = {"distractor": "number", "simplification": "idiomatic"}.get(one.usage, one.usage)
            assert kind in one.sentence


def test_no_query_and_no_paraphrase_of_one_is_among_the_documents(small):
    _, pairs = both_senses()
    for split in build(small, "en").values():
        asked = {query.sentence for query in split.queries}
        told = {paraphrase for _, sentence, paraphrase, _ in pairs if sentence in asked}
        assert len(told) == 2 * len(asked)
        assert not {document.sentence for document in split.documents} & (asked | told)


def test_a_paraphrase_that_a_query_shares_with_a_document_is_left_out(tmp_path):
    ends = ("owl.", "Owl.")
    uses = [("night owl", f"He is a night {end}", "0") for end in ends]
    uses += [("night owl", f"It flew, this night owl, {k}.", "1") for k in range(2)]
    pairs = [("night owl", f"He is a night {end}", "He is a late riser.", True) for end in ends]
    splits = build(semeval(tmp_path, uses + FILLERS, pairs), "en")
    assert "He is a late riser." not in {one.sentence for one in all_documents(splits)}


@pytest.mark.parametrize(("queries", "each", "asked"), [(3, 6, 3), (2, 6, 2), (9, 6, 3), (3, 5, 2)])
def test_queries_are_so_many_at_most_and_at_most_half(tmp_path, queries, each, asked):
    splits = build(semeval(tmp_path, *both_senses(each=each)), "en", queries=queries)
    counted = Counter(
        (query.idiom, query.usage) for split in splits.values() for query in split.queries
    )
    assert counted == {(mwe, usage): asked for mwe in MWES for usage in QUERY_USAGES}
    indexed = Counter((one.idiom, one.usage) for one in all_documents(splits))
    for mwe in MWES:
        left = each - asked
        assert [indexed[mwe, usage] for usage in USAGES] == [left, left, left, 0, 2 * left]


def test_every_query_has_a_relevant_document(small):
    for split in build(small, "en").values():
        for query in split.queries:
            assert any(relevant(query, document) for document in split.documents)


def test_the_right_paraphrase_of_an_idiomatic_document_is_a_simplification(small):
    documents = all_documents(build(small, "en"))
    whole = {one.sentence for one in documents if one.usage == "idiomatic"}
    right = [one for one in documents if one.usage == "simplification"]
    assert {one.span for one in right} == {"true idiomatic"}
    assert {one.sentence.replace("true idiomatic", one.idiom) for one in right} == whole


def test_the_wrong_paraphrase_of_any_document_is_a_distractor(small):
    documents = all_documents(build(small, "en"))
    whole = {one.sentence for one in documents if one.usage in QUERY_USAGES}
    wrong = [one for one in documents if one.usage == "distractor"]
    assert {one.span for one in wrong} == {"wrong idiomatic", "wrong literal"}
    assert {one.sentence.replace(one.span, one.idiom) for one in wrong} == whole


def test_what_is_right_of_one_pair_is_no_distractor_by_another(tmp_path):
    uses, pairs = both_senses()
    pairs = [(mwe, s, p.replace("wrong", "true"), right) for mwe, s, p, right in pairs]
    documents = all_documents(build(semeval(tmp_path, uses, pairs), "en"))
    assert not any(one.usage == "distractor" for one in documents)


def test_without_paraphrases_there_are_sentences_alone(tmp_path):
    splits = build(semeval(tmp_path, both_senses()[0]), "en")
    assert {one.usage for one in all_documents(splits)} == set(QUERY_USAGES)


def test_ids_are_unique_over_all_splits_and_a_split_can_be_written_and_read(small, tmp_path):
    splits = build(small, "en")
    passages = [one for split in splits.values() for one in split.queries + split.documents]
    assert len({one.id for one in passages}) == len(passages)
    for name, split in splits.items():
        write_split(tmp_path / "built", name, split)
        assert read_split(str(tmp_path / "built"), name) == split


def test_the_same_seed_gives_the_same_splits_and_another_gives_others(small):
    assert build(small, "en", seed=3) == build(small, "en", seed=3)
    assert build(small, "en", seed=3) != build(small, "en", seed=4)


@pytest.mark.parametrize("labels", ["000000", "111111", "000001", "011111"])
def test_an_mwe_that_is_not_used_in_both_senses_twice_is_left_out(tmp_path, labels):
    uses, pairs = both_senses()
    uses += [("green light", f"A green light at {k}.", label) for k, label in enumerate(labels)]
    splits = build(semeval(tmp_path, uses, pairs), "en")
    assert {one.idiom for one in all_documents(splits)} == set(MWES)


def test_the_case_of_an_mwe_does_not_make_two_of_it(tmp_path):
    uses, pairs = both_senses()
    uses = [(mwe.title() if k % 2 else mwe, s, label) for k, (mwe, s, label) in enumerate(uses)]
    splits = build(semeval(tmp_path, uses, pairs), "en")
    assert {one.idiom for one in all_documents(splits)} == set(MWES)


def test_a_sentence_that_stands_in_two_files_is_used_once(tmp_path):
    uses, _ = both_senses()
    splits = build(semeval(tmp_path, uses + uses), "en")
    sentences = [
        one.sentence for split in splits.values() for one in split.queries + split.documents
    ]
    assert sorted(sentences) == sorted(sentence for _, sentence, _ in uses)


def test_a_sentence_that_lacks_the_mwe_is_left_out_and_counted(tmp_path, caplog):
    uses, pairs = both_senses()
    uses += [("night owl", f"An owl of the night, number {k}.", "0") for k in range(3)]
    with caplog.at_level("INFO", logger="admire"):
        splits = build(semeval(tmp_path, uses, pairs), "en")
    assert not any("owl of the night" in one.sentence for one in all_documents(splits))
    assert "3 sentences" in caplog.text


FILLERS = [
    (f"filler {name}", f"A filler {name}, {k}{label}.", label)
    for name in "ab"
    for label in "01"
    for k in range(2)
]
"""Two more MWEs, because there must be three."""


def marked(splits: dict[str, Split]) -> set[str]:
    """The words that are marked in the sentences that use an MWE, by the places of the spans."""
    found = set()
    for split in splits.values():
        for one in split.queries + split.documents:
            start, end = one.place
            assert one.sentence[start:end] == one.span
            if one.usage in QUERY_USAGES and "filler" not in one.idiom:
                found.add(one.span)
    return found


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ("home runs", "home runs"),
        ("Home Run", "Home Run"),
        ("home run-like", "home run"),
        ("home run’s", "home run"),
        ("home runs!", "home runs"),
    ],
)
def test_the_mwe_is_marked_as_it_is_written_and_to_the_end_of_the_word(tmp_path, written, span):
    uses = [
        ("home run", f"He saw the {written} of {k} {label}.", label)
        for k in range(4)
        for label in "01"
    ]
    assert marked(build(semeval(tmp_path, uses + FILLERS), "en")) == {span}


def test_a_span_that_stands_in_the_sentence_before_gets_the_right_occurrence(tmp_path):
    uses, pairs = [], []
    for label in "01":
        for k in range(4):
            sentence = f"A person met the night owl {k} {label}."
            uses.append(("night owl", sentence, label))
            pairs.append(("night owl", sentence, sentence.replace("night owl", "person"), True))
    splits = build(semeval(tmp_path, uses + FILLERS, pairs), "en")
    found = [one for one in all_documents(splits) if one.usage == "simplification"]
    assert len(found) == 2
    for one in found:
        assert (one.span, one.occurrence) == ("person", 2)
        assert one.sentence[: one.place[0]] == "A person met the "


@pytest.mark.parametrize(
    ("sentence", "paraphrase", "span"),
    [
        ("He hit a home run, then left.", "He hit a big success, then left.", "big success"),
        ("She has cold feet.", "She has great and sudden doubts.", "great and sudden doubts"),
        ("Um pé-frio chegou.", "Um azarado chegou.", "azarado"),
        ("Red tape kills us.", "Needless bureaucracy kills us.", "Needless bureaucracy"),
        ("That was a swan song", "That was a final bow", "final bow"),
        ("He felt blue about it.", "He felt very blue about it.", "very"),
    ],
)
def test_the_words_that_a_paraphrase_has_in_place_of_others_are_marked(
    tmp_path, sentence, paraphrase, span
):
    mwe = "the mwe"
    uses = [(mwe, f"{sentence} {k} the mwe {label}", label) for k in range(2) for label in "01"]
    pairs = [(mwe, use, use.replace(sentence, paraphrase), True) for _, use, _ in uses]
    (found,) = (
        one
        for one in all_documents(build(semeval(tmp_path, uses + FILLERS, pairs), "en"))
        if one.usage == "simplification"
    )
    assert found.span == span
    assert found.sentence[slice(*found.place)] == span


def test_a_paraphrase_that_only_leaves_words_out_has_nothing_to_mark(tmp_path):
    uses = [("hot air", f"Full of hot air, {k}{label}.", label) for k in range(4) for label in "01"]
    pairs = [
        ("hot air", s, s.replace("hot air", ""), right) for _, s, _ in uses for right in (1, 0)
    ]
    documents = all_documents(build(semeval(tmp_path, uses + FILLERS, pairs), "en"))
    assert {one.usage for one in documents} == set(QUERY_USAGES)


def test_only_sentences_of_the_language_are_taken(tmp_path):
    semeval(tmp_path, *both_senses(), language="PT")
    assert {one.idiom for one in all_documents(build(tmp_path, "pt"))} == set(MWES)
    with pytest.raises(UserError, match=r"has no sentences in 'en'. There are: pt\.") as caught:
        build(tmp_path, "en")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "subtask_a/train_zero_shot.csv",
        "subtask_a/train_one_shot.csv",
        "subtask_a/dev.csv",
        "subtask_a/dev_gold.csv",
        "subtask_b/train_data.csv",
        "subtask_b/dev.csv",
        "subtask_b/dev.gold.csv",
    ],
)
def test_a_missing_or_damaged_file_is_named(small, name):
    (small / name).write_text("some,other\ntable,here\n")
    with pytest.raises(UserError, match=rf"{re.escape(name)}: the column '\w+' is missing"):
        build(small, "en")
    (small / name).unlink()
    with pytest.raises(UserError, match=rf"{re.escape(name)}: cannot be read"):
        build(small, "en")


@pytest.mark.parametrize("gold", [[], [("2", "", "EN", "?")]])
def test_a_dev_sentence_without_a_label_is_named(small, gold):
    table(small / "subtask_a/dev_gold.csv", "ID DataID Language Label", gold)
    with pytest.raises(UserError, match=r"dev\.csv, row 1, ID: '2' has no label in .*dev_gold"):
        build(small, "en")


# ------------------------------------------------------------------------------- the real files


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_benchmark_of_the_real_files_is_sound(shared: Path, language):
    task = shared / "semeval2022_task2"
    splits = build(task, language)
    b = task / "subtask_b"
    pairs = read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv")
    seen: set[str] = set()
    ids: set[str] = set()
    for split in splits.values():
        asked = {query.sentence for query in split.queries}
        told = {pair.second for pair in pairs if pair.gold and pair.first in asked}
        assert not {document.sentence for document in split.documents} & (asked | told)
        mwes = {query.idiom for query in split.queries}
        assert mwes
        assert mwes == {document.idiom for document in split.documents}
        assert not mwes & seen
        seen |= mwes
        assert {query.usage for query in split.queries} == set(QUERY_USAGES)
        assert {one.usage for one in split.documents} == set(USAGES) - {"sense"}
        of_mwe = Counter((query.idiom, query.usage) for query in split.queries)
        kept = Counter((document.idiom, document.usage) for document in split.documents)
        for (mwe, usage), count in of_mwe.items():
            assert 1 <= count <= min(3, kept[mwe, usage])
        for query in split.queries:
            assert any(relevant(query, document) for document in split.documents)
        for one in split.queries + split.documents:
            start, end = one.place
            assert one.sentence[start:end] == one.span
            assert one.span.strip() == one.span
            assert one.id not in ids
            ids.add(one.id)
            if one.usage in QUERY_USAGES:
                assert one.span.casefold().startswith(one.idiom)
    assert build(task, language) == splits
