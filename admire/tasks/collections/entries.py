"""The entries of a collection: texts, and pictures in folders, lists, Parquet, WebDataset."""

from __future__ import annotations

import logging
import os
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn, cast

from admire.base.errors import UserError, needs_extra
from admire.base.files import json_rows, open_text, table_parts
from admire.data.image_files import SUFFIXES, read_sidecar
from admire.data.items import Candidate

log = logging.getLogger("admire")

PACKED = 32
"""How many rows of a Parquet file, with their pictures, are read at once."""


@dataclass(frozen=True)
class Entry(Candidate):
    """An entry of a collection while it is read: a picture, a text, or a picture and its caption.

    Its name is unique in the collection. A picture inside a Parquet or tar file has the path
    ``FILE/ROW`` or ``FILE/MEMBER``.

    Attributes:
        where: the place that messages name, a file and a row, say.
        unpacked: a copy of a picture that is inside another file. Whoever reads removes it.
    """

    where: str = ""
    unpacked: Path | None = None

    @property
    def file(self) -> Path | None:
        """The file to read the picture from."""
        return self.unpacked or self.image


def read_entries(source: Path, unpacked: Path) -> Iterator[Entry]:
    """Yield the entries of a collection.

    - ``.txt``: a text a line;
    - ``.lst``: a picture's path a line, from the list's folder;
    - ``.jsonl``, ``.csv``, ``.tsv``: texts in ``text``, or paths of pictures in ``image`` and
      optionally captions in ``caption``; names in ``id``, if there are any;
    - ``.parquet``: the same columns; pictures can be in it, as bytes or as ``{bytes, path}``;
    - ``.tar``: a shard of WebDataset, pictures with captions in a ``.txt`` of the same key;
    - a folder: all its ``.tar``, else all its ``.parquet``, else all pictures below it, known by
      suffix, with captions in a ``.txt`` of the same name. What is hidden is left out, and links
      that lead out of the folder are, with a warning.

    Args:
        unpacked: an empty folder for copies of pictures that are inside other files.

    Raises:
        UserError: the file, row and column that cannot be used, and why; or there is nothing.
    """
    empty = True
    for entry in _read(source, unpacked):
        empty = False
        yield entry
    if empty:
        raise UserError(f"{source}: holds {'no pictures' if source.is_dir() else 'no texts'}.")


def read_texts(path: Path) -> list[Candidate]:
    """Read all texts of a file, as candidates without pictures; see :func:`read_entries`.

    Raises:
        UserError: as there, or the file holds pictures.
    """
    texts: dict[str, Candidate] = {}
    for entry in read_entries(path, Path()):
        if entry.image:
            raise UserError(f"{path}: holds pictures. Index them first (admire index).", "index")
        check_new(entry, entry.name in texts)
        texts[entry.name] = Candidate(entry.name, caption=entry.caption)
    return list(texts.values())


def check_new(entry: Entry, exists: bool) -> None:
    """Refuse a second entry of the same name."""
    if exists:
        raise UserError(f"{entry.where}, id: '{entry.name}' stands in two rows.")


def read_picture(image: Path) -> bytes:
    """Read the content of a collection's picture, which may be inside a Parquet or tar file.

    Raises:
        UserError: it cannot be read any more.
    """
    from admire.data.image_files import read_bytes

    outer = next((path for path in image.parents if path.suffix in (".tar", ".parquet")), None)
    if outer is None or not outer.is_file():
        return read_bytes(image)
    member = image.relative_to(outer).as_posix()
    try:
        if outer.suffix == ".tar":
            with tarfile.open(outer, "r:") as tar:
                packed = tar.extractfile(member)
                content = packed.read(outer.stat().st_size) if packed else b""
        else:
            content = _parquet_picture(outer, int(member) - 1)
    except (OSError, ValueError, KeyError, IndexError, tarfile.TarError) as error:
        raise UserError(f"{image}: the image cannot be read ({error}).") from None
    return content


# ---------------------------------------------------------------------------- files and folders


def _read(source: Path, unpacked: Path) -> Iterator[Entry]:
    """Yield the entries of a file or folder; nothing where there are none."""
    if not source.exists():
        raise UserError(f"{source}: cannot be read (No such file or folder).")
    files = [source]
    if source.is_dir():
        files = sorted(source.glob("*.tar")) or sorted(source.glob("*.parquet"))
        if not files:
            yield from _read_folder(source)
    for file in files:
        if file.suffix not in READERS:
            raise UserError(f"{file}: is not {', '.join(READERS)} or a folder of pictures.")
        yield from READERS[file.suffix](file, unpacked)


def _read_folder(folder: Path) -> Iterator[Entry]:
    """Yield the pictures below a folder in the order of their paths; warn of what is left out."""

    def fail(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}).") from None

    root, names = folder.resolve(), list[str]()
    left_out: dict[str, list[Path]] = defaultdict(list)
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                left_out["is a link that leads out of the folder"].append(path)
            elif path.suffix.lower() in SUFFIXES and path.is_file():
                if name.encode(errors="replace").decode() == name:
                    names.append(path.relative_to(folder).as_posix())
                else:  # half surrogates stand for bytes that are no text
                    left_out["has a name that is not UTF-8"].append(path)
    for reason, paths in left_out.items():
        log.warning("%r: %s; %d left out.", str(paths[0].relative_to(folder)), reason, len(paths))
    for name in sorted(names):
        file = folder / name
        yield Entry(name, Path(os.path.abspath(file)), read_sidecar(file), str(file))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers, as ``splitlines`` has them."""
    with open_text(path) as text:
        lines = (line for part in text for line in part.splitlines())
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


# --------------------------------------------------------------------------------------- tables


def _read_rows(path: Path, unpacked: Path) -> Iterator[Entry]:
    """Yield the entries of a text file, a list, JSON lines or a table."""
    for number, row in _rows(path):
        yield _row_entry(row, number, path)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    match path.suffix:
        case ".txt":
            yield from ((number, {"text": line}) for number, line in _lines(path))
        case ".lst":
            yield from ((number, {"image": line.strip()}) for number, line in _lines(path))
        case ".jsonl":
            yield from json_rows(path)
        case _:
            for table in table_parts(path, ()):
                _check_kind(path, table.columns)
                yield from zip(table.index + 1, table.to_dict("records"), strict=True)


def _check_kind(path: Path, columns: Iterable[str]) -> None:
    """Refuse a table that has neither pictures nor texts."""
    if not {"image", "text"} & set(columns):
        raise UserError(
            f"{path}: the column 'text' or 'image' is missing. The file has: {', '.join(columns)}."
        )


def _row_entry(row: Mapping[str, Any], number: int, path: Path, name: str | None = None) -> Entry:
    """Make an entry of a row, called ``name`` if it has no id; paths start at the file's folder."""
    where = f"{path}, row {number}"
    image, key = row.get("image"), "caption" if row.get("caption") else "text"
    caption = row.get(key)
    if "image" in row:
        for column, value in (("image", image), (key, caption)):
            if not isinstance(value, str | None):
                raise UserError(f"{where}, {column}: is not a text.")
        if not (image or "").strip() and not (caption or "").strip():
            raise UserError(f"{where}, image: is missing or empty.")
    else:
        caption = row.get("text")
        if not isinstance(caption, str) or not caption.strip():
            raise UserError(f"{where}, text: is missing or empty.")
    if row.get("id") not in (None, ""):
        name = str(row["id"])
    file = Path(os.path.abspath(path.parent / image)) if image else None
    return Entry(str(name or image or number), file, caption or None, where)


# --------------------------------------------------------------------------- pictures in files


def _read_parquet(path: Path, unpacked: Path) -> Iterator[Entry]:
    with needs_extra("lance", "Reading Parquet"):
        import pyarrow
        import pyarrow.parquet
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_kind(path, names)
            columns = [name for name in ("image", "caption", "text", "id") if name in names]
            for batch in file.iter_batches(PACKED, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield _parquet_entry(row, number, path, unpacked)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: is no Parquet file, or damaged ({reason}).") from None


def _parquet_entry(row: dict[str, Any], number: int, path: Path, unpacked: Path) -> Entry:
    """Make an entry of a row, and copy a picture that is in it."""
    image, name = row.get("image"), f"{path.name}/{number}"
    if isinstance(image, dict):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, bytes):
        entry = _row_entry(row | {"image": name}, number, path, name)
        place = Path(os.path.abspath(path), str(number))
        return replace(entry, image=place, unpacked=_copy(image, unpacked / str(number)))
    if "image" in row:
        row |= {"image": image}
    return _row_entry(row, number, path, image or name)


def _parquet_picture(path: Path, row: int) -> bytes:
    """Read the picture in a row of a Parquet file, from 0."""
    with needs_extra("lance", "Reading Parquet"):
        import pyarrow.parquet
    with pyarrow.parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if row < size:
                column = file.read_row_group(group, columns=["image"]).column("image")
                content = column[row].as_py()
                return cast(bytes, content["bytes"] if isinstance(content, dict) else content)
            row -= size
    raise IndexError("there is no such row")


def _read_tar(path: Path, unpacked: Path) -> Iterator[Entry]:
    """Yield the pictures of a tar file in its order. Members of one key stand beside each other."""
    key = ""
    try:
        _check_end(path)
        with tarfile.open(path, "r|") as tar:
            for key, members in groupby(iter(tar.next, None), _key_of):
                pictures, caption = [], None
                for member in members:
                    tar.members = []  # type: ignore[attr-defined]  # else it remembers all
                    packed = tar.extractfile(member) if member.isfile() else None
                    suffix = member.name[len(key) :].lower()
                    if packed and suffix == ".txt":
                        caption = packed.read().decode().strip() or None
                    elif packed and suffix.endswith(SUFFIXES):
                        file = _copy(packed.read(), unpacked / f"{path.stem}-{member.offset}")
                        place = Path(os.path.abspath(path), member.name)
                        where = f"{path}, {member.name}"
                        name = f"{path.name}/{member.name}"
                        pictures.append(Entry(name, place, None, where, file))
                for picture in pictures:
                    yield replace(picture, caption=caption)
    except UnicodeDecodeError:
        raise UserError(f"{path}, {key}.txt: is not UTF-8 text.") from None
    except (tarfile.TarError, EOFError) as error:
        raise UserError(f"{path}: is no tar file, or damaged ({error}). Copy it again.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read or unpacked ({error.strerror}).") from None


def _key_of(member: tarfile.TarInfo) -> str:
    """Return what WebDataset calls a member's key: its path up to the first dot of its name."""
    folder, slash, name = member.name.rpartition("/")
    return folder + slash + name.partition(".")[0]


def _check_end(path: Path) -> None:
    """Refuse a tar file that was cut off: a whole one ends with two empty blocks."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1024, 0))
        if file.read() != bytes(1024):
            raise tarfile.ReadError("its end is missing")


def _copy(content: bytes, file: Path) -> Path:
    """Write a picture that is inside another file to a file of its own."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UserError(f"{file}: cannot be unpacked ({error.strerror}). Free space.") from None
    return file


READERS: dict[str, Callable[[Path, Path], Iterator[Entry]]] = {
    **dict.fromkeys((".txt", ".lst", ".jsonl", ".csv", ".tsv"), _read_rows),
    ".parquet": _read_parquet,
    ".tar": _read_tar,
}
"""What reads a file, by its suffix."""
