"""Removes quotations from replies: words that a chat model repeats are not its answer.

If a caption holds ``{"order": ["A", "B"]}`` or a sentence says "Answer: literal", a model may
repeat it. So texts of the data are taken out of a reply before it is read. A reply that holds
nothing else counts as an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from admire.data.items import Item
from admire.prompts import quoted

RUN = 4


def data_of(item: Item) -> tuple[str, ...]:
    """Return all texts of an item that a question may show."""
    captions = (part.caption for part in (*item.candidates, *item.sequence))
    return (item.compound, item.sentence, *filter(None, captions))


def without_words(reply: str, data: Collection[str]) -> str:
    """Return the reply without the words that it quotes from these texts.

    A quotation is :data:`RUN` words in a row, or at least two between quotation marks.
    """
    sources = [words_of(form) for text in data for form in (text, quoted(text))]
    runs = {run for words in sources for run in _runs(words, RUN)}
    spans = [word.span() for word in re.finditer(r"\w+", reply)]
    reply_words = [reply[start:end].casefold() for start, end in spans]
    drop = {
        first + k
        for first, run in enumerate(_runs(reply_words, RUN))
        if run in runs
        for k in range(RUN)
    }
    for piece in re.finditer(r'["“”](?=([^"“”\n]+)["“”])', reply):
        words = words_of(piece[1])
        if len(words) > 1 and any(tuple(words) in _runs(source, len(words)) for source in sources):
            start, end = piece.span(1)
            drop.update(k for k, span in enumerate(spans) if start <= span[0] < end)
    for k in sorted(drop, reverse=True):
        start, end = spans[k]
        reply = reply[:start] + " " + reply[end:]
    return reply


def without_lines(reply: str, *texts: str) -> str:
    """Return the reply without the lines of these texts, such as the question itself."""
    lines = {line.strip() for text in texts for line in text.splitlines()}
    lines.discard("")
    return "\n".join(line for line in reply.splitlines() if line.strip() not in lines)


def without_objects(reply: str, data: Collection[str]) -> str:
    """Return the reply without the JSON objects that it quotes from these texts.

    An object that makes up the whole reply, apart from a Markdown fence, stays.
    """
    quotations = [value for text in data for *_, value in json_objects(text)]
    if not quotations:
        return reply
    kept = reply
    for start, end, value in reversed([*json_objects(reply)]):
        if value in quotations:
            kept = kept[:start] + kept[end:]
    return kept if re.search(r"\w", kept.replace("```json", "")) else reply


def json_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the outermost JSON objects in a text, each after its beginning and its end."""
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


def words_of(text: str) -> list[str]:
    """Return the words of a text, without regard to case."""
    return re.findall(r"\w+", text.casefold())


def _runs(words: list[str], length: int) -> list[tuple[str, ...]]:
    """Return all runs of so many words."""
    return [tuple(words[k : k + length]) for k in range(len(words) - length + 1)]
