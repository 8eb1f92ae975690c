"""Removes quotations from replies: what a chat model repeats of the data is not its answer.

A caption may be ``{"order": ["A", "B"]}``, or a sentence "Answer: literal".
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from admire.data.items import Item
from admire.prompts import quoted

RUN = 4  #: how many words in a row are a quotation
DEEPEST = 200  #: how deep JSON may be nested; Python's own limit differs by version


def data_of(item: Item) -> tuple[str, ...]:
    """Return all texts of an item that a question may show."""
    captions = map(attrgetter("caption"), item.things)
    return (item.compound, item.sentence, *filter(None, captions))


def without_words(reply: str, data: Collection[str]) -> str:
    """Return the reply without the words that it quotes from these texts.

    A quotation is :data:`RUN` words in a row, or at least two between quotation marks.
    """
    forms, lengths = map(words_of, (*data, *map(quoted, data))), range(2, RUN + 1)
    runs = {run for words in forms for length in lengths for run in runs_of(words, length)}
    spans = [word.span() for word in re.finditer(r"\w+", reply)]
    starts = [start for start, _ in spans]
    reply_words = [reply[start:end].casefold() for start, end in spans]
    drop: set[int] = set()
    for first, run in enumerate(runs_of(reply_words, RUN)):
        if run in runs:
            drop.update(range(first, first + RUN))
    for piece in re.finditer(r'["“”](?=([^"“”\n]+)["“”])', reply):
        words = words_of(piece[1])
        if len(words) > 1 and all(run in runs for run in runs_of(words, min(len(words), RUN))):
            drop.update(range(*(bisect_left(starts, place) for place in piece.span(1))))
    return _without(reply, [spans[k] for k in sorted(drop)], " ")


def _without(text: str, spans: Iterable[tuple[int, int]], instead: str = "") -> str:
    """Return a text without these parts, which follow each other."""
    ends, starts = [0], []
    for start, end in spans:
        starts.append(start)
        ends.append(end)
    return instead.join(text[a:b] for a, b in zip(ends, [*starts, len(text)], strict=True))


def without_lines(reply: str, *texts: str) -> str:
    """Return the reply without the lines of these texts, such as the question itself."""
    lines = {line.strip() for text in texts for line in text.splitlines()}
    lines.discard("")
    return "\n".join(line for line in reply.splitlines() if line.strip() not in lines)


def without_objects(reply: str, data: Collection[str]) -> str:
    """Return the reply without the JSON objects that it quotes from these texts.

    An object that makes up the whole reply, apart from a Markdown fence, stays.
    """
    quotations = set()
    for *_, value in chain.from_iterable(map(json_objects, data)):
        quotations.add(_sorted(value))
    if not quotations:
        return reply
    objects = json_objects(reply)
    kept = _without(reply, [(a, b) for a, b, value in objects if _sorted(value) in quotations])
    return kept if re.search(r"\w", kept.replace("```json", "")) else reply


def _sorted(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def json_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the start, the end and the value of the outermost JSON objects in a text.

    Numbers are floats. What is nested deeper than :data:`DEEPEST` is left out.
    """
    decoder = json.JSONDecoder(parse_int=float, strict=False)  # int refuses many digits
    unreadable: set[int] = set()
    at = 0
    while beginning := _BEGINNING.search(text, at):
        at = beginning.start()
        end = at + 1
        if at not in unreadable:
            # Brackets come first: json would take seconds for what is nested deep or not closed.
            opened, stop = _brackets(text, at)
            # What begins at these places is not closed either, or is too deep as well.
            unreadable.update(opened if len(opened) < DEEPEST else opened[: DEEPEST // 2])
            try:
                value = None if opened else decoder.decode(text[at:stop])
            except json.JSONDecodeError as error:  # so cannot what contains this place
                value = None
                unreadable.update(_brackets(text, at, at + error.pos)[0])
            if value is not None:
                yield at, stop, value
                end = stop
        at = end


_BEGINNING = re.compile(r'\{(?=\s*+["}])')
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def _brackets(text: str, start: int, end: int = sys.maxsize) -> tuple[list[int], int]:
    """Return where an object's open parts begin, at most :data:`DEEPEST`, and where it ends."""
    opened: list[int] = []
    for bracket in _BRACKETS.finditer(text, start, end):
        if bracket[0] in "[{":
            opened.append(bracket.start())
        elif bracket[0] in "]}":
            opened.pop()
            if not opened:
                return [], bracket.end()
        if len(opened) == DEEPEST:
            break
    return opened, len(text)


def words_of(text: str) -> list[str]:
    """Return the words of a text, without regard to case."""
    return re.findall(r"\w+", text.casefold())


def runs_of(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Iterate over all runs of so many words."""
    return zip(*(words[k:] for k in range(length)), strict=False)
