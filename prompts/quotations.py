"""What a chat model's reply quotes of the data does not count: the answer is the model's alone.

A model may repeat what it was asked. If a caption there says ``{"order": ["A", "B"]}`` or a
sentence says "Answer: literal", that is no answer. So before a reply is read, what stands in the
data is taken out of it. A reply that holds nothing else is an answer, whoever had the words first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from admire.data.items import Item
from admire.prompts import quoted

RUN = 4
"""So many words in a row that the data have too are a quotation, also without quotation marks."""


def data_of(item: Item) -> tuple[str, ...]:
    """All texts of an item that a question may show."""
    captions = (one.caption for one in (*item.candidates, *item.sequence))
    return (item.compound, item.sentence, *filter(None, captions))


def without_words(reply: str, data: Collection[str]) -> str:
    """The reply without the words that it quotes of these texts.

    A quotation is a run of :data:`RUN` words, or at least two words between quotation marks.
    """
    sources = [_words(form) for text in data for form in (text, quoted(text))]
    runs = {run for words in sources for run in _runs(words, RUN)}
    places = [found.span() for found in re.finditer(r"\w+", reply)]
    said = [reply[start:end].casefold() for start, end in places]
    drop = {
        k + more for k, run in enumerate(_runs(said, RUN)) if run in runs for more in range(RUN)
    }
    for piece in re.finditer(r'["“”](?=([^"“”\n]+)["“”])', reply):
        words = _words(piece[1])
        if len(words) > 1 and any(tuple(words) in _runs(one, len(words)) for one in sources):
            start, end = piece.span(1)
            drop.update(k for k, place in enumerate(places) if start <= place[0] < end)
    for k in sorted(drop, reverse=True):
        start, end = places[k]
        reply = reply[:start] + " " + reply[end:]
    return reply


def without_lines(reply: str, *texts: str) -> str:
    """The reply without the lines that stand in these texts, such as the question itself."""
    known = {line.strip() for text in texts for line in text.splitlines()}
    known.discard("")
    return "\n".join(line for line in reply.splitlines() if line.strip() not in known)


def without_objects(reply: str, data: Collection[str]) -> str:
    """The reply without the JSON objects that it quotes of these texts.

    An object that is all there is of a reply, but for a fence of Markdown, stays.
    """
    theirs = [value for text in data for *_, value in json_objects(text)]
    if not theirs:
        return reply
    found = [(start, end) for start, end, value in json_objects(reply) if value in theirs]
    kept = reply
    for start, end in reversed(found):
        kept = kept[:start] + kept[end:]
    return kept if re.search(r"\w", kept.replace("```json", "")) else reply


def json_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The JSON objects in a text that stand in no other, each with its beginning and its end."""
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield at, end, value
        at = text.find("{", end)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _runs(words: list[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[k : k + length]) for k in range(len(words) - length + 1)]
