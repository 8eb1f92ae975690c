"""Pairwise: a chat model compares all candidates two by two, both ways round."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator

from admire.base.errors import check_extra
from admire.data.items import Candidate, Item
from admire.models.llm import ChatModel, Question
from admire.prompts import Prompts
from admire.rankers.aggregate import bradley_terry
from admire.rankers.judgement import (
    Answer,
    Judgement,
    Line,
    StructuredReply,
    ask_by_item,
    ask_twice,
    on_one_line,
    reply_schema,
)
from admire.rankers.presentation import show, tracks_shown
from admire.rankers.set_summary import summarise_set
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation


class Comparison(StructuredReply):
    """What a chat model replies about two candidates."""

    reason: Line = ""
    better: Annotated[Literal["A", "B", "equal"], BeforeValidator(on_one_line)]


SCHEMA = reply_schema(Comparison)


def judge_pairwise(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation],
) -> list[Judgement]:
    """Ask a chat model which of two candidates is better, for all pairs both ways round.

    The score is the strength of the model of Bradley and Terry (:func:`bradley_terry`). A tie is
    half a win for both; an answer that cannot be read does not count. The agreement is the share of
    pairs for which both ways round give the same answer.

    Args:
        readings: which sense is meant in each item, and what it means, as far as it is known.

    Raises:
        UserError: the model cannot be asked, cannot see what it must, or choix is not installed.
    """
    check_extra("rankers", "The ranker pairwise", "choix")
    tracks = tracks_shown(summarise_set(items), llm, settings.track)

    def ask(turn: tuple[int, tuple[Candidate, Candidate]]) -> Answer:
        number, pair = turn
        reading = readings[number]
        names = (pair[0].name, pair[1].name)
        parts = show(
            prompts,
            "pairwise",
            items[number],
            pair,
            tracks,
            settings.image_side,
            sense=reading.sense.label,
            meaning=reading.meant,
        )
        question = Question(
            parts,
            temperature=0.0,
            max_tokens=150,
            seed=settings.seed,
            schema=SCHEMA,
            purpose="ranking",
        )
        return ask_twice(llm, question, partial(read_better, names=names), names, items[number])

    turns = [
        (number, pair)
        for number, item in enumerate(items)
        for pair in permutations(sorted(item.candidates, key=lambda candidate: candidate.name), 2)
    ]
    by_item = ask_by_item(ask, turns, items, llm, "Comparing candidates in pairs")
    return [_judged(item, llm, answers) for item, answers in zip(items, by_item, strict=True)]


def _judged(item: Item, llm: ChatModel, answers: tuple[Answer, ...]) -> Judgement:
    at = {candidate.name: k for k, candidate in enumerate(item.candidates)}
    wins = np.zeros((len(at), len(at)))
    winners: dict[frozenset[str], list[tuple[str, ...]]] = {}
    for answer in answers:
        if answer.unread is not None:
            continue
        first, second = answer.order or answer.shown
        wins[at[first], at[second]] += 1 if answer.order else 0.5
        wins[at[second], at[first]] += 0 if answer.order else 0.5
        winners.setdefault(frozenset(answer.shown), []).append(answer.order)
    both = [pair[0] == pair[1] for pair in winners.values() if len(pair) == 2]
    scores = tuple(bradley_terry(wins).tolist())
    return Judgement("pairwise", llm.name, scores, answers, float(np.mean(both)) if both else None)


def read_better(reply: str, names: tuple[str, str]) -> Answer | None:
    """Return which of two candidates a reply finds better; None if it cannot be read."""
    comparison = Comparison.read(reply, "better")
    if comparison is None:
        return None
    orders: dict[str, tuple[str, ...]] = {"A": names, "B": names[::-1], "equal": ()}
    order = orders[comparison.better]
    explained = order and comparison.reason
    reasons = {order[0]: {"reason": comparison.reason}} if explained else {}
    return Answer(names, order, reasons=reasons)
