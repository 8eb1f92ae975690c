"""The language of a text, where nobody says it."""

from __future__ import annotations

from functools import cache
from typing import Any

from admire.data.languages import LANGUAGES, base_language


def language_of(text: str) -> str | None:
    """Return the language of a text, one of :data:`LANGUAGES`; None where it cannot be told."""
    code, probability = _identifier().classify(text)
    return base_language(code) if probability >= 0.5 else None


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(set(LANGUAGES) & set(identifier.nb_classes))
    return identifier
