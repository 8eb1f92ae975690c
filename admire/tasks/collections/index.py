"""An index: what it was made of and with, and search in it, exactly or by LanceDB."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from admire.base.choices import EngineName
from admire.base.errors import UserError
from admire.base.schema import read_as
from admire.base.storage import write_whole
from admire.data.items import Candidate
from admire.models.encoders import TextEncoder, Vectors
from admire.tasks.collections.encoding import encode, named
from admire.tasks.collections.exact import (
    Query,
    Track,
    open_files,
    search_all,
    search_some,
    tracks_in_memory,
)

if TYPE_CHECKING:
    from admire.tasks.collections.table import Table

FORMAT = 3
"""Of index folders."""


class Maker(BaseModel):
    """The encoder that made an index's vectors."""

    name: str
    identity: str


class Record(BaseModel):
    """``index.json``: what an index was made with, and which state of its table counts.

    Attributes:
        format: of the folder.
        encoder: of the vectors.
        engine: searches.
        version: of the table when the index was last complete; what exact search needs of it lies
            in ``search/VERSION``. 0 if it never was.
        places: things from this place on were added since then, and do not count.
        trained: how many things there were when LanceDB's indices were trained.
    """

    format: int = FORMAT
    encoder: Maker
    engine: EngineName
    version: int = 0
    places: int = 0
    trained: int = 0


def read_record(folder: Path) -> Record:
    """What ``index.json`` says.

    Raises:
        UserError: the folder is no index, an index of another format, or damaged.
    """
    try:
        content: Any = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise UserError(
            f"{folder}: is an index of another version of admire (format {content.get('format')}, "
            f"here {FORMAT}). Index again: admire index SOURCE --out INDEX",
            "index",
        )
    return read_as(Record, content, folder / "index.json")


def write_record(folder: Path, record: Record) -> None:
    """Write ``index.json``."""
    with write_whole(folder / "index.json") as file:
        file.write(record.model_dump_json(indent=1))


def check_encoder(index: Path | None, made: Mapping[str, str], encoder: TextEncoder) -> None:
    """Refuse an encoder that did not make an index's vectors.

    Raises:
        UserError: it is another one.
    """
    if made["identity"] != encoder.identity:
        raise UserError(
            f"{index or 'The index'}: was made with the encoder '{made['name']}' "
            f"({made['identity']}), not with '{encoder.name}' ({encoder.identity}).",
            "encoder",
        )


@dataclass(frozen=True)
class Index:
    """A collection that can be searched.

    Attributes:
        encoder: name and identity of the encoder of its pictures and captions.
        tracks: the vectors of its pictures and captions, with their moments.
        size: how many things there are.
        things: reads those in some rows.
        table: finds the best nearly exactly; None compares every vector.
        places: of the things in the table, ascending.
    """

    encoder: Mapping[str, str]
    tracks: Mapping[str, Track]
    size: int
    things: Callable[[Sequence[int]], list[Candidate]]
    table: Table | None = None
    places: Any = None

    @property
    def pictures(self) -> bool:
        """Whether pictures are among them that the encoder has seen."""
        return "image" in self.tracks

    def search(
        self,
        queries: Mapping[str, Vectors],
        weights: Mapping[str, float],
        k: int,
        tracks: Mapping[str, float] | None = None,
    ) -> list[tuple[Candidate, float]]:
        """The k best things with their scores, as :func:`admire.rankers.scorer.score` standardises
        them.

        A standardised score is linear in the thing's vector d, so one inner product a track gives
        it: Σ w (q·d − μ) / σ over the queries q, with the mean μ and deviation σ of each query's
        cosines in the whole collection. What a thing lacks adds 0.

        Args:
            queries: vectors of unit length, shape (width,), by role.
            weights: of each role; a missing one counts 0.
            tracks: weights of ``image`` and ``caption``; a missing one counts 1.

        Raises:
            UserError: files of the index are gone.
        """
        sums: dict[str, Query] = {}
        for name, track in self.tracks.items():
            combined, offset = np.zeros(len(track.moments.sums)), 0.0
            share = (tracks or {}).get(name, 1.0)
            for role, query in queries.items():
                mean, deviation = track.moments.of(query)
                weight = share * weights.get(role, 0.0) / deviation
                combined += weight * query.astype(float)
                offset += weight * mean
            sums[name] = Query(combined.astype(np.float32), offset)
        try:
            if self.table:
                places = self.table.nearest(sums, min(k, self.size), self.size)
                rows = np.minimum(np.searchsorted(self.places, places), self.size - 1)
                rows = rows[self.places[rows] == places]  # the others were added later
                rows, scores = search_some(self.tracks, rows, sums, k)
            else:
                rows, scores = search_all(self.tracks, self.size, sums, k)
            things = self.things(rows.tolist())
        except (OSError, ValueError, RuntimeError) as error:  # the last is LanceDB's
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"The index cannot be read any more ({reason}). If somebody has changed it, search "
                "again; else index again.",
                "index",
            ) from error
        return list(zip(things, scores.tolist(), strict=True))


def index_texts(texts: Sequence[Candidate], encoder: TextEncoder) -> Index:
    """An index in memory."""
    tracks = tracks_in_memory(encode(texts, encoder))
    return Index(named(encoder), tracks, len(texts), lambda rows: [texts[row] for row in rows])


def open_index(folder: Path) -> Index:
    """Open an index that :func:`admire.tasks.collections.write_index` wrote. Vectors stay on disk.

    Its state is that of this moment, whatever other processes add or remove later.

    Raises:
        UserError: the folder is no index, or it is damaged.
    """
    record = read_record(folder)
    try:
        files = open_files(folder / "search" / str(record.version))
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(folder, error) from None
    table = None
    if record.engine == "lance":
        from admire.tasks.collections.table import Table

        table = Table(folder)
    made = record.encoder.model_dump()
    return Index(made, files.tracks, len(files.places), files.things, table, files.places)


def _damaged(folder: Path, reason: object) -> UserError:
    if isinstance(reason, OSError) and reason.strerror:
        reason = reason.strerror
    return UserError(f"{folder}: is no index, or damaged ({reason}). Index again.", "index")
