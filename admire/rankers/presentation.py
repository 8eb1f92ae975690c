"""Presents candidates to chat models: images and captions, with letters, in shuffled orders."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from admire.core.choices import TRACKS, Track
from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.llm.chat import SEEING, ChatModel, Image
from admire.prompts import Prompts
from admire.rankers.settings import SetSummary

LETTERS = string.ascii_uppercase


def tracks_shown(summary: SetSummary, llm: ChatModel, track: Track | None) -> tuple[str, ...]:
    """Return which parts of the candidates a chat model sees: images, captions or both.

    Args:
        track: the requested one; None is everything that exists and that the model accepts.

    Raises:
        UserError: the model does not accept the images that it needs, or a candidate has no
            content.
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

    The orders are the rows of Latin squares with random rows, columns and candidates: in as many
    orders as there are candidates, each candidate occurs once in each position.
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

    The template gets the candidates as objects with ``letter``, ``caption`` (None for none) and
    ``picture``: a mark for the position of the picture, empty without one. The elements of the
    item's ``sequence`` have the same form; those without an image have their captions. ``values``
    are further variables of the template.
    """
    images: list[Image] = []

    def described(thing: Candidate, letter: str = "") -> dict[str, Any]:
        picture, caption = "", thing.caption if "caption" in tracks else None
        if "image" in tracks and thing.image:
            picture = f"\0{len(images)}\0"  # a quoted text cannot contain this
            images.append(Image(thing.image, side))
        return {"letter": letter, "caption": caption, "picture": picture}

    sequence = [described(thing) for thing in item.sequence]
    for part, thing in zip(sequence, item.sequence, strict=True):
        if not part["picture"]:
            part["caption"] = thing.caption
    lettered = [
        described(candidate, letter) for letter, candidate in zip(LETTERS, candidates, strict=False)
    ]
    text: str = prompts.about(item, prompt, candidates=lettered, sequence=sequence, **values)
    if not images:
        return text
    pieces = enumerate(piece.strip() for piece in re.split("\0(\\d+)\0", text))
    return tuple(images[int(piece)] if place % 2 else piece for place, piece in pieces if piece)
