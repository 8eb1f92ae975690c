"""Texts and their vectors, in memory or on disk, and exact search in them by blocks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from admire.encoders import TextEncoder, Vectors
from admire.errors import UserError
from admire.files import json_rows, read_table, read_text
from admire.items import Candidate
from admire.storage import write_whole

BLOCK = 65_536
"""Vectors that are compared, or texts that are encoded, at once: 100 MB at 384 numbers each."""


@dataclass(frozen=True)
class Moments:
    """Mean and second moment of a collection's vectors, shapes (width,) and (width, width).

    From them follow mean and deviation of any query's cosines with the whole collection.
    """

    mean: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]

    def of(self, query: npt.ArrayLike) -> tuple[float, float]:
        """Mean and deviation of the query's cosines, the latter 1 where they are all the same."""
        vector = np.asarray(query, dtype=float)
        mean = float(vector @ self.mean)
        variance = float(vector @ self.second @ vector) - mean**2
        return mean, variance**0.5 if variance > 1e-12 else 1.0


def moments(vectors: Vectors) -> Moments:
    """The moments of (n, width) vectors, block by block."""
    mean = np.zeros(vectors.shape[1])
    second = np.zeros((vectors.shape[1], vectors.shape[1]))
    for block in blocks(vectors):
        part = block.astype(float)
        mean += part.sum(axis=0)
        second += part.T @ part
    return Moments(mean / len(vectors), second / len(vectors))


def blocks(vectors: Vectors) -> Iterator[Vectors]:
    """The vectors part by part, so that they need not fit into memory together."""
    for start in range(0, len(vectors), BLOCK):
        yield np.asarray(vectors[start : start + BLOCK])


class Engine(Protocol):
    """What finds the vectors with the highest inner product: exactly, or nearly and faster."""

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Places and inner products of the k best for a query of shape (width,), best first."""
        ...


@dataclass(frozen=True)
class Exact:
    """Every vector is compared; those on disk are read block by block and never all at once."""

    vectors: Vectors

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """See :class:`Engine`; of equal ones the first."""
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
        encoder: name and identity of what encoded it.
        moments: of all its vectors.
        engine: finds the best.
    """

    encoder: Mapping[str, str]
    moments: Moments
    engine: Engine
    size: int
    source: Sequence[Candidate] | Path

    def texts(self, places: Sequence[int]) -> list[Candidate]:
        """The texts at these places, with their ids."""
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
        """The k best texts with their scores: those of :func:`admire.scorer.score`, standardised.

        A standardised score is linear in a text's vector, so that one inner product gives it:
        Σ w (q·d - μ) / σ over the queries, with mean μ and deviation σ of each query's cosines.
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
    texts: Sequence[Candidate], encoder: TextEncoder, out: Path, *, lance: bool = False
) -> None:
    """Encode the texts and write an index folder, which appears when it is whole.

    ``vectors.npy``, ``moments.npz``, ``texts.jsonl`` (a text a line, in the vectors' order) and
    ``index.json``; with ``lance`` also LanceDB's own. Vectors are cached as they come: a call that
    was stopped goes on.

    Raises:
        UserError: the folder cannot be written.
    """
    part = out.with_name(f".{out.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        vectors = None
        for start in range(0, len(texts), BLOCK):
            some = [str(text.caption) for text in texts[start : start + BLOCK]]
            encoded = encoder.encode_texts(some, role="document")
            if vectors is None:
                vectors = np.lib.format.open_memmap(
                    part / "vectors.npy", "w+", np.float32, (len(texts), encoded.shape[1])
                )
            vectors[start : start + BLOCK] = encoded
        if vectors is None:
            raise UserError("There are no texts to index.")
        vectors.flush()
        if lance:
            from admire.retrieval.lance import build_lance

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
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}).") from None


def open_index(folder: Path) -> TextIndex:
    """The index that :func:`write_index` wrote, its vectors left on disk.

    Raises:
        UserError: the folder is no index, or damaged.
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
        from admire.retrieval.lance import open_lance

        engine = open_lance(folder, vectors)
    return TextIndex(record["encoder"], found, engine, len(vectors), folder / "texts.jsonl")


def read_texts(path: Path) -> list[Candidate]:
    """Texts to search, as candidates without pictures: a line each of a ``.txt``, or the ``text``
    (and ``id``) of each row of a ``.jsonl``, ``.csv`` or ``.tsv``. Without ids rows are numbered.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    rows: Iterable[tuple[int, dict[str, Any]]]
    if path.suffix == ".txt":
        lines = enumerate(read_text(path).splitlines(), start=1)
        rows = [(number, {"text": line}) for number, line in lines if line.strip()]
    elif path.suffix == ".jsonl":
        rows = json_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        table = read_table(path, ("text",))
        rows = enumerate(cast(list[dict[str, Any]], table.to_dict("records")), start=1)
    else:
        raise UserError(f"{path}: expected a .txt, .jsonl, .csv or .tsv file.")
    found: dict[str, Candidate] = {}
    for number, row in rows:
        text, name = row.get("text"), str(number if row.get("id") in (None, "") else row["id"])
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{path}, row {number}, text: is missing or empty.")
        if name in found:
            raise UserError(f"{path}, row {number}, id: '{name}' stands in two rows.")
        found[name] = Candidate(name, caption=text)
    if not found:
        raise UserError(f"{path}: holds no texts.")
    return list(found.values())
