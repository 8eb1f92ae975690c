"""The plug-in that opens classifiers; it imports torch when one is opened."""

from __future__ import annotations

from pathlib import Path

from admire.core import registry
from admire.senses.detector import Detector


@registry.register("detector", "classifier", takes="FOLDER", needs=("clip",))
def open_folder(folder: str) -> Detector:
    """A fine-tuned encoder with a head, from a folder of admire train classifier."""
    from admire.senses.classifier import open_classifier

    return open_classifier(Path(folder))
