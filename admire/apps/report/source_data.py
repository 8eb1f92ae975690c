"""Pictures and late gold, which run folders lack, from the data that the runs were made from."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from admire.core.errors import UserError
from admire.core.files import path_inside
from admire.data.image_files import check_image
from admire.data.items import Item, item_keys
from admire.data.reader import data_files, iter_items
from admire.data.rows import RowReader
from admire.pipeline.ranking import Run
from admire.pipeline.record import is_source

log = logging.getLogger("admire")


def data_source(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what run.json says of a run's data; of a fused run, the first run's."""
    fused = record.get("fused")
    return record.get("source") or (data_source(fused[0]["record"]) if fused else {})


def with_pictures(run: Run, name: str, data: Path | None = None) -> Run:
    """Return the run with the images of its candidates, and with gold that was added later.

    If nothing is found, a warning says why.

    Args:
        data: the file or folder of the data; None takes what run.json names, if it is still what
            the run was made from.
    """
    hint = "Say where the data are (--data) to see pictures."
    try:
        items = _read_source(run, name, data)
    except UserError as error:
        if data:
            raise
        log.warning("%s: its data are not read. %s %s", name, error, hint)
        return run
    by_key = dict(zip(item_keys(items), items, strict=True))
    sources = [by_key.get(key) for key in item_keys([ranking.item for ranking in run.rankings])]
    if not any(sources):
        log.warning("%s: none of its items is in its data. %s", name, hint)
    rankings = tuple(
        ranking.with_item(_completed(ranking.item, item)) if item else ranking
        for ranking, item in zip(run.rankings, sources, strict=True)
    )
    return replace(run, rankings=rankings)


def _read_source(run: Run, name: str, data: Path | None) -> list[Item]:
    """Read the data of a run.

    A run folder can come from a stranger and name any file. So unless the user names the data,
    they must have the digest in run.json, and the folder of images and V-WSD's gold must be in
    theirs.
    """
    source = data_source(run.record)
    if not data and not source:
        raise UserError("run.json names none.")
    where = data or Path(source["path"])
    apart: dict[str, Any] = {kind: source[kind] for kind in ("images", "gold") if source.get(kind)}
    if source and not is_source(where, source):
        what = f"{where} has changed since the run was made, or is another file."
        if not data:
            raise UserError(what)
        log.warning("%s: %s", name, what)
    if not data:
        for path in apart.values():
            path_inside(data_files(where)[0].folder, path, follow_links=True)
    if run.record.get("left_out"):
        apart["rows"] = RowReader(look=check_image, skip=lambda fault: None)
    return list(iter_items(where, limit=run.record.get("limit"), **apart))


def _completed(item: Item, source: Item) -> Item:
    """Return the item with the source's images, and its gold if the run had none."""
    images = {candidate.name: candidate.image for candidate in source.candidates}
    sequence = item.sequence
    if len(sequence) == len(source.sequence):
        pairs = zip(sequence, source.sequence, strict=True)
        sequence = tuple(replace(candidate, image=other.image) for candidate, other in pairs)
    return replace(
        item,
        candidates=tuple(replace(c, image=images[c.name]) for c in item.candidates),
        sequence=sequence,
        sentence_type=item.sentence_type or source.sentence_type,
        expected_order=item.expected_order or source.expected_order,
        expected_item=item.expected_item or source.expected_item,
    )
