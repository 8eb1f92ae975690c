"""Presents candidates to chat models, in shuffled orders, and reads replies about them."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from admire.core.choices import TRACKS, Track
from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.data.limits import LIMITS, without_invalid
from admire.llm.chat import SEEING, Capabilities, Image, Question, Reply
from admire.llm.conversation import Conversation, Reading, ask_until
from admire.prompts import Prompts
from admire.prompts.quotations import data_of, json_objects, without_objects
from admire.rankers.judgement import Answer, on_one_line, refuse_answers
from admire.rankers.settings import SetSummary

LETTERS = string.ascii_uppercase


def tracks_shown(summary: SetSummary, llm: Capabilities, track: Track | None) -> tuple[str, ...]:
    """Return which parts of the candidates a chat model sees: images, captions or both.

    Candidates without content, and images that are needed but not accepted, are refused.
    """
    names = track.split("+") if track else TRACKS
    tracks = [name for name in summary.tracks if name in names]
    if "image" in tracks and not llm.accepts_images:
        count = summary.candidates - summary.captions
        if track or count:
            without = f"{count} of {summary.candidates} candidates have no caption. " * bool(count)
            raise UserError(f"{llm.name} cannot see images. {without}{SEEING}", "track", "llms")
        tracks = ["caption"]
    if tuple(tracks) in summary.without_content:
        compound, candidate = summary.without_content[tuple(tracks)]
        raise UserError(
            f"'{compound}': '{candidate.name}' has no {' and no '.join(names)} to show.", "track"
        )
    return tuple(tracks)


def shuffled(item: Item, count: int, seed: int) -> list[tuple[Candidate, ...]]:
    """Return candidates in ``count`` orders, which depend only on the item and the seed.

    They are the rows of random Latin squares: in as many orders as there are candidates, each
    candidate occurs once in each position.
    """
    candidates = sorted(item.candidates, key=lambda candidate: candidate.name)
    source = json.dumps([seed, item.compound, item.sentence])
    rng = np.random.default_rng(list(hashlib.sha256(source.encode()).digest()))
    orders: list[tuple[Candidate, ...]] = []
    while len(orders) < count:
        who, rows, columns = (rng.permutation(len(candidates)) for _ in range(3))
        orders += [
            tuple(candidates[who[(row + column) % len(who)]] for column in columns) for row in rows
        ]
    return orders[:count]


def show(
    prompts: Prompts,
    prompt: str,
    item: Item,
    candidates: Sequence[Candidate],
    tracks: Sequence[str],
    side: int,
    **values: object,
) -> str | tuple[str | Image, ...]:
    """Return a question about candidates: the template's text, with images at their marks.

    The template gets the candidates and the item's ``sequence`` as objects with ``letter``,
    ``caption`` and ``picture``, a mark for the picture's position, or None and empty; and
    ``values``. A part of the sequence without an image has its caption.
    """
    images: list[Image] = []

    def described(thing: Candidate, letter: str = "") -> dict[str, Any]:
        picture = ""
        if "image" in tracks and thing.image:
            picture = f"\0{len(images)}\0"  # a quoted text cannot contain this
            images.append(Image(thing.image, side))
        has_caption = "caption" in tracks or not (letter or picture)
        caption = thing.caption if has_caption else None
        return {"letter": letter, "caption": caption, "picture": picture}

    sequence = [described(thing) for thing in item.sequence]
    lettered = [
        described(candidate, letter) for letter, candidate in zip(LETTERS, candidates, strict=False)
    ]
    text: str = prompts.about(item, prompt, candidates=lettered, sequence=sequence, **values)
    if not images:
        return text
    pieces = enumerate(piece.strip() for piece in re.split("\0(\\d+)\0", text))
    return tuple(images[int(piece)] if place % 2 else piece for place, piece in pieces if piece)


def ask_for_answers(
    questions: Sequence[Question],
    read: Callable[[Question, str], Answer | None],
    item: Item,
    *,
    next_seed: int = 1,
) -> Conversation[tuple[Answer, ...]]:
    """Ask questions about an item's candidates, and again those whose replies cannot be parsed.

    The second time they have another seed and a temperature above 0, and twice as many tokens if
    the first reply was cut off. A JSON object that a reply quotes from a caption or sentence is not
    an answer; see :func:`admire.prompts.quotations.without_objects`.
    """
    data = data_of(item)

    def read_reply(question: Question, reply: Reply) -> Reading[Answer]:
        answer = read(question, without_objects(reply.text, data))
        if answer is None:
            unread = without_invalid(reply.text[: LIMITS["reply"]])
            answer = Answer(question.shown, unread=unread, cut=reply.cut)
        return Reading(answer, answer.unread is None, answer.unread is None)

    def again(question: Question, reply: Reply, tries: int) -> Question | None:
        if tries > 1:
            return None
        return replace(
            question,
            temperature=0.7,  # at 0, another seed would give the same reply
            max_tokens=question.max_tokens * (2 if reply.cut else 1),
            seed=question.seed + next_seed,
        )

    return tuple((yield from ask_until(questions, read_reply, again, refuse_answers)))


Line = Annotated[str, BeforeValidator(lambda value: on_one_line(value)[: LIMITS["definition"]])]
"""A text in a reply, on one line and cut; anything but a string becomes empty."""


KEYWORDS = ("type", "properties", "enum", "items", "minimum", "maximum", "minItems", "maxItems")


class StructuredReply(BaseModel):
    """A structured reply: :meth:`strict_schema` asks for it, :meth:`read` is lenient.

    Fields that a reply may lack have a default here; the schema requires them nonetheless.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    @classmethod
    def read(cls, reply: str, key: str) -> Self | None:
        """Return the JSON object in a reply that has this key, whatever is around it.

        None if no object fits the model, or if several differ.
        """
        objects = list(json_objects(reply))
        starts = [0, *(last for _, last, _ in objects)]
        ends = [*(first for first, _, _ in objects), len(reply)]
        # A </think> within an object is a quotation.
        outside = zip(starts, ends, strict=True)
        thought = max(reply.rfind("</think>", start, end) for start, end in outside)
        values = [value for first, _, value in objects if first >= thought and key in value]
        if not values or any(value != values[0] for value in values):
            return None
        try:
            return cls.model_validate(values[0])
        except ValidationError:
            return None

    @classmethod
    def strict_schema(cls) -> dict[str, Any]:
        """Return the JSON schema in OpenAI's strict dialect, without titles and references.

        Keywords have a fixed order: the text of the schema is part of cache keys.
        """
        whole = cls.model_json_schema()

        def strict(node: dict[str, Any]) -> dict[str, Any]:
            if "$ref" in node:
                node = whole["$defs"][node["$ref"].rpartition("/")[2]]
            kept = {keyword: node[keyword] for keyword in KEYWORDS if keyword in node}
            if "items" in kept:
                kept["items"] = strict(kept["items"])
            if "properties" in kept:
                properties = {name: strict(schema) for name, schema in kept["properties"].items()}
                kept["properties"] = properties
                kept |= {"required": list(properties), "additionalProperties": False}
            return kept

        return strict(whole)
