import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import USAGES, passage, write_split
from conftest import refused

from admire.core.errors import UserError
from admire.tasks.retrieval.passages import (
    Passage,
    Split,
    locate,
    read_passages,
    read_split,
    relevance,
)


def row(**changes: Any) -> dict[str, Any]:
    fields = asdict(passage("d1", "My sister is a night owl.", subject="Culture"))
    del fields["occurrence"]
    return fields | changes


def write(path: Path, rows: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) if row else "" for row in rows]
    text = "\n".join(lines) if path.suffix == ".jsonl" else "[" + ",".join(lines) + "]"
    path.write_text(text, encoding="utf-8")
    return path


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


def test_documents_of_the_same_pie_in_the_same_sense_are_relevant_whatever_their_case():
    relevant = {"literal": {"literal"}, "idiomatic": {"idiomatic", "simplification", "sense"}}
    queries = tuple(passage(f"q-{usage}", "A night owl.", usage) for usage in relevant)
    documents = [passage(usage, "A night owl.", usage, idiom="Night Owl") for usage in USAGES]
    others = [replace(d, id=f"other {d.id}", idiom="night owls") for d in documents]
    split = Split(queries, (*documents, *others))
    for usage, flags in zip(relevant, relevance(split), strict=True):
        ids = {d.id for d, flag in zip(split.documents, flags, strict=True) if flag}
        assert ids == relevant[usage]


@pytest.mark.parametrize("name", ["indexes.json", "indexes.jsonl"])
def test_a_file_is_read_in_order_with_every_column(tmp_path, name):
    rows = [
        row(),
        row(id="d2", sentence="Owl, owl.", span="owl", occurrence=2, subject="", is_gold=False),
        row(id="d3", usage="sense", sentence="Sie schläft spät – “spät”!", span="“spät”"),
    ]
    passages = read_passages(write(tmp_path / name, rows))
    assert passages == [Passage(**row) for row in rows]
    assert passages[1].place == (5, 8)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        # Blank lines count as rows but hold nothing.
        ("a.jsonl", ["", row(), "", row(usage="odd")], ", row 4, usage: "),
        ("a.json", [row(), row(id=" ")], ", row 2, id: "),
        ("a.json", [row(), row(span="early bird")], ", row 2: span: 'early bird'"),
        ("a.json", [row(), row(occurrence=2)], ", row 2: span: 'night owl'"),
        ("a.json", [row(id="1"), row(id=1)], ", row 2, id: '1'"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path, name, rows, message):
    path = write(tmp_path / name, rows)
    assert refused(path, read=read_passages).startswith(f"{path}{message}")


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    queries = [row(id=f"q-{usage}", usage=usage) for usage in ("literal", "idiomatic")]
    write(tmp_path / "test" / "queries.json", queries)
    write(tmp_path / "test" / "indexes.jsonl", [row(id=u, usage=u) for u in USAGES])
    return tmp_path


def test_a_split_has_its_queries_and_documents(benchmark, tmp_path):
    split = read_split(str(tmp_path), "test")
    assert [query.id for query in split.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in split.documents] == list(USAGES)
    part = read_split(str(tmp_path), "test", ("sense", "literal"))
    assert [document.id for document in part.documents] == ["literal", "sense"]
    assert part.queries == split.queries


def test_a_split_can_be_restricted_to_what_people_checked(tmp_path):
    checked = Split(
        tuple(passage(f"q{k}", "A night owl.", is_gold=k < 1) for k in range(3)),
        tuple(passage(f"d{k}", "A night owl.", is_gold=k > 0) for k in range(3)),
    )
    write_split(tmp_path, "test", checked)
    split = read_split(str(tmp_path), "test", gold=True)
    assert [q.id for q in split.queries] == ["q0"]
    assert [d.id for d in split.documents] == ["d1", "d2"]
    whole = [passage(f"b{k}", "A big bird.", idiom="Big", span="bird") for k in range(2)]
    both = Split((*checked.queries, whole[0]), (*checked.documents, whole[1]))
    write_split(tmp_path, "test", both)
    assert read_split(str(tmp_path), "test-gold") == Split((whole[0],), (whole[1],))
    assert read_split(str(tmp_path), "test-silver") == checked
    write_split(tmp_path, "test", Split(checked.queries[1:], checked.documents))
    with pytest.raises(UserError, match="people checked"):
        read_split(str(tmp_path), "test", gold=True)


def test_any_other_name_is_a_dataset_on_the_hub(benchmark, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
    requests = []

    def hub_file(repository: str, *names: str, **options: Any) -> Path:
        requests.append((repository, names, options))
        return next(benchmark / name for name in names if (benchmark / name).is_file())

    monkeypatch.setattr("admire.encoders.hub.hub_file", hub_file)
    split = read_split("Intellexus/IdioLink", "test", ["sense"])
    assert [query.id for query in split.queries] == ["q-literal", "q-idiomatic"]
    assert [document.id for document in split.documents] == ["sense"]
    assert requests == [
        ("Intellexus/IdioLink", (f"test/{name}.json", f"test/{name}.jsonl"), {"kind": "dataset"})
        for name in ("queries", "indexes")
    ]
