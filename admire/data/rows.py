"""Rows of data files: checked as pydantic models, and made into items with their images."""

from __future__ import annotations

import ast
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)

from admire.core.errors import UserError
from admire.core.files import path_inside
from admire.core.schema import Text, complaint
from admire.data.compounds import find_compound
from admire.data.image_files import store_picture
from admire.data.items import Candidate, Item, SenseLabel
from admire.data.languages import check_language
from admire.data.limits import Limit, check_text

log = logging.getLogger("admire")

Loss = Literal["picture", "candidate", "item"]
Look = Callable[[Path], object]
"""Raises UserError for a picture that cannot be used."""


class Fault(NamedTuple):
    """A fault of a set: the file and row that cannot be used as they are, and why.

    ``lost`` has to be left out for it: the picture of a candidate that has a caption, the
    candidate, or its item. For ``settings`` see :class:`admire.core.errors.UserError`.
    """

    what: str
    lost: Loss
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowReader:
    """How rows become items.

    Attributes:
        folder: of the images.
        language: of rows without one of their own.
        whole: refuse items without a sentence and candidates with neither image nor caption;
            otherwise they come as they are.
        look: is called with each picture, such as :func:`admire.data.image_files.check_image`;
            a picture that is missing is then a fault even where there is a caption.
        skip: takes each fault, and the item comes without what it spoils: a caption stands without
            its picture; a candidate that has nothing is dropped, from the gold too; an item with
            fewer than two is left out.
        by_name: look for pictures also by their file names, anywhere below the folder.
        found: the pictures that were looked for so, with the names that rows have for them.
        notes: by warning, the first row that it is about and the number of rows.
        listings: of folders, the paths in them by :func:`spelling_key` of their names; of
            ``FOLDER/**``, those of all files below it.
    """

    folder: Path = Path()
    language: str = "en"
    whole: bool = True
    look: Look | None = None
    skip: Callable[[Fault], object] | None = None
    by_name: bool = False
    found: dict[str, str] = field(default_factory=dict)
    notes: dict[str, tuple[str, int]] = field(default_factory=dict)
    listings: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def with_images(self, folder: str | Path) -> RowReader:
        """Return a reader that looks for pictures in a folder that somebody named for them."""
        if not os.path.isdir(folder):
            raise UserError(f"{folder}: is not a folder.", "images")
        return replace(self, folder=Path(folder), by_name=True)

    def report(self, error: UserError, lost: Loss) -> None:
        """Report a fault if faults are skipped, else raise it."""
        if self.skip is None:
            raise error
        self.skip(Fault(str(error), lost, error.settings))

    def note(self, note: str, where: str) -> None:
        """Count a warning."""
        first, count = self.notes.get(note, (where, 0))
        self.notes[note] = first, count + 1

    def item(self, row: Mapping[str, Any], where: str) -> Item:
        """Read the item of a row as a JSONL manifest has it.

        Args:
            row: its pictures are names of files below the folder, or in memory; a Path, which only
                a caller in Python can give, is any file.
            where: what messages begin with, such as the file and the row; if empty, the column.
        """
        where = where and place_of(where, row.get("compound"))
        start = f"{where}, " if where else ""
        try:
            cells = Row.model_validate(row)
        except ValidationError as error:
            raise UserError(start + complain(error)) from None
        contexts = cells.sentence.strip(), cells.sequence, cells.expected_item, cells.word
        if self.whole and not any(contexts):
            raise UserError(f"{start}sentence: is empty. Write one that uses the compound.")
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
        )
        if len(item.things) < len(cells.candidates) + len(cells.sequence):
            item = _without_dropped(item, cells, start)
        if item.sentence and find_compound(item.sentence, item.phrase) is None:
            self.note("the compound is not in its sentence.", where)
        return item

    def _candidates(
        self, row: Row, key: Literal["candidates", "sequence"], start: str
    ) -> tuple[Candidate, ...]:
        """Build a row's candidates or its sequence, and find their images.

        One that has neither image nor caption is dropped, if items have to be whole.
        """
        candidates: list[Candidate] = []
        for number, cells in enumerate(getattr(row, key), start=1):
            image, place = None, f"{start}{key.removesuffix('s')} {number}"
            try:
                image = self._image(cells, row, place)
                if self.by_name and image and image in [other.image for other in candidates]:
                    same = f"'{cells.name}' and another candidate are both {image}"
                    raise UserError(f"{place}: {same}.")
            except UserError as error:
                self.report(error, "picture" if cells.caption else "candidate")
            if image or cells.caption or not self.whole:
                candidates.append(Candidate(cells.name, image, cells.caption or None))
        return tuple(candidates)

    def _image(self, cells: CandidateCells, row: Row, where: str) -> Path | None:
        """Find a candidate's image, and look at it; None where it can do without."""
        name = file = cells.image
        if isinstance(name, Path):
            if not os.path.isfile(name):
                raise UserError(f"{where}: the picture {name} does not exist.")
        elif name:
            file = self._only_file(name, row.compound, where)
        elif self.whole and not cells.caption:
            raise UserError(f"{where}: has neither a caption nor an image name.")
        if not file:
            if name:
                self._do_without(cells, row, where)
            return None
        if self.look:
            try:
                self.look(Path(file))
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
        return Path(file)

    def _do_without(self, cells: CandidateCells, row: Row, where: str) -> None:
        """Refuse a named image that is missing, or count a warning where there is a caption."""
        if cells.caption and not self.look:
            hint = "" if self.by_name else " Is it elsewhere? --images FOLDER"
            note = f"the image is missing; only the caption is used.{hint}"
            self.note(note, f"{where}, '{cells.image}'")
        elif cells.caption or self.whole:
            lacks = "a caption but no image" if cells.caption else "neither a caption nor an image"
            raise UserError(
                f"{where}: has {lacks}: '{cells.image}' is not in {self.folder} or "
                + ("below it." if self.by_name else f"its folder '{row.compound}'."),
                "images",
            )

    def _only_file(self, name: str, compound: str, where: str) -> str | None:
        """Return the picture of this name, if there is one; count other spellings."""
        places: list[str] = []  # below the folder
        for path in dict.fromkeys((name, tool_path(name))) if self.by_name else (name,):
            try:
                place = path_inside(self.folder, path, follow_links=True)
            except UserError as error:
                if self.whole and not self.by_name:
                    raise UserError(f"{where}, image: {error}", "images") from None
            else:
                places += [place, *(os.path.join(sub, place) for sub in subfolders(compound))]
        files = self.find_files(places) or self._files_named(name)
        if not files:
            return None
        if len(files) > 1:
            several = ", ".join(os.path.relpath(file, self.folder) for file in files[:3])
            raise UserError(
                f"{where}: '{name}' is not in {self.folder}, but {several} have similar names. "
                "Write the path of one as it is."
            )
        if self.by_name:
            if self.found.setdefault(files[0], name) != name:
                self.note("another item names the same picture otherwise.", f"{where}, '{name}'")
        elif files[0] not in [os.path.join(self.folder, place) for place in places]:
            differs = "in capitals, accents or slashes"
            note = f"the picture's name differs {differs}; the picture is used."
            self.note(note, f"{where}, '{name}'")
        return files[0]

    def find_files(self, places: Iterable[str]) -> list[str]:
        """Return the file at the first of these paths below the folder that there is one at.

        If there is none, return all files whose paths differ from one of these only in capitals, in
        how accents are encoded, or in backslashes in place of slashes. They are looked for in the
        folders' listings, so none is outside.
        """
        places = list(places)
        # os.path's, because Path.is_file raises where a name is too long, and takes its time.
        for place in places:
            if os.path.isfile(file := os.path.join(self.folder, place)):
                return [file]
        similar: dict[str, None] = {}
        for place in places:
            paths = [str(self.folder)]
            for part in filter(None, place.replace("\\", "/").split("/")):
                key = spelling_key(part)
                paths = [file for path in paths for file in self._listing(path).get(key, ())]
                if not paths:
                    break
            similar |= dict.fromkeys(filter(os.path.isfile, paths))
        return list(similar)

    def _files_named(self, name: str) -> list[str]:
        """Return the files of this name anywhere below the folder, or else of a similar name."""
        for path in (name, tool_path(name)) if self.by_name else ():
            wanted = re.split(r"[/\\]", path)[-1]
            files = self._listing(str(self.folder), below=True).get(spelling_key(wanted), [])
            if files := [*filter(os.path.isfile, files)]:
                return [file for file in files if os.path.basename(file) == wanted] or files
        return []

    def _listing(self, folder: str, *, below: bool = False) -> dict[str, list[str]]:
        place = os.path.join(folder, "**") if below else folder
        if place not in self.listings:
            listing = self.listings[place] = {}
            for parent, folders, names in os.walk(folder):  # of a file, or unreadable: nothing
                for name in sorted(names if below else names + folders):
                    listing.setdefault(spelling_key(name), []).append(os.path.join(parent, name))
                folders[:] = sorted(folders) if below else []
        return self.listings[place]


def tool_path(name: str) -> str:
    """Return the path in a picture's name that an annotation tool wrote: in a URL, after ?d=."""
    query = re.search(r"[?&]d=([^&#]*)", name)
    return unquote(query[1] if query else re.sub(r"^file://|[?#].*", "", name))


@lru_cache(maxsize=1024)
def spelling_key(name: str) -> str:
    """Return what names have in common that differ in capitals or in how accents are encoded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def place_of(where: str, compound: object) -> str:
    """Return the place of a row with its compound, unless that is invalid itself."""
    with suppress(ValueError):
        if isinstance(check_text("compound", compound), str):
            return f"{where} ('{compound}')"
    return where


def log_notes(notes: Mapping[str, tuple[str, int]]) -> None:
    """Log each warning once, with the first row that it is about."""
    for note, (first, count) in notes.items():
        log.warning("%s: %s%s", first, note, f" (and {count - 1} more)" if count > 1 else "")


def language_cell(tag: str) -> str:
    """Return a cell's tag as :func:`check_language` does, empty where it is."""
    try:
        return check_language(tag.strip()) if tag else ""
    except UserError as error:
        raise ValueError(str(error)) from None


def _order(value: Any, names: Collection[str]) -> tuple[str, ...]:
    check_text("expected_order", value)
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("is not a list of image names like ['1.png', '2.png']")
    if len(value) < 2 and not names:
        raise ValueError(f"names {len(value)} candidates, not 2 or more")
    seen: set[str] = set()
    for name in value:
        check_text("image", name)
        if name in seen:
            raise ValueError(f"names '{name}' more than once")
        if names and name not in names:
            raise ValueError(f"names '{name}', which is not a candidate")
        seen.add(name)
    if names and len(value) != len(names):
        raise ValueError(f"has {len(value)} names for {len(names)} candidates")
    return tuple(value)


def _literal(text: str) -> object:
    """Return what the literal of a list says; None if it is none."""
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(text.strip())
    return None


def parse_order(
    value: Any, names: Collection[str], where: str, column: str = "expected_order"
) -> tuple[str, ...]:
    """Read an order, a list or the literal of one, and check it against candidates, if any."""
    try:
        return _order(value, names)
    except ValueError as error:
        raise UserError(f"{where}, {column}: {error}.") from None


Cell = Annotated[str, BeforeValidator(lambda cell: "" if cell is None else cell)]
Trimmed = Annotated[Cell, AfterValidator(str.strip)]
# AdMIRe's captions hold line breaks as the two characters backslash and n.
Caption = Annotated[Cell, AfterValidator(lambda text: text.replace("\\n", "\n").strip())]


def _sense(cell: object) -> object:
    cell = check_text("sentence_type", cell)
    return (cell.strip().lower() or None) if isinstance(cell, str) else cell


SenseCell = Annotated[SenseLabel | None, BeforeValidator(_sense)]
ImageName = Annotated[Trimmed, Limit("image")]
HUGGING_FACE = {"bytes", "path"}
"""The keys of a picture as Hugging Face's datasets have it."""


def _picture(cell: object) -> object:
    """Return the name of a picture, or the file of one that is in memory or that a Path names."""
    if isinstance(cell, str | None):
        return str(check_text("image", cell or "")).strip()
    return cell if isinstance(cell, Path) else store_picture(cell)


class CandidateCells(BaseModel):
    """A picture, a caption, or both, and a name.

    Attributes:
        image: the name of a file, or a Path.
    """

    model_config = ConfigDict(strict=True)

    name: ImageName = ""
    image: Annotated[Any, BeforeValidator(_picture)] = ""
    caption: Annotated[Caption, Limit("caption")] = ""


def _candidate_cells(thing: object) -> dict[str, Any]:
    """Return a caption, a picture, or both, by column."""
    if isinstance(thing, str):
        return {"caption": thing}
    if not isinstance(thing, Mapping) or thing.keys() <= HUGGING_FACE:
        thing = {"image": thing}
    image, name = thing.get("image"), ""
    if isinstance(image, Mapping) and image.keys() <= HUGGING_FACE:
        content, path = image.get("bytes"), image.get("path")
        image, name = content or path, os.path.basename(path) if content and path else ""
    elif isinstance(image, Path):
        name = image.name
    return {**thing, "image": image, "name": thing.get("name") or name}


def _things(cell: object) -> object:
    """Return a cell as a list of candidates: one may be written as a literal, or by column."""
    if isinstance(cell, str):
        return _literal(cell) or cell if cell.strip() else []
    if isinstance(cell, Mapping) and all(isinstance(column, list) for column in cell.values()):
        return [dict(zip(cell, row, strict=True)) for row in zip(*cell.values(), strict=True)]
    return [] if cell is None else cell


def _listed(cell: object) -> object:
    """Return a table's cell as a list: a text is one definition, or the literal of a list."""
    if not isinstance(cell, str):
        return [] if cell is None else cell
    return _literal(cell) if cell.strip().startswith("[") else [cell]


def _at_most_two(texts: list[str]) -> list[str]:
    if len(filled := [text for text in texts if text]) > 2:
        raise ValueError(f"has {len(filled)} texts, and two are read. Remove the others")
    return filled


Definitions = Annotated[
    list[Annotated[Trimmed, Limit("definition")]],
    BeforeValidator(_listed),
    AfterValidator(_at_most_two),
]
"""What a compound means in its sentence, as a person says it."""


Things = Annotated[
    list[Annotated[CandidateCells, BeforeValidator(_candidate_cells)]], BeforeValidator(_things)
]


class Row(BaseModel):
    """A row of any data file, with candidates and sequence as a JSONL manifest has them."""

    model_config = ConfigDict(strict=True)

    compound: Annotated[Text, Limit("compound")]
    sentence: Annotated[Cell, Limit("sentence")] = ""
    sentence_type: SenseCell = None
    candidates: Things = []
    sequence: Things = []
    images: Annotated[list[Any], BeforeValidator(_things)] = []
    captions: Annotated[list[Any], BeforeValidator(_things)] = []
    expected_item: ImageName = ""
    language: Annotated[Trimmed, AfterValidator(language_cell), Limit("language")] = ""
    expected_order: Any = None
    word: Annotated[Trimmed, Limit("word")] = ""
    definitions: Definitions = []

    def _name(self, key: Literal["candidates", "sequence"]) -> Collection[str]:
        """Name candidates or a sequence after their images or positions; return their names.

        Pictures in memory may have one name, so repeated ones get a number.
        """
        names: dict[str, None] = {}
        for k, cells in enumerate(getattr(self, key), start=1):
            held = isinstance(cells.image, Path)
            place = f"{'image' if held and key == 'candidates' else key.removesuffix('s')}{k}"
            name = first = cells.name or (not held and cells.image) or place
            number = 1
            while name in names:
                if not held:
                    raise ValueError(f"{key}: '{name}' appears more than once")
                number += 1
                name = f"{first} ({number})"
            names[name] = None
            cells.name = name
        return names

    @model_validator(mode="before")
    @classmethod
    def _join_lists(cls, row: Any) -> Any:
        """Make candidates of the lists of images and captions."""
        images, captions = _things(row.get("images")), _things(row.get("captions"))
        if not (isinstance(images, list) and isinstance(captions, list) and (images or captions)):
            return row
        if row.get("candidates"):
            raise ValueError("captions, images: are beside candidates. Keep one of them")
        if images and captions and len(images) != len(captions):
            raise ValueError(f"there are {len(captions)} captions for {len(images)} images")
        pairs = zip_longest(images, captions)
        return {**row, "candidates": [{"image": image, "caption": text} for image, text in pairs]}

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check that the cells fit together; messages begin with the column."""
        names = self._name("candidates")
        self._name("sequence")
        if len(names) == 1:
            raise ValueError("candidates: only one is given; a ranking needs two or more")
        if names and self.expected_item:
            if not self.sequence and not self.word:
                raise ValueError("expected_item: has no sequence to complete")
            if self.expected_item not in names:
                raise ValueError(
                    f"expected_item: is '{self.expected_item}', which is not a candidate"
                )
        try:
            order = self.expected_order
            self.expected_order = _order(order, names) if order else None
        except ValueError as error:
            raise ValueError(f"expected_order: {error}") from None
        return self


def complain(error: ValidationError) -> str:
    """Say what is wrong with a row: "candidate 2, caption: cannot be …"."""
    detail = error.errors()[0]
    place = [str(step) for step in detail["loc"]]
    if len(place) > 1:
        place[:2] = [f"{place[0].removesuffix('s')} {int(place[1]) + 1}"]
    similar = detail["type"] == "missing" and get_close_matches(place[0], detail["input"], n=1)
    cure = f" Rename '{similar[0]}'." if similar else ""
    return ": ".join(filter(None, (", ".join(place), complaint(error) + cure)))


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


@lru_cache(maxsize=1)
def subfolders(compound: str) -> list[str]:
    """List the names that the folder with a compound's images may have."""
    paths = []
    # In folder names, AdMIRe writes apostrophes as underscores.
    for name in (compound, re.sub("['\u2019]", "_", compound)):
        with suppress(UserError):  # it leads elsewhere
            paths.append(path_inside("", name, follow_links=True))
    return paths
