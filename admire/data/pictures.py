"""The pictures of rows, found in a folder by the names that rows have for them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import unquote

from admire.core.errors import UserError
from admire.core.files import path_inside
from admire.data.limits import fold


class Pictures:
    """Finds pictures in a folder, each by its path there or in the compound's subfolder.

    Attributes:
        by_name: look for pictures also by their file names, anywhere below the folder.
        first_names: of the pictures that were looked for so, the first that a row has for each.
        listings: of folders, the paths in them by :func:`spelling_key` of their names; of
            ``FOLDER/**``, those of all files below it.
    """

    def __init__(self) -> None:
        self.folder, self.by_name = Path(), False
        self.first_names: dict[str, str] = {}
        self.listings: dict[str, dict[str, list[str]]] = {}

    def find(
        self, name: str, compound: str, where: str, *, inside: bool = True
    ) -> tuple[str | None, str]:
        """Return the picture of this name, None if there is none, and what to warn of, if anything.

        Args:
            inside: refuse a name that leads out of the folder; otherwise there is no such picture.

        Raises:
            UserError: several pictures have a similar name.
        """
        places: list[str] = []  # below the folder
        for path in dict.fromkeys((name, tool_path(name))) if self.by_name else (name,):
            try:
                place = path_inside(self.folder, path, follow_links=True)
            except UserError as error:
                if inside and not self.by_name:
                    raise UserError(f"{where}, image: {error}", "images") from None
            else:
                places.append(place)
                for sub in subfolders(compound):
                    places.append(os.path.join(sub, place))
        exact = self._file_at(places)
        files = exact or self._files_like(places) or self._files_named(name)
        if len(files) > 1:
            several = ", ".join(os.path.relpath(file, self.folder) for file in files[:3])
            raise UserError(
                f"{where}: '{name}' is not in {self.folder}, but {several} have similar names. "
                "Write the path of one as it is."
            )
        if not files:
            return None, ""
        note = ""
        if self.by_name:
            if self.first_names.setdefault(files[0], name) != name:
                note = "another item names the same picture otherwise."
        elif not exact and _nfc(files[0]) not in [
            _nfc(os.path.join(self.folder, place)) for place in places
        ]:
            differs = "in capitals, accents or slashes"
            note = f"the picture's name differs {differs}; the picture is used."
        return files[0], note

    def sequence(self, compound: str, numbers: Iterable[int]) -> dict[int, str]:
        """Return AdMIRe's names of a sequence's pictures that are there, s1.png, by number."""
        files = {}
        for k in numbers:
            places = [os.path.join(sub, f"s{k}.png") for sub in subfolders(compound)]
            if self._file_at(places) or self._files_like(places):
                files[k] = f"s{k}.png"
        return files

    def _file_at(self, places: Iterable[str]) -> list[str]:
        """Return the file at the first of these paths below the folder that there is one at."""
        folder = os.fspath(self.folder)
        # os.path's, because Path.is_file raises where a name is too long, and takes its time.
        for place in places:
            if os.path.isfile(file := os.path.join(folder, place)):
                return [file]
        return []

    def _files_like(self, places: Iterable[str]) -> list[str]:
        """Return the files whose paths below the folder differ from these only in spelling.

        That is capitals, how accents are encoded, and backslashes for slashes. They are looked for
        in the folders' listings, so none is outside.
        """
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
        if not self.by_name:
            return []
        ends = [re.split(r"[/\\]", path)[-1] for path in (name, tool_path(name))]
        listing = self._listing(str(self.folder), below=True)
        for end in (*ends, *(_UPLOADED.sub("", end) for end in ends)):
            if files := [*filter(os.path.isfile, listing.get(spelling_key(end), []))]:
                return [file for file in files if os.path.basename(file) == end] or files
        stored = _uploaded(_UPLOADED.sub("", ends[1]))  # tools drop what is no letter
        names = (key for key in listing if stored and _uploaded(key) == stored)
        return [file for key in names for file in listing[key] if os.path.isfile(file)]

    def _listing(self, folder: str, *, below: bool = False) -> dict[str, list[str]]:
        place = os.path.join(folder, "**") if below else folder
        if place not in self.listings:
            listing = self.listings[place] = {}
            for parent, folders, names in os.walk(folder):  # of a file, or unreadable: nothing
                for name in sorted(names if below else names + folders):
                    listing.setdefault(spelling_key(name), []).append(os.path.join(parent, name))
                folders[:] = sorted(folders) if below else []
        return self.listings[place]


_UPLOADED = re.compile(r"^[0-9a-f]{8}-")
"""What annotation tools put before the name of a file that was uploaded."""


def _uploaded(name: str) -> str:
    """Return the name by which tools store a file: spaces are underscores, other signs left out."""
    return re.sub(r"[^-\w.]", "", spelling_key(name).replace(" ", "_"))


def tool_path(name: str) -> str:
    """Return the path in a picture's name that an annotation tool wrote: in a URL, after ?d=."""
    query = re.search(r"[?&]d=([^&#]*)", name)
    return unquote(query[1] if query else re.sub(r"^file://|[?#].*", "", name))


@lru_cache(maxsize=1024)
def spelling_key(name: str) -> str:
    """Return what names have in common that differ in capitals, blanks or how they are encoded."""
    return _nfc(fold(name).casefold())


_nfc = partial(unicodedata.normalize, "NFC")


@lru_cache(maxsize=1)
def subfolders(compound: str) -> list[str]:
    """List the names that the folder with a compound's images may have."""
    paths = []
    # In folder names, AdMIRe writes apostrophes as underscores.
    for name in (compound, re.sub("['\u2019]", "_", compound)):
        with suppress(UserError):  # it leads elsewhere
            paths.append(path_inside("", name, follow_links=True))
    return paths
