"""Which sense is meant: idiomatic or literal, by a majority of votes (UoR-NCL section 2.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from admire.errors import UserError
from admire.items import Item, SenseLabel
from admire.llm import ChatModel
from admire.prompts import Prompts

VOTE_TEMPERATURE = 0.7
VOTE_TOKENS = 40


@dataclass(frozen=True)
class Sense:
    """A decision and what it rests on.

    ``label`` is None where no vote could be read. ``probability`` is that of the idiomatic sense,
    in [0, 1]: the share of the votes that could be read, or the mean of the detector's heads.
    """

    label: SenseLabel | None
    probability: float
    idiomatic: int = 0
    literal: int = 0
    unparsed: int = 0

    @property
    def confidence(self) -> float:
        """How sure the decision is, from 0.5 to 1."""
        return max(self.probability, 1 - self.probability)


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """The sense with more votes, None where there are none.

    A tie is literal: language models are known to call literal uses idiomatic, hardly ever the
    other way.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


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


def given(item: Item) -> Sense:
    """The sense that the data says, as one vote.

    Raises:
        UserError: the data does not say.
    """
    if item.sentence_type is None:
        raise UserError(f"'{item.compound}': no sentence_type is given. Use another --sense.")
    idiomatic = int(item.sentence_type == "idiomatic")
    return Sense(item.sentence_type, float(idiomatic), idiomatic, 1 - idiomatic)


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
