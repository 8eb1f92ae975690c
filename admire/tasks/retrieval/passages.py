"""Texts with a marked span: IdioLink's files, and which document is relevant to which query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.base.errors import UserError, check_extra
from admire.base.files import check_object, json_rows, read_text
from admire.base.schema import check_setting
from admire.base.storage import write_whole
from admire.models.encoders.hub import local_folder
from admire.tasks.retrieval.modes import SPLITS, USAGES, Usage

MEANS_THE_SAME = {
    "literal": ("literal",),
    "idiomatic": ("idiomatic", "simplification", "sense"),
}
"""For a query's usage, the usages of its PIE's documents that are relevant (IdioLink, 3.1)."""


@dataclass(frozen=True)
class Passage:
    """A query or a document of IdioLink: a text with a span that conveys a PIE's meaning.

    A PIE is a potentially idiomatic expression.

    Attributes:
        id: unique in its file.
        sentence: the whole text.
        idiom: the PIE, in its base form.
        span: the marked words, as they stand in the sentence.
        subject: the domain; empty if there is none.
        usage: ``literal`` or ``idiomatic`` for a query, one of
            :data:`admire.tasks.retrieval.modes.USAGES` for a document.
        is_gold: whether people checked it.
        occurrence: which occurrence of the span in the sentence is meant, from 1.
    """

    id: str
    sentence: str
    idiom: str
    span: str
    subject: str
    usage: str
    is_gold: bool = True
    occurrence: int = 1

    @property
    def place(self) -> tuple[int, int]:
        """Where the span begins and ends in the sentence, in characters."""
        return locate(self.sentence, self.span, self.occurrence)


@dataclass(frozen=True)
class Split:
    """The queries and the indexed documents of a benchmark's split."""

    queries: tuple[Passage, ...]
    documents: tuple[Passage, ...]


def locate(text: str, span: str, occurrence: int = 1) -> tuple[int, int]:
    """Where the n-th occurrence of the span begins and ends, in characters.

    If the text lacks the span as it is written, upper and lower case are taken as the same.

    Raises:
        ValueError: the span does not occur that often.
    """
    for within, wanted in ((text, span), (text.lower(), span.lower())):
        start = -1
        for _ in range(occurrence):
            start = within.find(wanted, start + 1)
            if start < 0:
                break
        # Lower case may be longer than the original ("İ"); its positions would then be wrong.
        if wanted and start >= 0 and len(within) == len(text):
            return start, start + len(wanted)
    raise ValueError(f"'{span}' is not in it" + f" {occurrence} times" * (occurrence > 1))


def relevant(query: Passage, document: Passage) -> bool:
    """Whether the document's span means what the query's does: the same PIE in the same sense."""
    return (
        document.idiom.casefold() == query.idiom.casefold()
        and document.usage in MEANS_THE_SAME[query.usage]
    )


def relevance(split: Split) -> npt.NDArray[np.bool_]:
    """:func:`relevant` of every query and document, shape (queries, documents)."""
    asked, indexed = (
        (np.array([one.idiom.casefold() for one in part]), np.array([one.usage for one in part]))
        for part in (split.queries, split.documents)
    )
    found: npt.NDArray[np.bool_] = np.equal.outer(asked[0], indexed[0])
    for usage, wanted in MEANS_THE_SAME.items():
        found[asked[1] == usage] &= np.isin(indexed[1], wanted)
    return found


def read_split(source: str, split: str, usages: Sequence[str] = (), *, gold: bool = False) -> Split:
    """A split of a benchmark: ``<split>/queries.json`` and ``<split>/indexes.json``, or ``.jsonl``.

    Args:
        source: a folder, or a dataset on the hub (``Intellexus/IdioLink``), which needs the extra
            ``clip``.
        usages: usages of the documents to keep, the paper's compositions; empty keeps all.
        gold: keep only the queries and documents that people checked.

    Raises:
        UserError: a file is missing or damaged; the message names file, row and column. Or nothing
            is left of the split.
    """
    for usage in usages:
        check_setting("usage", usage, Usage)
    found = []
    for name, allowed in (("queries", tuple(MEANS_THE_SAME)), ("indexes", USAGES)):
        found.append(read_passages(_file(source, split, name), allowed))
    queries, documents = found
    kept = [d for d in documents if not usages or d.usage in usages]
    if gold:
        queries, kept = ([one for one in part if one.is_gold] for part in (queries, kept))
    if not kept or not queries:
        of = f" of {', '.join(usages)}" * bool(usages) + " that people checked" * gold
        raise UserError(f"{source}: the split '{split}' has no documents or no queries{of}.")
    return Split(tuple(queries), tuple(kept))


def _file(source: str, split: str, name: str) -> Path:
    folder = local_folder(source, "a benchmark")
    if folder:
        for suffix in (".json", ".jsonl"):
            path = folder / split / f"{name}{suffix}"
            if path.is_file():
                return path
        raise UserError(
            f"{folder}: has no {split}/{name}.json (or .jsonl). A benchmark has the splits "
            f"{', '.join(SPLITS)} as folders with queries.json and indexes.json."
        )
    check_extra(
        "clip", f"'{source}' is no folder here, and a dataset on the hub", "huggingface_hub"
    )
    from admire.models.encoders.hub import hub_file

    return hub_file(source, f"{split}/{name}.json", f"{split}/{name}.jsonl", kind="dataset")


def read_passages(path: Path, usages: Iterable[str] = USAGES) -> list[Passage]:
    """The passages of a JSON list or of a JSONL file.

    Raises:
        UserError: the file or a row of it cannot be used.
    """
    passages = []
    ids: set[str] = set()
    for number, row in _rows(path):
        passage = _passage(row, f"{path}, row {number}", tuple(usages))
        if passage.id in ids:
            raise UserError(f"{path}, row {number}, id: '{passage.id}' stands in two rows.")
        ids.add(passage.id)
        passages.append(passage)
    if not passages:
        raise UserError(f"{path}: holds no passages.")
    return passages


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from json_rows(path)
        return
    try:
        rows = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}).") from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: is not a JSON list of passages.")
    for number, row in enumerate(rows, start=1):
        check_object(row, f"{path}, row {number}")
        yield number, row


def _passage(row: dict[str, Any], where: str, usages: Sequence[str]) -> Passage:
    for column in ("id", "sentence", "idiom", "span", "usage"):
        if row.get(column) is None or not str(row[column]).strip():
            raise UserError(f"{where}, {column}: is missing or empty.")
    if row["usage"] not in usages:
        raise UserError(f"{where}, usage: '{row['usage']}' is not one of {', '.join(usages)}.")
    occurrence = row.get("occurrence", 1)
    if not isinstance(occurrence, int) or isinstance(occurrence, bool) or occurrence < 1:
        raise UserError(f"{where}, occurrence: '{occurrence}' is not a number from 1.")
    passage = Passage(
        str(row["id"]),
        str(row["sentence"]),
        str(row["idiom"]),
        str(row["span"]),
        str(row.get("subject") or ""),
        row["usage"],
        bool(row.get("is_gold", True)),
        occurrence,
    )
    try:
        passage.place  # noqa: B018  fails if the span is not there
    except ValueError as error:
        raise UserError(f"{where}, span: {error}: “{passage.sentence}”.") from None
    return passage


def write_split(folder: Path, split: str, content: Split) -> None:
    """Write ``<split>/queries.json`` and ``<split>/indexes.json``, each at once.

    Raises:
        UserError: a file cannot be written.
    """
    for name, passages in (("queries", content.queries), ("indexes", content.documents)):
        with write_whole(folder / split / f"{name}.json") as file:
            json.dump([asdict(p) for p in passages], file, ensure_ascii=False, indent=1)
