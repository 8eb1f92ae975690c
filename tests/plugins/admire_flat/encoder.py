"""An encoder that counts letters."""

from collections.abc import Sequence

import numpy as np

from admire.core.registry import register
from admire.encoders import Role, TextEncoder, Vectors


@register("encoder", "letters", languages="those with Latin letters")
class Letters(TextEncoder):
    """Counts the letters of a text."""

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        letters = "abcdefghijklmnopqrstuvwxyz"
        counts = [[1 + text.casefold().count(letter) for letter in letters] for text in texts]
        vectors = np.array(counts, dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
