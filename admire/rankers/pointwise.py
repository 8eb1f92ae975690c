"""Pointwise: a chat model grades each candidate alone, under both senses.

Small models can do this, where they give the same reply to every question about five.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field, WithJsonSchema

from admire.core.registry import register
from admire.data.items import Candidate, Item
from admire.llm.chat import Question, Reply
from admire.llm.conversation import Conversation, Unusable
from admire.rankers.judgement import Answer, Judgement
from admire.rankers.presentation import LETTERS, StructuredReply, ask_for_answers, show
from admire.rankers.ranker import Ranker
from admire.senses.interpretation import Interpretation

GRADES = ("idiomatic", "literal", "neither")
OPENINGS = {"the", "best", "correct", "answer", "letter", "option", "choice", "is"}
ARTICLE = r"(?!\bA[ \t]+(?!(?:is|was|as|because|since|for)\b)[a-z])"
"""What no letter of an answer begins: "A woman is shown"."""
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


NUMBERS = Percentages.strict_schema()


@register("ranker", "pointwise", needs=("key",))
class Pointwise(Ranker):
    """One candidate at a time, graded as idiomatic, literal or neither.

    The grades are the probabilities of the three letters at the first position of the reply where
    one of them is likely. A model that returns no probabilities is asked for percentages. The score
    is p · P(idiomatic) + (1 − p) · P(literal), where p is the probability of the idiomatic sense,
    or 1 or 0 with a hard gate. A preference for a letter shifts an item's candidates equally.
    """

    task = "Grading candidates"
    weighs_both_senses = True

    def __init__(self) -> None:
        self._first: Question | None = None
        self._returns_logprobs: bool | None = None  # unknown before its reply

    def scores(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        letters = [self._question(item, reading, c, letters=True) for c in item.candidates]
        if self._returns_logprobs is None:  # the reply to the run's first question shows it
            self._first = self._first or replace(letters[0], task="Asking for probabilities")
            (reply,) = yield [self._first]
            self._returns_logprobs = bool(read_letters(reply)) or reply.logprobs is not None
        grades: list[dict[str, float] | None] = [None] * len(letters)
        if self._returns_logprobs:
            grades = list(map(read_letters, (yield letters)))
        ungraded = [
            self._question(item, reading, candidate, letters=False)
            for candidate, graded in zip(item.candidates, grades, strict=True)
            if not graded
        ]
        numbers = iter((yield from ask_for_answers(ungraded, read_numbers, item)))
        answers = tuple(
            Answer((name,), (name,), grades=graded) if graded else next(numbers)
            for name, graded in zip(item.names, grades, strict=True)
        )
        lost = [q for q, answer in zip(letters, answers, strict=True) if answer.unread is not None]
        yield Unusable(lost)
        assert reading is not None
        p = reading.sense.probability_idiomatic
        if self.settings.scoring.gate == "hard" and reading.sense.label:
            p = float(reading.sense.label == "idiomatic")
        graded = [
            p * answer.grades["idiomatic"] + (1 - p) * answer.grades["literal"]
            for answer in answers
            if answer.grades
        ]
        # A candidate without grades gets the mean of the others.
        mean, rest = float(np.mean(graded)) if graded else 0.0, iter(graded)
        points = tuple(next(rest) if answer.grades else mean for answer in answers)
        return Judgement(self.name, "", points, answers)

    def _question(
        self, item: Item, reading: Interpretation | None, candidate: Candidate, *, letters: bool
    ) -> Question:
        parts = show(
            *(self.prompts, "pointwise", item, [candidate], self.tracks, self.settings.image_side),
            idiomatic=reading and reading.gloss,
            literal=next(iter(reading.literal.definitions), None) if reading else None,
            letters=letters,
        )
        return Question(
            parts,
            max_tokens=4 if letters else 60,
            seed=self.settings.seed,
            schema=None if letters else NUMBERS,
            logprobs=10 if letters else 0,
            shown=(candidate.name,),
        )


def read_letters(reply: Reply) -> dict[str, float] | None:
    """Return grades by the probabilities of the letters A, B and C; None if none is likely.

    They are read at the first position where they have more than half of the probability, after
    nothing but words as in "The answer is": ``Caption: "A`` begins a repeated caption. If the
    likeliest letter is another one than the text's, the text's has the grade alone.
    """
    written = re.search(rf"{ARTICLE}\b[{LETTERS[: len(GRADES)]}]\b", reply.text)
    for place in reply.logprobs or ():
        mass = dict.fromkeys(LETTERS[: len(GRADES)], 0.0)
        for token, logprob in place.items():
            letter = token.strip(" \n\"'*().:")
            if letter in mass:
                mass[letter] += math.exp(logprob)
        total = sum(mass.values())
        if total > 0.5 and written:
            if total > 1.01 or mass[written[0]] < max(mass.values()):  # no probabilities, or others
                mass, total = {letter: float(letter == written[0]) for letter in mass}, 1.0
            return {grade: p / total for grade, p in zip(GRADES, mass.values(), strict=True)}
        likeliest = max(place, key=place.__getitem__, default="")
        if not {*re.findall(r"\w+", likeliest.casefold())} <= OPENINGS:
            return None
    return None


def read_numbers(question: Question, reply: str) -> Answer | None:
    """Return the grades by the percentages in a reply; None if they cannot be parsed."""
    percentages = Percentages.read(reply, GRADES[0])
    shares = percentages.model_dump() if percentages else {}
    total = sum(shares.values())
    if not total:
        return None
    grades = {name: share / total for name, share in shares.items()}
    return Answer(question.shown, question.shown, grades=grades)
