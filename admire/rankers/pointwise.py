"""Pointwise: a chat model grades each candidate alone, under both senses.

It is for small models: they can answer a question about one candidate, but give the same reply to
every question about five. The probability of a letter is more informative than the letter.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field, WithJsonSchema

from admire.core.registry import register
from admire.data.items import Candidate, Item
from admire.llm import Image, Question, Reply, evict
from admire.rankers.judgement import Answer, StructuredReply, reply_schema
from admire.rankers.presentation import LETTERS, show
from admire.rankers.ranker import Ranker
from admire.senses.interpretation import Interpretation

GRADES = ("idiomatic", "literal", "neither")
OPENINGS = {"the", "best", "correct", "answer", "letter", "option", "choice", "is"}
Percentage = Annotated[
    float,
    Field(ge=0, le=100),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 100}),
]


class Percentages(StructuredReply):
    """The reply about one candidate of a chat model that returns no probabilities."""

    idiomatic: Percentage
    literal: Percentage
    neither: Percentage


NUMBERS = reply_schema(Percentages)


@register("ranker", "pointwise", needs=("key",))
class Pointwise(Ranker):
    """One candidate at a time, graded as idiomatic, literal or neither.

    The grades are the probabilities of the three letters at the first position of the reply where
    one of them is likely. A model that returns no probabilities is asked for percentages. The score
    is p · P(idiomatic) + (1 − p) · P(literal), where p is the probability of the idiomatic sense,
    or 1 or 0 with a hard gate.

    The letters are the same for every candidate. Rotating them would double the cost, and a
    preference for a letter shifts all probabilities of an item equally and keeps their order.
    """

    task = "Grading candidates"
    weighs_both_senses = True

    def __init__(self) -> None:
        self._silent = threading.Event()  # set once a reply comes without probabilities

    def questions(self, item: Item, reading: Interpretation | None) -> list[Question]:
        return [
            Question(
                self._parts(item, reading, candidate, letters=True),
                temperature=0.0,
                max_tokens=4,
                seed=self.settings.seed,
                logprobs=10,
                purpose="ranking",
                shown=(candidate.name,),
            )
            for candidate in item.candidates
        ]

    def _parts(
        self, item: Item, reading: Interpretation | None, candidate: Candidate, *, letters: bool
    ) -> str | tuple[str | Image, ...]:
        return show(
            *(self.prompts, "pointwise", item, [candidate], self.tracks, self.settings.image_side),
            idiomatic=reading and reading.gloss,
            literal=next(iter(reading.literal.definitions), None) if reading else None,
            letters=letters,
        )

    def answer(self, item: Item, reading: Interpretation | None, question: Question) -> Answer:
        if not self._silent.is_set():
            reply = self.model.ask(question)
            grades = read_letters(reply)
            if grades:
                return Answer(question.shown, question.shown, grades=grades)
            if reply.logprobs is None:
                self._silent.set()
        candidate = next(c for c in item.candidates if c.name == question.shown[0])
        numbers = replace(
            question,
            parts=self._parts(item, reading, candidate, letters=False),
            max_tokens=60,
            schema=NUMBERS,
            logprobs=0,
        )
        answer = super().answer(item, reading, numbers)
        if answer.unread is not None:
            evict(self.model, question)
        return answer

    def read(self, item: Item, question: Question, reply: str) -> Answer | None:
        grades = read_numbers(reply)
        return Answer(question.shown, question.shown, grades=grades) if grades else None

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> list[float]:
        """Return the candidates' scores; one without grades gets the mean of the others."""
        assert reading is not None
        p = reading.sense.probability_idiomatic
        if self.settings.scoring.gate == "hard" and reading.sense.label:
            p = float(reading.sense.label == "idiomatic")
        scores = [
            p * answer.grades["idiomatic"] + (1 - p) * answer.grades["literal"]
            for answer in answers
            if answer.grades
        ]
        mean, graded = float(np.mean(scores)) if scores else 0.0, iter(scores)
        return [next(graded) if answer.grades else mean for answer in answers]


def read_letters(reply: Reply) -> dict[str, float] | None:
    """Return grades by the probabilities of the letters A, B and C; None if none is likely.

    They are read at the first position where they have more than half of the probability: a reply
    may begin with a line break, a quotation mark, or "The answer is". After any other word they do
    not count: ``Caption: "A`` begins a repeated caption.
    """
    for place in reply.logprobs or ():
        mass = dict.fromkeys(LETTERS[: len(GRADES)], 0.0)
        for token, logprob in place.items():
            letter = token.strip(" \n\"'*().:")
            if letter in mass:
                mass[letter] += math.exp(logprob)
        total = sum(mass.values())
        if total > 0.5:
            return {grade: p / total for grade, p in zip(GRADES, mass.values(), strict=True)}
        likeliest = max(place, key=place.__getitem__, default="")
        if not {*re.findall(r"\w+", likeliest.casefold())} <= OPENINGS:
            return None
    return None


def read_numbers(reply: str) -> dict[str, float] | None:
    """Return grades by the percentages in a reply; None if they cannot be parsed."""
    percentages = Percentages.read(reply, GRADES[0])
    shares = percentages.model_dump() if percentages else {}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else None
