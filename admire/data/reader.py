"""Reading items, from files or from memory: each row of a source becomes an item."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ConfigDict, TypeAdapter, ValidationError

from admire.core.errors import UserError
from admire.core.progress import log_once
from admire.data.items import Item
from admire.data.languages import base_language, language_name, language_of
from admire.data.rows import RowReader, log_notes
from admire.data.schema import complain
from admire.data.sources import Given, Source, data_files, describe_type, memory_source

Data = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]] | Iterable[Item]
"""A file or folder of items, ``READER:PATH``, a table, rows as dicts, or the items themselves."""

DETECTED = 50  #: how many rows are read to detect a source's language

log = logging.getLogger("admire")

_ITEM = TypeAdapter[Item | None](
    Item | None,
    config=ConfigDict(revalidate_instances="always"),  # None: an Item has no config
)


def read_items(
    path: str | Path,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
) -> list[Item]:
    """Read all items of a file at once; see :func:`iter_items`."""
    return list(iter_items(path, language, images=images, gold=gold))


def take_items(
    data: Data, language: str | None = None, images: str | Path | None = None
) -> list[Item]:
    """Return items from any of the forms that Python functions accept; see :func:`iter_items`."""
    return list(iter_items(data, language, images=images))


def items_from_frame(
    frame: pd.DataFrame | Iterable[Mapping[str, Any]],
    folder: str | Path = ".",
    language: str | None = None,
    images: str | Path | None = None,
) -> list[Item]:
    """Read items from a table with the columns of an AdMIRe TSV, or from rows as dicts.

    See :func:`admire.read_items` for the columns. ``image1_caption``, ``image2_caption``, … alone
    are enough for candidates. A row as a dict may have the keys of a JSONL manifest instead. Empty
    cells may be None or NaN; ``expected_order`` may be a list. ``image1_path``, … and
    ``sequence_path1``, … may say where pictures are, as :func:`admire.items_to_frame` writes them.

    In place of a picture's name there may be the picture: PIL's, the bytes of a file, or both of
    ``{"bytes": …, "path": …}``. It is stored in ``pictures`` in admire's cache. Hugging Face's
    ``Dataset`` is such rows.

    Args:
        folder: where the images are; their names are paths below it.
        language: of rows without one of their own; None is the one that is detected in them.
        images: as for :func:`admire.read_items`.

    Raises:
        UserError: the row and the column that cannot be used, and why.
    """
    return list(iter_items(frame, language, images=images, folder=folder))


def iter_items(
    data: Data,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
    limit: int | None = None,
    rows: RowReader | None = None,
    folder: str | Path = ".",
) -> Iterator[Item]:
    """Read an AdMIRe TSV, an image set's manifest (a table or JSONL), or a folder, item by item.

    What is in memory is taken as :func:`admire.rank` takes it: a table, rows as dicts, or Items.

    Tables have the columns ``compound`` and ``sentence``, optionally ``language``,
    ``sentence_type`` and ``expected_order``, and for each candidate k = 1, 2, ... ``imagek_name``
    and ``imagek_caption``. Those of Subtask B have ``sequence_captionk`` or ``sequence_imagek``,
    optionally ``expected_item``, and need no sentences; without ``sequence_imagek`` the images are
    ``s1.png``, ``s2.png``, ... in the compound's subfolder, if they are there. A JSONL manifest (or
    the list in a ``.json``) has the same keys, but ``candidates`` and ``sequence`` are lists of
    objects with ``image``, ``caption`` or both, or of captions; or ``captions`` and ``images`` are
    lists. A ``.txt`` is V-WSD's: a line is a word, its phrase and ten images, with tabs between.
    Image names are paths below the file's folder, or below its subfolder that is named after the
    compound. For folders see :func:`data_files`.

    ``READER:PATH`` is read by a plug-in of that name. It is called with what follows the colon, and
    yields Items, dicts as :func:`admire.items_from_frame` takes them, and a
    :class:`admire.UserError` for a row that cannot be used. What exists under the whole name comes
    first.

    Args:
        language: of rows without one of their own; None takes it from the file's name, see
            :func:`named_language`, or detects it.
        images: folder of the images; None is that of the file. Names are paths below it, or, as
            annotation tools write them, end with the name of one file anywhere below it.
        gold: of V-WSD, see :func:`admire.data.vwsd.word_rows`.
        limit: how many items of each file are read, the first ones.
        rows: how rows are read. It also takes the warnings, which are otherwise logged at the end.
        folder: of the images of rows in memory.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why; where faults are
            skipped, only if the file cannot be read any further.
    """
    if isinstance(data, str | Path):
        sources = data_files(data, language, gold)
    elif isinstance(rows_or_items := _in_memory(data), list):
        yield from rows_or_items[:limit]
        return
    else:
        sources = [memory_source(rows_or_items, folder, language)]
    reader, detected = rows or RowReader(), list[str]()
    try:
        for source in sources:
            by, rows_of = "name", iter(source.rows)
            if not (tag := source.language):
                first = list(islice(rows_of, DETECTED))
                tag = language_of(" ".join(map(_text_of, first))) or "en"
                by, rows_of = "sentences", chain(first, rows_of)
            reader, source = reader.at(tag, source.folder, images), source._replace(rows=rows_of)
            if not language and base_language(tag) != "en":
                detected.append(f"{language_name(tag)} ({tag}) by the {by}")
                if not isinstance(data, str | Path):
                    log.info("The language is detected: %s (%s).", language_name(tag), tag)
            yield from islice(_items(source, reader), limit)
        if detected and isinstance(data, str | Path):  # once, as most sets are read several times
            log_once(logging.INFO, f"{data}: read as {', '.join(detected)}.")
    finally:  # the first items may be enough
        if rows is None:
            log_notes(reader.notes)


def _in_memory(data: Any) -> pd.DataFrame | Iterator[Mapping[str, Any]] | list[Item]:
    """Return a table, rows, or Items, whose texts are checked here."""
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, Iterable) and not isinstance(data, Mapping | bytes):
        values = iter(data)  # pictures in memory may be many
        first = list(islice(values, 1))
        if not first or isinstance(first[0], Mapping):
            return chain(first, values)
        data = [*first, *values]
        if all(isinstance(thing, Item) for thing in data):
            return [_checked(item, f"item {number}") for number, item in enumerate(data, 1)]
    raise UserError(
        f"items are a path, a DataFrame, dicts or Items, not {describe_type(data)}.", "items"
    )


def _checked(item: Item, where: str) -> Any:
    """Check the texts of an item that no reader has checked; return it with tuples as its lists."""
    try:
        return _ITEM.validate_python(item)
    except ValidationError as error:
        raise UserError(f"{where}, {complain(error)}") from None


def _items(source: Source, reader: RowReader) -> Iterator[Item]:
    """Yield the items of the rows that can be used; report the others."""
    where = ""
    for where, row in source.rows:
        try:
            if isinstance(row, UserError):
                raise row
            item = reader.item(row, where, ragged=source.ragged, keyed=source.keyed)
        except UserError as error:
            reader.report(error, "item")
        else:
            yield item
    if not where:
        raise UserError(f"{source.name}: contains no items.")


def _text_of(placed: Given) -> str:
    """Return a row's sentence or else its captions, unless it says its language."""
    row = placed[1]
    if isinstance(row, UserError) or row.get("language"):
        return ""
    texts = [row["sentence"]] if row.get("sentence") else []
    for key, cell in row.items() if not texts else ():
        if key == "candidates" or "caption" in key:
            for part in cell if isinstance(cell, list) else [cell]:
                texts.append(part.get("caption") if isinstance(part, Mapping) else part)
    return " ".join(text for text in texts if isinstance(text, str))
