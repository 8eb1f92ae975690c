"""The sense by a majority of a chat model's votes (UoR-NCL, section 2.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.llm.chat import Conversation, Question, Unusable, thinks_aloud
from admire.llm.conversation import FEW, unusable_model
from admire.prompts import Prompts
from admire.prompts.quotations import data_of, without_words
from admire.senses.sense import Sense, majority

VOTE_TOKENS = 40


def vote(
    item: Item, prompts: Prompts, *, votes: int, temperature: float, seed: int = 0
) -> Conversation[Sense]:
    """Ask several times for the sense of a compound; the majority decides.

    In Subtask B the model is asked which sense the captions of the sequence show. Replies that name
    neither sense, or both, count as unparsed. Each vote (T in the paper) has the next seed.
    """
    first = Question(
        prompts.about(item, "sequence-sense" if item.context == "sequence" else "sense"),
        temperature=temperature,
        max_tokens=VOTE_TOKENS,
        purpose="senses",
        about=item,
        task="Asking for the sense",
    )
    questions = [replace(first, seed=seed + k) for k in range(votes)]
    replies = yield questions
    labels = [read_label(reply.text, data_of(item), cut=reply.cut) for reply in replies]
    pairs = zip(questions, labels, strict=True)
    if lost := [question for question, label in pairs if label is None]:
        yield Unusable(lost, len(lost), refuse_votes)
    return count_votes(labels)


def refuse_votes(name: str, unparsed: Sequence[int]) -> UserError | None:
    """Return the error about a chat model none of whose votes could be parsed, if not too few."""
    if sum(unparsed) < FEW:
        return None
    return unusable_model(name, f"none of the {sum(unparsed)} votes could be parsed", "sense")


def count_votes(labels: Sequence[SenseLabel | None]) -> Sense:
    """Return the sense with the majority of the votes; None is a vote that could not be parsed."""
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


ANSWER, CUT = 30, 12
"""Maximum words of a line that is an answer, and of its first sentence if the reply was cut off.
Longer ones are thoughts."""
ANSWERED = 8  #: maximum words of an answer that begins like thoughts: "Okay, it is literal"


def read_label(reply: str, data: Collection[str] = (), *, cut: bool = False) -> SenseLabel | None:
    """Return the sense in a reply; None if there is none or both.

    A negated sense ("not literal") does not count. If the whole reply is not an answer that names
    a single sense, the first of these that is one counts: the first line if it has at most two
    words, the last line, the first line, its first sentence. The end of a reply that was ``cut``
    off is not an answer, and neither are quotations of the question's ``data``.
    """
    reply = without_words(reply, [text for text in data if _LABEL.search(text)])
    lines = [line for line in reply.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    sentence = re.split(r"(?<=[.!?:;])\s", first, maxsplit=1)[0]
    if cut:
        parts = [first, sentence] if len(lines) > 1 else [sentence]
    else:
        parts = [reply, *([first] if _words(first) <= 2 else []), *lines[-1:], first, sentence]
    for part in parts:
        labels: set[SenseLabel] = {
            "idiomatic" if match["idiomatic"] else "literal"
            for match in _LABEL.finditer(part)
            if not match["negated"]
        }
        most = ANSWERED if thinks_aloud(part) else CUT if cut else ANSWER
        if len(labels) == 1 and _words(part) <= most:
            return labels.pop()
    return None


def _words(text: str) -> int:
    return len(re.findall(r"\w+", text))
