"""A command in a process of its own, which kills itself when it has changed so much on the disk.

``python killed.py FOLDER CHANGES TOYS ARGUMENTS…``: files opened to be written, folders made,
things renamed or removed below FOLDER are counted; 0 CHANGES kills nothing and prints their number.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Any

EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

folder, moment = sys.argv[1], int(sys.argv[2])
seen = 0


def count(event: str, arguments: tuple[Any, ...]) -> None:
    global seen
    if event in EVENTS and str(arguments[0]).startswith(folder):
        seen += event != "open" or bool(arguments[2] & WRITING)
        if seen == moment:
            os.kill(os.getpid(), signal.SIGKILL)


def words() -> None:
    """The encoder is a bag of words, blocks have two items."""
    from toys import PictureEncoder, open_words

    import admire.encoders.families as families
    from admire.encoders.cached import CachedEncoder

    def open_encoder(name: str, **_: Any) -> Any:
        if name == "minilm":
            return open_words(name)
        encoder = CachedEncoder(PictureEncoder())  # type: ignore[arg-type]
        encoder.encode_images = encoder.encoder.encode_images  # type: ignore[method-assign]
        return encoder

    families.open_encoder = open_encoder  # type: ignore[assignment]  # before others take it
    import admire.pipeline.ranking

    admire.pipeline.ranking.BLOCK = 2


def encoders() -> None:
    """Sentence encoders are trained; their model cards take too long to make."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer._create_model_card = lambda *_, **__: None  # type: ignore[method-assign]


if __name__ == "__main__":
    {"words": words, "encoders": encoders}[sys.argv[3]]()
    from admire.apps.cli import main

    sys.addaudithook(count)
    if not moment:
        atexit.register(lambda: print(f"changes: {seen}"))
    main(sys.argv[4:])
