"""Windows of texts that are longer than an encoder reads, and how they are compared."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from admire.encoders.protocols import Vectors

Cosines = npt.NDArray[np.float64]

CHARACTERS = 16  #: how many characters a window has at most for each token that an encoder reads


class Windows(NamedTuple):
    """The unit vectors of texts or pictures: one each, or several of a long text."""

    vectors: Vectors  #: shape (windows, width)
    starts: npt.NDArray[np.int64]  #: where the windows of each text begin, shape (texts,)

    @classmethod
    def of(cls, vectors: Vectors, counts: Iterable[int] | None = None) -> Self:
        """Return vectors as windows, so many of each text; of None one each."""
        each = np.ones(len(vectors), np.int64) if counts is None else np.array([*counts], np.int64)
        return cls(vectors, each.cumsum() - each)

    @classmethod
    def joined(cls, texts: Sequence[Vectors]) -> Self:
        """Return the windows of several texts, each of shape (windows, width)."""
        return cls.of(np.concatenate(texts), map(len, texts))

    @property
    def each(self) -> list[Vectors]:
        """The windows of each text, shape (windows, width)."""
        return np.split(self.vectors, self.starts)[1:]

    @property
    def first(self) -> Vectors:
        """The first window of each text, shape (texts, width)."""
        return self.vectors[self.starts]

    def map(self, change: Callable[[Vectors], Vectors]) -> Self:
        """Return windows with changed vectors, such as projected ones."""
        return self._replace(vectors=change(self.vectors)) if len(self.vectors) else self

    def best(self, cosines: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Reduce an axis of cosines to each text's best window (MaxP: Dai and Callan 2019)."""
        if len(self.starts) == len(self.vectors):
            return cosines
        return np.maximum.reduceat(cosines, self.starts, axis=axis)


def compare(queries: Windows, candidates: Windows) -> Cosines:
    """Return the cosines of queries and candidates, shape (queries, candidates).

    A text of several windows counts by the one that is most like the other text.
    """
    cosines = queries.vectors.astype(float) @ candidates.vectors.astype(float).T
    return queries.best(candidates.best(cosines, 1), 0)


def divide(text: str, count: Callable[[str], int], limit: int) -> list[int]:
    """Return where the windows of a text end, each with as many words as fit in ``limit`` tokens.

    There is one end if the whole text fits. What cannot be divided is left to the encoder.
    """
    ends: list[int] = []
    start, stop = 0, len(text.rstrip())
    while start < stop and count(text[start:stop]) > limit:
        last = min(stop, start + CHARACTERS * limit)
        fits = bisect_left(
            range(start + 1, last + 1), True, key=lambda end: count(text[start:end]) > limit
        )
        if not fits:
            break
        words = (space.end() for space in re.finditer(r"\s+", text[start : start + fits]))
        start += max((end for end in words if text[start : start + end].strip()), default=fits)
        ends.append(start)
    return [*ends, stop]
