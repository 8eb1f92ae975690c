"""A set begun from pictures: its manifest.csv, ready to edit."""

from __future__ import annotations

import filecmp
import logging
import mimetypes
import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd

from admire.core.errors import UserError
from admire.core.files import add_table
from admire.core.storage import open_file, write_whole
from admire.data.image_files import OTHER_FORMAT, SUFFIXES, read_sidecar

log = logging.getLogger("admire")

OTHERS = (".heic", ".heif", ".jxl")
"""Suffixes of pictures that are not read, besides those that Python knows."""
OF_TOOLS = ("@eadir", "__macosx", "#recycle", "$recycle.bin", "lost+found")
"""Folders with what storage systems keep."""


def init_set(folder: Path, pictures: Sequence[Path] = ()) -> pd.DataFrame:
    """Write the manifest.csv of a set, and return its rows: one for each folder of pictures.

    A folder's name is the compound, with spaces for underscores. Captions come from the text files
    beside the pictures; sentences are empty. Pictures outside the set are copied into it.

    Args:
        pictures: files and folders (default: the pictures in the set's folder).

    Raises:
        UserError: no picture is found, a manifest or another picture is in the way, or something
            cannot be read or written.
    """
    folder = Path(os.path.abspath(folder))
    manifest = folder / "manifest.csv"
    for path in (manifest, manifest.with_suffix(".jsonl")):
        if path.exists():
            raise UserError(f"{path}: already exists. Edit it, or choose another folder.")
    paths = {file for path in pictures or [folder] for file in _picture_files(path)}
    files = {file for file in paths if file.suffix.lower() in SUFFIXES}
    for file in sorted(paths - files):
        log.warning("Left out: %s %s", file, OTHER_FORMAT)
    if not files:
        raise UserError(
            f"{', '.join(map(str, pictures)) or folder}: contains no pictures. Put those of each "
            "item into a folder that is named after the compound."
        )
    rows = []
    by_place = sorted(files, key=lambda file: (file.parent, file.name))
    for place, group in groupby(by_place, key=lambda file: file.parent):
        row = {"compound": place.name.replace("_", " "), "sentence": ""}
        for number, file in enumerate(group, start=1):
            place = file  # in the set; one that lies elsewhere is copied into it
            if not file.is_relative_to(folder):
                place = folder / file.parent.name / file.name
                if place.exists() and not filecmp.cmp(file, place, shallow=False):
                    raise UserError(
                        f"{place}: already exists, and differs from {file}. Rename one of them."
                    )
                with open_file(file) as source, write_whole(place, "wb") as target:
                    shutil.copyfileobj(source, target)
            row[f"image{number}_name"] = place.relative_to(folder).as_posix()
            row[f"image{number}_caption"] = read_sidecar(file) or ""
        rows.append(row)
    table = pd.DataFrame(rows).fillna("")
    with write_whole(manifest) as text:
        add_table(text, table)
    return table


def _picture_files(path: Path) -> Iterator[Path]:
    """Yield a picture, or all those below a folder, of any format; what is hidden is left out."""
    path = Path(os.path.abspath(path))
    if not path.exists():
        raise UserError(f"{path}: cannot be read (No such file or folder).")
    for file in path.rglob("*") if path.is_dir() else [path]:
        parts = file.relative_to(path).parts
        hidden = any(part.startswith(".") or part.lower() in OF_TOOLS for part in parts)
        kind = mimetypes.guess_type(file.name, strict=False)[0] or ""
        picture = kind.startswith("image/") or file.suffix.lower() in SUFFIXES + OTHERS
        if picture and file.is_file() and not hidden:
            yield file
