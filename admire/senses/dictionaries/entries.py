"""What dictionaries have in common: entries, looking up, and which entry is of which sense."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Protocol

from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language

log = logging.getLogger("admire")

GLOSS = 300
"""How many characters of a gloss or an example are kept."""

LONGEST = 8
"""How many words an expression may have for its other spellings to be looked up, too."""

IDIOMATIC_TAGS = frozenset({"figurative", "figuratively", "idiom", "idiomatic", "metaphoric"})
LITERAL_TAGS = frozenset({"literal", "literally"})
CONCRETE_TAGS = frozenset(
    f"noun.{kind}"
    for kind in ("animal", "artifact", "body", "food", "object", "plant", "substance")
)
"""WordNet's files of nouns that name things."""


@dataclass(frozen=True)
class Entry:
    """One sense of an expression in a dictionary.

    Attributes:
        expression: as the dictionary writes it.
        gloss: its definition.
        source: the dictionary's name.
        part: the part of speech, as the dictionary names it.
        tags: the dictionary's own, in lower case; some tell the sense.
        examples: sentences or phrases that use the expression.
    """

    expression: str
    gloss: str
    source: str
    part: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Dictionary(Protocol):
    """What knows expressions.

    Attributes:
        name: as the user calls it.
        identity: everything that it says depends on.
        languages: those that it has entries in, as :func:`code_of` gives them.
    """

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def languages(self) -> frozenset[str]: ...

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """The entries of the expressions whose :func:`key_of` is this one, in its own order."""
        ...


@dataclass(frozen=True)
class Known:
    """What dictionaries say of an expression, by sense; either may be empty."""

    idiomatic: tuple[Entry, ...] = ()
    literal: tuple[Entry, ...] = ()

    def of(self, sense: SenseLabel) -> tuple[Entry, ...]:
        return self.idiomatic if sense == "idiomatic" else self.literal


UNKNOWN = Known()


def look_up(dictionaries: Iterable[Dictionary], expression: str, language: str) -> Known:
    """What the first of the dictionaries that has the expression says of it, by sense.

    The spelling that comes first in :func:`spellings` counts. A language that none of them has is
    logged once.
    """
    language = code_of(language)
    asked = list(dictionaries)
    able = [dictionary for dictionary in asked if language in dictionary.languages]
    if asked and not able:
        _say_lacking(language, ", ".join(dictionary.name for dictionary in asked))
    for dictionary in able:
        for key in spellings(expression, language):
            found = dictionary.entries(key, language)
            if found:
                return by_sense(found, expression, language)
    return UNKNOWN


def known_of(dictionaries: Sequence[Dictionary], item: Item) -> Known:
    """What dictionaries say of an item's compound, see :func:`look_up`.

    In V-WSD these are all entries of the phrase or, if there are none, of the word; which of them
    is meant is open, and none is called literal.
    """
    if not item.word:
        return look_up(dictionaries, item.phrase, item.language)
    for expression in (item.phrase, item.word):
        known = look_up(dictionaries, expression, item.language)
        if known != UNKNOWN:
            return Known((*known.idiomatic, *known.literal))
    return UNKNOWN


@cache
def _say_lacking(language: str, names: str) -> None:
    log.warning("No entries in the language '%s': %s.", language, names)


def by_sense(entries: Sequence[Entry], expression: str, language: str) -> Known:
    """Which entry is of which sense; equal glosses count once.

    Its tags say so, if any do. Otherwise what names a chicken is a chicken, and *spring chicken*,
    "a young person", is none: an entry is literal if its gloss has the expression's last word in
    any form, and either another of its words too ("sheep with a black coat") or another entry
    without it. So the only entry of *flea market*, "an open-air market", is idiomatic. Where an
    entry is of an abstract thing or a person, one of an animal, a plant or food is literal.
    """
    written = max((_words(one) for one in (*(e.expression for e in entries), expression)), key=len)
    *others, last = [_forms(word, language) for word in written] or [set()]
    kept = list({entry.gloss: entry for entry in reversed(entries)}.values())[::-1]
    glosses = [{f for w in _words(entry.gloss) for f in _forms(w, language)} for entry in kept]
    with_last = [bool(gloss & last) for gloss in glosses]
    concrete = [bool(CONCRETE_TAGS & set(entry.tags)) for entry in kept]
    found: dict[SenseLabel, list[Entry]] = {"idiomatic": [], "literal": []}
    for entry, gloss, has_last, is_concrete in zip(kept, glosses, with_last, concrete, strict=True):
        has_other = any(gloss & word for word in others)
        literal = (has_last and (has_other or not all(with_last))) or (
            is_concrete and not all(concrete)
        )
        if LITERAL_TAGS & set(entry.tags):
            literal = True
        elif IDIOMATIC_TAGS & set(entry.tags):
            literal = False
        found["literal" if literal else "idiomatic"].append(entry)
    return Known(tuple(found["idiomatic"]), tuple(found["literal"]))


_ELSE = re.compile(r"[\W_]+")


def key_of(expression: str) -> str:
    """The expression's letters and digits alone: case, spaces, hyphens and apostrophes are folded.

    ``Cat's-Eye`` and ``cat_s eye`` are both ``catseye``.
    """
    if expression.isascii():
        return _ELSE.sub("", expression.lower())
    return unicodedata.normalize("NFC", "".join(_words(expression)))


def spellings(expression: str, language: str) -> Iterator[str]:
    """The keys under which a dictionary may have an expression, the likeliest first.

    As it is; in English also with one or two words as their lemmas or in the other side's
    spelling; and without one of the words inside, if there are three or more ("spill the secret
    beans").
    """
    words = _words(expression)
    variants = [words]
    if len(words) > LONGEST:
        language = ""
    else:
        variants += [words[:k] + words[k + 1 :] for k in range(1, len(words) - 1)]
    seen = {""}
    for variant in variants:
        for changed in _changed(variant, language):
            key = key_of("".join(changed))
            if key not in seen:
                seen.add(key)
                yield key


def _changed(words: list[str], language: str) -> Iterator[list[str]]:
    """The words as they are, then with one of them changed, the last one first, then with two."""
    lemmas = [_lemmas(word, language) for word in words]
    for count in range(3):
        for places in combinations(reversed(range(len(words))), count):
            for chosen in product(*(lemmas[place] for place in places)):
                changed = words.copy()
                for place, lemma in zip(places, chosen, strict=True):
                    changed[place] = lemma
                yield changed


_SAME = {"arb": "ar", "cmn": "zh", "nb": "no", "zsm": "ms", "bs": "sh", "hr": "sh", "sr": "sh"}


def code_of(tag: str) -> str:
    """A language's code, the same for what dictionaries and data call differently: cmn and zh."""
    code = base_language(tag)
    return _SAME.get(code, code)


def _words(text: str) -> list[str]:
    """Words in lower case, decomposed; ``'s`` and ``_s`` belong to the word before."""
    if text.isascii():
        return re.findall(r"[^\W_]+", re.sub(r"(?<=\w)(?:'|_(?=s\b))", "", text.lower()))
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    kept = re.sub(r"(?<=\w)(?:['’]|_(?=s\b))", "", folded)
    return "".join(map(_letter, kept)).split()


def _letter(character: str) -> str:
    """Itself, with vowel signs and accents; nothing for a joiner; a space for anything else."""
    kind = unicodedata.category(character)
    if kind == "Cf":
        return ""
    return character if character.isalnum() or kind[0] == "M" else " "


_ENDINGS = (
    ("ies", "y"),
    ("ves", "f"),
    ("ves", "fe"),
    ("es", ""),
    ("s", ""),
    ("ied", "y"),
    ("ed", ""),
    ("ed", "e"),
    ("ing", ""),
    ("ing", "e"),
)
_IRREGULAR = {
    "feet": "foot",
    "geese": "goose",
    "men": "man",
    "mice": "mouse",
    "teeth": "tooth",
    "wives": "wife",
    "women": "woman",
}
_SPELT = (("our", "or"), ("ise", "ize"), ("yse", "yze"), ("tre", "ter"), ("grey", "gray"))
"""British and American: what is written in one and in the other."""


def _forms(word: str, language: str) -> set[str]:
    return {word, *_lemmas(word, language)}


def _lemmas(word: str, language: str) -> list[str]:
    """What an English word may be a form of, and its other spelling; nothing in other languages."""
    if language != "en":
        return []
    found = [_IRREGULAR[word]] if word in _IRREGULAR else []
    for ending, lemma in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 1:
            found.append(stem + lemma)
            if len(stem) > 3 and stem[-1] == stem[-2]:
                found.append(stem[:-1])  # stopped
    spelt = [*_SPELT, *((b, a) for a, b in _SPELT)]
    return found + [
        word.replace(a, b) for a, b in spelt if a in word and (len(word) > 4 or word == a)
    ]
