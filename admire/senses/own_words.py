"""Detects meanings that only repeat the words of their compound, or its words in English."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from admire.data.items import Item
from admire.data.languages import base_language
from admire.llm.chat import Question
from admire.llm.conversation import Conversation
from admire.prompts import Prompts
from admire.prompts.quotations import json_objects, words_of

WORDS_TOKENS = 40
"""Maximum tokens of a compound's words in English."""

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
    """Return whether a definition only repeats the words of a compound.

    It does if all of its words are the compound's ("feet that are cold"), or if its head is the
    compound's last word ("a small, round ear" for "pig's ear").

    Args:
        phrases: the compound, and its words in English.
    """
    own = [_stems(phrase) for phrase in phrases]
    words = words_of(definition)
    stems = set(_stems(definition))
    if stems and stems <= {stem for stems_of_phrase in own for stem in stems_of_phrase}:
        return True
    # A verb means little: of "to take advice" nothing is left, because "to" ends a head.
    end = next((k for k, word in enumerate(words) if word in _AFTER_HEAD), len(words))
    head = _stems(" ".join(words[:end]))[-1:]
    return any(head == stems_of_phrase[-1:] for stems_of_phrase in own if head)


def _stems(text: str) -> list[str]:
    """Return the content words of a text, without English endings."""
    return [
        re.sub(r"(?<=\w{3})(?:es?|s|ed|ing)$", "", word)
        for word in words_of(text)
        if word not in _FRAME
    ]


def translate_words(
    item: Item, prompts: Prompts, *, seed: int = 0
) -> Conversation[tuple[str, ...]]:
    """Return the compound, and its words in English, one by one, if it is in another language.

    A reply that cannot be parsed counts as none.
    """
    if base_language(item.language) == "en":
        return (item.phrase,)
    prompt = prompts.about(item, "words")
    (reply,) = yield [
        Question(
            prompt,
            max_tokens=WORDS_TOKENS,
            seed=seed,
            purpose="meanings",
            about=item,
            task="Translating the words",
        )
    ]
    for *_, answer in json_objects(reply.text):
        words = answer.get("words")
        if isinstance(words, str) and words_of(str(answer.get("phrase"))) == words_of(item.phrase):
            return tuple(filter(None, (item.phrase, words)))
    return tuple(filter(None, (item.phrase, _continued(prompt, reply.text))))


def _continued(prompt: str, reply: str) -> str | None:
    """Return the words of a reply that continues the prompt's last line."""
    line = (prompt.rpartition("\n")[2] + reply).partition("}")[0]
    try:
        return str(json.loads(line + "}")["words"])
    except (ValueError, LookupError, TypeError):
        return None
