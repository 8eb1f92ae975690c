"""Chat models: questions of text and images in, replies with their cost out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from admire.base.errors import UserError
from admire.base.progress import show_progress
from admire.models.identity import Identified

log = logging.getLogger("admire")

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")

IMAGE_SIDE = 768
"""The longest side of an image that is sent, in pixels, unless a question says otherwise."""
WANTED: ContextVar[float] = ContextVar("WANTED", default=inf)
"""How many answers :func:`ask_each` wants in all, as its threads see it. A model that answers
several questions together waits for no more than these."""


@dataclass(frozen=True)
class Image:
    """An image as part of a question.

    Attributes:
        path: its file.
        side: longest side in pixels; a larger image is scaled down before it is sent.
    """

    path: Path
    side: int = IMAGE_SIDE


@dataclass(frozen=True)
class Question:
    """A question for a chat model.

    Attributes:
        parts: a text, or texts and images in the order in which the model sees them.
        temperature: of sampling; 0 asks for the likeliest reply.
        max_tokens: the most tokens that the reply may have.
        seed: of sampling.
        schema: a JSON schema that the reply must fit, in OpenAI's strict dialect: each object
            requires all of its properties and allows no others. They are written in their order.
        logprobs: how many of the likeliest tokens to return at each place, 0 for none.
        purpose: what it is asked for ("senses", "meanings", …), for the cost of a run by stage.
            Not part of equality or of the cache key.
    """

    parts: str | tuple[str | Image, ...]
    temperature: float = 0.0
    max_tokens: int = 64
    seed: int = 0
    schema: Mapping[str, Any] | None = None
    logprobs: int = 0
    purpose: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The question without its images."""
        return self.parts if isinstance(self.parts, str) else "\n".join(self.texts)

    @property
    def texts(self) -> list[str]:
        return [part for part in self._listed if isinstance(part, str)]

    @property
    def images(self) -> list[Image]:
        return [part for part in self._listed if isinstance(part, Image)]

    @property
    def _listed(self) -> tuple[str | Image, ...]:
        return (self.parts,) if isinstance(self.parts, str) else self.parts


@dataclass(frozen=True)
class Usage:
    """The tokens of a question and its reply, as the server counts them.

    Attributes:
        prompt: of the question, images included.
        cached: how many of these the server had cached.
        completion: of the reply, with the model's reasoning before it.
        images: of the question's images, 0 if the server does not say.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    images: int = 0


@dataclass(frozen=True)
class Reply:
    """A chat model's answer.

    Attributes:
        text: the answer.
        usage: None if the server does not say.
        seconds: how long the model took.
        cut: whether it was cut off at ``max_tokens``.
        logprobs: for each token of the answer the likeliest tokens with their log-probabilities;
            None if they were not asked for or the server returns none.
        kept: whether it came from the cache.
        batched: whether it came by OpenAI's Batch API, which has its own prices.
        model: the server's name of the model that answered; empty if it does not say.
    """

    text: str
    usage: Usage | None = None
    seconds: float = 0.0
    cut: bool = False
    logprobs: tuple[Mapping[str, float], ...] | None = None
    kept: bool = field(default=False, compare=False)
    batched: bool = False
    model: str = ""


class Unanswered(Exception):  # noqa: N818  nothing has gone wrong
    """A question without a reply in the cache, put to a model that gives cached replies alone."""


class ChatModel(Identified, Protocol):
    """A model that answers one question at a time.

    A class that derives from this one needs :meth:`ask` alone. One that costs nothing to ask has
    ``free = True``, too.

    Attributes:
        name: what the user calls it; by default that of the class.
        identity: everything that its replies depend on: server, weights; by default the name.
        parallel: how many questions may be asked at the same time.
        sees: whether it can be shown images, as far as is known before one is shown.
    """

    parallel: int = 1
    sees: bool = False

    def ask(self, question: Question) -> Reply:
        """Answer the question.

        Raises:
            UserError: the model cannot be reached, does not exist, refuses the question, or keeps
                failing.
        """
        ...


def ask_each(
    question: Callable[[Thing], Answer],
    things: Sequence[Thing],
    llm: ChatModel,
    what: str,
    *,
    called: Callable[[Thing], str],
) -> list[Answer]:
    """Ask a question about each thing, several at a time if the model allows it.

    Args:
        what: what the model does, to show the progress: "Writing the meaning".
        called: what a message calls a thing.

    Returns:
        The answers, in the things' order.

    Raises:
        UserError: a question raised one; the message names the thing.
        Unanswered: the cache lacks a reply; every question was tried.
    """
    missing: list[Unanswered] = []

    def named(thing: Thing) -> Answer | None:
        try:
            return question(thing)
        except Unanswered as unanswered:
            missing.append(unanswered)
            return None
        except UserError as error:
            raise UserError(
                f"'{called(thing)}': {error} The answers so far are kept: run the same "
                "command again to go on.",
                *error.settings,
            ) from error

    pool = ThreadPoolExecutor(llm.parallel, initializer=WANTED.set, initargs=(len(things),))
    waits = True
    try:
        told = pool.map(named, things)
        answers = list(show_progress(told, f"{what} (model {llm.name})", len(things)))
    except KeyboardInterrupt:
        waits = False  # replies under way are cached when they come
        raise
    finally:  # after an error or Ctrl-C, what has not begun is dropped
        pool.shutdown(waits, cancel_futures=True)
    if missing:
        raise missing[0]
    return cast(list[Answer], answers)
