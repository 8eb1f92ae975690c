"""Chat models: questions with text and images, and replies with their cost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from admire.core.errors import UserError
from admire.core.identity import Identified
from admire.core.progress import Cancelled, cancellation, show_progress

log = logging.getLogger("admire")

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")

IMAGE_SIDE = 768
"""The longest side of an image that is sent, in pixels, unless a question sets another one."""
EXPECTED: ContextVar[float] = ContextVar("EXPECTED", default=inf)
"""How many answers :func:`ask_each` expects in all; set in its threads. A model that answers
questions in batches waits for no more than these."""


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
        target: a text to rate as the reply, instead of writing one: the reply is this text, with
            the log-probability of each of its tokens.
        purpose: "senses", "meanings", …, for the cost of a run by stage. Not part of equality or
            of the cache key.
        shown: the names of the candidates that it shows, in their order. Not part of them either.
    """

    parts: str | tuple[str | Image, ...]
    temperature: float = 0.0
    max_tokens: int = 64
    seed: int = 0
    schema: Mapping[str, Any] | None = None
    logprobs: int = 0
    target: str = ""
    purpose: str = field(default="", compare=False)
    shown: tuple[str, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The question without its images."""
        return "\n".join(self.texts)

    @property
    def texts(self) -> list[str]:
        """The texts, in their order."""
        parts = (self.parts,) if isinstance(self.parts, str) else self.parts
        return [part for part in parts if isinstance(part, str)]

    @property
    def images(self) -> list[Image]:
        """The images, in their order."""
        parts = () if isinstance(self.parts, str) else self.parts
        return [part for part in parts if isinstance(part, Image)]


@dataclass(frozen=True)
class Usage:
    """The tokens of a question and its reply, as the server counts them.

    Attributes:
        prompt: of the question, images included.
        cached: the part of ``prompt`` that the server had cached.
        completion: of the reply, with the model's reasoning before it.
        images: of the question's images, 0 if the server does not report it.
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
        usage: None if the server does not report it.
        seconds: how long the model took.
        cut: whether it was cut off at ``max_tokens``.
        logprobs: for each token of the answer the likeliest tokens with their log-probabilities,
            or of a target's token its own; None if they were not asked for or the server returns
            none.
        cached: whether it came from the cache.
        batched: whether it came by OpenAI's Batch API, which has its own prices.
        model: the server's name of the model that answered; empty if unknown.
    """

    text: str
    usage: Usage | None = None
    seconds: float = 0.0
    cut: bool = False
    logprobs: tuple[Mapping[str, float], ...] | None = None
    cached: bool = field(default=False, compare=False)
    batched: bool = False
    model: str = ""


@dataclass(frozen=True)
class Price:
    """A price in US dollars.

    Attributes:
        at_most: whether it may be lower: for batches where only the ordinary price is known.
    """

    dollars: float
    at_most: bool = False

    def __add__(self, other: Price) -> Price:
        return Price(self.dollars + other.dollars, self.at_most or other.at_most)

    def __str__(self) -> str:
        digits = 2 if self.dollars >= 1 or not self.dollars else 4
        return f"{'at most ' * self.at_most}${self.dollars:.{digits}f}"


class ServerError(UserError):
    """A chat model's server cannot be reached, fails, or returns an unusable answer.

    Attributes:
        later: whether the same question may succeed later.
    """

    def __init__(self, message: str, *settings: str, later: bool = False):
        super().__init__(message, *settings)
        self.later = later


class Unanswered(Exception):  # noqa: N818  nothing has gone wrong
    """Raised for a question without a cached reply by a model that only reads the cache."""


class ChatModel(Identified, Protocol):
    """A model that answers one question at a time.

    A class that derives from this one only needs :meth:`ask`.

    Attributes:
        name: what the user calls it; defaults to the class's name.
        identity: everything that its replies depend on, such as server and weights; defaults to
            the name.
        parallel: how many questions may be asked at the same time.
        free: whether asking it costs nothing, because it runs on this machine.
        accepts_images: whether it accepts images, as far as is known before one is sent.
        scores_text: whether it rates a :attr:`Question.target`, as far as is known before it is
            asked.
        judges_senses: whether its votes decide senses by default; False for a small model, which
            leaves that to a detector.
        describes_both_senses: whether it is asked for the meanings of both senses by default; False
            for a small model, which is only asked for the meaning of idiomatic uses.
    """

    parallel: int = 1
    free: bool = False
    accepts_images: bool = False
    scores_text: bool = False
    judges_senses: bool = True
    describes_both_senses: bool = True

    def ask(self, question: Question) -> Reply:
        """Answer the question.

        Raises:
            UserError: the model cannot be reached, does not exist, refuses the question, or keeps
                failing.
        """
        ...

    def price(self, usage: Usage, *, batched: bool = False) -> Price | None:
        """Return what a reply of this usage costs, by a batch API or not; None if unknown."""
        return None

    def most_tokens(self, question: Question) -> int:
        """Return the maximum tokens of a reply, reasoning included."""
        return question.max_tokens


def inner(llm: ChatModel) -> ChatModel:
    """Return the model itself, without its session."""
    model: ChatModel = getattr(llm, "unbound", llm)
    return model


def evict(llm: ChatModel, *questions: Question) -> None:
    """Remove replies from the model's cache, if it has one, because they could not be parsed.

    So the same command asks again, perhaps when the server works again.
    """
    if drop := getattr(llm, "evict", None):
        for question in questions:
            drop(question)


def ask_each(
    ask: Callable[[Subject], Answer],
    subjects: Sequence[Subject],
    llm: ChatModel,
    task: str,
    *,
    name_of: Callable[[Subject], str],
) -> list[Answer]:
    """Ask a question about each subject, several at a time if the model allows it.

    Args:
        task: what the model does, to show the progress: "Writing the meaning".
        name_of: returns a subject's name for messages.

    Returns:
        The answers, in the subjects' order.

    Raises:
        UserError: a question raised one; the message names the subject.
        Unanswered: the cache lacks a reply; every question was tried.
        Cancelled: the answers are no longer needed.
    """
    missing: list[Unanswered] = []
    check = cancellation()

    def ask_named(subject: Subject) -> Answer | None:
        check()
        try:
            return ask(subject)
        except Unanswered as unanswered:
            missing.append(unanswered)
            return None
        except UserError as error:
            named_error = copy(error)
            cached = "The answers so far are cached: run the same command again to resume."
            named_error.args = (f"'{name_of(subject)}': {error} {cached}",)
            raise named_error from error

    pool = ThreadPoolExecutor(llm.parallel, initializer=EXPECTED.set, initargs=(len(subjects),))
    waits = True
    try:
        replies = pool.map(ask_named, subjects)
        answers = list(show_progress(replies, f"{task} (model {llm.name})", len(subjects)))
    except (KeyboardInterrupt, Cancelled):
        waits = False  # pending replies are cached when they arrive
        raise
    finally:  # after an error or Ctrl-C, questions that have not begun are dropped
        pool.shutdown(waits, cancel_futures=True)
    if missing:
        raise missing[0]
    return cast(list[Answer], answers)
