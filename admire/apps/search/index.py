"""An index: what it was made with, search in it, and its export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from admire.apps.search.encoding import Encoded, EncoderRecord, Rows, encode
from admire.apps.search.entries import Entry
from admire.core.errors import UserError
from admire.core.schema import read_as
from admire.core.storage import write_whole
from admire.data.items import Candidate
from admire.encoders import TextEncoder, Vectors
from admire.encoders.windows import Windows
from admire.rankers.scorer import SMALLEST

if TYPE_CHECKING:
    from admire.apps.search.lance_table import Table

FORMAT = 5  #: the version of the layout of index folders
MADE_BY = "of an index of admire"  #: what an exported file says of itself

Numbers = npt.NDArray[np.float64]

Spread = tuple[Numbers, Numbers, Numbers]
"""Of each query's cosines: mean, deviation (1 if all are equal), and the mean of what is above the
mean, in deviations."""


class Record(BaseModel):
    """``index.json``: what an index was made with, and which state of its table counts.

    Attributes:
        version: of the table when the index was last complete; 0 if it never was.
        trained: how many vectors LanceDB's approximate indexes were made of; 0 if there are none.
    """

    format: int = FORMAT
    encoder: EncoderRecord
    version: Annotated[int, Field(ge=0, lt=2**63)] = 0
    trained: int = 0


def read_record(folder: Path) -> Record:
    """Read ``index.json``."""
    try:
        content: Any = json.loads((folder / "index.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, error) from None
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise UserError(
            f"{folder}: has format {content.get('format')}, not {FORMAT}. Index again.", "index"
        )
    return read_as(Record, content, folder / "index.json")


def write_record(folder: Path, record: Record) -> None:
    """Write ``index.json``."""
    with write_whole(folder / "index.json") as file:
        file.write(record.model_dump_json(indent=1))


def check_encoder(index: Path | str, record: EncoderRecord, encoder: TextEncoder) -> None:
    """Refuse an encoder that did not make an index's vectors."""
    if record.identity != encoder.identity:
        raise UserError(
            f"{index}: was made with the encoder '{record.name}' ({record.identity}), not with "
            f"'{encoder.name}' ({encoder.identity}).",
            "encoder",
        )


@dataclass(frozen=True)
class EntriesInMemory:
    """A small collection with its vectors, read as :class:`~.lance_table.Table` is."""

    entries: Sequence[Entry]
    encoded: Encoded

    def blocks(self, tracks: Sequence[str]) -> Iterator[tuple[Rows, Encoded]]:
        """Yield all rows with their vectors."""
        yield np.arange(len(self.entries)), self.encoded

    def candidates(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries in these rows."""
        return [self.entries[row] for row in rows]


@dataclass(frozen=True)
class Index:
    """A collection that can be searched, in the tracks that its entries have vectors of.

    ``table`` finds what is compared, by its approximate index; None compares every vector.
    """

    encoder: EncoderRecord
    tracks: Sequence[str]
    entries: Table | EntriesInMemory
    table: Table | None = None

    def search(
        self,
        queries: Mapping[str, Vectors],
        weights: Mapping[str, float],
        k: int,
        tracks: Mapping[str, float] | None = None,
    ) -> list[tuple[Entry, float]]:
        """Return the k best entries with their scores, best first; of equal ones the first.

        An entry d scores Σ w (q·d − μ) / σ over tracks and queries q, with the mean μ and deviation
        σ of the query's cosines in the whole collection (in a sample of it, if it has an
        approximate index). Of a long text the window counts that is most like the query. Where w is
        negative, what is below μ counts as 0: nearly all of a collection has nothing to do with
        either sense. What an entry lacks adds what others have on average.

        Args:
            queries: unit vectors by role, shape (width,), or (windows, width) of a long text.
            weights: of each role; a missing one counts 0.
            tracks: weights of ``image`` and ``caption``; a missing one counts 1.
        """
        windows = Windows.joined(list(map(np.atleast_2d, queries.values())))
        by_role = np.array([weights.get(role, 0.0) for role in queries])
        by_track = {track: (tracks or {}).get(track, 1.0) * by_role for track in self.tracks}
        cosines: Mapping[str, Vectors]
        if self.table:  # compare what LanceDB's index finds
            spreads = _spreads(_cosines(self.table.sample, windows))
            combined = {
                track: ((by_track[track] / deviation) @ windows.first).astype(np.float32)
                for track, (_, deviation, _) in spreads.items()
            }
            rows, encoded = self.table.nearest(combined, k)
            cosines = _cosines(encoded, windows)
        else:
            blocks = [(rows, _cosines(e, windows)) for rows, e in self.entries.blocks(self.tracks)]
            cosines = {t: np.concatenate([c[t] for _, c in blocks]) for t in self.tracks}
            rows = np.concatenate([rows for rows, _ in blocks])
            spreads = _spreads(cosines)
        scores = _scores(cosines, spreads, by_track)
        if len(scores) > k:  # sort those alone that may be among the best
            best = scores >= np.partition(scores, -k)[-k]
            rows, scores = rows[best], scores[best]
        order = np.argsort(-scores, kind="stable")[:k]
        candidates = self.entries.candidates(rows[order].tolist())
        return list(zip(candidates, scores[order].tolist(), strict=True))


def _cosines(encoded: Encoded, queries: Windows) -> dict[str, Vectors]:
    """Return the cosines with each query, shape (entries, queries), NaN for what one lacks."""
    cosines = {}
    for track, windows in encoded.items():
        # einsum: threads of BLAS wait long for each other on a busy machine
        every = np.einsum("ij,kj->ik", windows.vectors, queries.vectors)
        cosines[track] = queries.best(windows.best(every, 0), 1)
    return cosines


def _spreads(cosines: Mapping[str, Vectors]) -> dict[str, Spread]:
    spreads = {}
    for track, values in cosines.items():
        mean, spread = (of(values, axis=0, dtype=float) for of in (np.nanmean, np.nanstd))
        deviation = np.where(spread > SMALLEST, spread, 1.0)
        penalty = np.nanmean(np.maximum(values - mean, 0), axis=0) / deviation
        spreads[track] = mean, deviation, penalty
    return spreads


def _scores(
    cosines: Mapping[str, Vectors], spreads: Mapping[str, Spread], weights: Mapping[str, Numbers]
) -> Numbers:
    """Return the weighted sum over tracks and queries of standardised cosines, shape (entries,)."""
    scores: Numbers = np.zeros(len(next(iter(cosines.values()))))
    for track, values in cosines.items():
        mean, deviation, penalty = spreads[track]
        unlike = weights[track] < 0
        standardised = (values - mean) / deviation
        standardised[:, unlike] = np.maximum(standardised[:, unlike], 0)  # NaN stays
        lacking = np.where(unlike, penalty, 0.0)
        scores += np.where(np.isnan(standardised), lacking, standardised) @ weights[track]
    return scores


def index_texts(texts: Sequence[Candidate], encoder: TextEncoder) -> Index:
    """Encode texts and return an index of them in memory."""
    entries = [Entry(text.name, text.image, text.caption) for text in texts]
    encoded = encode(entries, encoder)
    return Index(EncoderRecord.of(encoder), list(encoded), EntriesInMemory(entries, encoded))


def open_index(folder: Path) -> Index:
    """Open an index in the state that it has now; vectors stay on disk.

    Raises:
        UserError: the folder is not an index, or it is damaged.
    """
    record = read_record(folder)
    from admire.apps.search.lance_table import Table

    try:
        table = Table(folder, record.version)
        tracks = [*table.counts]
        if not tracks:
            raise ValueError("it has no vectors")
    except (OSError, RuntimeError, ValueError) as error:
        raise _damaged(folder, error) from None
    return Index(record.encoder, tracks, table, table if record.trained else None)


def export_index(index: Path, out: Path) -> None:
    """Write the entries of an index in its order: names, paths, captions and vectors."""
    from pyarrow.parquet import ParquetWriter

    from admire.apps.search.lance_table import vector_columns

    opened = open_index(index)
    table = cast("Table", opened.entries)
    columns = ["id", "image", "caption", *vector_columns(opened.tracks)]
    with write_whole(out, "wb") as file, ParquetWriter(file, table.schema(columns)) as writer:
        for batch in table.batches(columns):
            writer.write_batch(batch.select(columns))
        writer.add_key_value_metadata({"made by": MADE_BY})


def reason_of(error: Exception) -> str:
    """Return why a disk or LanceDB refused something, in one line."""
    return getattr(error, "strerror", None) or str(error).partition("\n")[0]


def _damaged(folder: Path, error: Exception) -> UserError:
    """Return the error of a folder that cannot be read as an index."""
    text = f"{folder}: is not an index, or damaged ({reason_of(error)}). Index again."
    return UserError(text, "index")
