"""Texts and their vectors, in memory or on disk, and exact search in them block by block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from admire.choices import ENGINES, EngineName, check_setting
from admire.encoders import TextEncoder, Vectors
from admire.errors import UserError
from admire.items import Candidate
from admire.storage import replace_folder, write_whole

BLOCK = 65_536
"""How many vectors are compared, or texts encoded, at once: 100 MB at 384 dimensions."""


@dataclass(frozen=True)
class Moments:
    """Mean and second moment of a collection's vectors, shapes (width,) and (width, width).

    They give the mean and the deviation of any query's cosines with the whole collection.
    """

    mean: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]

    def of(self, query: npt.ArrayLike) -> tuple[float, float]:
        """Mean and deviation of the query's cosines; the deviation is 1 if all are equal."""
        vector = np.asarray(query, dtype=float)
        mean = float(vector @ self.mean)
        variance = float(vector @ self.second @ vector) - mean**2
        return mean, variance**0.5 if variance > 1e-12 else 1.0


def moments(vectors: Vectors) -> Moments:
    """The moments of vectors, shape (n, width), computed block by block."""
    mean = np.zeros(vectors.shape[1])
    second = np.zeros((vectors.shape[1], vectors.shape[1]))
    for block in blocks(vectors):
        part = block.astype(float)
        mean += part.sum(axis=0)
        second += part.T @ part
    return Moments(mean / len(vectors), second / len(vectors))


def blocks(vectors: Vectors) -> Iterator[Vectors]:
    """The vectors block by block, so that they need not fit into memory together."""
    for start in range(0, len(vectors), BLOCK):
        yield np.asarray(vectors[start : start + BLOCK])


class Engine(Protocol):
    """Finds the vectors with the highest inner products, exactly or approximately."""

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Positions and inner products of the k best for a query of shape (width,), best first."""
        ...


@dataclass(frozen=True)
class Exact:
    """Compares every vector. Vectors on disk are read block by block, never all at once."""

    vectors: Vectors

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """See :class:`Engine`. Of equal products the first is taken."""
        places = np.zeros(0, dtype=np.int64)
        products = np.zeros(0, dtype=np.float32)
        for number, block in enumerate(blocks(self.vectors)):
            found = block @ query
            products = np.concatenate([products, found])
            places = np.concatenate([places, number * BLOCK + np.arange(len(found))])
            if len(products) > k:
                bound = np.partition(products, -k)[-k]
                kept = products >= bound
                products, places = products[kept], places[kept]
            order = np.lexsort((places, -products))[:k]
            products, places = products[order], places[order]
        return places, products


@dataclass(frozen=True)
class TextIndex:
    """A collection of texts that can be searched.

    Attributes:
        encoder: name and identity of the encoder of the texts.
        moments: of all vectors.
        engine: finds the best.
        size: how many texts there are.
        source: the texts, or the file that holds them.
    """

    encoder: Mapping[str, str]
    moments: Moments
    engine: Engine
    size: int
    source: Sequence[Candidate] | Path

    def texts(self, places: Sequence[int]) -> list[Candidate]:
        """The texts at these positions, with their ids."""
        if not isinstance(self.source, Path):
            return [self.source[place] for place in places]
        wanted = set(places)
        found = {}
        with self.source.open(encoding="utf-8") as file:
            for place, line in enumerate(file):
                if place in wanted:
                    row = json.loads(line)
                    found[place] = Candidate(row["id"], caption=row["text"])
        return [found[place] for place in places]

    def search(
        self, queries: Mapping[str, Vectors], weights: Mapping[str, float], k: int
    ) -> list[tuple[Candidate, float]]:
        """The k best texts with their scores, as :func:`admire.scorer.score` standardises them.

        A standardised score is linear in the text's vector d, so one inner product gives it:
        Σ w (q·d − μ) / σ over the queries q, with the mean μ and deviation σ of each query's
        cosines.

        Args:
            queries: vectors of unit length, shape (width,), by role.
            weights: of each role; a missing one counts 0.
        """
        combined = np.zeros(len(self.moments.mean))
        offset = 0.0
        for role, query in queries.items():
            mean, deviation = self.moments.of(query)
            weight = weights.get(role, 0.0) / deviation
            combined += weight * query.astype(float)
            offset += weight * mean
        places, products = self.engine.search(combined.astype(np.float32), k)
        texts = self.texts(places.tolist())
        return [(t, float(p) - offset) for t, p in zip(texts, products, strict=True)]


def index_texts(texts: Sequence[Candidate], encoder: TextEncoder) -> TextIndex:
    """An index in memory."""
    vectors = encoder.encode_texts([str(text.caption) for text in texts], role="document")
    named = {"name": encoder.name, "identity": encoder.identity}
    return TextIndex(named, moments(vectors), Exact(vectors), len(texts), texts)


def write_index(
    texts: Sequence[Candidate], encoder: TextEncoder, out: Path, *, engine: EngineName = "exact"
) -> None:
    """Encode the texts and write an index folder, which appears when it is complete.

    It holds ``vectors.npy``, ``moments.npz``, ``texts.jsonl`` (a text a line, in the order of the
    vectors) and ``index.json``, and with the engine ``lance`` also a folder of LanceDB. Vectors are
    cached as they are computed, so an interrupted call can be repeated and continues.

    Raises:
        UserError: there are no texts, the folder holds something else, or it cannot be written.
    """
    check_setting("engine", engine, ENGINES)
    if not texts:
        raise UserError("There are no texts to index.")
    if engine == "lance":
        from admire.collections.lance import build_lance  # before the texts are encoded
    with replace_folder(out, "index") as part:
        vectors = None
        for start in range(0, len(texts), BLOCK):
            some = [str(text.caption) for text in texts[start : start + BLOCK]]
            encoded = encoder.encode_texts(some, role="document")
            if vectors is None:
                vectors = np.lib.format.open_memmap(
                    part / "vectors.npy", "w+", np.float32, (len(texts), encoded.shape[1])
                )
            vectors[start : start + BLOCK] = encoded
        assert vectors is not None
        vectors.flush()
        if engine == "lance":
            build_lance(part, blocks(vectors), vectors.shape[1])
        found = moments(vectors)
        np.savez(part / "moments.npz", mean=found.mean, second=found.second)
        with write_whole(part / "texts.jsonl") as file:
            for text in texts:
                row = {"id": text.name, "text": text.caption}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        with write_whole(part / "index.json") as file:
            named = {"name": encoder.name, "identity": encoder.identity}
            json.dump({"encoder": named, "texts": len(texts)}, file, indent=2)
        del vectors  # Windows renames no folder with an open file in it


def open_index(folder: Path) -> TextIndex:
    """Open an index that :func:`write_index` wrote. Its vectors stay on disk.

    Raises:
        UserError: the folder is no index, or it is damaged.
    """
    try:
        record: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        stored = np.load(folder / "moments.npz")
        found = Moments(stored["mean"], stored["second"])
        if vectors.shape != (record["texts"], len(found.mean)):
            raise ValueError("its files do not belong together")
        record["encoder"]["name"], record["encoder"]["identity"]
        if not (folder / "texts.jsonl").is_file():
            raise ValueError("texts.jsonl is missing")
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{folder}: is no index, or damaged ({reason}). Index again.") from None
    engine: Engine = Exact(vectors)
    if (folder / "lance").is_dir():
        from admire.collections.lance import open_lance

        engine = open_lance(folder, vectors)
    return TextIndex(record["encoder"], found, engine, len(vectors), folder / "texts.jsonl")
