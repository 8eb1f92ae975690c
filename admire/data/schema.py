"""The schema of rows: what their cells may be, and what is wrong with those that are not."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from unicodedata import is_normalized

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)

from admire.core.errors import UserError
from admire.core.schema import Text, complaint
from admire.data.image_files import store_picture
from admire.data.items import SenseLabel
from admire.data.languages import check_language
from admire.data.limits import check_text, limited


def language_cell(tag: str) -> str:
    """Return a cell's tag as :func:`check_language` does, empty where it is."""
    try:
        return check_language(tag.strip()) if tag else ""
    except UserError as error:
        raise ValueError(str(error)) from None


def _order(value: Any, names: Collection[str]) -> tuple[str, ...]:
    value = check_text("expected_order", value)
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, list) or {*map(type, value)} - {str}:
        raise ValueError("is not a list of image names like ['1.png', '2.png']")
    if len(value) < 2 and not names:
        raise ValueError(f"names {len(value)} candidates, not 2 or more")
    order: dict[str, None] = {}
    for name in value:
        name = str(check_text("image", name))
        if name in order:
            raise ValueError(f"names '{name}' more than once")
        if names and name not in names:
            raise ValueError(f"names '{name}', which is not a candidate")
        order[name] = None
    if names and len(order) != len(names):
        raise ValueError(f"has {len(order)} names for {len(names)} candidates")
    return tuple(order)


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


def _filled(text: str) -> str:
    text = text.strip()
    if len(text) <= 4 and text.lower() in ("nan", "nat", "none", "null", "<na>", "#n/a"):
        raise ValueError(f"is '{text}', which programs write for no text. Leave it empty")
    return text


Filled = Annotated[Cell, AfterValidator(_filled)]
Definition = Annotated[Filled, *limited("definition")]
# AdMIRe's captions hold line breaks as the two characters backslash and n.
Caption = Annotated[Filled, AfterValidator(lambda text: text.replace("\\n", "\n").strip())]


def _sense(cell: object) -> object:
    cell = check_text("sentence_type", cell)
    return (cell.strip().lower() or None) if isinstance(cell, str) else cell


SenseCell = Annotated[SenseLabel | None, BeforeValidator(_sense)]
ImageName = Annotated[Trimmed, *limited("image")]
HUGGING_FACE = {"bytes", "path"}  #: the keys of a picture as Hugging Face's datasets have it


def _picture(cell: object) -> object:
    """Return the name of a picture, or the file of one that is in memory or that a Path names."""
    if isinstance(cell, str | None):
        return str(check_text("image", cell or "")).strip()
    return cell if isinstance(cell, Path) else store_picture(cell)


class CandidateCells(BaseModel):
    """A picture (the name of a file, or a Path), a caption, or both, and a name."""

    model_config = ConfigDict(strict=True)

    name: ImageName = ""
    image: Annotated[Any, BeforeValidator(_picture)] = ""
    caption: Annotated[Caption, *limited("caption")] = ""
    written: str = ""  #: the name as it is in the file, if it is not in NFC there


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
    called = thing.get("name") or name
    spelt = called or image
    written = spelt.strip() if isinstance(spelt, str) and not is_normalized("NFC", spelt) else ""
    return {**thing, "image": image, "name": called, "written": written}


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
    list[Definition],
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

    compound: Annotated[Text, *limited("compound")]
    sentence: Annotated[Filled, *limited("sentence")] = ""
    sentence_type: SenseCell = None
    candidates: Things = []
    sequence: Things = []
    images: Annotated[list[Any], BeforeValidator(_things)] = []
    captions: Annotated[list[Any], BeforeValidator(_things)] = []
    expected_item: ImageName = ""
    language: Annotated[Trimmed, AfterValidator(language_cell), *limited("language")] = ""
    expected_order: Any = None
    word: Annotated[Trimmed, *limited("word")] = ""
    definitions: Definitions = []

    def _name(self, key: Literal["candidates", "sequence"]) -> Collection[str]:
        """Name candidates or a sequence after their images or positions; return their names.

        Pictures in memory may have one name, so repeated ones get a number.
        """
        names: dict[str, None] = {}
        paths: dict[str, str] = {}
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
            plain = name.replace("\\", "/")
            other = paths.setdefault(os.path.normpath(plain) if "/" in plain else plain, name)
            if other != name:
                raise ValueError(f"{key}: '{other}' and '{name}' are one picture")
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


def place_of(where: str, compound: object) -> str:
    """Return the place of a row with its compound, unless that is invalid itself."""
    with suppress(ValueError):
        if isinstance(text := check_text("compound", compound), str):
            return f"{where} ('{text}')"
    return where
