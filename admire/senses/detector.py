"""Detectors of idiomatic use: opened by name, their input, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from admire.core import registry
from admire.data.languages import base_language, language_name
from admire.senses.settings import Setting, Use

if TYPE_CHECKING:
    from admire.senses.sense import Sense

OTHER_LANGUAGES = "other languages"
"""The key of a card's figures, by language, for languages that a detector was not trained on."""


class Detector(Protocol):
    """Decides whether a compound is used idiomatically in a sentence, without a chat model."""

    @property
    def identity(self) -> str:
        """The SHA-256 of the file or folder at the time it was read."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a Task 2A file that it reads besides the sentence and the compound."""

    @property
    def setting(self) -> Setting | None:
        """The setting of Task 2A that it was trained for; None if both."""

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        """Return the sense of each use, in their order; raise a UserError if the model fails."""


def trained_languages(detector: object) -> tuple[str, ...]:
    """Return the codes of the languages in a detector's training; none if its card has none."""
    tags = getattr(detector, "card", {}).get("languages", ())
    return tuple(sorted({*map(base_language, tags)}))


def describe_untrained(detector: object, tags: Sequence[str], guessed: str = "") -> str:
    """Return a warning about languages that a detector was not trained on; empty if there are none.

    Its card may list, by language, the ``accuracy`` on sentences of ``other languages``. The text
    ``guessed`` follows the languages.
    """
    trained = trained_languages(detector)
    if not trained or {*trained}.issuperset(map(base_language, tags)):
        return ""
    reliability = "its senses are less reliable"
    if measured := getattr(detector, "card", {}).get(OTHER_LANGUAGES, {}):
        shares = [figures["accuracy"] for figures in measured.values()]
        reliability = (
            f"expect {min(shares):.2f} to {max(shares):.2f} of its senses to be right, as in "
            f"{list_languages(sorted(measured, key=language_name))}"
        )
    untrained = list_languages(tag for tag in tags if base_language(tag) not in trained)
    only = f"only on {list_languages(trained)}"
    return f"The detector was not trained on {untrained}{guessed}, {only}: {reliability}."


def list_languages(tags: Iterable[str]) -> str:
    """Return the names of some languages, at least one: ``Turkish, Uzbek and Chinese``."""
    *names, last = dict.fromkeys(map(language_name, tags))
    return f"{', '.join(names)} and {last}" if names else last


def open_detector(name: str | Path | None = None) -> Detector:
    """Open a file of ``admire train detector``, a folder of ``admire train classifier``, a plug-in,
    or the built-in detector (None)."""
    if name is None:
        name = "embedded"
    elif Path(name).exists() or str(name).partition(":")[0] not in registry.names("detector"):
        name = f"{'classifier' if Path(name).is_dir() else 'light'}:{name}"
    plugin, source = registry.resolve("detector", str(name))
    detector: Detector = plugin.open(source)
    return detector


@registry.register("detector", "classifier", takes="FOLDER", needs=("clip",))
def open_folder(folder: str) -> Detector:
    """A fine-tuned encoder with a head, from a folder of admire train classifier."""
    from admire.senses.classifier import open_classifier

    return open_classifier(Path(folder))
