"""What an idiomatic compound means: one gloss for each chat model (UoR-NCL section 2.1)."""

from __future__ import annotations

import re

from admire.items import Item, base_language
from admire.llm import ChatModel
from admire.prompts import Prompts

GLOSS_TOKENS = 60
ATTEMPTS = 3
"""How often a model is asked again, with another seed, when its reply holds no gloss."""


def gloss(item: Item, llm: ChatModel, prompts: Prompts, *, seed: int = 0) -> str | None:
    """The compound's idiomatic meaning in the model's words, None where it gave none.

    The first reply is the model's likeliest one; an empty reply, a refusal or the bare compound is
    asked for again at temperature 1.

    Raises:
        UserError: the model cannot be asked.
    """
    prompt = prompts.render(
        "gloss", base_language(item.language), compound=item.compound, sentence=item.sentence
    )
    for attempt in range(ATTEMPTS):
        reply = llm.ask(
            prompt,
            temperature=0.0 if attempt == 0 else 1.0,
            max_tokens=GLOSS_TOKENS,
            seed=seed + attempt,
        )
        text = clean_gloss(reply, item.compound)
        if text:
            return text
    return None


def clean_gloss(reply: str, compound: str) -> str | None:
    """The definition alone, without markup and without an opening like 'A pipe dream is'.

    The compound's own words in the query would draw it to literal pictures, which is what the
    gloss is there to prevent. Returns None where no definition is left.
    """
    lines = [re.sub(r"[*_`#]+", "", line).strip() for line in reply.splitlines()]
    text = next((line for line in lines if line and not line.endswith(":")), "")
    name = rf"[\"'“”‘’«»]*{re.escape(compound)}[\"'“”‘’«»]*"
    opening = (
        rf"^(?:definition|meaning|definição|significado)?\s*:?\s*"
        rf"(?:(?:an?|the|um|uma|o|a)\s+)?"
        rf"(?:(?:idiom|phrase|expression|term|compound|expressão|termo)(?:\s+idiomática)?\s+)?"
        rf"{name}\s*"
        rf"(?::|-|–|—|,|means|is|are|refers to|describes|significa|é|refere-se a)\s*"
        rf"(?:(?:used to describe|that|que)\s+)?"
    )
    text = re.sub(opening, "", text, flags=re.IGNORECASE).strip(" \t\"'“”‘’«»")
    if not re.search(r"\w", text) or text.rstrip(".").casefold() == compound.casefold():
        return None
    if re.match(r"(?i)(i'm sorry|i am sorry|sorry|i cannot|i can't|as an ai|desculpe)", text):
        return None
    return text
