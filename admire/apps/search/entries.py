"""The entries of a collection: texts, and pictures in folders, tables and Parquet files."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from admire.core.errors import UserError
from admire.core.files import (
    TABLES,
    json_rows_or_errors,
    numbered_rows,
    open_text,
    path_inside,
    table_parts,
)
from admire.core.storage import split_sheet, suffix_of
from admire.data.image_files import SUFFIXES, read_bytes, read_sidecar
from admire.data.items import Candidate
from admire.data.limits import check_text

log = logging.getLogger("admire")

FILES = (".txt", ".jsonl", *TABLES)  #: the suffixes of files that are read

COLUMNS = ("image", "caption", "text", "id")  #: the columns that are read


@dataclass(frozen=True)
class Entry(Candidate):
    """An entry of a collection: a picture, a text, or a picture and its caption.

    Its name is unique there. A picture inside a Parquet file has the path ``FILE/ROW``, and its
    ``content`` until it is encoded. ``where`` is what messages name, a file and a row, say.
    """

    where: str = ""
    content: bytes | None = field(default=None, compare=False, repr=False)
    digest: str = field(default="", compare=False)


def read_entries(
    source: Path, skip: Callable[[UserError], object] | None = None
) -> Iterator[Entry]:
    """Yield the entries of a collection.

    - ``.txt``: a text a line;
    - ``.jsonl`` and tables: texts in ``text``, or paths of pictures in ``image`` and optionally
      captions in ``caption``; names in ``id``, if there are any. In ``.parquet``, pictures can be
      in it, as bytes or as ``{bytes, path}``;
    - a folder: all its ``.parquet``, else all pictures below it, known by suffix, with captions in
      a ``.txt`` of the same name. Hidden files are left out, and with a warning links out of it.

    Args:
        skip: takes what is wrong with an entry that cannot be used, which is then left out.

    Raises:
        UserError: the file, row and column that cannot be used, and why; or there is nothing. With
            ``skip`` only if the file cannot be read any further.
    """
    make = None
    for make in _read(source):
        try:
            yield make()
        except UserError as error:
            if not skip:
                raise
            skip(error)
    if not make:
        kind = "pictures (archives have to be unpacked)" if source.is_dir() else "texts"
        raise UserError(f"{source}: has no {kind}.")


def read_texts(path: Path) -> list[Candidate]:
    """Read all texts of a file as :func:`read_entries` does; refuse one with pictures."""
    texts: dict[str, Candidate] = {}
    for entry in read_entries(path):
        if entry.image:
            reason = "contains pictures. Index them first (admire index)."
            raise UserError(f"{path}: {reason}", "index")
        check_new(entry, entry.name in texts)
        texts[entry.name] = Candidate(entry.name, caption=entry.caption)
    return list(texts.values())


def check_new(entry: Entry, exists: bool) -> None:
    """Refuse a second entry of the same name."""
    if exists:
        raise UserError(f"{entry.where}, id: '{entry.name}' is the id of an earlier row too.")


def digest(entry: Entry) -> str:
    """Return 128 bits, as hexadecimal digits, of the digest of an entry's picture and caption."""
    picture = entry.content
    if picture is None and entry.image:
        picture = read_bytes(entry.image)
    content = b"" if picture is None else hashlib.sha256(picture).digest()
    return hashlib.sha256(content + (entry.caption or "").encode()).hexdigest()[:32]


# ---------------------------------------------------------------------------- files and folders


def _read(source: Path) -> Iterator[Callable[[], Entry]]:
    """Yield a function for each entry of a file or folder that makes it, or says what is wrong."""
    if not split_sheet(source)[0].exists():
        raise UserError(f"{source}: cannot be read (No such file or folder).")
    files = [source]
    if source.is_dir():
        names, out = _files_in(source)
        files = [source / n for n in names if n.endswith(".parquet") and "/" not in n]
        pictures = [n for n in names if n.lower().endswith(SUFFIXES)] if not files else ()
        yield from (partial(_picture_entry, source, name, out) for name in pictures)
    for file in files:
        if suffix_of(file) not in FILES:
            raise UserError(
                f"{file}: is not {', '.join(FILES)} or a folder of pictures. Unpack archives; "
                "save a list of paths as .csv, with the header 'image'."
            )
        for number, row in _rows(file):
            yield partial(_row_entry, row, number, file)


def _files_in(folder: Path) -> tuple[list[str], list[Path]]:
    """Return the names of what is below a folder, sorted, and the links that lead out of it."""

    def fail(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}).") from None

    names, out = list[str](), list[Path]()
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in (*folders, *files)):
            name = path.relative_to(folder).as_posix()
            try:
                if path.is_symlink():
                    path_inside(folder, name, follow_links=False)
                names += [name] if path.is_file() and not path.name.startswith(".") else []
            except UserError:
                out.append(path)
    if out:
        name = str(out[0].relative_to(folder))
        log.warning("%r: is a link that leads out of the folder; %d left out.", name, len(out))
    return sorted(names), out


def _picture_entry(folder: Path, name: str, left_out: Collection[Path]) -> Entry:
    """Make an entry of a picture in a folder, with the caption beside it if it is not left out."""
    file = folder / name
    caption = None if file.with_suffix(".txt") in left_out else read_sidecar(file)
    return Entry(name, Path(os.path.abspath(file)), caption, str(file))


# ---------------------------------------------------------------------------------------- rows


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | UserError]]:
    """Yield the rows of a file with their numbers, from 1, and what is wrong with damaged ones."""
    match suffix_of(path):
        case ".txt":
            with open_text(path) as text:
                lines = (line for part in text for line in part.splitlines())
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield number, {"text": line}
        case ".jsonl":
            yield from json_rows_or_errors(path)
        case _:
            for table in table_parts(path, (), nested=True, only=COLUMNS):
                if not {"image", "text"} & set(table.columns):
                    raise UserError(
                        f"{path}: the column 'text' or 'image' is missing. The file has: "
                        f"{', '.join(table.columns)}."
                    )
                yield from numbered_rows(table)


def _row_entry(row: Mapping[str, Any] | UserError, number: int, path: Path) -> Entry:
    """Make an entry of a row. Paths start at the folder of the row's file, and stay in it."""
    if isinstance(row, UserError):
        raise row
    where, name = f"{path}, row {number}", str(number)
    image, place, content = row.get("image"), None, None
    if path.suffix.lower() == ".parquet":
        name = f"{path.name}/{number}"  # a folder may have several
        if isinstance(image, dict):  # as Hugging Face writes it
            image = image.get("bytes") or image.get("path")
    if isinstance(image, bytes):
        place, content = Path(os.path.abspath(path), str(number)), image
    elif image := _text({"image": image}, "image", where):
        try:
            inside = path_inside(path.parent, image, follow_links=False)
        except UserError as error:
            raise UserError(f"{where}, image: {error}") from None
        name, place = image, Path(os.path.abspath(path.parent), inside)
    key = "caption" if "image" in row and row.get("caption") else "text"
    caption = _text(row, key, where)
    if not place and not caption:
        raise UserError(f"{where}, {'image' if 'image' in row else 'text'}: is missing or empty.")
    if row.get("id") not in (None, ""):
        name = _text({"id": str(row["id"])}, "id", where) or name
    return Entry(name, place, caption, where, content)


def _text(row: Mapping[str, Any], column: str, where: str) -> str | None:
    """Return a row's text; None if it has none, or a blank one."""
    text = row.get(column)
    if not isinstance(text, str | None):
        raise UserError(f"{where}, {column}: is not a text.")
    try:
        check_text("image" if column == "id" else column, text)
    except ValueError as error:
        raise UserError(f"{where}, {column}: {error}.") from None
    return text if text and text.strip() else None
