"""Pictures, which run folders lack: from the data of the runs, with late gold, and made small."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import Any

from admire.core.errors import UserError
from admire.core.files import path_inside
from admire.core.machine import cores, prefetch
from admire.core.progress import show_progress
from admire.data.image_files import check_image, read_image
from admire.data.items import Item, keyed_items
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.data.sources import data_files
from admire.pipeline.ranking import Ranking
from admire.pipeline.record import is_source
from admire.pipeline.run_folder import read_rankings

log = logging.getLogger("admire")

HINT = "Say where the data are (--data) to see pictures."

SIDE = 320  #: the longest side of a thumbnail, in pixels

Shown = dict[str, Any]
"""A picture as a page shows it: as ``picture`` its address, or ``#`` and the id under which the
page holds it; its ``width`` and ``height`` in pixels."""


def data_source(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what run.json says of a run's data; of a fused run, the first run's."""
    fused = record.get("fused")
    return record.get("source") or (data_source(fused[0]["record"]) if fused else {})


def with_pictures(
    folder: Path, record: Mapping[str, Any], data: Path | None = None
) -> Iterator[tuple[Hashable, Ranking]]:
    """Read the rankings of a run, with their items' keys (:func:`admire.data.items.item_keys`).

    They have the images of their candidates, and gold that was added later. The data are read only
    as far as the next ranking needs. If nothing is found, a warning says why.

    Args:
        data: None takes what run.json names, if it is still what the run was made from.
    """
    sources, passed = _sources(record, str(folder), data), dict[Hashable, Item]()
    any_match = False
    rankings, others = tee(read_rankings(folder, record))
    for ranking, (key, item) in zip(rankings, keyed_items(r.item for r in others), strict=True):
        while key not in passed and (source := next(sources, None)):
            passed[source[0]] = source[1]
        if key in passed:
            any_match, item = True, _completed(item, passed.pop(key))
        yield key, ranking.with_item(item)
    if passed and not any_match:
        log.warning("%s: none of its items is in its data. %s", folder, HINT)


def _sources(
    record: Mapping[str, Any], name: str, data: Path | None
) -> Iterator[tuple[Hashable, Item]]:
    """Yield the items of a run's data with their keys; if they cannot be read, warn.

    A run folder can come from a stranger and name any file. So unless the user names the data,
    they must have the digest in run.json, and the folder of images and V-WSD's gold must be in
    theirs.
    """
    source = data_source(record)
    apart: dict[str, Any] = {kind: source[kind] for kind in ("images", "gold") if source.get(kind)}
    try:
        if not data and not source:
            raise UserError("run.json names none.")
        where = data or Path(source["path"])
        if source and not is_source(where, source):
            reason = f"{where} has changed since the run was made, or is another file."
            if not data:
                raise UserError(reason)
            log.warning("%s: %s", name, reason)
        for path in apart.values() if not data else ():
            path_inside(data_files(where)[0].folder, path, follow_links=True)
        if record.get("left_out"):
            apart["rows"] = RowReader(look=check_image, skip=lambda fault: None)
        yield from keyed_items(iter_items(where, limit=record.get("limit"), **apart))
    except UserError as error:
        if data:
            raise
        log.warning("%s: its data are not read. %s %s", name, error, HINT)


def _completed(item: Item, source: Item) -> Item:
    """Return the item with the source's images, and its gold if the run had none."""
    images = {candidate.name: candidate.image for candidate in source.candidates}
    sequence = item.sequence
    if len(sequence) == len(source.sequence):
        pairs = zip(sequence, source.sequence, strict=True)
        sequence = tuple(replace(candidate, image=other.image) for candidate, other in pairs)
    candidates = tuple(replace(c, image=images[c.name]) for c in item.candidates)
    names = ("sentence_type", "expected_order", "expected_item")
    gold = {name: getattr(item, name) or getattr(source, name) for name in names}
    return replace(item, candidates=candidates, sequence=sequence, **gold)


def make_thumbnails(files: Sequence[Path]) -> tuple[dict[Path, Shown], dict[str, str]]:
    """Return how each picture file is shown, and thumbnails as data URIs by id.

    A file that cannot be read is left out, with a warning. Equal pictures have one id.
    """
    by_path: dict[Path, Shown] = {}
    ids: dict[str, str] = {}

    def scale(file: Path) -> tuple[bytes, tuple[int, int]] | UserError:
        try:
            return thumbnail(file)
        except UserError as error:
            return error

    scaled = zip(files, prefetch(scale, files, 2 * cores()), strict=True)
    for file, result in show_progress(scaled, "Scaling pictures", len(files)):
        if isinstance(result, UserError):
            log.warning("%s The report shows its caption alone.", result)
            continue
        content, (width, height) = result
        uri = f"data:image/webp;base64,{base64.b64encode(content).decode()}"
        picture = f"#{ids.setdefault(uri, f'p{len(ids) + 1}')}"
        by_path[file] = {"picture": picture, "width": width, "height": height}
    return by_path, {number: uri for uri, number in ids.items()}


def thumbnail(file: Path, side: int = SIDE) -> tuple[bytes, tuple[int, int]]:
    """Return a picture as WebP with at most so many pixels on a side, and its width and height."""
    from PIL import Image

    image = read_image(file)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.save(written, "WEBP", quality=75)
    return written.getvalue(), image.size
