"""Sentence pairs with similarities, and groups of a sentence with its paraphrases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal
from xml.etree import ElementTree

import pandas as pd
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from admire.core.errors import UserError
from admire.core.files import check_columns, numbered_rows, read_table, read_text
from admire.core.schema import Text, read_as
from admire.data.limits import limited

Cells = dict[str, str]


@dataclass(frozen=True)
class Pair:
    """Two sentences to compare, with the row's ID and the tag of the language, in lower case."""

    name: str
    language: str
    first: str
    second: str
    similarity: float | None = None
    """In [0, 1]; None if it is not known, or the pair has a reference."""
    reference: tuple[str, str] | None = None
    """Two sentences. The model should give this pair the similarity that it gives them."""
    mwe: str | None = None  #: the expression that ``first`` uses; None for pairs of plain STS

    @property
    def gold(self) -> bool:
        """Whether the pair can be scored."""
        return self.similarity is not None or self.reference is not None


@dataclass(frozen=True)
class Group:
    """A sentence with its paraphrases, and the expression that it uses, if any."""

    sentence: str
    correct: tuple[str, ...]  #: paraphrases that mean the same
    incorrect: tuple[str, ...]
    """Paraphrases that replace the expression by words with another meaning."""
    language: str
    mwe: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentence and all of its paraphrases."""
        return (self.sentence, *self.correct, *self.incorrect)


NoneIfEmpty = BeforeValidator(lambda cell: None if cell in ("", "None") else cell)
Sentence = Annotated[Text, *limited("sentence")]
Language = Annotated[Literal["en", "pt", "gl", "zh"], BeforeValidator(str.lower)]
UpToOne = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Similarity = Annotated[UpToOne | None, NoneIfEmpty]
Expression = Annotated[Annotated[str, *limited("compound")] | None, NoneIfEmpty]

COLUMNS = {
    "score": "score split sentence1 sentence2",
    "A_c": "A_c S A_i sim",
    "sentence_1": "sentence_1 ID Language MWE1 sentence_2 sim alternative_1 alternative_2",
    "MWE1": "MWE1 ID Language sentence1 sentence2",
}
"""The columns of a file, by the one that identifies its format."""

SPLITS = ("train", "dev", "test")
"""The files of a folder with pairs, by their names without ``.csv``."""


class _Row(BaseModel):
    """A pair in any of the files; the aliases are their columns."""

    name: Annotated[str, *limited("id")] = Field(alias="ID")
    language: Language = Field(alias="Language")
    first: Sentence = Field(validation_alias=AliasChoices("sentence1", "sentence_1", "S", "t"))
    second: Sentence = Field(validation_alias=AliasChoices("sentence2", "sentence_2", "A_i", "h"))
    mwe: Expression = Field(None, alias="MWE1")
    sim: Similarity = None
    score: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] | None = Field(
        None, validation_alias=AliasChoices("score", "similarity")
    )
    alternative_1: Sentence = "-"
    alternative_2: Sentence = "-"

    def pair(self) -> Pair:
        similarity = self.sim if self.score is None else self.score / 5
        refers = similarity is None and "alternative_1" in self.model_fields_set
        reference = (self.alternative_1, self.alternative_2) if refers else None
        sentences = self.first, self.second
        return Pair(self.name, self.language, *sentences, similarity, reference, self.mwe)


class _Gold(BaseModel):
    """A row of the gold file of Task 2B's dev file."""

    name: Annotated[str, *limited("id")] = Field(alias="ID")
    sim: Similarity
    other: Annotated[str, *limited("id")] = Field(alias="otherID")


def read_pairs(
    path: Path, gold: Path | None = None, *, split: str | None = None, limit: int | None = None
) -> list[Pair]:
    """Read pairs from one of these files, which are recognised by their columns, or from a folder.

    - SemEval-2022 Task 2B: ``ID, Language, MWE1, sentence1, sentence2``. The similarities are in
      the file ``gold`` (``ID, sim, otherID``; an empty ``sim`` means the prediction for
      ``otherID``), which may be missing.
    - The training file of Task 2B: ``sentence_1, sentence_2, sim, alternative_1, alternative_2``.
    - ChengyuSTS: ``S, A_c, A_i, sim``, the idiom in ``{}`` in ``S`` or in a column ``idiom``. A row
      with both paraphrases and no ``sim`` compares sim(S, A_i) with sim(A_c, A_i). This format is
      inferred from the examples in the paper (table 6): its authors' files were not at hand.
    - STS Benchmark: ``split, score, sentence1, sentence2`` in a ``.tsv``, and ASSIN2, an ``.xml``;
      scores are divided by 5.

    A folder has a file for each split: ``train.csv``, ``dev.csv`` and ``test.csv``. Without a
    ``split`` all of them are read; with a ``limit`` only the first pairs of each file.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    if path.is_dir():
        names = (split,) if split else [s for s in SPLITS if (path / f"{s}.csv").is_file()]
        if not names:
            raise UserError(f"{path}: has no {', '.join(f'{s}.csv' for s in SPLITS)}.")
        files = [path / f"{name}.csv" for name in names]
        return [pair for file in files for pair in read_pairs(file, gold, limit=limit)]
    kind, rows = _rows(path)
    pairs = [_pair(path, n, row) for n, row in rows if split in (None, row.get("split", split))]
    if gold:
        if kind != "MWE1":
            raise UserError(f"{path}: has its own similarities. Leave the gold file out.")
        pairs = _with_gold(path, pairs, gold)
    if not pairs:
        raise UserError(f"{path}: has no pairs{f' of the split {split}' if split else ''}.")
    return pairs[:limit]


def _pair(path: Path, number: int, row: Cells) -> Pair:
    return read_as(_Row, row, f"{path}, row {number}").pair()


def _rows(path: Path) -> tuple[str, list[tuple[int, Cells]]]:
    """Recognise the kind of a file, and read its numbered rows as :class:`_Row` takes them."""
    if path.suffix.lower() == ".xml":
        return "xml", list(enumerate(_assin(path), start=1))
    tsv = path.suffix.lower() == ".tsv"
    header = read_text(path).partition("\n")[0].rstrip("\r").split("\t") if tsv else ()
    # STS Benchmark quotes nothing: a quotation mark is a character like any other.
    table = read_table(path, (), quoting=3 if "score" in header else 0)
    kind = next((mark for mark in COLUMNS if mark in table), "MWE1")
    check_columns(path, table, COLUMNS[kind].split())
    rows = []
    for number, row in numbered_rows(table):
        cells = {column: cell.strip() for column, cell in row.items()}
        cells["ID"] = cells.get("ID") or str(number)
        if kind == "score":
            cells["Language"] = "en"
        elif kind == "A_c":
            cells = _chengyu(cells, f"{path}, row {number}")
        elif kind == "sentence_1" and cells["sim"] not in ("", "None"):
            del cells["alternative_1"], cells["alternative_2"]
        rows.append((number, cells))
    return kind, rows


def _chengyu(row: Cells, where: str) -> Cells:
    marked = re.search(r"\{([^{}]+)\}", row["S"])
    mwe = row.get("idiom") or (marked[1] if marked else "")
    sentence, correct, incorrect = (re.sub(r"[{}]", "", row[c]) for c in ("S", "A_c", "A_i"))
    both, has_sim = bool(correct and incorrect), row["sim"] not in ("", "None")
    if both == has_sim:
        raise UserError(f"{where}, sim: there must be either a sim or both of A_c and A_i.")
    cells = {"S": sentence, "A_i": incorrect or correct, "MWE1": mwe, "Language": "zh"}
    alternatives = {"alternative_1": correct, "alternative_2": incorrect} if both else {}
    return {"ID": row["ID"], "sim": row["sim"]} | cells | alternatives


def _assin(path: Path) -> Iterator[Cells]:
    try:
        root = ElementTree.fromstring(read_text(path).encode())
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: is not well-formed XML ({error}).") from None
    for number, pair in enumerate(root.iter("pair"), start=1):
        row = {name: (pair.findtext(name) or "").strip() for name in ("t", "h")}
        row |= {"ID": pair.get("id") or str(number), "Language": "pt"}
        yield row | {"similarity": pair.get("similarity") or ""}


def _with_gold(path: Path, pairs: Sequence[Pair], gold: Path) -> list[Pair]:
    """Return the pairs of Task 2B's dev file with the similarities of its gold file."""
    by_name: dict[str, Pair] = {}
    for pair in pairs:
        if by_name.setdefault(pair.name, pair) is not pair:
            raise UserError(f"{path}, ID: '{pair.name}' appears twice.")
    unscored = set(by_name)
    for number, cells in numbered_rows(read_table(gold, ("ID", "sim", "otherID"))):
        where = f"{gold}, row {number}"
        row = read_as(_Gold, cells, where)
        if row.name not in unscored:
            reason = "appears twice" if row.name in by_name else f"is not in {path}"
            raise UserError(f"{where}, ID: '{row.name}' {reason}.")
        unscored.remove(row.name)
        reference = None
        if row.sim is None:
            if row.other not in by_name:
                raise UserError(f"{where}, otherID: '{row.other}' is not in {path}.")
            reference = by_name[row.other].first, by_name[row.other].second
        by_name[row.name] = replace(by_name[row.name], similarity=row.sim, reference=reference)
    return list(by_name.values())


def count_pairs(pairs: Sequence[Pair]) -> pd.DataFrame:
    """Count pairs as ChengyuSTS does (table 5): ``subset`` (all, idiom, sts), ``idioms`` (different
    ones), ``homogeneous`` (of similarity 1), ``adversarial`` (the others), ``total``."""
    idiom, sts = ([pair for pair in pairs if bool(pair.mwe) is uses] for uses in (True, False))
    rows = []
    for name, part in (("all", pairs), ("idiom", idiom), ("sts", sts)):
        same = sum(pair.similarity == 1 for pair in part)
        idioms = {pair.mwe for pair in part if pair.mwe}
        rows.append((name, len(idioms), same, len(part) - same, len(part)))
    columns = ["subset", "idioms", "homogeneous", "adversarial", "total"]
    return pd.DataFrame(rows, columns=columns)


def read_groups(path: Path, *, merged: bool = True) -> list[Group]:
    """Read groups from Task 2B's training file or from ChengyuSTS; of a folder, its ``train.csv``.

    In ChengyuSTS a group may lack a correct paraphrase, because its authors then use the sentence
    itself. In Task 2B every group must have one.

    Args:
        merged: whether rows of ChengyuSTS with the same sentence are one group, as Task 2B's are.
    """
    path = path / "train.csv" if path.is_dir() else path
    kind, rows = _rows(path)
    if kind not in ("A_c", "sentence_1") or not rows:
        raise UserError(f"{path}: has no groups of paraphrases to learn from.")
    groups: dict[tuple[str, str, int], tuple[Pair, dict[str, None], dict[str, None]]] = {}
    for number, row in rows:
        pair = _pair(path, number, row)
        if pair.similarity not in (None, 0, 1):
            raise UserError(f"{path}, row {number}, sim: must be 0, 1 or empty to learn from.")
        key = pair.language, pair.first, 0 if merged or kind == "sentence_1" else number
        _, correct, incorrect = groups.setdefault(key, (pair, {}, {}))
        if kind == "A_c" and pair.reference:
            correct[pair.reference[0]] = None
        (correct if pair.similarity == 1 else incorrect)[pair.second] = None
    for pair, correct, _ in groups.values():
        if kind == "sentence_1" and not correct:
            raise UserError(f"{path}: “{pair.first}” has no correct paraphrase (a row with sim 1).")
    return [
        Group(pair.first, tuple(correct), tuple(incorrect), pair.language, pair.mwe)
        for pair, correct, incorrect in groups.values()
    ]


def without(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that share no sentence with the others, which thus stay unseen."""
    seen = {sentence for pair in others for sentence in (pair.first, pair.second)}
    return [pair for pair in pairs if pair.first not in seen and pair.second not in seen]
