"""Chat models: questions with text and images, and replies with their cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from admire.core.errors import UserError
from admire.core.registry import Identified
from admire.data.items import Item, SenseLabel

IMAGE_SIDE = 768
"""The longest side of an image that is sent, in pixels, unless a question sets another one."""
PARALLEL = 8  #: how many questions a server is asked at the same time
SEEING = (
    "Use captions only, or a model that accepts images: openai:gpt-6.1-sol, or a server with Gemma "
    "or Qwen-VL."
)
"""What to do if a model does not accept images."""
thinks_aloud = re.compile(
    r"\W*(?:okay|ok|alright|hmm|wait|let me|let['’]s|let us|we (?:need|have|are|must|should)|"
    r"i (?:need|have|must|should|think|will)|the user|first,|so,? the)\b",
    re.IGNORECASE,
).match
"""Matches a text that begins like thoughts without marks around them."""


class Image(NamedTuple):
    """An image file as part of a question; scaled down if its longest side has more pixels."""

    path: Path
    side: int = IMAGE_SIDE


@dataclass(frozen=True)
class Question:
    """A question for a chat model.

    Attributes:
        parts: a text, or texts and images in the order in which the model sees them.
        temperature: 0 asks for the likeliest reply.
        schema: a JSON schema that the reply must fit, in OpenAI's strict dialect: each object
            requires all of its properties and allows no others. They are written in their order.
        logprobs: how many of the likeliest tokens to return at each place, 0 for none.
        target: a text to rate as the reply, instead of writing one: the reply is this text, with
            the log-probability of each of its tokens.
        purpose: "senses", "meanings", "ranking", …: the stage of a run. Like all fields below, it
            is not part of equality or of the cache key.
        about: what it asks about: an item, or a text that names it in messages.
        sense: the sense whose meaning it asks for.
        shown: the names of the candidates that it shows, in their order.
        task: what the model does, to show the progress: "Writing the meaning".
    """

    parts: str | tuple[str | Image, ...]
    temperature: float = 0.0
    max_tokens: int = 64
    seed: int = 0
    schema: Mapping[str, Any] | None = None
    logprobs: int = 0
    target: str = ""
    purpose: str = field(default="", compare=False)
    about: Item | str = field(default="", compare=False)
    sense: SenseLabel | None = field(default=None, compare=False)
    shown: tuple[str, ...] = field(default=(), compare=False)
    task: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The question without its images."""
        if isinstance(self.parts, str):
            return self.parts
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> list[Image]:
        """The images, in their order."""
        if isinstance(self.parts, str):
            return []
        return [part for part in self.parts if isinstance(part, Image)]


@dataclass(frozen=True)
class Usage:
    """The tokens of a question and its reply, as the server counts them."""

    prompt: int = 0  #: images included; ``cached`` of these the server had cached
    cached: int = 0
    completion: int = 0  #: with the model's reasoning
    images: int = 0  #: 0 if the server does not report it


@dataclass(frozen=True)
class Reply:
    """A chat model's answer.

    Attributes:
        usage: None if the server does not report it.
        cut: whether it was cut off at ``max_tokens``.
        logprobs: for each token of the answer the likeliest tokens with their log-probabilities,
            or of a target's token its own; None if they were not requested or not returned.
        model: the server's name of the model that answered; empty if unknown.
    """

    text: str
    usage: Usage | None = None
    seconds: float = 0.0
    cut: bool = False
    logprobs: tuple[Mapping[str, float], ...] | None = None
    cached: bool = field(default=False, compare=False)
    model: str = ""


@dataclass(frozen=True)
class Price:
    """A price in US dollars, or the most that it may be, if fewer questions may be asked."""

    dollars: float
    at_most: bool = False

    def __add__(self, other: Price) -> Price:
        return Price(self.dollars + other.dollars, self.at_most or other.at_most)

    def __str__(self) -> str:
        digits = 2 if self.dollars >= 1 or not self.dollars else 4
        return f"{'at most ' * self.at_most}${self.dollars:.{digits}f}"


class ServerError(UserError):
    """A chat model's server cannot be reached, fails, or returns an unusable answer.

    If ``later`` is set, the same question may succeed later.
    """

    def __init__(self, message: str, *settings: str, later: bool = False):
        super().__init__(message, *settings)
        self.later = later


class Capabilities(Identified, Protocol):
    """What is known of a chat model before it is asked.

    Attributes:
        identity: everything that its replies depend on, such as server and weights.
        parallel: how many questions may be asked at the same time.
        batch: how many questions :meth:`ChatModel.ask_together` answers best at once; 1 for a
            model without.
        free: whether asking it costs nothing, because it runs on this machine.
        accepts_images: whether it accepts images, as far as is known before one is sent.
        scores_text: whether it rates a :attr:`Question.target`, as far as is known before it is
            asked.
        judges_senses: whether its votes decide senses by default; a small model leaves that to a
            detector.
        describes_both_senses: whether it is asked for the meanings of both senses by default; a
            small model is only asked for that of idiomatic uses.
    """

    parallel: int = 1
    batch: int = 1
    free: bool = False
    accepts_images: bool = False
    scores_text: bool = False
    judges_senses: bool = True
    describes_both_senses: bool = True

    def price(self, usage: Usage) -> Price | None:
        """Return what a reply of this usage costs; None if unknown."""
        return None

    def most_tokens(self, question: Question) -> int:
        """Return the maximum tokens of a reply, reasoning included."""
        return question.max_tokens


class ChatModel(Capabilities, Protocol):
    """A model that answers one question at a time; a derived class only needs :meth:`ask`."""

    def ask(self, question: Question) -> Reply:
        """Answer the question; raise a UserError if the model cannot."""
        ...

    def ask_together(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Yield the replies to several questions, at most :attr:`batch`, in their order."""
        return map(self.ask, questions)


class Unusable(NamedTuple):
    """What a conversation yields, and gets nothing for, if replies to these questions are useless.

    They leave the cache, so the same command asks again. ``refusal`` returns the error about a
    model of this name, none of whose replies could be used, from what was read of all (their
    ``reading``); None if there are too few to say so.
    """

    questions: Sequence[Question]
    reading: Any = None
    refusal: Callable[[str, Sequence[Any]], UserError | None] | None = None


Result = TypeVar("Result")

Conversation = Generator[Sequence[Question] | Unusable, Sequence[Reply], Result]
"""A method that asks a chat model; see :mod:`admire.llm.conversation`."""


def inner(llm: Any) -> Any:
    """Return the model itself, without its session."""
    return getattr(llm, "unbound", llm)
