"""Estimates of the tokens of questions."""

from __future__ import annotations

from math import ceil

from admire.llm.chat import Capabilities, Image, Question, Usage
from admire.llm.pictures import image_size

TILE, LONGEST, SHORTEST = 512, 2048, 768


def estimate(question: Question, llm: Capabilities) -> Usage:
    """Estimate the tokens of a question, and the maximum of its reply.

    A token is estimated as four bytes of UTF-8, with 8 more for a message; an image is counted in
    tiles, by OpenAI's published rule.
    """
    parts = (question.parts,) if isinstance(question.parts, str) else question.parts
    texts = [*parts, str(question.schema or ""), question.target]
    size = sum(len(text.encode(errors="replace")) for text in texts if isinstance(text, str))
    images = sum(image_tokens(image, llm.name) for image in question.images)
    return Usage(8 + ceil(size / 4) + images, completion=llm.most_tokens(question), images=images)


def image_tokens(image: Image, model: str = "") -> int:
    """Return how many tokens OpenAI counts for an image, by
    https://platform.openai.com/docs/guides/images

    It is scaled down to fit 2048 x 2048 pixels and then to a shorter side of 768. Each tile of
    512 x 512 pixels counts, and the image itself.
    """
    width, height = image_size(image.path)
    scale = min(1.0, min(image.side, LONGEST) / max(width, height))
    scale *= min(1.0, SHORTEST / (scale * min(width, height)))
    tiles = ceil(scale * width / TILE) * ceil(scale * height / TILE)
    whole, each = (2833, 5667) if "gpt-4o-mini" in model else (85, 170)
    return whole + each * tiles
