"""Sentence pairs with similarities, and groups of a sentence with its paraphrases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from admire.base.errors import UserError
from admire.base.files import check_columns, read_table, read_text

LANGUAGES = ("en", "pt", "gl", "zh")
"""Languages of the tasks' files."""


@dataclass(frozen=True)
class Pair:
    """Two sentences to compare.

    Attributes:
        name: the row's ID.
        language: its tag, in lower case.
        first, second: the sentences.
        similarity: in [0, 1]; None if it is not known, or the pair has a reference.
        reference: two sentences. The model should give this pair the similarity that it gives them.
        mwe: the expression that ``first`` uses; None for pairs of plain STS.
    """

    name: str
    language: str
    first: str
    second: str
    similarity: float | None = None
    reference: tuple[str, str] | None = None
    mwe: str | None = None

    @property
    def gold(self) -> bool:
        """Whether the pair can be scored."""
        return self.similarity is not None or self.reference is not None


@dataclass(frozen=True)
class Group:
    """A sentence with its paraphrases.

    Attributes:
        sentence: the sentence.
        correct: paraphrases that mean the same.
        incorrect: paraphrases that replace the expression by words with another meaning.
        language: its tag, in lower case.
        mwe: the expression that the sentence uses, if any.
    """

    sentence: str
    correct: tuple[str, ...]
    incorrect: tuple[str, ...]
    language: str
    mwe: str | None = None


# ------------------------------------------------------------------------------------ pairs


def read_pairs(path: Path, gold: Path | None = None, *, split: str | None = None) -> list[Pair]:
    """Read pairs from one of these files, which are recognised by their columns.

    - SemEval-2022 Task 2B: ``ID, Language, MWE1, sentence1, sentence2``. The similarities are in
      the file ``gold`` (``ID, sim, otherID``; an empty ``sim`` means the prediction for
      ``otherID``), which may be missing.
    - The training file of Task 2B: ``sentence_1, sentence_2, sim, alternative_1, alternative_2``.
    - ChengyuSTS: ``S, A_c, A_i, sim``, the idiom in ``{}`` in ``S`` or in a column ``idiom``. A row
      with both paraphrases and no ``sim`` compares sim(S, A_i) with sim(A_c, A_i).
    - STS Benchmark: ``split, score, sentence1, sentence2`` in a ``.tsv``, all of it or one
      ``split`` (train, dev, test). Scores are divided by 5.
    - ASSIN2: an ``.xml``. Scores are divided by 5.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    if path.suffix == ".xml":
        pairs = list(_assin(path))
    else:
        table = _table(path)
        if "score" in table:
            pairs = list(_benchmark(path, table, split))
        elif "A_c" in table:
            pairs = list(_chengyu(path, table))
        elif "sentence_1" in table:
            pairs = list(_training(path, table))
        else:
            pairs = list(_task(path, table, gold))
            gold = None
    if gold is not None:
        raise UserError(f"{path}: has its own similarities. Leave the gold file out.")
    if not pairs:
        raise UserError(f"{path}: has no pairs{f' of the split {split}' if split else ''}.")
    return pairs


def _table(path: Path) -> pd.DataFrame:
    tsv = path.suffix == ".tsv"
    header = read_text(path).partition("\n")[0].rstrip("\r").split("\t") if tsv else ()
    if {"score", "sentence1", "sentence2"} <= set(header):
        # STS Benchmark quotes nothing: a quotation mark is a character like any other.
        return read_table(path, (), quoting=3)
    return read_table(path, ())


def _rows(table: pd.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(table.to_dict("records"), start=1):
        yield number, {str(column): cell.strip() for column, cell in row.items()}


def _task(path: Path, table: pd.DataFrame, gold: Path | None) -> Iterator[Pair]:
    check_columns(path, table, ("ID", "Language", "MWE1", "sentence1", "sentence2"))
    rows = dict(_rows(table))
    of = {row["ID"]: row for row in rows.values()}
    if len(of) < len(rows):
        twice = table["ID"][table["ID"].duplicated()].iloc[0]
        raise UserError(f"{path}, ID: '{twice}' is there twice.")
    told: dict[str, tuple[float | None, tuple[str, str] | None]] = {}
    if gold is not None:
        known = read_table(gold, ("ID", "sim", "otherID"))
        for number, row in _rows(known):
            if row["ID"] in told:
                raise UserError(f"{gold}, row {number}, ID: '{row['ID']}' is there twice.")
            if row["ID"] not in of:
                raise UserError(f"{gold}, row {number}, ID: '{row['ID']}' is not in {path}.")
            other = of.get(row["otherID"])
            if not row["sim"] and other is None:
                raise UserError(
                    f"{gold}, row {number}, otherID: '{row['otherID']}' is not in {path}, "
                    "and there is no sim."
                )
            told[row["ID"]] = (
                (_similarity(row["sim"], 1, gold, number, "sim"), None)
                if row["sim"]
                else (None, (other["sentence1"], other["sentence2"]) if other else None)
            )
    for number, row in rows.items():
        similarity, reference = told.get(row["ID"], (None, None))
        yield Pair(
            row["ID"],
            _language(row["Language"], path, number),
            _sentence(row, "sentence1", path, number),
            _sentence(row, "sentence2", path, number),
            similarity,
            reference,
            _mwe(row["MWE1"]),
        )


def _training(path: Path, table: pd.DataFrame) -> Iterator[Pair]:
    check_columns(path, table, ("ID", "Language", "MWE1", "sentence_1", "sentence_2", "sim"))
    check_columns(path, table, ("alternative_1", "alternative_2"))
    for number, row in _rows(table):
        known = row["sim"] not in ("", "None")
        yield Pair(
            row["ID"],
            _language(row["Language"], path, number),
            _sentence(row, "sentence_1", path, number),
            _sentence(row, "sentence_2", path, number),
            _similarity(row["sim"], 1, path, number, "sim") if known else None,
            None
            if known
            else (
                _sentence(row, "alternative_1", path, number),
                _sentence(row, "alternative_2", path, number),
            ),
            _mwe(row["MWE1"]),
        )


def _chengyu(path: Path, table: pd.DataFrame) -> Iterator[Pair]:
    check_columns(path, table, ("S", "A_c", "A_i", "sim"))
    for number, row in _rows(table):
        marked = re.search(r"\{(.+?)\}", row["S"])
        mwe = row.get("idiom") or (marked[1] if marked else None)
        sentence, correct, incorrect = (re.sub(r"[{}]", "", row[c]) for c in ("S", "A_c", "A_i"))
        given = row["sim"] not in ("", "None")
        second = incorrect or correct
        if not sentence or not second:
            raise UserError(f"{path}, row {number}: has no sentence in S, or none to compare.")
        if given and correct and incorrect:
            raise UserError(
                f"{path}, row {number}, sim: a row with both A_c and A_i has no sim of its own."
            )
        if not given and not (correct and incorrect):
            raise UserError(f"{path}, row {number}, sim: is empty, and A_c or A_i is as well.")
        yield Pair(
            row.get("ID") or str(number),
            "zh",
            sentence,
            second,
            _similarity(row["sim"], 1, path, number, "sim") if given else None,
            None if given else (correct, incorrect),
            mwe,
        )


def _benchmark(path: Path, table: pd.DataFrame, split: str | None) -> Iterator[Pair]:
    check_columns(path, table, ("split", "score", "sentence1", "sentence2"))
    for number, row in _rows(table):
        if split not in (None, row["split"]):
            continue
        yield Pair(
            str(number),
            "en",
            _sentence(row, "sentence1", path, number),
            _sentence(row, "sentence2", path, number),
            _similarity(row["score"], 5, path, number, "score"),
        )


def _assin(path: Path) -> Iterator[Pair]:
    try:
        root = ElementTree.fromstring(read_text(path).encode())
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: is not well-formed XML ({error}).") from None
    for number, pair in enumerate(root.iter("pair"), start=1):
        row = {"t": (pair.findtext("t") or "").strip(), "h": (pair.findtext("h") or "").strip()}
        yield Pair(
            pair.get("id") or str(number),
            "pt",
            _sentence(row, "t", path, number),
            _sentence(row, "h", path, number),
            _similarity(pair.get("similarity") or "", 5, path, number, "similarity"),
        )


def _similarity(cell: str, most: float, path: Path, number: int, column: str) -> float:
    try:
        value = float(cell) / most
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UserError(f"{path}, row {number}, {column}: is '{cell}', not from 0 to {most:g}.")
    return value


def _sentence(row: dict[str, Any], column: str, path: Path, number: int) -> str:
    if not row[column]:
        raise UserError(f"{path}, row {number}, {column}: is empty.")
    return str(row[column])


def _language(cell: str, path: Path, number: int) -> str:
    if cell.lower() not in LANGUAGES:
        raise UserError(
            f"{path}, row {number}, Language: is '{cell}', not one of "
            f"{', '.join(LANGUAGES).upper()}."
        )
    return cell.lower()


def _mwe(cell: str) -> str | None:
    return None if cell in ("", "None") else cell


# ----------------------------------------------------------------------------------- groups


def read_groups(path: Path) -> list[Group]:
    """Read groups from Task 2B's training file or from ChengyuSTS.

    In ChengyuSTS a group may lack a correct paraphrase, because its authors then use the sentence
    itself. In Task 2B every group must have one.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    table = _table(path)
    if table.empty:
        raise UserError(f"{path}: has no rows.")
    if "A_c" in table:
        return _chengyu_groups(path, table)
    check_columns(path, table, ("sentence_1",))
    correct: dict[tuple[str, str], list[str]] = {}
    incorrect: dict[tuple[str, str], list[str]] = {}
    mwes: dict[tuple[str, str], str | None] = {}
    rows: dict[tuple[str, str], int] = {}
    for number, pair in enumerate(_training(path, table), start=1):
        key = pair.language, pair.first
        rows.setdefault(key, number)
        mwes.setdefault(key, pair.mwe)
        if pair.reference is None and pair.similarity != 1:
            raise UserError(f"{path}, row {number}, sim: is {pair.similarity:g}, not 1 or None.")
        side = correct if pair.reference is None else incorrect
        side.setdefault(key, []).append(pair.second)
    for key, number in rows.items():
        if key not in correct:
            raise UserError(
                f"{path}, row {number}: the sentence has no correct paraphrase (a row with sim 1): "
                f"“{key[1]}”."
            )
    return [
        Group(key[1], tuple(right), tuple(incorrect.get(key, ())), key[0], mwes[key])
        for key, right in correct.items()
    ]


def _chengyu_groups(path: Path, table: pd.DataFrame) -> list[Group]:
    sides: dict[str, tuple[list[str], list[str], str | None]] = {}
    for number, pair in enumerate(_chengyu(path, table), start=1):
        if pair.similarity not in (None, 0, 1):
            raise UserError(
                f"{path}, row {number}, sim: is {pair.similarity:g}; to learn from it must be 0, 1 "
                "or empty."
            )
        correct, incorrect, _ = sides.setdefault(pair.first, ([], [], pair.mwe))
        if pair.reference:
            correct.append(pair.reference[0])
        (correct if pair.similarity == 1 else incorrect).append(pair.second)
    return [
        Group(
            sentence,
            tuple(dict.fromkeys(correct)),
            tuple(dict.fromkeys(incorrect)),
            "zh",
            mwe,
        )
        for sentence, (correct, incorrect, mwe) in sides.items()
    ]


def without(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    """The pairs that share no sentence with the others, which thus stay unseen."""
    seen = {sentence for pair in others for sentence in (pair.first, pair.second)}
    return [pair for pair in pairs if pair.first not in seen and pair.second not in seen]
