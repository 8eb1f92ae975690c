"""What collections are read from: texts, pictures in folders and lists, Parquet, WebDataset."""

from __future__ import annotations

import logging
import os
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import pandas as pd

from admire.base.errors import UserError, needs_extra
from admire.base.files import check_columns, json_rows, open_text, read_text, table_parts
from admire.data.items import Candidate

log = logging.getLogger("admire")

PICTURES = (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
"""The suffixes by which pictures are known in folders and in tar files."""

PACKED = 32
"""How many rows of a Parquet file, with their pictures, are read at once."""


@dataclass(frozen=True)
class Thing(Candidate):
    """A thing of a collection while it is read: a picture, a text, or a picture with its caption.

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


def read_things(source: Path, unpacked: Path) -> Iterator[Thing]:
    """The things of a collection, one at a time.

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
    there = False
    for thing in _things(source, unpacked):
        there = True
        yield thing
    if not there:
        raise UserError(f"{source}: holds {'no pictures' if source.is_dir() else 'no texts'}.")


def read_texts(path: Path) -> list[Candidate]:
    """All texts of a file, as candidates without pictures; see :func:`read_things`.

    Raises:
        UserError: as there, or the file holds pictures.
    """
    found: dict[str, Candidate] = {}
    for thing in read_things(path, Path()):
        if thing.image:
            raise UserError(
                f"{path}: holds pictures. Index them first: admire index {path} --out INDEX",
                "index",
            )
        check_new(thing, thing.name in found)
        found[thing.name] = Candidate(thing.name, caption=thing.caption)
    return list(found.values())


def check_new(thing: Thing, taken: bool) -> None:
    """Refuse a second thing of the same name.

    Raises:
        UserError: the name is ``taken``.
    """
    if taken:
        raise UserError(f"{thing.where}, id: '{thing.name}' stands in two rows.")


def read_picture(image: Path) -> bytes:
    """The content of a collection's picture, which may be inside a Parquet or tar file.

    Raises:
        UserError: it cannot be read any more.
    """
    from admire.data.image_files import read_bytes

    outer = next((one for one in image.parents if one.suffix in (".tar", ".parquet")), None)
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


def _things(source: Path, unpacked: Path) -> Iterator[Thing]:
    if source.is_dir():
        for suffix in (".tar", ".parquet"):
            shards = sorted(source.glob(f"*{suffix}"))
            for shard in shards:
                yield from READERS[suffix](shard, unpacked)
            if shards:
                return
        yield from _folder(source)
        return
    if not source.exists():
        raise UserError(f"{source}: cannot be read (No such file or folder).")
    if source.suffix not in READERS:
        *some, last = READERS
        raise UserError(
            f"{source}: expected a {', '.join(some)} or {last} file, or a folder of pictures."
        )
    yield from READERS[source.suffix](source, unpacked)


def _folder(folder: Path) -> Iterator[Thing]:
    """All pictures below a folder in the order of their paths; some links and names are strange."""

    def fail(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}).") from None

    root, found = folder.resolve(), list[str]()
    strange: dict[str, list[Path]] = defaultdict(list)
    for place, below, files in os.walk(folder, onerror=fail):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in (*below, *files):
            path = Path(place, name)
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                strange["is a link that leads out of the folder"].append(path)
            elif path.suffix.lower() in PICTURES and path.is_file():
                if name.encode(errors="replace").decode() == name:
                    found.append(path.relative_to(folder).as_posix())
                else:  # half surrogates stand for bytes that are no text
                    strange["has a name that is not UTF-8"].append(path)
    for why, paths in strange.items():
        log.warning("%r: %s; %d left out.", str(paths[0].relative_to(folder)), why, len(paths))
    for name in sorted(found):
        file = folder / name
        yield Thing(name, Path(os.path.abspath(file)), _beside(file), str(file))


def _beside(file: Path) -> str | None:
    """The caption in a picture's sidecar, if it has one."""
    sidecar = file.with_suffix(".txt")
    if not sidecar.is_file() or not sidecar.read_bytes().strip():
        return None
    return " ".join(read_text(sidecar).splitlines()).strip()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers, as ``splitlines`` has them."""
    with open_text(path) as text:
        lines = (line for part in text for line in part.splitlines())
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


def _texts(path: Path, unpacked: Path) -> Iterator[Thing]:
    for number, line in _lines(path):
        yield Thing(str(number), None, line, f"{path}, row {number}")


def _list(path: Path, unpacked: Path) -> Iterator[Thing]:
    for number, line in _lines(path):
        yield _row({"image": line.strip()}, number, path)


# --------------------------------------------------------------------------------------- tables


def _json(path: Path, unpacked: Path) -> Iterator[Thing]:
    for number, row in json_rows(path):
        yield _row(row, number, path)


def _table(path: Path, unpacked: Path) -> Iterator[Thing]:
    number = 0
    for table in table_parts(path, ()):
        _check_kind(path, table)
        for row in cast(list[dict[str, Any]], table.to_dict("records")):
            number += 1
            yield _row(row, number, path)


def _check_kind(path: Path, table: pd.DataFrame) -> None:
    if "image" in table.columns:
        return
    try:
        check_columns(path, table, ("text",))
    except UserError as error:
        raise UserError(f"{error} A collection of pictures has 'image'.") from None


def _row(row: Mapping[str, Any], number: int, path: Path, named: str | None = None) -> Thing:
    """A row as a thing. A picture's path starts at the file's folder."""
    where = f"{path}, row {number}"
    image, key = row.get("image"), "caption" if row.get("caption") else "text"
    caption = row.get(key)
    if "image" in row:
        for name, value in (("image", image), (key, caption)):
            if not isinstance(value, str | None):
                raise UserError(f"{where}, {name}: is not a text.")
        if not (image or "").strip() and not (caption or "").strip():
            raise UserError(f"{where}, image: is missing or empty.")
    elif not isinstance(row.get("text"), str) or not row["text"].strip():
        raise UserError(f"{where}, text: is missing or empty.")
    else:
        caption = row["text"]
    written = row.get("id")
    name = str(image or named or number) if written in (None, "") else str(written)
    file = Path(os.path.abspath(path.parent / image)) if image else None
    return Thing(name, file, caption or None, where)


# --------------------------------------------------------------------------- pictures in files


def _parquet(path: Path, unpacked: Path) -> Iterator[Thing]:
    with needs_extra("lance", "Reading Parquet"):
        import pyarrow
        import pyarrow.parquet
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_kind(path, pd.DataFrame(columns=names))
            wanted = [name for name in ("image", "caption", "text", "id") if name in names]
            for batch in file.iter_batches(PACKED, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield _parquet_thing(row, number, path, unpacked)
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: is no Parquet file, or damaged (a text in it is not UTF-8)."
        ) from None
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: is no Parquet file, or damaged ({reason}).") from None


def _parquet_thing(row: dict[str, Any], number: int, path: Path, unpacked: Path) -> Thing:
    content, outer = row.get("image"), Path(os.path.abspath(path))
    if isinstance(content, dict):
        content = content.get("bytes") or content.get("path")
    named = f"{path.name}/{number}"
    if not isinstance(content, bytes):
        rest = {"image": content} if "image" in row else {}
        return _row(row | rest, number, path, named)
    thing = _row(row | {"image": named}, number, path, named)
    return Thing(thing.name, outer / str(number), thing.caption, thing.where,
                 _copy(content, unpacked / str(number)))  # fmt: skip


def _parquet_picture(path: Path, row: int) -> bytes:
    with needs_extra("lance", "Reading Parquet"):
        import pyarrow.parquet
    with pyarrow.parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            held = file.metadata.row_group(group).num_rows
            if row < held:
                column = file.read_row_group(group, columns=["image"]).column("image")
                content = column[row].as_py()
                return cast(bytes, content["bytes"] if isinstance(content, dict) else content)
            row -= held
    raise IndexError("there is no such row")


def _tar(path: Path, unpacked: Path) -> Iterator[Thing]:
    """The pictures of a tar file in its order. Members of one key stand beside each other."""
    try:
        _check_end(path)
        with tarfile.open(path, "r|") as tar:
            waiting: list[Thing] = []
            caption, last = None, None
            while member := tar.next():
                tar.members = []  # type: ignore[attr-defined]  # else it remembers all
                folder, _, name = member.name.rpartition("/")
                stem, _, kind = name.partition(".")
                key = f"{folder}/{stem}"
                if key != last:
                    yield from _captioned(waiting, caption)
                    waiting, caption, last = [], None, key
                packed = tar.extractfile(member) if member.isfile() else None
                if packed is None:
                    continue
                if kind.lower() == "txt":
                    caption = packed.read().decode().strip() or None
                elif f".{kind.lower()}".endswith(PICTURES):
                    file = _copy(packed.read(), unpacked / f"{path.stem}-{member.offset}")
                    named = Path(os.path.abspath(path)) / member.name
                    where = f"{path}, {member.name}"
                    waiting.append(Thing(f"{path.name}/{member.name}", named, None, where, file))
            yield from _captioned(waiting, caption)
    except UnicodeDecodeError:
        raise UserError(f"{path}, {key}.txt: is not UTF-8 text.") from None
    except (tarfile.TarError, EOFError) as error:
        raise UserError(
            f"{path}: is no tar file, or damaged ({error}). Copy or download it again."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read or unpacked ({error.strerror}).") from None


def _check_end(path: Path) -> None:
    """Refuse a tar file that was cut off: a whole one ends with two empty blocks."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1024, 0))
        if file.read() != bytes(1024):
            raise tarfile.ReadError("its end is missing")


def _captioned(things: Iterable[Thing], caption: str | None) -> Iterator[Thing]:
    for one in things:
        yield Thing(one.name, one.image, caption, one.where, one.unpacked)


def _copy(content: bytes, file: Path) -> Path:
    try:
        file.write_bytes(content)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise UserError(
            f"{file}: a picture cannot be unpacked ({error.strerror}). Free space on the disk."
        ) from None
    return file


READERS: dict[str, Callable[[Path, Path], Iterator[Thing]]] = {
    ".txt": _texts,
    ".lst": _list,
    ".jsonl": _json,
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _parquet,
    ".tar": _tar,
}
"""What reads a file, by its suffix."""
