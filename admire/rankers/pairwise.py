"""Pairwise: a chat model compares all pairs of candidates, in both orders."""

from __future__ import annotations

from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator

from admire.core.errors import check_extra
from admire.core.registry import register
from admire.data.items import Item
from admire.llm.chat import Capabilities, Question
from admire.llm.conversation import Conversation
from admire.rankers.aggregate import bradley_terry
from admire.rankers.judgement import Answer, Judgement, on_one_line
from admire.rankers.presentation import Line, StructuredReply, ask_for_answers, show
from admire.rankers.ranker import Ranker
from admire.rankers.settings import SetSummary
from admire.senses.interpretation import Interpretation


class Comparison(StructuredReply):
    """What a chat model replies about two candidates."""

    reason: Line = ""
    better: Annotated[Literal["A", "B", "equal"], BeforeValidator(on_one_line)]


SCHEMA = Comparison.strict_schema()


@register("ranker", "pairwise", needs=("key",), citation="Bradley and Terry 1952")
class Pairwise(Ranker):
    """All pairs of candidates, in both orders.

    The score is the strength of the model of Bradley and Terry (:func:`bradley_terry`). A tie is
    half a win for both; an answer that cannot be parsed does not count. The agreement is the share
    of pairs with the same answer in both orders.
    """

    task = "Comparing candidates in pairs"

    def check(self, summary: SetSummary, llm: Capabilities) -> None:
        check_extra("rankers", "The ranker pairwise", "choix")

    def scores(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        questions = [
            Question(
                show(
                    *(self.prompts, "pairwise", item, pair, self.tracks, self.settings.image_side),
                    sense=reading and reading.sense.label,
                    meaning=reading and reading.meant,
                ),
                max_tokens=150,
                seed=self.settings.seed,
                schema=SCHEMA,
                shown=(pair[0].name, pair[1].name),
            )
            for pair in permutations(sorted(item.candidates, key=lambda c: c.name), 2)
        ]
        answers = yield from ask_for_answers(questions, read_better, item)
        at = {name: k for k, name in enumerate(item.names)}
        wins = np.zeros((len(at), len(at)))
        winners: dict[frozenset[str], list[tuple[str, ...]]] = {}
        for answer in answers:
            if answer.unread is None:
                first, second = answer.order or answer.shown
                wins[at[first], at[second]] += 1 if answer.order else 0.5
                wins[at[second], at[first]] += 0 if answer.order else 0.5
                winners.setdefault(frozenset(answer.shown), []).append(answer.order)
        both = [pair[0] == pair[1] for pair in winners.values() if len(pair) == 2]
        agreed = float(np.mean(both)) if both else None
        strengths = tuple(bradley_terry(wins).tolist())
        return Judgement(self.name, "", strengths, answers, agreed)


def read_better(question: Question, reply: str) -> Answer | None:
    """Return which of two candidates is better by a reply; None if it cannot be parsed."""
    comparison = Comparison.read(reply, "better")
    if comparison is None:
        return None
    names = question.shown
    orders: dict[str, tuple[str, ...]] = {"A": names, "B": names[::-1], "equal": ()}
    order = orders[comparison.better]
    explained = order and comparison.reason
    reasons = {order[0]: {"reason": comparison.reason}} if explained else {}
    return Answer(names, order, reasons=reasons)
