"""The entries of a collection: texts, and pictures in folders, lists, Parquet, WebDataset."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tarfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader, BytesIO, FileIO
from itertools import groupby
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import IO, Any, NoReturn, cast

from admire.apps.search.parquet import check_kind, parquet_rows
from admire.core.errors import UserError
from admire.core.files import (
    LINE,
    LONGEST_PATH,
    json_rows_or_errors,
    numbered_rows,
    open_text,
    path_inside,
    table_parts,
)
from admire.core.storage import open_file, writing
from admire.data.image_files import SUFFIXES, check_size, read_bytes, read_sidecar
from admire.data.items import Candidate
from admire.data.limits import LIMITS, check_text

log = logging.getLogger("admire")

TAR_ERRORS = (tarfile.TarError, EOFError, ValueError, LookupError, ArithmeticError, OSError)
"""What reading a damaged tar file raises."""

COLUMNS = ("image", "image.bytes", "image.path", "caption", "text", "id")
"""What is read of a Parquet file."""


@dataclass(frozen=True)
class Entry(Candidate):
    """An entry of a collection: a picture, a text, or a picture and its caption.

    Its name is unique in the collection. A picture inside a Parquet or tar file has the path
    ``FILE/ROW`` or ``FILE/MEMBER``.

    Attributes:
        where: the place that messages name while it is read, a file and a row, say.
        unpacked: a copy of a picture that is inside another file. Whoever reads removes it.
        digest: of its content when it was indexed, see :func:`digest`.
    """

    where: str = ""
    unpacked: Path | None = None
    digest: str = field(default="", compare=False)

    @property
    def file(self) -> Path | None:
        """The file to read the picture from."""
        return self.unpacked or self.image


def read_entries(
    source: Path, unpacked: Path, skip: Callable[[UserError], object] | None = None
) -> Iterator[Entry]:
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

    No path leads out of the folder of its file, see :func:`admire.core.files.path_inside`; nor do
    links there.

    Args:
        unpacked: an empty folder for copies of pictures that are inside other files.
        skip: takes what is wrong with an entry that cannot be used, which is then left out.

    Raises:
        UserError: the file, row and column that cannot be used, and why; or there is nothing. With
            ``skip`` only if the file cannot be read any further.
    """
    empty = True
    for entry in _read(source, unpacked):
        empty = False
        if isinstance(entry, Entry):
            yield entry
        elif skip:
            skip(entry)
        else:
            raise entry
    if empty:
        raise UserError(f"{source}: has no {'pictures' if source.is_dir() else 'texts'}.")


def read_texts(path: Path) -> list[Candidate]:
    """Read all texts of a file, as candidates without pictures; see :func:`read_entries`.

    Raises:
        UserError: as there, or the file contains pictures.
    """
    texts: dict[str, Candidate] = {}
    with TemporaryDirectory(prefix="admire-", ignore_cleanup_errors=True) as unpacked:
        for entry in read_entries(path, Path(unpacked)):
            if entry.image:
                what = "contains pictures. Index them first (admire index)."
                raise UserError(f"{path}: {what}", "index")
            check_new(entry, entry.name in texts)
            texts[entry.name] = Candidate(entry.name, caption=entry.caption)
    return list(texts.values())


def check_new(entry: Entry, exists: bool) -> None:
    """Refuse a second entry of the same name."""
    if exists:
        raise UserError(f"{entry.where}, id: '{entry.name}' is the id of an earlier row too.")


def digest(entry: Entry) -> str:
    """Return 128 bits, as hexadecimal digits, of the digest of an entry's picture and caption."""
    return _digest(read_bytes(entry.file) if entry.file else None, entry.caption)


def _digest(picture: bytes | None, caption: str | None) -> str:
    content = b"" if picture is None else hashlib.sha256(picture).digest()
    return hashlib.sha256(content + (caption or "").encode()).hexdigest()[:32]


def read_picture(entry: Entry) -> bytes:
    """Read the picture of an entry that was found in an index.

    It may be inside a Parquet or tar file. An index can come from a stranger and name any file, so
    the picture is only returned if it is what was indexed.

    Raises:
        UserError: it cannot be read any more, or has changed.
    """
    if entry.image is None:
        raise UserError(f"'{entry.name}' has no picture.")
    content = _read_content(entry.image)
    if _digest(content, entry.caption) != entry.digest:
        raise UserError(f"{entry.image}: is not the picture that was indexed. Index it again.")
    return content


def _read_content(image: Path) -> bytes:
    parents = image.parents if len(str(image)) <= LONGEST_PATH else ()
    outer = next((path for path in parents if path.suffix.lower() in (".tar", ".parquet")), None)
    if outer is None or not os.path.isfile(outer):
        return read_bytes(image)
    member = image.relative_to(outer).as_posix()
    if outer.suffix.lower() == ".tar":
        return _tar_picture(outer, member)
    number = int(member) if re.fullmatch("[1-9][0-9]{,17}", member) else 0
    row = next(parquet_rows(outer, COLUMNS[:3], number - 1), {}) if number else {}
    content = _parquet_image(row)
    if not isinstance(content, bytes):
        raise UserError(f"{image}: is not a picture in a row of this file.")
    check_size(image, len(content))
    return content


# ---------------------------------------------------------------------------- files and folders


def _read(source: Path, unpacked: Path) -> Iterator[Entry | UserError]:
    """Yield the entries of a file or folder, and what is wrong with those that cannot be used."""
    if not source.exists():
        raise UserError(f"{source}: cannot be read (No such file or folder).")
    files = [source]
    if source.is_dir():
        files = _shards(source, "*.tar") or _shards(source, "*.parquet")
        if not files:
            yield from _read_folder(source)
    for file in files:
        if file.suffix.lower() not in READERS:
            raise UserError(f"{file}: is not {', '.join(READERS)} or a folder of pictures.")
        yield from READERS[file.suffix.lower()](file, unpacked)


LINKS = "is a link that leads out of the folder"


def _shards(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder with these names, without links that lead out of it."""
    files = sorted(folder.glob(pattern))
    out = [file for file in files if _leads_out(folder, file)]
    _warn(folder, LINKS, out)
    return [file for file in files if file not in out]


def _leads_out(folder: Path, path: Path) -> bool:
    """Return whether a path is a link that leads out of a folder."""
    try:
        if path.is_symlink():
            path_inside(folder, str(path.relative_to(folder)), follow_links=False)
    except UserError:
        return True
    return False


def _warn(folder: Path, reason: str, left_out: list[Path]) -> None:
    if left_out:
        name = str(left_out[0].relative_to(folder))
        log.warning("%r: %s; %d left out.", name, reason, len(left_out))


def _read_folder(folder: Path) -> Iterator[Entry | UserError]:
    """Yield the pictures below a folder in the order of their paths; warn of what is left out."""

    def fail(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}).") from None

    names = list[str]()
    left_out: dict[str, list[Path]] = defaultdict(list)
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if _leads_out(folder, path):
                left_out[LINKS].append(path)
            elif path.suffix.lower() in SUFFIXES and path.is_file():
                if name.encode(errors="replace").decode() == name:
                    names.append(path.relative_to(folder).as_posix())
                else:  # half surrogates stand for bytes that are no text
                    left_out["has a name that is not UTF-8"].append(path)
    for reason, paths in left_out.items():
        _warn(folder, reason, paths)
    captions = {path for path in left_out[LINKS] if path.suffix == ".txt"}
    for name in sorted(names):
        yield _entry_or_error(_picture_entry, folder, name, captions)


def _picture_entry(folder: Path, name: str, left_out: Collection[Path]) -> Entry:
    """Make an entry of a picture in a folder, with the caption beside it if it is not left out."""
    file = folder / name
    caption = None if file.with_suffix(".txt") in left_out else read_sidecar(file)
    return Entry(name, Path(os.path.abspath(file)), caption, str(file))


def _entry_or_error(make: Callable[..., Entry], *arguments: Any) -> Entry | UserError:
    """Return the entry that a function makes, or what is wrong with it."""
    try:
        return make(*arguments)
    except UserError as error:
        return error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers, as ``splitlines`` has them."""
    with open_text(path) as text:
        lines = (line for part in text for line in part.splitlines())
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


# --------------------------------------------------------------------------------------- tables


def _read_rows(path: Path, unpacked: Path) -> Iterator[Entry | UserError]:
    """Yield the entries of a text file, a list, JSON lines or a table."""
    for number, row in _rows(path):
        yield row if isinstance(row, UserError) else _entry_or_error(_row_entry, row, number, path)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | UserError]]:
    match path.suffix.lower():
        case ".txt":
            yield from ((number, {"text": line}) for number, line in _lines(path))
        case ".lst":
            yield from ((number, {"image": line.strip()}) for number, line in _lines(path))
        case ".jsonl":
            yield from json_rows_or_errors(path)
        case _:
            for table in table_parts(path, ()):
                check_kind(path, table.columns)
                yield from numbered_rows(table)


def _row_entry(
    row: Mapping[str, Any],
    number: int,
    path: Path,
    name: str | None = None,
    packed: Path | None = None,
) -> Entry:
    """Make an entry of a row. Paths start at the folder of the row's file, and stay in it.

    Args:
        name: of a row without an id.
        packed: the path of a picture that is in the row itself.
    """
    where = f"{path}, row {number}"
    key = "caption" if "image" in row and row.get("caption") else "text"
    image, caption = _text(row, "image", where), _text(row, key, where)
    if not image and not caption and not packed:
        raise UserError(f"{where}, {'image' if 'image' in row else 'text'}: is missing or empty.")
    if image:
        try:
            inside = path_inside(path.parent, image, follow_links=False)
        except UserError as error:
            raise UserError(f"{where}, image: {error}") from None
        packed = Path(os.path.abspath(path.parent), inside)
    if row.get("id") not in (None, ""):
        name = _text({"id": str(row["id"])}, "id", where)
    return Entry(name or image or str(number), packed, caption, where)


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


# --------------------------------------------------------------------------- pictures in files


def _read_parquet(path: Path, unpacked: Path) -> Iterator[Entry | UserError]:
    for number, row in enumerate(parquet_rows(path, COLUMNS), start=1):
        yield _entry_or_error(_parquet_entry, row, number, path, unpacked)


def _parquet_entry(row: dict[str, Any], number: int, path: Path, unpacked: Path) -> Entry:
    """Make an entry of a row, and copy a picture that is in it."""
    image, name = _parquet_image(row), f"{path.name}/{number}"
    if not isinstance(image, bytes):
        if "image" in row:
            row["image"] = image
        return _row_entry(row, number, path, image or name)
    place = Path(os.path.abspath(path), str(number))
    check_size(place, len(image))
    entry = _row_entry(row | {"image": None}, number, path, name, place)
    return replace(entry, unpacked=_copy(image, unpacked))


def _parquet_image(row: Mapping[str, Any]) -> Any:
    """Return the picture in a row, or its path."""
    image = row.get("image")
    return (image.get("bytes") or image.get("path")) if isinstance(image, dict) else image


def _read_tar(path: Path, unpacked: Path) -> Iterator[Entry | UserError]:
    """Yield the pictures of a tar file in its order. Members of one key follow each other."""
    with _open_tar(path) as tar:
        for _, members in groupby(_members(tar), _key_of):
            yield from _read_sample(tar, members, path, unpacked)


def _read_sample(
    tar: tarfile.TarFile, members: Iterable[tarfile.TarInfo], path: Path, unpacked: Path
) -> Iterator[Entry | UserError]:
    """Yield the pictures of one key with its caption, or what is wrong with these."""
    pictures, faults, caption = list[Entry](), list[UserError](), None
    for member in members:
        suffix = member.name[len(_key_of(member)) :].lower()
        try:
            if suffix == ".txt":
                caption = _tar_caption(tar, member, path)
            elif suffix.endswith(SUFFIXES):
                pictures.append(_tar_entry(tar, member, path, unpacked))
        except UserError as error:
            faults.append(error)
    if faults:
        for picture in pictures:
            cast(Path, picture.unpacked).unlink()
    yield from faults or (replace(picture, caption=caption) for picture in pictures)


def _tar_entry(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, unpacked: Path) -> Entry:
    """Make an entry of a member, and copy its picture."""
    where = f"{path}, member at byte {member.offset}"
    name = cast(str, _text({"image": member.name}, "image", where))
    try:
        inside = path_inside(path, name, follow_links=True)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    place = Path(os.path.abspath(path), inside)
    check_size(place, member.size)
    copy = _copy(_read_member(tar, member), unpacked)
    return Entry(f"{path.name}/{name}", place, None, f"{path}, {name}", copy)


def _tar_caption(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str | None:
    where, most = f"{path}, {member.name}", LIMITS["caption"]
    if member.size > 4 * most:
        raise UserError(f"{where}: has more than {most:,} characters. Shorten it.")
    try:
        text = _read_member(tar, member).decode().strip()
    except UnicodeDecodeError:
        raise UserError(f"{where}: is not UTF-8 text.") from None
    return _text({"caption": text}, "caption", where)


def _tar_picture(path: Path, name: str) -> bytes:
    with _open_tar(path) as tar:
        for member in _members(tar):
            if os.path.normpath(member.name) == os.path.normpath(name):
                check_size(path / name, member.size)
                return _read_member(tar, member)
    raise UserError(f"{path}: contains no '{name}'.")


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Read a member piece by piece: its header may promise gigabytes that are not there."""
    content = BytesIO()
    shutil.copyfileobj(cast(IO[bytes], tar.extractfile(member)), content)
    return content.getvalue()


def _key_of(member: tarfile.TarInfo) -> str:
    """Return what WebDataset calls a member's key: its path up to the first dot of its name."""
    folder, slash, name = member.name.rpartition("/")
    return folder + slash + name.partition(".")[0]


class _TarFile(BufferedReader):
    """A tar file that refuses headers of gigabytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes."""
        if size and size > LINE:
            raise tarfile.ReadError(f"a header has {size:,} bytes")
        return super().read(size)


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar file; whatever the block cannot read says that it is damaged."""
    try:
        with open_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1024, 0))
            if file.read() != bytes(1024):  # a whole one ends with two empty blocks
                raise tarfile.ReadError("its end is missing")
        with _TarFile(FileIO(path)) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            yield tar
    except TAR_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path}: is not a tar file, or damaged ({reason}). Copy it again."
        ) from None


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members that are files. Links are left out."""
    while member := tar.next():
        tar.members = []  # type: ignore[attr-defined]  # it would remember all
        if member.isfile():
            yield member


def _copy(picture: bytes, folder: Path) -> Path:
    """Write a picture that is inside another file to a file of its own."""
    with writing(folder, inside=folder), NamedTemporaryFile(dir=folder, delete=False) as copy:
        copy.write(picture)
    return Path(copy.name)


READERS: dict[str, Callable[[Path, Path], Iterator[Entry | UserError]]] = {
    **dict.fromkeys((".txt", ".lst", ".jsonl", ".csv", ".tsv"), _read_rows),
    ".parquet": _read_parquet,
    ".tar": _read_tar,
}
"""What reads a file, by its suffix."""
