"""Items and candidates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

from admire.data.limits import limited

SAMPLES = Path(__file__).parent / "samples"  #: the image set that ships with admire

SenseLabel = Literal["idiomatic", "literal"]
Context = Literal["sentence", "sequence", "word"]
ImageName = Annotated[str, *limited("image")]


@dataclass(frozen=True)
class Candidate:
    """A candidate to rank: an image, a caption, or an image with its caption.

    ``name`` is the name that orders and submissions use: the image's as the data file writes it, or
    ``candidate1``, … for candidates without an image. The pictures of a sequence, ``s1.png`` or
    ``sequence1``, are candidates too, but are not ranked.
    """

    name: ImageName
    image: Path | None = None
    caption: Annotated[str, *limited("caption")] | None = None


@dataclass(frozen=True)
class Item:
    """One row: a compound in a sentence, and the candidates to rank for it.

    In AdMIRe's Subtask B a ``sequence`` of two pictures replaces the sentence, which is empty: it
    shows one of the compound's senses, and the best candidate completes it. In Visual-WSD the
    compound is a phrase, and ``word`` is the word in it whose meaning is to be shown, without a
    sentence or an idiomatic or literal sense to decide.

    ``compound`` is as in the data file; see :attr:`phrase`. ``language`` is the tag as given
    (``en``, ``xe``, ``pt-br``). ``sentence_type``, ``expected_order`` and, of Subtask B and V-WSD,
    ``expected_item`` are the gold answers, None where they are not known. Without ``candidates``,
    only the sense of an item can be decided. ``definitions``, up to two, are what a person says the
    compound means here; no model is asked for that sense's meaning then. ``written`` has compound
    and sentence as they are in the file, and names of pictures that are not in NFC there, for
    submissions, if they are read in another form.
    """

    compound: Annotated[str, *limited("compound")]
    sentence: Annotated[str, *limited("sentence")]
    language: Annotated[str, *limited("language")] = "en"
    candidates: tuple[Candidate, ...] = ()
    sentence_type: SenseLabel | None = None
    expected_order: tuple[ImageName, ...] | None = None
    sequence: tuple[Candidate, ...] = ()
    expected_item: ImageName | None = None
    word: Annotated[str, *limited("word")] = ""
    definitions: tuple[Annotated[str, *limited("definition")], ...] = ()
    written: tuple[str, ...] = field(default=(), compare=False)

    @property
    def context(self) -> Context:
        """The source of the meaning: a sentence, a sequence, or the phrase around a word."""
        return "word" if self.word else "sequence" if self.sequence else "sentence"

    @property
    def has_sense(self) -> bool:
        """Whether an idiomatic or literal sense is to be decided."""
        return self.context != "word"

    @property
    def shows_sense(self) -> bool:
        """Whether there is text to decide the sense by: a sentence, or captions of a sequence."""
        return bool(self.sentence.strip()) or any(part.caption for part in self.sequence)

    @property
    def gold_column(self) -> Literal["expected_order", "expected_item"]:
        """The column of the gold: an order of all candidates, or the right one alone."""
        alone = self.expected_item or self.context != "sentence"
        return "expected_item" if alone else "expected_order"

    @property
    def phrase(self) -> str:
        """The compound as people write it, for prompts and queries.

        AdMIRe 2 numbers some compounds ("kıl payı 1"); a number that is in the sentence too ("cloud
        9") belongs to the compound.
        """
        if not self.sentence or self.compound.casefold() in self.sentence.casefold():
            return self.compound
        return re.sub(r"(?<=\S)\s+\d+$", "", self.compound.rstrip())

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates' names."""
        return tuple(map(attrgetter("name"), self.candidates))

    @property
    def things(self) -> tuple[Candidate, ...]:
        """The candidates, and then the pictures or captions of the sequence."""
        return (*self.candidates, *self.sequence)

    @property
    def best(self) -> str | None:
        """The name of the best candidate by gold, None where it is not known."""
        return self.expected_item or (self.expected_order or [None])[0]


def item_keys(items: Iterable[Item]) -> list[Hashable]:
    """Return keys of items: compound, sentence, candidates, and how many such came before."""
    return [key for key, _ in keyed_items(items)]


def keyed_items(items: Iterable[Item]) -> Iterator[tuple[Hashable, Item]]:
    """Yield each item with its key; see :func:`item_keys`."""
    seen: Counter[int] = Counter()  # by hash: whole keys are a kilobyte an item
    for item in items:
        key = (item.compound, item.sentence, frozenset(item.names))
        yield (key, seen[hash(key)]), item
        seen[hash(key)] += 1
