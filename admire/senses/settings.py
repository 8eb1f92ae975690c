"""Settings of senses and meanings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from admire.core.choices import Meanings
from admire.core.options import DecidedBy, Dictionaries, Option
from admire.core.schema import Count, settings


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
