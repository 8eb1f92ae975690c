"""What an idiomatic compound means: one gloss for each chat model (UoR-NCL section 2.1)."""

from __future__ import annotations

import re

from admire.items import Item
from admire.llm import ChatModel
from admire.prompts import Prompts

GLOSS_TOKENS = 60
ATTEMPTS = 3
"""How often a model is asked, each time with another seed, until a reply holds a gloss."""


def gloss(item: Item, llm: ChatModel, prompts: Prompts, *, seed: int = 0) -> str | None:
    """The compound's idiomatic meaning in the model's words, or None if it gave none.

    The model is first asked for its likeliest reply. If that is empty, a refusal or the bare
    compound, it is asked again at temperature 1.

    Raises:
        UserError: the model cannot be asked.
    """
    prompt = prompts.about(item, "gloss")
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
    gloss is there to prevent. Returns None if no definition is left.
    """
    for line in reply.splitlines():
        text = re.sub(r"[*_`#\"“”«»]+", "", line).strip()  # markup and double quotes
        if text.endswith(":"):
            continue
        text = _without_opening(text, compound)
        if re.search(r"\w", text) and text.strip(" .").casefold() != compound.casefold():
            return None if _REFUSAL.match(text) else text
    return None


_QUOTES = "'‘’"
_REFUSAL = re.compile(
    r"(?:i['’]m sorry|i am sorry|sorry[,.!]|i cannot|i can['’]t|as an ai|desculpe)", re.IGNORECASE
)


def _without_opening(text: str, compound: str) -> str:
    """The text without what leads up to the definition; empty if it is the compound alone."""
    text = re.sub(r"(?i)^(?:definition|meaning|definição|significado)\s*:\s*", "", text)
    opening = (
        rf"^(?:(?:an?|the|um|uma|o|a)\s+)?"
        rf"(?:(?:idiomatic\s+)?(?:idiom|phrase|expression|term|compound|expressão|termo)"
        rf"(?:\s+idiomática)?\s+)?"
        rf"[{_QUOTES}]*{re.escape(compound)}[{_QUOTES}]*\s*"
        rf"(?:[.\s]*$|[:–—,-]|(?:means|is|are|refers to|describes|significa|é|refere-se a)"
        rf"(?!['’\w]):?)\s*"
        rf"(?:(?:used to describe|usad[oa] para descrever|that|que)\s+)?"
    )
    return re.sub(opening, "", text, flags=re.IGNORECASE).strip(f" \t{_QUOTES}")
