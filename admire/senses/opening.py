"""Opens detectors of idiomatic use by name."""

from __future__ import annotations

from pathlib import Path

from admire.core import registry
from admire.senses.detector import Detector


def open_detector(name: str | Path | None = None) -> Detector:
    """Open a detector.

    Args:
        name: a file of ``admire train detector``, a folder of ``admire train classifier``, or the
            name of a plug-in; None opens the built-in one.

    Raises:
        UserError: the file or folder contains no valid detector, or an extra is missing.
    """
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
