"""Tests a model on the samples: whether it is installed, its answers, and its speed."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from admire.core.errors import UserError
from admire.data.items import SAMPLES
from admire.data.reader import read_items
from admire.encoders import ImageEncoder, Vectors, open_encoder
from admire.llm import Image, Question, Reply, open_llm
from admire.llm.chat import inner
from admire.pipeline.ranking import Run
from admire.pipeline.run import rank
from admire.prompts import Prompts
from admire.rankers.settings import Settings
from admire.senses import read_label
from admire.senses.meaning import MEANING_TOKENS, read_meaning
from admire.senses.votes import VOTE_TOKENS


@dataclass(frozen=True)
class Speed:
    """The speed of an encoder without the cache.

    ``kind`` is the ``first text``, for which the model is loaded, ``texts`` or ``images``;
    ``width`` the dimensions of the vectors.
    """

    kind: str
    count: int
    width: int
    seconds: float


def check_encoder(name: str) -> tuple[Run, list[Speed]]:
    """Rank the samples by their sentences with an encoder, timed. Downloads missing weights."""
    items = read_items(SAMPLES)
    cached = open_encoder(name)
    encoder: Any = cached.encoder
    candidates = [candidate for item in items for candidate in item.candidates]
    captions = [candidate.caption for candidate in candidates if candidate.caption]
    images = list(dict.fromkeys(candidate.image for candidate in candidates if candidate.image))
    encoding: dict[str, Callable[[], Vectors]] = {
        "first text": lambda: encoder.encode_texts(captions[:1], role="document"),
        "texts": lambda: encoder.encode_texts(captions, role="document"),
    }
    if isinstance(cached, ImageEncoder):
        encoding["images"] = lambda: encoder.encode_prepared([*map(encoder.prepare_image, images)])
    speeds = []
    for kind, encode in encoding.items():
        started = time.monotonic()
        count, width = encode().shape
        speeds.append(Speed(kind, count, width, time.monotonic() - started))
    return rank(items, Settings(query="sentence"), encoder=cached), speeds


@dataclass(frozen=True)
class CheckedReply:
    """What was understood of a chat model's reply to a kind of question, or what went wrong.

    ``right`` is None if the check cannot know it, ``tokens`` if the server does not say.
    """

    kind: str
    text: str
    right: bool | None
    tokens: int | None = None
    seconds: float = 0.0


class Animal(BaseModel, extra="forbid"):
    """The reply to two of the questions."""

    animal: Literal["owl", "horse", "fish"]
    reason: str


def check_chat(name: str, *, url: str | None = None) -> list[CheckedReply]:
    """Ask a chat model one question of each kind about a sample, without the cache."""
    llm = inner(open_llm(name, url=url))
    item = next(item for item in read_items(SAMPLES) if item.sentence_type == "literal")
    prompts = Prompts()
    sense, meaning = prompts.about(item, "sense"), prompts.about(item, "literal")
    bird = "Which animal is meant by 'a night bird with big eyes'?"
    owl = "Which animal is in this picture?", Image(SAMPLES / "images" / "night_owl_2.png")
    letter = "A night owl flew from the barn. Is that A: a person, or B: a bird? "
    letter += "Answer with one letter."
    animal: dict[str, Any] = {"max_tokens": 200, "schema": Animal.model_json_schema()}

    def read_sense(reply: Reply) -> tuple[str, bool | None]:
        label = read_label(reply.text)
        return label or _raw(reply), label == item.sentence_type

    def read_definitions(reply: Reply) -> tuple[str, bool | None]:
        read = read_meaning(reply.text, item, meaning)
        return "; ".join(read.definitions) or _raw(reply), None if read else False

    questions: list[tuple[str, Question, Callable[[Reply], tuple[str, bool | None]]]] = [
        ("sense", Question(sense, max_tokens=VOTE_TOKENS), read_sense),
        ("meaning", Question(meaning, max_tokens=MEANING_TOKENS), read_definitions),
        ("schema", Question(bird, **animal), _read_animal),
        ("log-probabilities", Question(letter, max_tokens=1, logprobs=5), _read_letter),
        ("likelihood", Question(bird, max_tokens=1, target="An owl."), _read_target),
        ("image", Question(owl, **animal), _read_animal),
    ]
    replies = []
    for kind, question, read in questions:
        try:
            reply = llm.ask(question)
        except UserError as error:
            replies.append(CheckedReply(kind, str(error), False))
            continue
        tokens = reply.usage.prompt + reply.usage.completion if reply.usage else None
        replies.append(CheckedReply(kind, *read(reply), tokens, reply.seconds))
    return replies


def _read_animal(reply: Reply) -> tuple[str, bool | None]:
    """Read the animal of a reply, and whether it is the owl."""
    try:
        animal = Animal.model_validate_json(reply.text).animal
    except ValueError:
        return f"no JSON of the schema: {_raw(reply)}", False
    return f"JSON, {animal}", animal == "owl"


def _read_letter(reply: Reply) -> tuple[str, bool | None]:
    """Read the probabilities of the first token, and whether B is the likeliest."""
    if not reply.logprobs:
        return f"none returned; the answer is {_raw(reply)}", False
    shares = {token.strip(): math.exp(value) for token, value in reply.logprobs[0].items()}
    answer = ", ".join(f"{token} {share:.2f}" for token, share in shares.items())
    return answer, max(shares, key=lambda token: shares[token]) == "B"


def _read_target(reply: Reply) -> tuple[str, bool | None]:
    """Read the log-probability of a given text, and whether there is one."""
    places = [logprob for place in reply.logprobs or () for logprob in place.values()]
    return (f"{sum(places):.2f} for {_raw(reply)}" if places else "none returned"), bool(places)


def _raw(reply: Reply) -> str:
    """Quote the beginning of a reply."""
    cut = " (cut off)" if reply.cut else ""
    return repr(textwrap.shorten(reply.text, 100, placeholder="…")) + cut
