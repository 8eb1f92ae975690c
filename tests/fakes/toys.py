"""Small deterministic models that fit the real protocols, so that ranks can be asserted exactly."""

import base64
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admire import Candidate, Item, Scoring, Settings
from admire.data.image_files import read_image
from admire.encoders import Role, Vectors
from admire.llm import ChatModel, Conversation, Question, Reply, Session, ask, converse
from admire.senses.sense import likelier


class WordEncoder:
    """A text as the bag of its words: texts that share words are similar."""

    name = "words"
    identity = "words:1"
    batch = 2
    languages: tuple[str, ...] = ()

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[zlib.crc32(word.encode()) % 512] += 1
            row /= np.linalg.norm(row) or 1
        return vectors


class PictureEncoder(WordEncoder):
    """As WordEncoder, for pictures too: what :func:`draw` says that they show, or all of a file."""

    name = "pictures"
    identity = "pictures:1"

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        shown = [image.read_bytes().removeprefix(PIXEL).decode() for image in images]
        return self.encode_texts(shown, role="document")


class Looking(PictureEncoder):
    """Reads pictures as the real ones do: the vector of a whole one is that of its first colour."""

    name, identity = "looking", "looking:1"

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        colours = [str(read_image(image).getpixel((0, 0))) for image in images]
        return self.encode_texts(colours, role="document")


class Reader:
    """Knows the vectors of some texts, and remembers each text that it was given and its role."""

    batch = 8

    def __init__(self, name: str, vectors: dict[str, Sequence[float]]):
        self.name = name
        self.identity = f"{name}:1"
        self.vectors = vectors
        self.read: list[tuple[str, str]] = []

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.read += [(role, text) for text in texts]
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def opener(encoder: Any) -> Callable[..., Any]:
    """Open an encoder by any name. The profile's second one knows no language: it is left out."""
    mute = WordEncoder()
    mute.name, mute.identity, mute.languages = "mute", "mute:1", ("none",)
    return lambda name, **_: mute if name == "minilm" else encoder


open_words, open_pictures = opener(WordEncoder()), opener(PictureEncoder())


def draw(path: Path, text: str) -> None:
    """A picture file that shows what the text says, to PictureEncoder."""
    path.write_bytes(PIXEL + text.encode())


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""


class ScriptedChat(ChatModel):
    """Answers each prompt by a function of it, and remembers what it was asked."""

    def __init__(self, answer: Callable[[str], str], name: str = "scripted", parallel: int = 1):
        self.answer = answer
        self.name = name
        self.identity = name
        self.parallel = parallel
        self.accepts_images = False
        self.scores_text = False
        self.prompts: list[str] = []
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        self.prompts.append(question.text)
        return Reply(self.answer(question.text))


class Replies(ScriptedChat):
    """Gives the replies in order."""

    def __init__(self, *replies: str):
        left = iter(replies)
        super().__init__(lambda _: next(left))

    @property
    def sampled(self) -> list[tuple[float, int]]:
        """Temperature and seed of each question."""
        return [(one.temperature, one.seed) for one in self.questions]


def opens(monkeypatch: pytest.MonkeyPatch, llm: ChatModel) -> list[tuple[str, str | None]]:
    """Let sessions open this model by any name; return the names and addresses."""
    opened = []

    def open_toy(session: Session, model: Any, url: str | None = None, *_: Any) -> list[Any]:
        if isinstance(model, str):
            opened.append((model, url))
            model = llm
        return [session.bind(model)]

    monkeypatch.setattr(Session, "open", open_toy)
    return opened


def talk(conversation: Conversation[Any], llm: ChatModel) -> Any:
    """What a conversation with a chat model returns."""
    return converse([conversation], llm)[0]


def said(llm: ChatModel, text: str, **settings: Any) -> str:
    """What a chat model answers."""
    return ask(llm, Question(text, **settings))[0].text


OWL = Item(
    "night owl",
    "My sister is a night owl.",
    candidates=(
        Candidate("bird.png", caption="a bird with wings, an owl at night"),
        Candidate("person.png", caption="a person awake late"),
        Candidate("bike.png", caption="a red bicycle"),
    ),
    expected_order=("person.png", "bird.png", "bike.png"),
)
PAPER = Settings(llms=(), sense="vote", meanings="gloss", scoring=Scoring.paper())


def says(sense: str, gloss: str = "A person who is awake late."):
    """A chat model that answers every question about the sense alike."""
    return ScriptedChat(
        lambda prompt: sense if "or literally" in prompt else gloss, name=f"says {sense}"
    )


IDIOMATIC = '{"definitions": ["person awake late", "late worker"], "scene": "a lamp at night"}'
LITERAL = '{"definitions": ["bird with wings"], "scene": "an owl in a tree"}'


def explains(sense: str, idiomatic: str = IDIOMATIC, literal: str = LITERAL) -> ScriptedChat:
    """A chat model that takes every use alike, and gives these replies about the two senses."""

    def answer(prompt: str) -> str:
        if "or literally" in prompt:
            return sense
        return idiomatic if "idiom of the sentence" in prompt else literal

    return ScriptedChat(answer, name=f"explains {sense}")


class Detector:
    """Finds uses idiomatic at this probability; ``asked`` are the sentences, by call."""

    identity, columns, setting = "toy detector", (), None

    def __init__(self, probability: float | Callable[[Item], float] = 0.2, *languages: str):
        self.probability, self.asked = probability, []
        self.card = {"languages": [*languages]}

    def classify(self, uses, *_):
        self.asked.append([use.item.sentence for use in uses])
        told = self.probability
        return [likelier(told(use.item) if callable(told) else told, "detector") for use in uses]


class MarkedEncoder:
    """Two noisy numbers a place: the first tells whether the text says 'really' or 'hardly'.

    ``asked`` are the words that were asked for, with the sentence of the prompt around them.
    """

    name = "marked"
    identity = "marked:1"
    batch = 16

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def encode_texts(self, texts, *, role):
        raise NotImplementedError

    def encode_queries(self, queries):
        self.asked += [(q.text[slice(*q.span)], q.text) for q in queries]
        return np.array([self.vector(query.text) for query in queries])

    def vector(self, text: str) -> np.ndarray:
        noise = np.random.default_rng(zlib.crc32(text.encode())).normal(size=2)
        noise[0] += 4.0 * ("really" in text) - 4.0 * ("hardly" in text)
        return noise


def marked(compounds: int = 20, each: int = 4) -> list[Item]:
    """Sentences whose sense that encoder can tell, half of each compound's in each sense."""
    return [
        Item(
            f"c{k}",
            f"A c{k} {'really' if j % 2 else 'hardly'} {j}.",
            sentence_type="idiomatic" if j % 2 else "literal",
        )
        for k in range(compounds)
        for j in range(each)
    ]
