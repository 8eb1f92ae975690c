"""Finds a compound in its sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_FORMS = """
be am is are was were been being; have has had having;
do does did done doing; go goes went gone going;
bear bore borne born; beat beaten; become became; begin began begun; bend bent; bind bound;
bite bit bitten biting; bleed bled; blow blew blown; break broke broken; breed bred;
bring brought; build built; buy bought; catch caught; choose chose chosen; cling clung;
come came coming; creep crept; deal dealt; die dying died; dig dug; draw drew drawn;
drink drank drunk; drive drove driven driving; eat ate eaten; fall fell fallen; feed fed;
feel felt; fight fought; find found; flee fled; fling flung; fly flew flown;
forget forgot forgotten; forgive forgave; freeze froze frozen; get got gotten; give gave given;
grind ground; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
kneel knelt; know knew known; lay laid; lead led; leap leapt; leave left; lend lent;
lie lay lain lying lied; light lit; lose lost losing; make made making; mean meant; meet met;
pay paid; ride rode ridden riding; ring rang rung; rise rose risen; run ran; say said;
see saw seen; seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot;
shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; slay slew slain; sleep slept;
slide slid; sling slung; smell smelt; speak spoke spoken; spend spent; spin spun; spit spat;
spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung; stink stank;
strike struck stricken; string strung; swear swore sworn; sweep swept; swim swam swum;
swing swung; take took taken taking; teach taught; tear tore torn; tell told; think thought;
throw threw thrown; tie tying tied; tread trod trodden; wake woke woken; wear wore worn;
weave wove woven; weep wept; win won; wind wound; write wrote written writing;
bad worse worst; calf calves; child children; die dice; foot feet; goose geese; half halves;
knife knives; leaf leaves; life lives; loaf loaves; louse lice; man men; mouse mice;
penny pence; person people; shelf shelves; thief thieves; tooth teeth; wife wives; wolf wolves;
woman women
"""

FORMS: dict[str, set[str]] = {}
"""By each form of a word, all of its forms, also those of another word with this form."""

for _words in _FORMS.split(";"):
    for _word in _words.split():
        FORMS.setdefault(_word, set()).update(_words.split())


BETWEEN = 2  #: how many other words may be between two words of a compound

_REPLACED = """
a an the this that these those some any my your his her its our their someone somebody something
sb sth oneself myself yourself himself herself itself ourselves themselves
"""
REPLACED = frozenset(_REPLACED.split())
"""Words of a compound that a sentence may replace or leave out: someone's mind, the cut."""


def find_compound(sentence: str, compound: str) -> tuple[int, int] | None:
    """Return where a sentence has a compound, in characters; None if it is not there.

    Words count as the same if they begin alike, with up to :data:`BETWEEN` others between them; if
    it is not found so, also irregular forms of English, and :data:`REPLACED` may be any words or
    none; at last, it is looked for without what :func:`_plain` leaves out.
    """
    if (place := _find(sentence, compound)) or (sentence.isascii() and compound.isascii()):
        return place
    plain, places = _plain(sentence)
    if (place := _find(plain, _plain(compound)[0])) is None:
        return None
    start, end = place  # a letter of two, such as ß, belongs to the compound as a whole
    after = next((k for k in places[end:] if k > places[end - 1]), len(sentence))
    return (places[start], after) if end else (0, 0)


def _find(sentence: str, compound: str) -> tuple[int, int] | None:
    match = re.search(re.escape(compound) + r"[a-zà-öø-ÿ]{0,3}", sentence, re.IGNORECASE)
    if match:
        return match.span()
    words = re.findall(r"\w+", compound)
    place = _find_words(sentence, [_beginning(word) for word in words], [BETWEEN] * len(words))
    return place or _find_words(sentence, *_loosely(words))


_VOWELS = "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0591-\u05bd\u05bf-\u05c7"
_LEFT_OUT = re.compile(f"[{_VOWELS}\u0640\u0307\u200c\u200d]")
"""What a text may have or lack: the vowels of Arabic and Hebrew, tatweel, the dot of Turkish İ in
lower case, ZWNJ and ZWJ."""


def _plain(text: str) -> tuple[str, list[int]]:
    """Return a text without capitals and :data:`_LEFT_OUT`, and where each character comes from."""
    plain = [_LEFT_OUT.sub("", character.casefold()).replace("ı", "i") for character in text]
    return "".join(plain), [place for place, part in enumerate(plain) for _ in part]


def _beginning(word: str) -> str:
    """Return a regular expression of a word's first letters."""
    return re.escape(word[: max(3, len(word) - 3)])


def _loosely(words: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return regular expressions of the words that stay, and how many others may follow each."""
    patterns: list[str] = []
    between: list[int] = []
    replaced = False
    for word, following in zip(words, [*words[1:], ""], strict=False):
        lower = word.lower()
        replaced = (
            lower in REPLACED
            or (lower == "one" and following == "s")
            or (lower == "s" and replaced)
        )
        if not replaced:
            patterns.append(_forms(lower))
            between.append(BETWEEN)
        elif between:
            between[-1] += 1
    return patterns, between


def _forms(word: str) -> str:
    """Return a regular expression of a word in lower case and its forms."""
    whole = sorted(FORMS.get(word, ()))
    begin = [_beginning(word)]
    if len(word) <= 2:
        whole, begin = [*whole, re.escape(word)], []
    if re.fullmatch("[a-z][^aeiou]y", word):  # fly
        begin.append(f"{word[:-1]}ie")
    if infinitive := re.fullmatch(r"(\w+?)(t?)m[ea]k", word):  # of Turkish: etmek, gitmek
        begin += [infinitive[1] + end for end in ("td" if infinitive[2] else [""])]
    return "|".join([*begin, *(rf"{form}(?!\w)" for form in whole)])


def _find_words(
    sentence: str, patterns: Sequence[str], between: Sequence[int]
) -> tuple[int, int] | None:
    """Return the first place with words that match these, and the shortest there.

    One regular expression for all words would try 3 ** len(patterns) ways to skip others.
    ``between`` says how many other words may be after each.
    """
    spans = [word.span() for word in re.finditer(r"\w+", sentence)]

    @cache
    def words_with(pattern: str) -> list[int]:
        matches = re.compile(pattern, re.IGNORECASE).match
        return [k for k, (start, end) in enumerate(spans) if matches(sentence, start, end)]

    *others, last = patterns or [""]
    ends = {k: spans[k][1] for k in words_with(last)} if last else {}
    for pattern, skipped in reversed([*zip(others, between, strict=False)]):
        # The nearest of the words that may follow comes last, and overwrites the others.
        pairs = ((k, n) for k in words_with(pattern) for n in range(k + 1 + skipped, k, -1))
        ends = {k: ends[n] for k, n in pairs if n in ends}
    return next(((spans[k][0], end) for k, end in ends.items()), None)


def replace_compound(sentence: str, compound: str, text: str) -> str | None:
    """Return the sentence with a text in place of the compound; None if it is not there."""
    place = find_compound(sentence, compound)
    return sentence[: place[0]] + text + sentence[place[1] :] if place else None
