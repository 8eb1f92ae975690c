"""Texts with a marked span: IdioLink's files, and which document is relevant to which query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pydantic.dataclasses
from pydantic import BeforeValidator, ConfigDict, Field, StrictInt

from admire.core.errors import UserError
from admire.core.files import json_rows
from admire.core.schema import Text, read_as
from admire.data.limits import limited
from admire.encoders import hub
from admire.tasks.retrieval.settings import SPLITS, Usage

SENSE_OF = {
    "literal": "literal",
    **dict.fromkeys(("idiomatic", "simplification", "sense"), "idiomatic"),
}
"""The sense of its PIE that a usage conveys (IdioLink, 3.1); a distractor conveys neither."""


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(coerce_numbers_to_str=True))
class Passage:
    """A query or a document of IdioLink: a text with a span that conveys a PIE's meaning.

    Attributes:
        idiom: the PIE (potentially idiomatic expression), in its base form.
        span: the marked words, exactly as in the sentence.
        usage: ``literal`` or ``idiomatic`` for a query, any for a document.
        subject: the domain; empty if there is none.
        is_gold: whether people checked it.
        occurrence: which occurrence of the span in the sentence is meant, from 1.
    """

    id: Annotated[Text, *limited("id")]
    sentence: Annotated[Text, *limited("text")]
    idiom: Annotated[Text, *limited("compound")]
    span: Annotated[Text, *limited("span")]
    usage: Usage
    subject: Annotated[str, BeforeValidator(lambda subject: subject or ""), *limited("id")] = ""
    is_gold: bool = True
    occurrence: Annotated[StrictInt, Field(ge=1)] = 1

    def __post_init__(self) -> None:
        try:
            self.place  # noqa: B018  fails if the span is not there
        except ValueError as error:
            raise ValueError(f"span: {error}: “{self.sentence}”") from None

    @property
    def place(self) -> tuple[int, int]:
        """The start and end of the span in the sentence, in characters."""
        return locate(self.sentence, self.span, self.occurrence)


@dataclass(frozen=True)
class Split:
    """The queries and the indexed documents of a benchmark's split."""

    queries: tuple[Passage, ...]
    documents: tuple[Passage, ...]


def locate(text: str, span: str, occurrence: int = 1) -> tuple[int, int]:
    """Return start and end of the span's n-th occurrence, in characters; a ValueError if there is
    none. If the text lacks the span as it is written, upper and lower case are taken as the same.
    """
    for searched, pattern in ((text, span), (text.lower(), span.lower())):
        matches = re.finditer(f"(?={re.escape(pattern)})", searched)  # occurrences may overlap
        starts = [match.start() for match in matches][occurrence - 1 :]
        # Lower case may be longer than the original ("İ"); its positions would then be wrong.
        if pattern and starts and len(searched) == len(text):
            return starts[0], starts[0] + len(pattern)
    raise ValueError(f"'{span}' is not in it" + f" {occurrence} times" * (occurrence > 1))


def relevance(split: Split) -> npt.NDArray[np.bool_]:
    """Return whether each document's span conveys a query's PIE in the query's sense, shape
    (queries, documents)."""
    meanings = (
        np.array([f"{SENSE_OF.get(p.usage)} {p.idiom.casefold()}" for p in passages])
        for passages in (split.queries, split.documents)
    )
    relevant: npt.NDArray[np.bool_] = np.equal.outer(*meanings)
    return relevant


def read_split(source: str, split: str, usages: Sequence[str] = (), *, gold: bool = False) -> Split:
    """Read ``<split>/queries.json`` and ``<split>/indexes.json`` of a benchmark, or ``.jsonl``.

    Args:
        source: a folder, or a dataset on the hub (``Intellexus/IdioLink``), which needs the extra
            ``clip``.
        split: see :data:`SplitName`.
        usages: usages of the documents to keep, the paper's compositions; empty keeps all.
        gold: keep only the queries and documents that people checked.
    """
    texts = [read_passages(find_file(source, split, name)) for name in ("queries", "indexes")]
    if part := split.partition("-")[2]:
        unchecked = {p.idiom for passages in texts for p in passages if not p.is_gold}
        texts = [[p for p in t if (p.idiom in unchecked) == (part == "silver")] for t in texts]
    queries, documents = ([p for p in passages if p.is_gold or not gold] for passages in texts)
    for query in queries:
        if query.usage not in ("literal", "idiomatic"):
            where = f"{source}, {split}: the query '{query.id}'"
            raise UserError(f"{where} has the usage '{query.usage}', not literal or idiomatic.")
    documents = [d for d in documents if not usages or d.usage in usages]
    if not documents or not queries:
        kind = f" of {', '.join(usages)}" * bool(usages) + " that people checked" * gold
        raise UserError(f"{source}: the split '{split}' has no documents or no queries{kind}.")
    return Split(tuple(queries), tuple(documents))


def find_file(source: str, split: str, name: str) -> Path:
    """Return a file of a benchmark, from its folder or downloaded from the hub."""
    split = split.partition("-")[0]
    if folder := hub.local_folder(source, "a benchmark"):
        for suffix in (".json", ".jsonl"):
            path = folder / split / f"{name}{suffix}"
            if path.is_file():
                return path
        raise UserError(
            f"{folder}: has no {split}/{name}.json (or .jsonl). A benchmark has the folders "
            f"{', '.join(SPLITS)} with queries.json and indexes.json."
        )
    return hub.hub_file(source, f"{split}/{name}.json", f"{split}/{name}.jsonl", kind="dataset")


def read_passages(path: Path) -> list[Passage]:
    """Read the passages of a JSON list or of a JSONL file."""
    passages: dict[str, Passage] = {}
    for number, row in json_rows(path):
        where = f"{path}, row {number}"
        passage = read_as(Passage, row, where)
        if passages.setdefault(passage.id, passage) is not passage:
            raise UserError(f"{where}, id: '{passage.id}' appears in two rows.")
    return list(passages.values())
