"""Looks up expressions in dictionaries, and sorts their entries by sense."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from operator import attrgetter
from typing import Protocol

from admire.core.progress import log_once
from admire.core.registry import blamed, checked
from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language, language_name

GLOSS = 300  #: maximum characters of a gloss or an example
LONGEST = 8  #: maximum words of an expression whose other spellings are also looked up
IDIOMATIC_TAGS = frozenset({"figurative", "figuratively", "idiom", "idiomatic", "metaphoric"})
LITERAL_TAGS = frozenset({"literal", "literally"})
CONCRETE_TAGS = frozenset(
    map("noun.{}".format, ("animal", "artifact", "body", "food", "object", "plant", "substance"))
)
"""WordNet's files of nouns that name things."""


@dataclass(frozen=True)
class Entry:
    """One sense of an expression in a dictionary."""

    expression: str  #: as the dictionary writes it, and so is ``part``, the part of speech
    gloss: str  #: its definition
    source: str  #: the dictionary's name
    part: str = ""
    tags: tuple[str, ...] = ()  #: the dictionary's own, in lower case; some indicate the sense
    examples: tuple[str, ...] = ()


class Dictionary(Protocol):
    """Defines expressions."""

    @property
    def name(self) -> str:
        """The name for ``--dictionary``."""

    @property
    def identity(self) -> str:
        """The digest of everything that the entries depend on."""

    @property
    def languages(self) -> frozenset[str]:
        """The codes of the entries' languages, see :func:`code_of`."""

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """Return the entries of expressions with this :func:`key_of`, in the dictionary's order."""


@dataclass(frozen=True)
class Entries:
    """The entries of an expression by sense; either may be empty."""

    idiomatic: tuple[Entry, ...] = ()
    literal: tuple[Entry, ...] = ()

    def glosses(self, sense: SenseLabel) -> tuple[str, ...]:
        """Return the glosses of a sense."""
        return tuple(map(attrgetter("gloss"), getattr(self, sense)))


NO_ENTRIES = Entries()  #: the entries of an expression that no dictionary has


def look_up(dictionaries: Sequence[Dictionary], expression: str, language: str) -> Entries:
    """Return the entries of the first dictionary that has the expression, by sense.

    Its first spelling counts, see :func:`spellings`. A language of no dictionary is logged once.
    """
    language, keys = code_of(language), None
    for dictionary in dictionaries:
        if language in dictionary.languages:
            keys = keys or list(spellings(expression, language))
            for key in keys:
                with blamed(dictionary):
                    returned = dictionary.entries(key, language)
                if entries := checked(dictionary, returned, Entry):
                    return sort_by_sense(entries, expression, language)
    if dictionaries and keys is None:
        names = " and ".join(dictionary.name for dictionary in dictionaries)
        lacks = f"dictionaries {names} have" if dictionaries[1:] else f"dictionary {names} has"
        no_language = f"The {lacks} no {language_name(language)}: no dictionary is used there."
        log_once(logging.WARNING, no_language)
    return NO_ENTRIES


def look_up_item(dictionaries: Sequence[Dictionary], item: Item) -> Entries:
    """Return the entries of an item's compound, see :func:`look_up`.

    In V-WSD these are all of the phrase or, if there are none, of the word, as idiomatic ones.
    """
    entries = look_up(dictionaries, item.phrase, item.language)
    if item.has_sense:
        return entries
    if entries == NO_ENTRIES:
        entries = look_up(dictionaries, item.word, item.language)
    return Entries((*entries.idiomatic, *entries.literal))


def sort_by_sense(entries: Sequence[Entry], expression: str, language: str) -> Entries:
    """Sort entries by sense; equal glosses count once.

    The tags of an entry decide, if they can. Otherwise an entry is literal if its gloss has the
    expression's last word in any form, and either another of its words ("sheep with a black coat")
    or there is another entry without the last word: *spring chicken*, "a young person", is no
    chicken. So the only entry of *flea market*, "an open-air market", is idiomatic. Beside entries
    of abstract things or persons, an entry of an animal, a plant or food is literal.
    """
    words = max(map(_words, (*map(attrgetter("expression"), entries), expression)), key=len)
    others, last = _forms(words[:-1], language), _forms(words[-1:], language)
    distinct = list({entry.gloss: entry for entry in reversed(entries)}.values())[::-1]
    glosses = [_forms(_words(entry.gloss), language) for entry in distinct]
    all_last = all(gloss & last for gloss in glosses)
    concrete = [CONCRETE_TAGS & set(entry.tags) for entry in distinct]
    idiomatic: list[Entry] = []
    literal: list[Entry] = []
    for entry, gloss, things in zip(distinct, glosses, concrete, strict=True):
        names_it = gloss & last and (gloss & others or not all_last)
        tags, fits = set(entry.tags), names_it or (things and not all(concrete))
        is_literal = LITERAL_TAGS & tags or (fits and not IDIOMATIC_TAGS & tags)
        (literal if is_literal else idiomatic).append(entry)
    return Entries(tuple(idiomatic), tuple(literal))


def _forms(words: list[str], language: str) -> set[str]:
    """Return the words with their lemmas."""
    return {form for word in words for form in (word, *_lemmas(word, language))}


def key_of(expression: str) -> str:
    """Return the letters and digits, folded: ``Cat's-Eye`` and ``cat_s eye`` are ``catseye``."""
    if expression.isascii():
        return re.sub(r"[\W_]+", "", expression.lower())
    return unicodedata.normalize("NFC", "".join(_words(expression)))


def spellings(expression: str, language: str) -> Iterator[str]:
    """Return the keys under which a dictionary may have an expression, the likeliest first.

    They are of the expression; in English also with one or two words as lemmas or in British or
    American spelling; and without one of the inner words ("spill the secret beans").
    """
    words = _words(expression)
    variants = [words]
    if len(words) > LONGEST:
        language = ""
    else:
        variants += [words[:k] + words[k + 1 :] for k in range(1, len(words) - 1)]
    keys: dict[str, None] = {}
    for variant in variants:  # unchanged, then with one word changed, the last first, then two
        lemmas = [_lemmas(word, language) for word in variant]
        able = [place for place in reversed(range(len(variant))) if lemmas[place]]
        for places in chain.from_iterable(combinations(able, count) for count in range(3)):
            for chosen in product(*(lemmas[place] for place in places)):
                changed = variant.copy()
                for place, lemma in zip(places, chosen, strict=True):
                    changed[place] = lemma
                keys[key_of("".join(changed))] = None
    return filter(None, keys)


_SAME = {"arb": "ar", "cmn": "zh", "nb": "no", "zsm": "ms", "bs": "sh", "hr": "sh", "sr": "sh"}


def code_of(tag: str) -> str:
    """Return a language's code, the same where dictionaries and data differ, as cmn and zh do."""
    code = base_language(tag)
    return _SAME.get(code, code)


def _words(text: str) -> list[str]:
    """Return words in lower case, decomposed; ``'s`` and ``_s`` belong to the word before."""
    if text.isascii():
        return re.findall(r"[^\W_]+", re.sub(r"(?<=\w)(?:'|_(?=s\b))", "", text.lower()))
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    joined = re.sub(r"(?<=\w)(?:['’]|_(?=s\b))", "", folded)
    kinds = ((character, unicodedata.category(character)) for character in joined)
    # Letters, vowel signs and accents stay, joiners go, and all else divides words.
    letters = (c if c.isalnum() or kind[0] == "M" else " " for c, kind in kinds if kind != "Cf")
    return "".join(letters).split()


_ENDINGS = (
    *(("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", "")),
    *(("ied", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e")),
)
_IRREGULAR = {
    **{"feet": "foot", "geese": "goose", "men": "man", "mice": "mouse"},
    **{"teeth": "tooth", "wives": "wife", "women": "woman"},
}
_SPELLINGS = (
    *(("our", "or"), ("ise", "ize"), ("yse", "yze"), ("tre", "ter"), ("grey", "gray")),
    *(("or", "our"), ("ize", "ise"), ("yze", "yse"), ("ter", "tre"), ("gray", "grey")),
)
"""British and American spellings, and the reverse."""


def _lemmas(word: str, language: str) -> list[str]:
    """Return possible lemmas and other spellings of an English word; none in other languages."""
    if language != "en":
        return []
    lemmas = [_IRREGULAR[word]] if word in _IRREGULAR else []
    for ending, lemma in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 1:
            lemmas.append(stem + lemma)
            if len(stem) > 3 and stem[-1] == stem[-2]:
                lemmas.append(stem[:-1])  # stopped
    for a, b in _SPELLINGS:
        if a in word and (len(word) > 4 or word == a):
            lemmas.append(word.replace(a, b))
    return lemmas
