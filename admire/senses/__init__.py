"""Detectors of idiomatic use: linear heads on frozen features, and fine-tuned encoders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from admire.senses.light import BUILT_IN, Detector, read_detector

__all__ = ["BUILT_IN", "Detector", "load_detector", "open_detector"]

if TYPE_CHECKING:
    from admire.senses.classifier import Classifier


def load_detector(path: Path = BUILT_IN) -> Detector | Classifier:
    """The detector that ships with admire, or one of a user's own.

    A file is what ``admire detector`` wrote, a folder what ``admire finetune detector`` wrote.

    Raises:
        UserError: the file or folder cannot be read or is no detector, or an extra is missing.
    """
    if path.is_dir():
        from admire.senses.classifier import open_classifier

        return open_classifier(path)
    return read_detector(path)


open_detector = load_detector
