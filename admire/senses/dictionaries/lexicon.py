"""Wordnets of the package ``wn`` from 1.0 on, in many languages."""

from __future__ import annotations

import re
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import starmap
from typing import Any

from admire.base.errors import UserError
from admire.base.progress import log
from admire.senses.dictionaries.entries import GLOSS, Entry, code_of, key_of

GET_ONE = "python -m wn download oewn:2024"


class Lexicon:
    """A lexicon that ``wn`` has in its database, by its name with or without a version.

    The forms are read at the first look-up, which takes a second. Where it has no gloss for a
    meaning, that of the lexicon that it builds on is taken, which is English.

    Raises:
        UserError: the package is not installed or is the older one of that name, or has no such
            lexicon.
    """

    def __init__(self, specifier: str):
        wn = _package(f"wn:{specifier}")
        wn.config.allow_multithreading = True  # of connections, which the lock keeps apart
        self._lock = threading.Lock()
        self.name = f"wn:{specifier}"
        with self._reading():
            there = {lexicon.specifier(): lexicon for lexicon in wn.lexicons()}
            lexicons = [name for name in there if specifier in (name, name.rpartition(":")[0])]
            if len(lexicons) != 1:
                has = ", ".join(sorted(there)) or f"none; get one with: {GET_ONE}"
                raise UserError(
                    f"'{self.name}' names {len(lexicons) or 'no'} lexicon{'s' * bool(lexicons)} of "
                    f"wn's. wn has: {has}.",
                    "dictionaries",
                )
            self.name = f"wn:{lexicons[0]}"
            self.languages = frozenset({code_of(there[lexicons[0]].language)})
            with warnings.catch_warnings(record=True) as messages:
                warnings.simplefilter("always")
                self._wordnet = wn.Wordnet(lexicons[0], normalizer=None, search_all_forms=False)
            for warning in messages:
                log.warning("%s: %s", self.name, warning.message)
            self._built_on = " ".join(
                lexicon.specifier() for lexicon in self._wordnet.expanded_lexicons()
            )
            self._base = wn.Wordnet(self._built_on, expand="") if self._built_on else None

    @cached_property
    def identity(self) -> str:
        """Names, versions and forms; to read all glosses would take many seconds."""
        digest = sha256(repr((self._built_on, sorted(self._forms.items()))).encode())
        return f"{self.name}:{digest.hexdigest()}"

    @cached_property
    def _forms(self) -> dict[str, list[str]]:
        """The lexicon's forms by their keys; ``wn`` itself does not fold what joins words."""
        forms: dict[str, list[str]] = {}
        with self._reading():
            for form in self._wordnet.lemmas():
                forms.setdefault(key_of(form), []).append(form)
        return forms

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`; a damaged database is a UserError."""
        forms = self._forms.get(key, ())
        with self._reading():
            senses = [(form, sense) for form in forms for sense in self._wordnet.senses(form)]
            return [*filter(None, starmap(self._entry, senses))]

    def _entry(self, form: str, sense: Any) -> Entry | None:
        own = sense.synset()
        same = self._base.synsets(ili=own.ili) if self._base and own.ili else []
        described = next((synset for synset in (own, *same) if synset.definition()), None)
        if described is None:
            return None
        examples = tuple(example[:GLOSS] for example in (*sense.examples(), *own.examples()))
        tags = (described.lexfile(),) if described.lexfile() else ()
        gloss = described.definition()[:GLOSS]
        return Entry(form, gloss, self.name, own.pos or "", tags, examples)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        import wn

        try:
            with self._lock:
                yield
        except (wn.Error, sqlite3.Error) as error:
            raise UserError(
                f"{self.name}: wn's database cannot be read ({error}).", "dictionaries"
            ) from error


def english_lexicon() -> str | None:
    """Return today's English wordnet in the database of ``wn``, if there is any."""
    names = []
    with suppress(UserError, sqlite3.Error):
        wn = _package("wordnet")
        if wn.config.database_path.is_file():
            names = [lexicon.specifier() for lexicon in wn.lexicons(lang="en")]
    preferred = [name for name in names if re.match("(oewn|ewn|omw-en):", name)]
    return max(preferred, key=lambda name: (name.startswith("oewn"), name), default=None)


def _package(purpose: str) -> Any:
    try:
        installed = version("wn")
    except PackageNotFoundError:
        installed = ""
    if not installed or installed.startswith("0."):
        other = f"; {installed} is installed, an older one of that name" if installed else ""
        raise UserError(
            f"'{purpose}' needs the package wn from 1.0 on{other}: pip install 'wn>=1,<2'",
            "dictionaries",
        )
    import wn  # not before: the older one takes seconds and changes builtins

    return wn
