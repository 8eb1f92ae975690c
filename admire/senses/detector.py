"""What every detector of idiomatic use has in common, and how one is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from admire.senses.sense import Sense
    from admire.senses.uses import Setting, Use

BUILT_IN = Path(__file__).parent / "detector.json"
"""The light detector that comes with admire."""


class Detector(Protocol):
    """Decides whether a compound is used idiomatically in a sentence, without a chat model.

    There are two: :class:`admire.senses.LightDetector` and :class:`admire.senses.Classifier`.
    """

    @property
    def identity(self) -> str:
        """SHA-256 of the file or folder that was opened, taken when it was read."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a Task 2A file that it reads besides the sentence and the compound."""
        ...

    @property
    def setting(self) -> Setting | None:
        """The setting of Task 2A that it was trained for; None if it suits both."""
        ...

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        """The sense of each use, in their order.

        Raises:
            UserError: the model that it runs on cannot be used.
        """
        ...


def open_detector(path: str | Path | None = None, *, keep_loaded: bool = False) -> Detector:
    """Open a detector.

    Args:
        path: a file of ``admire train detector`` or a folder of ``admire train classifier``; None
            opens the one that comes with admire.
        keep_loaded: keep the light detector's encoder, which may take a gigabyte, in memory between
            calls; a classifier always stays there.

    Raises:
        UserError: the file or folder cannot be read or holds no detector, or an extra is missing.
    """
    path = Path(path or BUILT_IN)
    if path.is_dir():
        from admire.senses.classifier import open_classifier

        return open_classifier(path)
    from admire.senses.light import open_light_detector

    return open_light_detector(path, keep_loaded=keep_loaded)
