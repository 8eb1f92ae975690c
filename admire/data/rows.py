"""A row becomes an item: its columns, then its schema, then its pictures."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from admire.core.errors import UserError
from admire.data.columns import is_header, join_columns, read_columns, unread_keys
from admire.data.compounds import find_compound
from admire.data.items import Candidate, Item
from admire.data.languages import check_language
from admire.data.pictures import Pictures
from admire.data.schema import CandidateCells, Row, complain, place_of

log = logging.getLogger("admire")

Loss = Literal["picture", "candidate", "item"]
Look = Callable[[Path], object]  #: raises UserError for a picture that cannot be used


class Fault(NamedTuple):
    """A fault of a set: the file and row that cannot be used as they are, and why.

    ``lost`` has to be left out for it: the picture of a candidate that has a caption, the
    candidate, or its item. For ``settings`` see :class:`admire.core.errors.UserError`.
    """

    what: str
    lost: Loss
    settings: tuple[str, ...] = ()


class RowReader:
    """How rows become items.

    Attributes:
        language: of rows without one of their own.
        whole: refuse items without a sentence and candidates with neither image nor caption.
        look: is called with each picture, such as :func:`admire.data.image_files.check_image`;
            a picture that is missing is then a fault even where there is a caption.
        skip: takes each fault, and the item comes without what it spoils, also in the gold; an item
            with fewer than two candidates is left out.
        notes: by warning, the first row that it is about and the number of rows.
        gold: by its key, the first row of an item with gold, and what it says.
    """

    def __init__(
        self,
        language: str = "en",
        *,
        whole: bool = True,
        look: Look | None = None,
        skip: Callable[[Fault], object] | None = None,
    ):
        self.language, self.whole, self.look, self.skip = language, whole, look, skip
        self.pictures = Pictures()
        self.notes: dict[str, tuple[str, int]] = {}
        self.gold: dict[int, tuple[str, tuple[object, ...]]] = {}

    def at(self, language: str, folder: Path, images: str | Path | None) -> RowReader:
        """Return a reader of this language and a folder's pictures, or those of ``images``."""
        if images and not os.path.isdir(images):
            raise UserError(f"{images}: is not a folder.", "images")
        reader = copy(self)
        reader.language, reader.pictures = language, copy(self.pictures)
        reader.pictures.folder, reader.pictures.by_name = Path(images or folder), bool(images)
        return reader

    def report(self, error: UserError, lost: Loss) -> None:
        """Report a fault if faults are skipped, else raise it."""
        if self.skip is None:
            raise error
        self.skip(Fault(str(error), lost, error.settings))

    def note(self, note: str, where: str) -> None:
        """Count a warning."""
        first, count = self.notes.get(note, (where, 0))
        self.notes[note] = first, count + 1

    def item(
        self, row: Mapping[str, Any], where: str, *, ragged: bool = True, keyed: bool = False
    ) -> Item:
        """Read the item of a row.

        Args:
            row: cells by column, or by key as in a JSONL manifest. Pictures are names of files
                below the folder, or in memory; a Path, which only Python can give, is any file.
            where: what messages begin with, such as the file and the row; if empty, the column.
            ragged, keyed: see :class:`admire.data.sources.Source`.
        """
        if is_header(row):
            raise UserError(f"{where}: repeats the header, as in joined files. Remove it.")
        columns = read_columns(row, where, keyed=keyed)
        for note, place in unread_keys(row, columns, where):
            self.note(note, place)
        row = join_columns(row, columns, self.pictures.sequence, ragged=ragged)
        where = where and place_of(where, row.get("compound"))
        start = f"{where}, " if where else ""
        try:
            cells = Row.model_validate(row)
        except ValidationError as error:
            raise UserError(start + complain(error)) from None
        contexts = cells.sentence.strip(), cells.sequence, cells.expected_item, cells.word
        if self.whole and not any(contexts):
            raise UserError(f"{start}sentence: is empty. Write one that uses the compound.")
        names = filter(None, map(attrgetter("written"), cells.candidates))
        written = str(row.get("compound") or ""), str(row.get("sentence") or ""), *names
        item = Item(
            compound=cells.compound,
            sentence=cells.sentence,
            language=cells.language or check_language(self.language),
            candidates=self._candidates(cells, "candidates", start),
            sentence_type=cells.sentence_type,
            expected_order=cells.expected_order,
            sequence=self._candidates(cells, "sequence", start),
            expected_item=cells.expected_item or None,
            word=cells.word,
            definitions=tuple(cells.definitions),
            written=written if written != (cells.compound, cells.sentence) else (),
        )
        if len(item.things) < len(cells.candidates) + len(cells.sequence):
            item = _without_dropped(item, cells, start)
        self._check_gold(item, where)
        if item.sentence and find_compound(item.sentence, item.phrase) is None:
            self.note("the compound is not in its sentence.", where)
        return item

    def _check_gold(self, item: Item, where: str) -> None:
        """Refuse an item that came before with other gold."""
        if not (self.whole and item.candidates and (item.best or item.sentence_type)):
            return
        gold = item.sentence_type, item.expected_order, item.expected_item
        candidates = frozenset(item.candidates)
        same = hash((item.language, item.compound, item.sentence, item.sequence, candidates))
        first, other = self.gold.setdefault(same, (where, gold))
        if gold == other:
            return
        self.gold[same] = first, tuple(b or a for a, b in zip(gold, other, strict=True))
        if any(a and b and a != b for a, b in zip(gold, other, strict=True)):
            raise UserError(f"{where}: is the item of {first} again, with other gold. Keep one.")

    def _candidates(
        self, row: Row, key: Literal["candidates", "sequence"], start: str
    ) -> tuple[Candidate, ...]:
        """Build a row's candidates or its sequence, without those that cannot be used."""
        candidates, files = list[Candidate](), set[str]()
        for number, cells in enumerate(getattr(row, key), start=1):
            image, place = None, f"{start}{key.removesuffix('s')} {number}"
            try:
                image = self._image(cells, row.compound, place)
                file = str(image)  # has a faster hash
                if image and not isinstance(cells.image, Path) and file in files:
                    same = f"'{cells.name}' and another candidate are both {image}"
                    raise UserError(f"{place}: {same}.")
                files.add(file)
            except UserError as error:
                self.report(error, "picture" if cells.caption else "candidate")
            if image or cells.caption or not self.whole:
                candidates.append(Candidate(cells.name, image, cells.caption or None))
        return tuple(candidates)

    def _image(self, cells: CandidateCells, compound: str, where: str) -> Path | None:
        """Find a candidate's image, and look at it; None where it can do without."""
        name = file = cells.image
        if isinstance(name, Path):
            if not os.path.isfile(name):
                raise UserError(f"{where}: the picture {name} does not exist.")
        elif name:
            file, note = self.pictures.find(name, compound, where, inside=self.whole)
            if note:
                self.note(note, f"{where}, '{name}'")
            if not file:
                self._do_without(cells, compound, where)
        elif self.whole and not cells.caption:
            raise UserError(f"{where}: has neither a caption nor an image name.")
        path = Path(file) if file else None
        if self.look and path:
            try:
                self.look(path)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
        return path

    def _do_without(self, cells: CandidateCells, compound: str, where: str) -> None:
        """Refuse a named image that is missing, or count a warning where there is a caption."""
        folder, by_name = self.pictures.folder, self.pictures.by_name
        if cells.caption and not self.look:
            hint = "" if by_name else " Is it elsewhere? --images FOLDER"
            note = f"the image is missing; only the caption is used.{hint}"
            self.note(note, f"{where}, '{cells.image}'")
        elif cells.caption or self.whole:
            lacks = "a caption but no image" if cells.caption else "neither a caption nor an image"
            raise UserError(
                f"{where}: has {lacks}: '{cells.image}' is not in {folder} or "
                + ("below it." if by_name else f"its folder '{compound}'."),
                "images",
            )


def _without_dropped(item: Item, cells: Row, start: str) -> Item:
    """Take candidates that were dropped out of the gold, if enough others are left."""
    names = item.names
    if cells.candidates and len(names) < 2:
        raise UserError(f"{start}candidates: fewer than two candidates are left.")
    if cells.sequence and not item.sequence:
        raise UserError(f"{start}sequence: no usable picture or caption is left.")
    if not names:
        return item
    order = tuple(name for name in item.expected_order or () if name in names)
    best = item.expected_item if item.expected_item in names else None
    return replace(item, expected_order=order or None, expected_item=best)


def log_notes(notes: Mapping[str, tuple[str, int]]) -> None:
    """Log each warning once, with the first row that it is about."""
    for note, (first, count) in notes.items():
        log.warning("%s: %s%s", first, note, f" (and {count - 1} more)" if count > 1 else "")
