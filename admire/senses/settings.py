"""Settings of senses and meanings, and what detectors read."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from admire.core.choices import Meanings
from admire.core.options import DecidedBy, Dictionaries, Option
from admire.core.schema import Count, settings
from admire.data.items import Item

Setting = Literal["zero_shot", "one_shot"]
"""Task 2A's settings: whether the MWEs of the evaluation were unseen in training, or seen once."""

Layers = Literal["last", "all"]  #: the hidden layers whose first states a classifier uses


class Use(NamedTuple):
    """A compound in a sentence, with the sentences before and after it: a row of Task 2A."""

    item: Item
    previous: str = ""
    following: str = ""
    id: str = ""


def context_columns(setting: Setting) -> tuple[str, ...]:
    """Return the columns that a classifier reads in addition to the sentence and the MWE."""
    return ("Previous", "Next") if setting == "zero_shot" else ()


@settings(frozen=True)
class SenseSettings:
    """How senses are decided, and which meanings are requested."""

    sense: DecidedBy = "auto"
    votes: Annotated[Count, Option("Senses and meanings")] = 5
    """Votes per chat model (T in the paper)."""
    vote_temperature: Annotated[float, Field(ge=0, le=2), Option("Senses and meanings")] = 0.7
    """Sampling temperature for votes, from 0 to 2."""
    abstain_below: Annotated[
        Annotated[float, Field(gt=0.5, le=1)] | None, Option("Senses and meanings")
    ] = None
    """Mark items as unsure if the confidence of their sense is below this, from 0.5 to 1; they are
    still ranked."""
    meanings: Annotated[Meanings, Option("Senses and meanings")] = "auto"
    """What each chat model writes: definitions and a scene for the intended sense, or for both
    senses (auto: both; for the embedded model, only idiomatic uses), or one gloss of the idiom (as
    in the paper)."""
    gloss_tokens: Annotated[Count, Option("Senses and meanings")] = 60
    """Maximum tokens of the gloss for --meanings gloss."""
    dictionaries: Dictionaries = ("wordnet",)
