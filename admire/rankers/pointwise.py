"""Pointwise: a chat model grades each candidate alone, under both senses.

It is for small models: they can answer a question about one candidate, but give the same reply to
every question about five. How sure the model is of a letter says more than the letter.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, WithJsonSchema

from admire.data.items import Candidate, Item
from admire.models.llm import ChatModel, Question, Reply, forget
from admire.prompts import Prompts
from admire.rankers.judgement import (
    Answer,
    Judgement,
    StructuredReply,
    ask_by_item,
    ask_twice,
    reply_schema,
)
from admire.rankers.presentation import LETTERS, show, tracks_shown
from admire.rankers.set_summary import summarise_set
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation

GRADES = ("idiomatic", "literal", "neither")
OPENINGS = {"the", "best", "correct", "answer", "letter", "option", "choice", "is"}
Percentage = Annotated[
    float,
    Field(ge=0, le=100),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 100}),
]


class Percentages(StructuredReply):
    """What a chat model that tells no probabilities replies about one candidate."""

    idiomatic: Percentage
    literal: Percentage
    neither: Percentage


NUMBERS = reply_schema(Percentages)


def judge_pointwise(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation],
) -> list[Judgement]:
    """Ask a chat model to grade each candidate as idiomatic, literal or neither.

    The grades are the probabilities of the three letters at the first place of the reply that is
    one of them. A model that gives no probabilities is asked for percentages. The score is
    p · P(idiomatic) + (1 − p) · P(literal), p being the probability of the idiomatic sense, or 1 or
    0 with a hard gate.

    The letters are the same for every candidate and are not rotated, which would double the cost: a
    preference for a letter shifts all of an item's probabilities alike and keeps their order.

    Args:
        readings: which sense is meant in each item, and what both mean, as far as known.

    Raises:
        UserError: the model cannot be asked, or cannot see what it must.
    """
    tracks = tracks_shown(summarise_set(items), llm, settings.track)
    turns = [(k, candidate) for k, item in enumerate(items) for candidate in item.candidates]

    def question(turn: tuple[int, Candidate], letters: bool) -> Question:
        number, candidate = turn
        reading = readings[number]
        parts = show(
            prompts,
            "pointwise",
            items[number],
            [candidate],
            tracks,
            settings.image_side,
            idiomatic=next(iter(reading.idiomatic.definitions), None),
            literal=next(iter(reading.literal.definitions), None),
            letters=letters,
        )
        return Question(
            parts,
            temperature=0.0,
            max_tokens=4 if letters else 60,
            seed=settings.seed,
            schema=None if letters else NUMBERS,
            logprobs=10 if letters else 0,
            purpose="ranking",
        )

    silent = threading.Event()  # set once a reply comes without probabilities

    def ask(turn: tuple[int, Candidate]) -> Answer:
        name = turn[1].name
        if not silent.is_set():
            reply = llm.ask(question(turn, letters=True))
            grades = read_letters(reply)
            if grades:
                return Answer((name,), (name,), grades=grades)
            if reply.logprobs is None:
                silent.set()

        def read(reply: str) -> Answer | None:
            grades = read_numbers(reply)
            return Answer((name,), (name,), grades=grades) if grades else None

        answer = ask_twice(llm, question(turn, letters=False), read, (name,), items[turn[0]])
        if answer.unread is not None:
            forget(llm, question(turn, letters=True))
        return answer

    by_item = ask_by_item(ask, turns, items, llm, "Grading candidates")
    return [
        Judgement("pointwise", llm.name, _scores(answers, reading, settings), answers)
        for answers, reading in zip(by_item, readings, strict=True)
    ]


def _scores(
    answers: Sequence[Answer], reading: Interpretation, settings: Settings
) -> tuple[float, ...]:
    """Return graded candidates' scores; one without grades has the mean of the others."""
    p = reading.sense.probability_idiomatic
    if settings.scoring.gate == "hard" and reading.sense.label:
        p = float(reading.sense.label == "idiomatic")
    scores = [
        p * answer.grades["idiomatic"] + (1 - p) * answer.grades["literal"]
        for answer in answers
        if answer.grades
    ]
    mean, graded = float(np.mean(scores)) if scores else 0.0, iter(scores)
    return tuple(next(graded) if answer.grades else mean for answer in answers)


def read_letters(reply: Reply) -> dict[str, float] | None:
    """Return grades by the probabilities of the letters A, B and C; None if none is likely.

    They are read at the first place where they have more than half of the probability: a reply may
    begin with a line break or a quotation mark, or with "The answer is". After any other word it is
    no answer: ``Caption: "A`` begins a repeated caption.
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
    """Return grades by the percentages in a reply; None if they cannot be read."""
    percentages = Percentages.read(reply, GRADES[0])
    shares = percentages.model_dump() if percentages else {}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else None
