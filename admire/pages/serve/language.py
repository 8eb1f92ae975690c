"""Detects the language of a text."""

from __future__ import annotations

from functools import cache
from typing import Any

from admire.data.languages import LANGUAGES, base_language

OWN_SCRIPTS = "am ar bn fa gu he hy km kn lo ml or pa si ta te th ur"
"""Further languages, whose scripts none of :data:`LANGUAGES` has."""


def language_of(text: str) -> str | None:
    """Return the language of a text; None if it cannot be detected.

    It is one of :data:`LANGUAGES` or :data:`OWN_SCRIPTS`.
    """
    code, probability = _identifier().classify(text)
    return base_language(code) if probability >= 0.5 else None


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages({*LANGUAGES, *OWN_SCRIPTS.split()} & set(identifier.nb_classes))
    return identifier
