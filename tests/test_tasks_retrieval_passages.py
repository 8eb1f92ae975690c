from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import OWLS, passage
from hypothesis import given
from hypothesis import strategies as st

from admire.base.errors import UserError
from admire.tasks.retrieval.modes import USAGES
from admire.tasks.retrieval.passages import (
    Passage,
    Split,
    locate,
    read_passages,
    read_split,
    relevance,
    relevant,
    write_split,
)


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


def write(path: Path, rows: Sequence[Any]) -> Path:
    """The rows as a JSON list or as JSON lines, as the file's name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(one, ensure_ascii=False) for one in rows]
    text = "\n".join(lines) if path.suffix == ".jsonl" else "[" + ",".join(lines) + "]"
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------- positions of spans


@pytest.mark.parametrize(
    ("text", "span", "occurrence", "place"),
    [
        ("a night owl", "night owl", 1, (2, 11)),
        ("Owl and OWL", "owl", 2, (8, 11)),
        ("Owl or owl", "owl", 1, (7, 10)),  # as written before any other case
        ("hahaha", "haha", 2, (2, 6)),  # occurrences may overlap
        ("İki gece kuşu", "gece kuşu", 1, (4, 13)),
        ("İİİ is Turkish", "İ", 3, (2, 3)),
    ],
)
def test_the_nth_occurrence_is_found_as_written_or_else_in_any_case(text, span, occurrence, place):
    assert locate(text, span, occurrence) == place


LETTERS = st.text("aAbBİi\u0307ßẞ ", max_size=12)


@given(LETTERS, LETTERS, st.integers(1, 4))
def test_a_position_is_never_another_text_though_lower_case_may_be_longer(text, span, occurrence):
    exact = [k for k in range(len(text)) if span and text[k:].startswith(span)]
    try:
        start, end = locate(text, span, occurrence)
    except ValueError:
        assert len(exact) < occurrence
        return
    assert text[start:end].lower() == span.lower()
    if len(exact) >= occurrence:
        assert start == exact[occurrence - 1]


# ------------------------------------------------------------------------------------ relevance


def test_relevant_is_the_same_pie_in_the_same_sense_whatever_its_case():
    wanted = {"literal": {"literal"}, "idiomatic": {"idiomatic", "simplification", "sense"}}
    queries = tuple(passage(f"q-{usage}", "A night owl.", usage) for usage in wanted)
    documents = [passage(usage, "A night owl.", usage, idiom="Night Owl") for usage in USAGES]
    others = [replace(d, idiom="night owls") for d in documents]
    split = Split(queries, (*documents, *others))
    for query, flags in zip(queries, relevance(split), strict=True):
        assert {d.id for d in documents if relevant(query, d)} == wanted[query.usage]
        assert flags.tolist() == [relevant(query, d) for d in split.documents]
        assert not any(flags[len(documents) :])


# ---------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["indexes.json", "indexes.jsonl"])
def test_a_file_is_read_in_order_with_every_column(tmp_path, name):
    rows = [
        row(),
        row(id="d2", sentence="Owl, owl.", span="owl", occurrence=2, subject="", is_gold=False),
        row(id="d3", usage="sense", sentence="Sie schläft spät – “spät”!", span="“spät”"),
    ]
    found = read_passages(write(tmp_path / name, rows))
    assert found == [Passage(**one) for one in rows]
    assert found[1].place == (5, 8)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[]", "holds no passages"),
        ("a.json", '{"passages": []}', "is not a JSON list"),
        # Blank lines count as rows but hold nothing.
        ("a.jsonl", f"\n{json.dumps(row())}\n\n{json.dumps(row(usage='odd'))}", "row 4, usage: "),
        ("a.json", json.dumps([row(), row(id=" ")]), "row 2, id: is empty"),
        ("a.json", json.dumps([row(), row(span="early bird")]), "row 2: span: 'early bird' is not"),
        ("a.json", json.dumps([row(), row(occurrence=2)]), "row 2: span: 'night owl' is not in it"),
        ("a.json", json.dumps([row(id="1"), row(id=1)]), "row 2, id: '1' stands in two rows"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_passages(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


# --------------------------------------------------------------------------------------- splits


def benchmark_folder(folder: Path, suffix: str = ".json") -> Path:
    queries = [row(id=f"q-{usage}", usage=usage) for usage in ("literal", "idiomatic")]
    write(folder / "test" / f"queries{suffix}", queries)
    write(folder / "test" / f"indexes{suffix}", [row(id=u, usage=u) for u in USAGES])
    return folder


def test_a_split_has_its_queries_and_documents_also_in_files_of_two_kinds(tmp_path):
    benchmark_folder(tmp_path)
    (tmp_path / "test/indexes.json").unlink()
    write(tmp_path / "test/indexes.jsonl", [row(id=u, usage=u) for u in USAGES])
    found = read_split(str(tmp_path), "test")
    assert [query.id for query in found.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in found.documents] == list(USAGES)
    some = read_split(str(tmp_path), "test", ("sense", "literal"))
    assert [document.id for document in some.documents] == ["literal", "sense"]
    assert some.queries == found.queries


def test_a_split_can_be_restricted_to_what_people_checked(tmp_path):
    checked = Split(
        tuple(passage(f"q{k}", "A night owl.", is_gold=k < 1) for k in range(3)),
        tuple(passage(f"d{k}", "A night owl.", is_gold=k > 0) for k in range(3)),
    )
    write_split(tmp_path, "test", checked)
    found = read_split(str(tmp_path), "test", gold=True)
    assert [q.id for q in found.queries] == ["q0"]
    assert [d.id for d in found.documents] == ["d1", "d2"]
    write_split(tmp_path, "test", Split(checked.queries[1:], checked.documents))
    with pytest.raises(UserError, match="no documents or no queries that people checked"):
        read_split(str(tmp_path), "test", gold=True)


@pytest.mark.parametrize(
    ("split", "usages", "message"),
    [
        ("test", ["sens"], "usage cannot be 'sens'. Did you mean 'sense'? There are: literal, "),
        ("test", ["distractor"], "the split 'test' has no documents or no queries of distractor."),
        ("val", [], "has no val/queries.json (or .jsonl). A benchmark has the splits train, val"),
    ],
)
def test_a_split_that_cannot_be_had_is_named(tmp_path, split, usages, message):
    kept = tuple(d for d in OWLS.documents if d.usage != "distractor")
    write_split(tmp_path, "test", replace(OWLS, documents=kept))
    with pytest.raises(UserError, match=re.escape(message)):
        read_split(str(tmp_path), split, usages)


def test_a_query_with_a_usage_of_documents_is_refused(tmp_path):
    write(benchmark_folder(tmp_path) / "test/queries.json", [row(usage="sense")])
    with pytest.raises(UserError, match="the query 'd1' has the usage 'sense'"):
        read_split(str(tmp_path), "test")


def test_any_other_name_is_a_dataset_on_the_hub(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
    benchmark_folder(tmp_path, ".jsonl")
    asked = []

    def hub_file(repository: str, *names: str, **options: Any) -> Path:
        asked.append((repository, names, options))
        return tmp_path / names[-1]

    monkeypatch.setattr("admire.models.encoders.hub.hub_file", hub_file)
    found = read_split("Intellexus/IdioLink", "test", ["sense"])
    assert [query.id for query in found.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in found.documents] == ["sense"]
    assert asked == [
        ("Intellexus/IdioLink", (f"test/{name}.json", f"test/{name}.jsonl"), {"kind": "dataset"})
        for name in ("queries", "indexes")
    ]
