"""Asks a chat model what a compound means: definitions and a scene for each sense."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter

from admire.core.errors import UserError
from admire.data.items import Item
from admire.data.languages import base_language
from admire.data.limits import LIMITS, without_invalid
from admire.llm.chat import Conversation, Question, Reply, Unusable
from admire.llm.conversation import FEW, Reading, ask_until, unusable_model
from admire.prompts import Prompts
from admire.prompts.quotations import json_objects, words_of
from admire.senses.meaning import (
    DEFINITIONS,
    REPEATS,
    Meaning,
    MeaningKind,
    read_gloss,
    read_meaning,
)

MEANING_TOKENS = 90
ATTEMPTS = 3  #: how often a model is asked, each time with another seed, for a usable reply
WORDS_TOKENS = 40  #: maximum tokens of a compound's words in English

_FRAME = frozenset(
    words_of(
        "a about an and are as at be being between by for from in into is it its like no not of "
        "off on one ones or out over s somebody someone something than that the these this to "
        "under up very what when where which who whose with without anyone anything"
    )
)
"""Words without content of their own."""
_AFTER_HEAD = frozenset(
    words_of(
        "about and are as at between by for from in into is like made of on or over than that "
        "to under used when where which who whose with without"
    )
)
"""Words that follow the head of a definition: a bridge *made* of logs."""


def repeats_words(definition: str, phrases: Sequence[str]) -> bool:
    """Return whether a definition only repeats the words of a compound and of it in English.

    It does if all of its words are the compound's ("feet that are cold"), or if its head is the
    compound's last word ("a small, round ear" for "pig's ear").
    """
    own = [*filter(None, map(_stems, phrases))]
    stems = _stems(definition)
    if stems and {*stems} <= {*chain.from_iterable(own)}:
        return True
    # A verb means little: of "to take advice" nothing is left, because "to" ends a head.
    words = words_of(definition)
    for word in words:
        if word in _AFTER_HEAD:
            words = words[: words.index(word)]
            break
    head = _stems(" ".join(words))
    return bool(head) and head[-1] in map(itemgetter(-1), own)


def _stems(text: str) -> list[str]:
    """Return the content words of a text, without English endings."""
    ending = re.compile(r"(?<=\w{3})(?:es?|s|ed|ing)$")
    return [ending.sub("", word) for word in words_of(text) if word not in _FRAME]


def translate_words(
    item: Item, prompts: Prompts, *, seed: int = 0
) -> Conversation[tuple[str, ...]]:
    """Return the compound, and if it is in another language, its words in English, if readable."""
    if base_language(item.language) == "en":
        return (item.phrase,)
    question = _words_question(item, prompts, seed)
    (reply,) = yield [question]
    for *_, answer in json_objects(reply.text):
        words = answer.get("words")
        if isinstance(words, str) and words_of(str(answer.get("phrase"))) == words_of(item.phrase):
            return tuple(filter(None, (item.phrase, words)))
    # A reply may continue the prompt's last line.
    line = (question.text.rpartition("\n")[2] + reply.text).partition("}")[0]
    try:
        return tuple(filter(None, (item.phrase, str(json.loads(line + "}")["words"]))))
    except (ValueError, LookupError, TypeError):
        return (item.phrase,)


def _words_question(item: Item, prompts: Prompts, seed: int) -> Question:
    return Question(
        prompts.about(item, "words"),
        max_tokens=WORDS_TOKENS,
        seed=seed,
        purpose="meanings",
        about=item,
        task="Translating the words",
    )


def describe(
    item: Item,
    kind: MeaningKind,
    prompts: Prompts,
    *,
    seed: int = 0,
    hint: Sequence[str] = (),
    gloss_tokens: int = MEANING_TOKENS,
) -> Conversation[Meaning]:
    """Ask for a meaning: short definitions and a scene, or one definition of the idiomatic sense.

    The latter is section 2.1 of the UoR-NCL paper. The model is first asked for its likeliest
    reply. If that is not usable, or only repeats the compound's words, it is asked again at
    temperature 1, with the next seed; or the hint is used instead.

    Args:
        hint: dictionary glosses of that sense, which the model may repeat. Not for a ``gloss``.
        gloss_tokens: the most tokens of a ``gloss``.
    """
    stand_in = tuple(hint)[:DEFINITIONS] if item.has_sense else ()
    template = kind if item.has_sense else "word"
    repeats = kind == "gloss" or template == "idiomatic"
    own = (yield from translate_words(item, prompts, seed=seed)) if repeats else ()
    first = Question(
        prompts.about(item, template, hint=hint),
        max_tokens=gloss_tokens if kind == "gloss" else MEANING_TOKENS,
        seed=seed,
        purpose="meanings",
        about=item,
        sense="literal" if kind == "literal" else "idiomatic",
        task=f"Writing the {'literal ' * (kind == 'literal')}meaning",
    )
    read = read_gloss if kind == "gloss" else read_meaning
    prompt = prompts.about(item, template, hint=())

    def read_reply(_: Question, reply: Reply) -> Reading[Meaning]:
        text = without_invalid(reply.text[: LIMITS["reply"]])
        meaning = read(text, item, prompt, cut=reply.cut)
        if not meaning:
            return Reading(replace(meaning, unread=text), usable=False, enough=False)
        return Reading(meaning, True, not repeats_words(meaning.definitions[0], own))

    def again(_: Question, __: Reply, count: int) -> Question | None:
        if count >= (1 if stand_in else ATTEMPTS):
            return None
        return replace(first, temperature=1.0, seed=seed + count)

    (meaning,) = yield from ask_until([first], read_reply, again, refuse_meanings)
    if meaning.unread is not None:
        if repeats:  # the words by a server that is broken may be useless as well
            yield Unusable([_words_question(item, prompts, seed)])
        return replace(meaning, definitions=stand_in)
    if not repeats_words(meaning.definitions[0], own):
        return meaning
    if not stand_in:
        return replace(meaning, fault=REPEATS)
    # A dictionary's gloss with the same words is right.
    return meaning if repeats_words(stand_in[0], own) else Meaning(stand_in)


def refuse_meanings(name: str, meanings: Sequence[Meaning]) -> UserError | None:
    """Return the error about a chat model none of whose meanings can be used, if not too few."""
    if len(meanings) < FEW:
        return None
    first = meanings[0]
    example = textwrap.shorten(first.unread or "", 80, placeholder="…")
    reply = f"the first reply is {f'“{example}”' if example else 'empty'}"
    if example and first.fault:
        reply += f": {first.fault}"
    return unusable_model(name, f"none of the {len(meanings)} meanings is usable ({reply})")
