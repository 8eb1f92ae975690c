"""Items and candidates: reading AdMIRe files and image sets, writing and reading submissions."""

from __future__ import annotations

import ast
import csv
import io
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import pandas as pd

from admire.errors import UserError
from admire.storage import write_whole

log = logging.getLogger("admire")

SAMPLES = Path(__file__).parent / "samples"
"""The image set that ships with admire."""

SenseLabel = Literal["idiomatic", "literal"]

LANGUAGES = {
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "gl": "Galician",
    "hi": "Hindi",
    "ig": "Igbo",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "kk": "Kazakh",
    "ko": "Korean",
    "nb": "Norwegian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sr": "Serbian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "uz": "Uzbek",
    "zh": "Chinese",
}
"""Language codes that are recognised in file names, with the names that prompts use."""

_EXTENDED = {"xe": "en", "xp": "pt"}  # AdMIRe's tags for its extended English and Portuguese sets


@dataclass(frozen=True)
class Candidate:
    """One thing to rank: an image, a caption, or an image with its caption.

    ``name`` is what orders and submissions call it: the image's name as the data file writes it,
    or ``candidate1``, ``candidate2``, … where there is no image.
    """

    name: str
    image: Path | None = None
    caption: str | None = None


@dataclass(frozen=True)
class Item:
    """One row: a compound in a sentence, and the candidates to rank for it.

    ``language`` is the tag as given (``en``, ``xe``, ``pt-br``). ``sentence_type`` and
    ``expected_order`` are the gold answers, None where they are not known. ``candidates`` is empty
    where a file holds targets only; such items can be classified but not ranked.
    """

    compound: str
    sentence: str
    language: str = "en"
    candidates: tuple[Candidate, ...] = ()
    sentence_type: SenseLabel | None = None
    expected_order: tuple[str, ...] | None = None


def base_language(tag: str) -> str:
    """``pt-br`` → ``pt``, ``xe`` → ``en``: the code that prompts and models go by."""
    code = re.split("[-_]", tag.lower())[0]
    return _EXTENDED.get(code, code)


def check_language(tag: str) -> str:
    """Return the tag in lower case with ``-``.

    Raises:
        UserError: it does not look like a language tag.
    """
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", tag):
        raise UserError(f"'{tag}' is not a language tag. Give one like en, pt, xe or pt-br.")
    return tag.lower().replace("_", "-")


def guess_language(path: Path) -> str:
    """The language tag that a file's name ends in, or one of its two folders', else ``en``.

    ``subtask_a_xp.tsv`` → ``xp``; ``admire_pt/train.tsv`` → ``pt``; ``set.pt-br.csv`` → ``pt-br``.
    """
    resolved = Path(os.path.abspath(path))
    for name in (resolved.stem, *(folder.name for folder in resolved.parents[:2])):
        for pattern in (r"(?:^|[_.-])([a-z]{2})[-_]([a-z]{2})$", r"(?:^|[_.-])([a-z]{2})$"):
            match = re.search(pattern, name.lower())
            if match and base_language(match[1]) in LANGUAGES:
                return "-".join(match.groups())
    return "en"


def read_items(path: str | Path, language: str | None = None) -> list[Item]:
    """Read an AdMIRe TSV, an image set's manifest (CSV or JSONL), or the folder that holds one.

    Tables have the columns ``compound`` and ``sentence``, optionally ``language``,
    ``sentence_type`` and ``expected_order``, and for each candidate k = 1, 2, ... ``imagek_name``
    and ``imagek_caption``. A JSONL manifest has the same keys, and instead of the image columns
    ``candidates``, a list of objects with ``image``, ``caption`` or both. Image names are paths
    below the file's folder, or below its subfolder that is named after the compound.

    ``language`` holds for all rows that do not name their own; without it the file's name tells.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why.
    """
    path = data_file(Path(path))
    tag = check_language(language) if language else guess_language(path)
    rows = _item_rows(path) if path.suffix == ".jsonl" else _table_rows(path)
    notes: dict[str, list[str]] = {}
    items = [_item(row, number, path, tag, notes) for number, row in rows]
    if not items:
        raise UserError(f"{path}: holds no items.")
    for note, rows_noted in notes.items():
        more = f" (and {len(rows_noted) - 1} more)" if len(rows_noted) > 1 else ""
        log.warning("%s: %s%s", rows_noted[0], note, more)
    return items


def data_file(path: Path) -> Path:
    """The file itself, or the one of a folder that holds items.

    Raises:
        UserError: there is none, there are several, or it is of another kind.
    """
    if path.is_dir():
        manifests = [path / "manifest.csv", path / "manifest.jsonl"]
        found = [file for file in manifests if file.is_file()] or sorted(
            path.glob("subtask_a_*.tsv")
        )
        if len(found) != 1:
            raise UserError(
                f"{path}: expected one manifest.csv, manifest.jsonl or subtask_a_*.tsv in this "
                f"folder, found {len(found)}. Name the file itself."
            )
        return found[0]
    if not path.exists():
        raise UserError(f"{path}: cannot be read (No such file or folder).")
    if path.suffix not in (".tsv", ".csv", ".jsonl"):
        raise UserError(
            f"{path}: expected a .tsv, .csv or .jsonl file, or a folder with a manifest."
        )
    return path


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        UserError: it is missing, unreadable, not UTF-8 or empty.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: is not UTF-8 text (byte {error.start}). Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty.")
    return text


def read_table(path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0) -> pd.DataFrame:
    """Read a TSV or CSV with every cell a string, ``""`` where empty.

    With ``quoting`` 3, which is :data:`csv.QUOTE_NONE`, a quotation mark is like any other sign.

    Raises:
        UserError: it is missing, empty, not UTF-8, not a table, or lacks a required column.
    """
    text = read_text(path)
    try:
        table = pd.read_csv(
            io.StringIO(text),
            sep="\t" if path.suffix == ".tsv" else ",",
            dtype=str,
            keep_default_na=False,  # "NA" and "null" are words
            quoting=quoting,
        )
    except pd.errors.ParserError as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise UserError(f"{path}: is not a well-formed table ({reason}).") from None
    if not isinstance(table.index, pd.RangeIndex):  # pandas made surplus cells the rows' names
        raise UserError(f"{path}, row 1: has more cells than the header has columns.")
    check_columns(path, table, required)
    return table


def check_columns(path: Path, table: pd.DataFrame, required: Iterable[str]) -> None:
    """Refuse a table that lacks a column.

    Raises:
        UserError: so it does.
    """
    for column in required:
        if column not in table.columns:
            raise UserError(
                f"{path}: the column '{column}' is missing. "
                f"The file has: {', '.join(map(str, table.columns))}."
            )


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    table = read_table(path, ("compound", "sentence"))
    matches = [re.fullmatch(r"image(\d+)_(name|caption)", str(column)) for column in table]
    numbers = sorted({int(match[1]) for match in matches if match})
    for number, cells in enumerate(table.to_dict("records"), start=1):
        candidates = [
            {
                "image": cells.get(f"image{k}_name", ""),
                "caption": cells.get(f"image{k}_caption", ""),
            }
            for k in numbers
        ]
        if path.suffix == ".csv":  # rows of an image set may have fewer candidates than columns
            while candidates and not any(candidates[-1].values()):
                candidates.pop()
        yield (
            number,
            {**{str(column): cell for column, cell in cells.items()}, "candidates": candidates},
        )


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file, with their numbers.

    Raises:
        UserError: the file and row that cannot be used, and why.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, row {number}: is not JSON ({error}).") from None
        check_object(row, f"{path}, row {number}")
        yield number, row


def _item_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in json_rows(path):
        candidates = row.get("candidates", [])
        if not isinstance(candidates, list) or not all(isinstance(c, dict) for c in candidates):
            raise UserError(f"{path}, row {number}, candidates: is not a list of objects.")
        yield number, row


def check_object(row: Any, where: str) -> None:
    """Refuse JSON that is no object, or that cannot be written again.

    Raises:
        UserError: so it is; ``where`` is what the message calls it.
    """
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: holds half a surrogate pair (\\ud800 to \\udfff).") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: is not a JSON object.")


def _item(
    row: dict[str, Any], number: int, path: Path, language: str, notes: dict[str, list[str]]
) -> Item:
    def text(column: str) -> str:
        value = row.get(column)
        if not isinstance(value, str | None):
            raise UserError(f"{path}, row {number}, {column}: is not a text.")
        return value or ""

    compound, sentence = text("compound"), text("sentence")
    where = f"{path}, row {number} ('{compound}')"
    for column in ("compound", "sentence"):
        if not text(column).strip():
            raise UserError(f"{where}, {column}: is empty.")
    if compound.casefold() not in sentence.casefold():
        notes.setdefault("the compound is not in its sentence.", []).append(where)
    sentence_type = _sentence_type(text("sentence_type"), where)
    candidates = tuple(
        _candidate(cells, k, compound, path.parent, where, notes)
        for k, cells in enumerate(row.get("candidates", []), start=1)
    )
    names = [candidate.name for candidate in candidates]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{where}: the candidate '{name}' appears more than once.")
    if len(names) == 1:
        raise UserError(f"{where}: has one candidate; a ranking needs two or more.")
    try:
        language = check_language(text("language").strip() or language)
    except UserError as error:
        raise UserError(f"{where}, language: {error}") from None
    expected = row.get("expected_order") or None
    return Item(
        compound=compound,
        sentence=sentence,
        language=language,
        candidates=candidates,
        sentence_type=sentence_type,
        expected_order=_order(expected, names, where) if expected else None,
    )


def _candidate(
    cells: dict[str, Any],
    k: int,
    compound: str,
    folder: Path,
    where: str,
    notes: dict[str, list[str]],
) -> Candidate:
    values = {key: cells.get(key) or "" for key in ("image", "caption")}
    for key, value in values.items():
        if not isinstance(value, str):
            raise UserError(f"{where}, candidate {k}, {key}: is not a text.")
    # AdMIRe's captions hold line breaks as the two characters backslash and n.
    name, caption = values["image"].strip(), values["caption"].replace("\\n", "\n").strip()
    image = _image(name, compound, folder, where) if name else None
    if not image and not caption:
        raise UserError(
            f"{where}: candidate {k} has neither a caption nor "
            + (
                f"an image: '{name}' is not in {folder} or its folder '{compound}'."
                if name
                else "an image name."
            )
        )
    if name and not image:
        note = "the image is missing, the caption stands alone."
        notes.setdefault(note, []).append(f"{where}, '{name}'")
    return Candidate(name or f"candidate{k}", image, caption or None)


def _image(name: str, compound: str, folder: Path, where: str) -> Path | None:
    """The image's file, or None where there is none."""
    if not _inside(name):
        raise UserError(f"{where}: the image '{name}' lies outside the data folder.")
    # A compound with an apostrophe has a folder with an underscore in its place.
    for subfolder in ("", compound, re.sub("['\u2019]", "_", compound)):
        file = folder / subfolder / name
        # os.path's, because Path.is_file raises where a name is too long.
        if _inside(subfolder) and os.path.isfile(file):
            return file
    return None


def _inside(name: str) -> bool:
    """Whether a relative path stays below the folder that it starts from."""
    return not Path(name).is_absolute() and Path(os.path.normpath(name)).parts[:1] != ("..",)


def _sentence_type(cell: str, where: str) -> SenseLabel | None:
    label = cell.strip().lower() or None
    if label not in (None, *get_args(SenseLabel)):
        raise UserError(f"{where}, sentence_type: is '{label}', not idiomatic or literal.")
    return cast(SenseLabel | None, label)


def _order(value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
    """The gold or predicted order, a list or the literal of one, checked against the candidates.

    Without candidates (``names`` is empty) only its form can be checked.
    """
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError(
            f"{where}, expected_order: is not a list of image names like ['1.png', '2.png']."
        )
    if len(value) < 2 and not names:
        raise UserError(f"{where}, expected_order: names {len(value)} candidates, not 2 or more.")
    for name in value:
        if value.count(name) > 1:
            raise UserError(f"{where}, expected_order: names '{name}' more than once.")
        if names and name not in names:
            raise UserError(f"{where}, expected_order: names '{name}', which is no candidate.")
    if names and len(value) != len(names):
        raise UserError(
            f"{where}, expected_order: has {len(value)} names for {len(names)} candidates."
        )
    return tuple(value)


# -------------------------------------------------------------------------------- submissions


def read_texts(path: Path) -> list[Candidate]:
    """Texts to search, as candidates without pictures: a line each of a ``.txt``, or the ``text``
    (and ``id``) of each row of a ``.jsonl``, ``.csv`` or ``.tsv``. Without ids rows are numbered.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    rows: Iterable[tuple[int, dict[str, Any]]]
    if path.suffix == ".txt":
        lines = enumerate(read_text(path).splitlines(), start=1)
        rows = [(number, {"text": line}) for number, line in lines if line.strip()]
    elif path.suffix == ".jsonl":
        rows = json_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        table = read_table(path, ("text",))
        rows = enumerate(cast(list[dict[str, Any]], table.to_dict("records")), start=1)
    else:
        raise UserError(f"{path}: expected a .txt, .jsonl, .csv or .tsv file.")
    found: dict[str, Candidate] = {}
    for number, row in rows:
        text, name = row.get("text"), str(number if row.get("id") in (None, "") else row["id"])
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{path}, row {number}, text: is missing or empty.")
        if name in found:
            raise UserError(f"{path}, row {number}, id: '{name}' stands in two rows.")
        found[name] = Candidate(name, caption=text)
    if not found:
        raise UserError(f"{path}: holds no texts.")
    return list(found.values())


@dataclass(frozen=True)
class Prediction:
    """One row of a submission. ``sentence`` is None where the file does not have the column."""

    compound: str
    sentence: str | None
    order: tuple[str, ...]
    sentence_type: SenseLabel | None = None


def write_submission(path: Path, predictions: Sequence[Prediction]) -> None:
    """Write a TSV that AdMIRe's scorer accepts: ``compound``, ``expected_order`` and two more.

    Raises:
        UserError: the file cannot be written.
    """
    table = pd.DataFrame(
        {
            "compound": [p.compound for p in predictions],
            "expected_order": [str(list(p.order)) for p in predictions],
            "sentence": [p.sentence or "" for p in predictions],
            "sentence_type": [p.sentence_type or "" for p in predictions],
        }
    )
    if predictions and all(p.sentence is None for p in predictions):
        del table["sentence"]
    with write_whole(path) as file:
        # A lone carriage return ends a line for readers, but the writer does not quote it.
        returns = any("\r" in cell for cell in table.to_numpy().flat)
        table.to_csv(
            file, sep="\t", index=False, quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
        )


def read_submission(path: str | Path) -> list[Prediction]:
    """Read a submission: at least the columns ``compound`` and ``expected_order``.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    path = Path(path)
    table = read_table(path, ("compound", "expected_order"))
    return [
        Prediction(
            compound=row["compound"],
            sentence=row.get("sentence"),
            order=_order(row["expected_order"], (), f"{path}, row {number} ('{row['compound']}')"),
            sentence_type=_sentence_type(
                row.get("sentence_type", ""), f"{path}, row {number} ('{row['compound']}')"
            ),
        )
        for number, row in enumerate(table.to_dict("records"), start=1)
    ]
