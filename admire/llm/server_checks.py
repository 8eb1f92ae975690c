"""What a server does without a word: it cuts questions off, or shows a model no pictures."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from admire.core.errors import UserError
from admire.llm.chat import SEEING, ChatModel, Image, Question, Reply, Usage

NUMBER = "582"
DIGITS = Question(
    (
        "Which number is in this picture? Reply with its digits and nothing else.",
        Image(Path(__file__).with_name("digits.png")),
    ),
    purpose="ranking",
    about="a picture of a number",
)
"""A question that only a model with eyes can answer."""


def check_sight(llm: ChatModel) -> None:
    """Ask a model for the number in a picture, before it is asked about the data's pictures.

    Servers hand pictures to models without eyes, too, and these answer all the same
    (https://github.com/huggingface/text-generation-inference/issues/2565).

    Raises:
        UserError: the reply has another number, or none.
    """
    reply = llm.ask(DIGITS)
    if re.sub(r"\D", "", reply.text) != NUMBER and not getattr(llm, "imagines", False):
        raise UserError(
            f"{llm.name} does not see pictures: asked for the number {NUMBER} in one, it replied "
            f"“{reply.text.strip()[:80]}”. {SEEING}",
            *("track", "llms"),
        )


def lost_words(question: Question, reply: Reply) -> bool:
    """Return whether a server counts fewer tokens than the question can have.

    Words have a token or more each, with the few tokenizers that join words three for four of them.
    Nothing is said of servers that count nothing.
    """
    usage = reply.usage
    if not (usage and usage.prompt):
        return False
    return text_tokens(usage) < 0.75 * count_words(question)


def text_tokens(usage: Usage) -> int:
    """Return how many tokens a question's text has at most; some servers count the cached apart."""
    return usage.prompt - usage.images + usage.cached


def count_words(question: Question) -> int:
    """Return how many words a question has."""
    return sum(len(text.split()) for text in question.texts)


def with_another_beginning(question: Question) -> Question:
    """Return the question as no server can have cached it.

    Some servers count only what they had not cached. They count all of this one.
    """
    parts = (question.parts,) if isinstance(question.parts, str) else question.parts
    digest = hashlib.sha256(question.text.encode(errors="replace")).hexdigest()
    return replace(question, parts=(f"({digest})", *parts))
