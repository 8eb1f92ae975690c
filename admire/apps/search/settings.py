"""Settings of a search in a collection."""

from __future__ import annotations

from typing import Annotated

from admire.core.choices import QueryText, TextRole
from admire.core.options import Option
from admire.core.schema import Count, Weight, settings
from admire.tasks.retrieval.settings import QuerySettings


@settings(frozen=True, kw_only=True)
class SearchSettings(QuerySettings):
    """Settings of a search in a collection."""

    encoder: Annotated[str | None, Option("Models", completes="encoder")] = None
    """Encoder of texts, e5 or sbert:… (default: the index's; e5 for a file of texts)."""
    query: Annotated[QueryText, Option("Scoring")] = "meaning"
    """Text to search for: the meaning, as in rank; compound and sentence are plain cosine."""
    top: Annotated[Count, Option("Data and output")] = 10
    """Pictures or texts to find."""
    texts: Annotated[tuple[TextRole, ...] | None, Option("Scoring")] = None
    """Texts that count, with commas, as for rank (default: all for pictures, gloss and compound
    for texts)."""
    image_weight: Annotated[Weight | None, Option("Scoring")] = None
    """Weight of pictures (default: 1, but less with captions if the encoder is sight)."""
    caption_weight: Annotated[Weight | None, Option("Scoring")] = None
    """Weight of captions (default: 1)."""
