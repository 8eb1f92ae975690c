"""Questions that show what a server does without a word: cut questions off, or hide pictures."""

from __future__ import annotations

import hashlib
import logging
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

from admire.core.errors import UserError
from admire.llm.bound_model import BoundModel
from admire.llm.chat import SEEING, Conversation, Image, Question, Reply, Usage

log = logging.getLogger("admire")

NUMBER = "582"
DIGITS = Question(
    (
        "Which number is in this picture? Reply with its digits and nothing else.",
        Image(Path(__file__).with_name("digits.png")),
    ),
    purpose="ranking",
)
"""A question that only a model with eyes can answer."""


def prove_eyes(model: BoundModel) -> Conversation[None]:
    """Ask a model for the number in a picture, and refuse it if the reply has another.

    Servers also pass pictures to models without eyes, and these answer all the same
    (https://github.com/huggingface/text-generation-inference/issues/2565).
    """
    (reply,) = yield [DIGITS]
    text = re.sub(r"\b3[ -]?digits?\b", "", unicodedata.normalize("NFKC", reply.text))
    numbers = re.findall(r"\d+", text)
    if NUMBER not in (*numbers, "".join(numbers)) and not model.imagines:
        model.evict(DIGITS)
        raise UserError(
            f"{model.name} does not see pictures: asked for the number {NUMBER} in one, it "
            f"replied “{reply.text.strip()[:80]}”. {SEEING}",
            *("track", "llms"),
        )
    model.sees = True


def measure_cuts(
    model: BoundModel, question: Question, lost: tuple[int, int]
) -> Conversation[None]:
    """Find out whether a server cut a question off that has :func:`lost_words`.

    Its counts mean nothing if that of one word is as high. They may also be of what it had not
    cached. So a copy is asked that nothing can have cached, because it begins in another way.
    """
    model.cuts = True  # so that these are not measured in turn
    word = replace(question, parts="Hello", task="")
    (reply,) = yield [word]
    model.evict(word)
    if (reply.usage or Usage()).prompt >= lost[0]:
        model.cuts = False
        return
    parts = (question.parts,) if isinstance(question.parts, str) else question.parts
    digest = hashlib.sha256(question.text.encode(errors="replace")).hexdigest()
    copy = replace(question, parts=(f"({digest})", *parts), task="")
    (reply,) = yield [copy]
    model.evict(copy)
    model.cuts = bool(lost_words(copy, reply))
    if model.cuts:
        log.warning(
            "%s cuts questions off: it counts %d tokens in one of %d words, so its replies "
            "are about a part of what was asked. Give the server more context "
            "(OLLAMA_CONTEXT_LENGTH=16384, llama-server -c 16384) and run this again. "
            "These replies are not cached.",
            model.name,
            *lost,
        )


def lost_words(question: Question, reply: Reply) -> tuple[int, int] | None:
    """Return the tokens that a server counts in a question, and the question's words if these are
    more than the tokens can be; None if they fit, or the server counts nothing.

    Some tokenizers join words: three tokens for four of them. Some servers count cached tokens
    apart.
    """
    usage, words = reply.usage or Usage(), len(question.text.split())
    tokens = usage.prompt - usage.images + usage.cached
    return (tokens, words) if usage.prompt and tokens < 0.75 * words else None
