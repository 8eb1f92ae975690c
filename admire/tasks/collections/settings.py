"""How a collection is searched."""

from __future__ import annotations

from typing import Annotated

from admire.base.choices import QueryText, TextRole
from admire.base.options import Option
from admire.base.schema import Count, Weight, settings
from admire.tasks.retrieval.settings import QuerySettings


@settings(frozen=True, kw_only=True)
class SearchSettings(QuerySettings):
    """How a collection is searched."""

    encoder: Annotated[str | None, Option("Models", completes="encoder")] = None
    """Encoder of texts, e5 or sbert:…; else the index's, or e5 for a file of texts."""
    query: Annotated[QueryText, Option("Scoring")] = "meaning"
    """Text to search for: the meaning, as in rank; compound and sentence are plain cosine."""
    top: Annotated[Count, Option("Data and output")] = 10
    """Pictures or texts to find."""
    texts: Annotated[tuple[TextRole, ...] | None, Option("Scoring")] = None
    """Texts that count, with commas, as for rank; else all of them for pictures, and gloss and
    compound for texts."""
    image_weight: Annotated[Weight | None, Option("Scoring")] = None
    """Weight of pictures; else 1, but less for those that sight sees beside captions."""
    caption_weight: Annotated[Weight | None, Option("Scoring")] = None
    """Weight of captions; else 1."""
