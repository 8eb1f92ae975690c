"""Items and candidates, and reading them from AdMIRe's files and from image sets."""

from __future__ import annotations

import ast
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from admire.base.errors import UserError
from admire.base.files import check_columns, json_rows, table_parts
from admire.data.languages import check_language, guess_language, task_code
from admire.data.pictures import check_header
from admire.data.words import word_rows, words_language

log = logging.getLogger("admire")

SAMPLES = Path(__file__).parent / "samples"
"""The image set that ships with admire."""

SenseLabel = Literal["idiomatic", "literal"]


@dataclass(frozen=True)
class Candidate:
    """One thing to rank: an image, a caption, or an image with its caption.

    ``name`` is the name that orders and submissions use: the image's name as the data file writes
    it, or ``candidate1``, ``candidate2``, … for candidates without an image. Things of a sequence
    are candidates too, but are not ranked: ``s1.png``, or ``sequence1``.
    """

    name: str
    image: Path | None = None
    caption: str | None = None


@dataclass(frozen=True)
class Item:
    """One row: a compound in a sentence, and the candidates to rank for it.

    In AdMIRe's Subtask B a ``sequence`` of two pictures stands in place of the sentence, which is
    empty: it shows one of the compound's senses, and the best candidate completes it.

    In Visual-WSD the compound is a phrase, and ``word`` is the word in it whose meaning is to be
    shown; there is no sentence, and no idiomatic or literal sense to decide. In other sets ``word``
    is empty.

    ``compound`` is as in the data file; see :attr:`phrase`. ``language`` is the tag as given
    (``en``, ``xe``, ``pt-br``). ``sentence_type``, ``expected_order`` and, of Subtask B
    and V-WSD, ``expected_item`` are the gold answers, None where they are not known. ``candidates``
    is empty where a file holds targets only; such items can be classified but not ranked.
    """

    compound: str
    sentence: str
    language: str = "en"
    candidates: tuple[Candidate, ...] = ()
    sentence_type: SenseLabel | None = None
    expected_order: tuple[str, ...] | None = None
    sequence: tuple[Candidate, ...] = ()
    expected_item: str | None = None
    word: str = ""

    @property
    def phrase(self) -> str:
        """The compound as people write it, for prompts and queries.

        AdMIRe 2 numbers some compounds ("kıl payı 1"). A number that is in the sentence too
        ("cloud 9") belongs to the compound.
        """
        if not self.sentence or self.compound.casefold() in self.sentence.casefold():
            return self.compound
        return re.sub(r"(?<=\S)\s+\d+$", "", self.compound.rstrip())

    @property
    def best(self) -> str | None:
        """The name of the best candidate by gold, None where it is not known."""
        return self.expected_item or (self.expected_order or [None])[0]


Lost = Literal["picture", "candidate", "item"]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a set.

    Attributes:
        what: the file and row that cannot be used as they are, and why.
        lost: what has to be left out for it: the picture of a candidate that has a caption, the
            candidate, or its item.
        settings: see :class:`admire.base.errors.UserError`.
    """

    what: str
    lost: Lost
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a file is read; see :func:`iter_items`.

    Attributes:
        path: what messages call the file.
        folder: of the images.
        language: of rows without one of their own.
        notes: warnings so far.
    """

    path: Path
    folder: Path
    language: str
    notes: Notes
    whole: bool = True
    look: bool = False
    skip: Callable[[Fault], object] | None = None

    def leave_out(self, error: UserError, lost: Lost) -> None:
        """Tell of a fault, if faults are skipped.

        Raises:
            UserError: they are not.
        """
        if self.skip is None:
            raise error
        self.skip(Fault(str(error), lost, error.settings))


def read_items(
    path: str | Path,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
) -> list[Item]:
    """All items of a file at once; see :func:`iter_items`."""
    return list(iter_items(path, language, images=images, gold=gold))


def iter_items(
    path: str | Path,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
    warn: bool = True,
    whole: bool = True,
    look: bool = False,
    skip: Callable[[Fault], object] | None = None,
) -> Iterator[Item]:
    """Read an AdMIRe TSV, an image set's manifest (CSV or JSONL), or a folder; :func:`data_files`.

    A ``.txt`` is a file of V-WSD: a line is a word, its phrase and ten images, with tabs between.
    ``images`` is the folder of the images, None that of the file; for ``gold`` see
    :func:`admire.data.words.word_rows`.

    Tables have the columns ``compound`` and ``sentence``, optionally ``language``,
    ``sentence_type`` and ``expected_order``, and for each candidate k = 1, 2, ... ``imagek_name``
    and ``imagek_caption``. Those of Subtask B have ``sequence_captionk`` or ``sequence_imagek``,
    optionally ``expected_item``, and need no sentences; without ``sequence_imagek`` the images are
    ``s1.png``, ``s2.png``, ... in the compound's subfolder, if they are there. A JSONL manifest has
    the same keys (so have the objects in the list of a ``.json``), and instead of the columns of
    images and captions ``candidates`` and
    ``sequence``, lists of objects with ``image``, ``caption`` or both. Image names are paths below
    the file's folder, or below its subfolder that is named after the compound.

    ``language`` is that of rows without one of their own. If it is None, it is guessed from the
    file's name, see :func:`guess_language`. ``warn`` logs warnings, at the end. ``whole`` refuses
    items without a sentence and candidates with neither image nor caption; otherwise they come as
    they are. ``look`` opens each picture's header, and counts a picture that is missing as a fault
    even where there is a caption. ``skip`` takes each fault, and the item comes without what it
    spoils, or not at all: a caption stands without its picture, a candidate that has nothing is
    dropped, from the gold too, and an item with fewer than two is left out.

    Items are read one at a time, so that a file of any size fits into memory.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why; with ``skip`` only
            if the file cannot be read any further.
    """
    path = Path(path)
    if path.suffix != ".txt" and (images or gold):
        what = "images" if images else "gold"
        raise UserError(f"{path}: only for V-WSD's files (.txt) are the {what} given apart.", what)
    if images and not Path(images).is_dir():
        raise UserError(f"{images}: is not a folder of images.", "images")
    notes: Notes = {}
    for file, tag in data_files(path, language):
        folder = Path(images) if images else file.parent
        if file.suffix == ".txt":
            rows = word_rows(file, Path(gold) if gold else None)
        else:
            listed = file.suffix in (".json", ".jsonl")
            rows = json_rows(file) if listed else _table_rows(file)
        reading = Reading(file, folder, tag, notes, whole, look, skip)
        number = 0
        for number, row in rows:
            try:
                item = item_of_row(row, number, reading)
            except UserError as error:
                reading.leave_out(error, "item")
            else:
                yield item
        if not number:
            raise UserError(f"{file}: holds no items.")
    if warn:
        tell(notes)


Notes = dict[str, tuple[str, int]]
"""By warning: the first row that it is about, and the number of rows."""


def tell(notes: Notes) -> None:
    """Log the warnings."""
    for note, (first, count) in notes.items():
        log.warning("%s: %s%s", first, note, f" (and {count - 1} more)" if count > 1 else "")


def _note(notes: Notes, note: str, where: str) -> None:
    first, count = notes.get(note, (where, 0))
    notes[note] = first, count + 1


def data_files(path: Path, language: str | None = None) -> list[tuple[Path, str]]:
    """The files with the items, each with the language of rows without one of their own.

    They are the path itself, or of a folder its manifest, its ``subtask_*.tsv`` or else all of its
    TSVs, one for each language, by name.

    Args:
        language: see :func:`iter_items`.

    Raises:
        UserError: the folder holds none, several manifests, or several files of one language; or
            the file is missing or of another kind.
    """
    files = _files_in(path) if path.is_dir() else [_checked_file(path)]
    tags = [check_language(language) if language else _language_of(file) for file in files]
    first: dict[str, Path] = {}
    for file, tag in zip(files, tags, strict=True):
        code = task_code(tag)
        other = first.setdefault(code, file)
        if other != file:
            raise UserError(
                f"{path}: holds two files of one language ({code}), {other.name} and {file.name}. "
                "Keep one of them there, or name the file itself."
            )
    return list(zip(files, tags, strict=True))


def _language_of(file: Path) -> str:
    return words_language(file) if file.suffix == ".txt" else guess_language(file)


def _files_in(folder: Path) -> list[Path]:
    named = (folder / "manifest.csv", folder / "manifest.jsonl")
    manifests = [file for file in named if file.is_file()]
    tables = (sorted(folder.glob(pattern)) for pattern in ("subtask_[ab]_*.tsv", "[!.]*.tsv"))
    files = manifests or next(filter(None, tables), [])
    if not files or len(manifests) > 1:
        raise UserError(
            f"{folder}: expected one manifest.csv or manifest.jsonl, or a TSV for each language, "
            f"in this folder, found {len(files)}. Name the file itself."
        )
    return files


def _checked_file(path: Path) -> Path:
    if not path.exists():
        address = re.match("(https?:)/+(.+)", str(path))  # a Path has one slash for two
        if address:
            raise UserError(
                f"{address[1]}//{address[2]}: is an address. Download the file, and name that."
            )
        raise UserError(f"{path}: cannot be read (No such file or folder).")
    if path.suffix in (".xlsx", ".xls", ".ods"):
        raise UserError(f"{path}: is a spreadsheet. Save it there as CSV UTF-8, and name that.")
    if path.suffix not in (".tsv", ".csv", ".json", ".jsonl", ".txt"):
        raise UserError(
            f"{path}: expected a .tsv, .csv, .json or .jsonl file, a folder with a manifest, or a "
            ".txt of V-WSD."
        )
    return path


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for table in table_parts(path, ("compound",)):
        candidates, sequence = column_numbers(table)
        if not sequence and "expected_item" not in table:
            check_columns(path, table, ("sentence",))
        for cells in table.to_dict("records"):
            number += 1
            row: dict[str, Any] = {str(column): cell for column, cell in cells.items()}
            ragged = path.suffix == ".csv"  # an image set's
            yield number, with_things(row, candidates, sequence, path, ragged=ragged)


def with_things(
    row: dict[str, Any],
    candidates: Sequence[int],
    sequence: Sequence[int],
    path: Path,
    *,
    ragged: bool,
) -> dict[str, Any]:
    """A table's row with its candidates and its sequence as a JSONL file has them.

    Args:
        ragged: whether a row may have fewer things than the table has columns for.
    """
    row["candidates"] = [
        {"image": row.get(f"image{k}_name", ""), "caption": row.get(f"image{k}_caption", "")}
        for k in candidates
    ]
    row["sequence"] = [
        {
            "image": row.get(f"sequence_image{k}", "") or _sequence_image(row, k, path.parent),
            "caption": row.get(f"sequence_caption{k}", ""),
        }
        for k in sequence
    ]
    if ragged:
        for things in (row["candidates"], row["sequence"]):
            while things and not any(things[-1].values()):
                things.pop()
    return row


def column_numbers(table: Iterable[object]) -> tuple[list[int], list[int]]:
    """The numbers of the candidates and of the sequence's things, by a table's columns."""
    table = list(table)
    # Python makes no number of more digits.
    candidates = _numbers(table, r"image(\d{1,4000})_(?:name|caption)")
    return candidates, _numbers(table, r"sequence_(?:image|caption)(\d{1,4000})")


def _numbers(columns: Iterable[object], pattern: str) -> list[int]:
    """The numbers in the names of those columns that match."""
    matches = [re.fullmatch(pattern, str(column)) for column in columns]
    return sorted({int(match[1]) for match in matches if match})


def _sequence_image(row: dict[str, Any], k: int, folder: Path) -> str:
    """``s1.png``, ``s2.png``: what AdMIRe calls a sequence's images, if the compound has one."""
    name = f"s{k}.png"
    there = any(
        os.path.isfile(os.path.join(folder, one, name)) for one in _subfolders(row["compound"])
    )
    return name if there else ""


def item_of_row(row: dict[str, Any], number: int, reading: Reading) -> Item:
    """The item of a row as a JSONL manifest has it.

    Args:
        number: of the row, from 1.

    Raises:
        UserError: the row and the column that cannot be used, and why.
    """
    path, whole = reading.path, reading.whole

    def text(column: str) -> str:
        value = row.get(column)
        if not isinstance(value, str | None):
            raise UserError(f"{path}, row {number}, {column}: is not a text.")
        return value or ""

    compound, sentence = text("compound"), text("sentence")
    where = f"{path}, row {number} ('{compound}')"
    if not compound.strip():
        raise UserError(f"{where}, compound: is empty.")
    best = text("expected_item").strip()
    word = text("word") if path.suffix == ".txt" else ""
    if whole and not sentence.strip() and not row.get("sequence") and not best and not word:
        raise UserError(f"{where}, sentence: is empty.")
    sentence_type = parse_sentence_type(text("sentence_type"), where)

    def things(key: str, kind: str) -> tuple[Candidate, ...]:
        cells = row.get(key, [])
        if not isinstance(cells, list) or not all(isinstance(one, dict) for one in cells):
            raise UserError(f"{path}, row {number}, {key}: is not a list of objects.")
        way = replace(reading, whole=whole and not word)
        read = tuple(
            _candidate(one, f"{kind} {k}", compound, where, way)
            for k, one in enumerate(cells, start=1)
        )
        twice = _repeated(one.name for one in read)
        if twice is not None:
            raise UserError(f"{where}: the {kind} '{twice}' appears more than once.")
        return read

    candidates, sequence = things("candidates", "candidate"), things("sequence", "sequence")
    names = [candidate.name for candidate in candidates]
    if len(names) == 1:
        raise UserError(f"{where}: has one candidate; a ranking needs two or more.")
    lost = next((one.name for one in candidates if not one.image), None)
    if word and whole and lost:
        raise UserError(f"{where}: the image '{lost}' is not in {reading.folder}.", "images")
    if best and names and not row.get("sequence") and not word:
        raise UserError(f"{where}, expected_item: there is no sequence to complete.")
    if best and names and best not in names:
        raise UserError(f"{where}, expected_item: is '{best}', which is no candidate.")
    try:
        language = check_language(text("language").strip() or reading.language)
    except UserError as error:
        raise UserError(f"{where}, language: {error}") from None
    expected = row.get("expected_order") or None
    order = parse_order(expected, names, where) if expected else None
    if whole and reading.skip:
        candidates, sequence = _with_something(candidates), _with_something(sequence)
        left = {candidate.name for candidate in candidates}
        if names and len(left) < 2:
            raise UserError(f"{where}: fewer than two candidates are left.")
        if row.get("sequence") and not sequence:
            raise UserError(f"{where}: nothing of the sequence is left.")
        order = tuple(name for name in order if not names or name in left) if order else None
        best = best if not names or best in left else ""
    item = Item(
        compound=compound,
        sentence=sentence,
        language=language,
        candidates=candidates,
        sentence_type=sentence_type,
        expected_order=order,
        sequence=sequence,
        expected_item=best or None,
        word=word,
    )
    if sentence and item.phrase.casefold() not in sentence.casefold():
        _note(reading.notes, "the compound is not in its sentence.", where)
    return item


def _with_something(things: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return tuple(one for one in things if one.image or one.caption)


def _repeated(names: Iterable[str]) -> str | None:
    """The first name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _candidate(
    cells: dict[str, Any], place: str, compound: str, where: str, reading: Reading
) -> Candidate:
    values = {key: cells.get(key) or "" for key in ("image", "caption")}
    for key, value in values.items():
        if not isinstance(value, str):
            raise UserError(f"{where}, {place}, {key}: is not a text.")
    # AdMIRe's captions hold line breaks as the two characters backslash and n.
    name, caption = values["image"].strip(), values["caption"].replace("\\n", "\n").strip()
    image, fault = None, ""
    try:
        image = _image(name, compound, reading.folder, where) if name else None
        if image and reading.look:
            check_header(image)
    except UserError as error:
        fault = f"{where}: {error}" if image else str(error)
        image = None
    if not image and not fault:
        if not caption and reading.whole:
            why = _not_there(name, compound, reading.folder)
            lacks = f"an image: {why}" if name else "an image name."
            fault = f"{where}: {place} has neither a caption nor {lacks}"
        elif name and caption and reading.look:
            why = _not_there(name, compound, reading.folder)
            fault = f"{where}: {place} has a caption but no image: {why}"
        elif name and caption:
            missing = "the image is missing, the caption stands alone."
            _note(reading.notes, missing, f"{where}, '{name}'")
    if fault:
        reading.leave_out(UserError(fault), "picture" if caption else "candidate")
    return Candidate(name or place.replace(" ", ""), image, caption or None)


def _image(name: str, compound: str, folder: Path, where: str) -> Path | None:
    """The image's file, or None where there is none."""
    if not _inside(name):
        raise UserError(f"{where}: the image '{name}' lies outside the data folder.")
    for subfolder in ("", *_subfolders(compound)):
        # os.path's, because Path.is_file raises where a name is too long, and takes its time.
        if os.path.isfile(file := os.path.join(folder, subfolder, name)):
            return Path(file)
    return None


def _not_there(name: str, compound: str, folder: Path) -> str:
    """Why an image is not found."""
    for subfolder in ("", *_subfolders(compound)):
        if os.path.islink(place := os.path.join(folder, subfolder, name)):
            return f"'{name}' is a link to {os.readlink(place)}, where nothing is."
    return f"'{name}' is not in {folder} or its folder '{compound}'."


@lru_cache(maxsize=1)
def _subfolders(compound: str) -> list[str]:
    """What the folder with a compound's images may be called."""
    # In folder names, AdMIRe writes apostrophes as underscores.
    return [name for name in (compound, re.sub("['\u2019]", "_", compound)) if _inside(name)]


def _inside(name: str) -> bool:
    """Whether a relative path stays below the folder that it starts from."""
    path = os.path.normpath(name)
    return not os.path.isabs(path) and path.split(os.sep, 1)[0] != ".."


def parse_sentence_type(cell: str, where: str, column: str = "sentence_type") -> SenseLabel | None:
    label = cell.strip().lower() or None
    if label not in (None, *get_args(SenseLabel)):
        raise UserError(f"{where}, {column}: is '{label}', not idiomatic or literal.")
    return cast(SenseLabel | None, label)


def parse_order(
    value: Any, names: Sequence[str], where: str, column: str = "expected_order"
) -> tuple[str, ...]:
    """The gold or predicted order, a list or the literal of one, checked against the candidates.

    Without candidates (``names`` is empty) only its form can be checked.
    """
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError(f"{where}, {column}: is not a list of image names like ['1.png', '2.png'].")
    if len(value) < 2 and not names:
        raise UserError(f"{where}, {column}: names {len(value)} candidates, not 2 or more.")
    twice = _repeated(value)
    if twice is not None:
        raise UserError(f"{where}, {column}: names '{twice}' more than once.")
    allowed = set(names)
    for name in value:
        if allowed and name not in allowed:
            raise UserError(f"{where}, {column}: names '{name}', which is no candidate.")
    if names and len(value) != len(names):
        raise UserError(f"{where}, {column}: has {len(value)} names for {len(names)} candidates.")
    return tuple(value)


def item_keys(items: Sequence[Item]) -> list[Hashable]:
    """Keys that tell items apart: compound, sentence, candidates, and how many such came before."""
    seen: Counter[Hashable] = Counter()
    keys: list[Hashable] = []
    for item in items:
        names = frozenset(candidate.name for candidate in item.candidates)
        key = (item.compound, item.sentence, names)
        keys.append((key, seen[key]))
        seen[key] += 1
    return keys
