"""Which sense is meant: idiomatic or literal, by a majority of votes (UoR-NCL section 2.1)."""

from __future__ import annotations

import re

from admire.items import Item, SenseLabel
from admire.llm import ChatModel
from admire.prompts import Prompts
from admire.senses.sense import Sense, majority

VOTE_TEMPERATURE = 0.7
VOTE_TOKENS = 40


def vote(item: Item, llm: ChatModel, prompts: Prompts, *, votes: int, seed: int = 0) -> Sense:
    """Ask ``votes`` times (the paper's T, 5 there) and follow the majority.

    Replies that name neither sense, or both, are counted as unparsed and take no side.

    Raises:
        UserError: the model cannot be asked.
    """
    prompt = prompts.about(item, "sense")
    replies = [
        llm.ask(prompt, temperature=VOTE_TEMPERATURE, max_tokens=VOTE_TOKENS, seed=seed + turn)
        for turn in range(votes)
    ]
    labels = [read_label(reply) for reply in replies]
    idiomatic, literal = labels.count("idiomatic"), labels.count("literal")
    read = idiomatic + literal
    probability = idiomatic / read if read else 0.5
    return Sense(majority(idiomatic, literal), probability, idiomatic, literal, votes - read)


_LABEL = re.compile(
    r"(?P<negated>(?:\b(?:not|non|never|cannot|não|nem)|n['’]t)[\s-]+"
    r"(?:(?:used|being|be|read|an?|é|ser|foi|está|usad[oa]|sendo|uma?|expressão|sentido|uso)\s+)*)?"
    r"\b(?:(?P<idiomatic>idiom\w*|figurativ\w*|figurad\w*)|(?P<literal>litera[li]\w*))",
    re.IGNORECASE,
)


def read_label(reply: str) -> SenseLabel | None:
    """The one sense that a reply names; None where it names none or both.

    A negated sense ("not literal") is not named. Where the whole reply names both, the first line
    decides if it is the answer alone, or else the last line or the first that names one alone.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    answer = [line for line in lines[:1] if len(re.findall(r"\w+", line)) <= 2]
    for part in (reply, *answer, *lines[-1:], *lines[:1]):
        named: set[SenseLabel] = {
            "idiomatic" if match["idiomatic"] else "literal"
            for match in _LABEL.finditer(part)
            if not match["negated"]
        }
        if len(named) == 1:
            return named.pop()
    return None
