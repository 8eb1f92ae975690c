"""The sense by a majority of a chat model's votes (UoR-NCL, section 2.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from admire.data.items import Item, SenseLabel
from admire.models.llm import ChatModel, Question, ask_each, forget
from admire.prompts import Prompts
from admire.prompts.quotations import data_of, without_words
from admire.senses.sense import Sense, majority

VOTE_TOKENS = 40


def vote(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    *,
    votes: int,
    temperature: float,
    seed: int = 0,
) -> list[Sense]:
    """Ask the chat model several times for the sense of each compound; the majority decides.

    In Subtask B the model is asked which sense the captions of the sequence show. Replies that name
    neither sense, or both, count as unparsed and for neither side.

    Args:
        votes: how often the model is asked (the paper's T, which is 5 there).
        temperature: at which votes are sampled; the paper does not say its own.
        seed: of the first vote; each further vote has the next number.

    Raises:
        UserError: the model cannot be asked.
    """

    def ask(ballot: tuple[Item, int]) -> SenseLabel | None:
        item, seed = ballot
        question = Question(
            prompts.about(item, "sequence-sense" if item.sequence else "sense"),
            temperature=temperature,
            max_tokens=VOTE_TOKENS,
            seed=seed,
            purpose="senses",
        )
        label = read_label(llm.ask(question).text, data_of(item))
        if label is None:
            forget(llm, question)
        return label

    ballots = [(item, seed + k) for item in items for k in range(votes)]
    labels = ask_each(
        ask, ballots, llm, "Asking for the sense", name_of=lambda ballot: ballot[0].compound
    )
    return [count_votes(labels[first : first + votes]) for first in range(0, len(labels), votes)]


def count_votes(labels: Sequence[SenseLabel | None]) -> Sense:
    """Return the sense with the majority of the votes; None is a vote that could not be read."""
    idiomatic, literal = labels.count("idiomatic"), labels.count("literal")
    readable = idiomatic + literal
    probability = idiomatic / readable if readable else 0.5
    unparsed = len(labels) - readable
    return Sense(majority(idiomatic, literal), probability, idiomatic, literal, unparsed)


_LABEL = re.compile(
    r"(?P<negated>(?:\b(?:not|non|never|cannot|não|nem)|n['’]t)[\s-]+"
    r"(?:(?:used|being|be|read|an?|é|ser|foi|está|usad[oa]|sendo|uma?|expressão|sentido|uso)\s+)*)?"
    r"\b(?:(?P<idiomatic>idiom\w*|figurativ\w*|figurad\w*)|(?P<literal>litera[li]\w*))",
    re.IGNORECASE,
)


def read_label(reply: str, data: Collection[str] = ()) -> SenseLabel | None:
    """Return the sense that a reply names; None if it names none or both.

    A negated sense ("not literal") does not count. If the whole reply names both, the first of
    these lines that names a single sense counts: the first line if it has at most two words, the
    last line, the first line.

    Args:
        data: texts of the question. Quotations from those that name a sense themselves do not
            count; see :mod:`admire.prompts.quotations`.
    """
    reply = without_words(reply, [text for text in data if _LABEL.search(text)])
    lines = [line for line in reply.splitlines() if line.strip()]
    answer = [line for line in lines[:1] if len(re.findall(r"\w+", line)) <= 2]
    for part in (reply, *answer, *lines[-1:], *lines[:1]):
        labels: set[SenseLabel] = {
            "idiomatic" if match["idiomatic"] else "literal"
            for match in _LABEL.finditer(part)
            if not match["negated"]
        }
        if len(labels) == 1:
            return labels.pop()
    return None
