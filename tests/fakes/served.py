"""A run against the strict server: its items, what the server answers, and its record."""

from typing import Any

from strict_server import Body, prompt_of
from toys import IDIOMATIC, LITERAL, OWL, WordEncoder

from admire import Item, RequestOptions, Settings, rank

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep")
ITEMS = [
    Item(compound, f"A {compound} again.", candidates=OWL.candidates) for compound in COMPOUNDS
]
CALLS = 7 * len(ITEMS)  #: five votes, and what each sense means
SETTINGS = Settings(llms=("openai:gpt-4o",))


def answer(body: Body) -> str:
    prompt = prompt_of(body)
    if "or literally" in prompt:
        return "Idiomatic"
    return IDIOMATIC if "idiom of the sentence" in prompt else LITERAL


def ranked(**asking: Any) -> dict[str, Any]:
    """The record of a run."""
    return rank(ITEMS, SETTINGS, asking=RequestOptions(**asking), encoder=WordEncoder()).record


def sums(record: dict[str, Any], name: str) -> list[Any]:
    """One of the sums, by stage and model."""
    return [one[name] for one in record["asked"]]
