"""Commands for collections: their index, and search in them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

from cyclopts import Parameter

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_json, print_rows
from admire.apps.search.settings import SearchSettings
from admire.core.errors import UserError
from admire.rankers.settings import RequestOptions, Settings
from admire.tasks.task import WorkerOptions, open_session, open_workers

log = logging.getLogger("admire")


@opt.with_settings("search", SearchSettings, RequestOptions)
def search(
    text: str, /, *, span: str, index: Path, json: opt.Json = False, options: opt.Options = None
) -> None:
    """Search an index by the meaning of a compound in context.

    Needs the extra embedded, and for an index lance. A file of texts needs no index.

    Args:
        text: A text that uses the compound.
        span: The compound, exactly as in the text.
        index: Index folder (of admire index), or a file of texts.

    Examples:
        admire search "He got cold feet." --span "cold feet" --index texts.txt
    """
    from admire.apps.search.search import search_index

    settings = opt.make(SearchSettings, options)
    result = search_index(text, span, index, settings, session=open_session(options))
    reading, pictures = result.reading, result.pictures
    if json:
        content: dict[str, Any] = {"query": settings.query}
        if reading:
            names = ("probability_idiomatic", "confidence")
            probabilities = {name: getattr(reading.sense, name) for name in names}
            content = {"sense": reading.sense.label, **probabilities, "gloss": reading.gloss}
        entries = content["pictures" if pictures else "texts"] = []
        for entry, score in result.entries:
            picture = {"image": entry.image and str(entry.image), "caption": entry.caption}
            fields = picture if pictures else {"text": entry.caption}
            entries.append({"id": entry.name, "score": score} | fields)
        return print_json(content)
    title = f"{span}, {settings.query}"
    if reading:
        meaning = reading.wording(span) if pictures else reading.gloss
        title = f"{span}, {reading.sense.label}: {meaning or '–'}"
    rows = []
    for entry, score in result.entries:
        name, caption = entry.name, entry.caption or ""
        if pictures:  # --json has all of the caption
            name, caption = str(entry.image or name), shorten(caption, 120, placeholder="…")
        rows.append((f"{score:+z.2f}", name, caption))
    headings = ("Score", "Picture", "Caption") if pictures else ("Score", "Id", "Text")
    print_rows(headings, rows, title)


@dataclass(frozen=True, kw_only=True)
class IndexChange:
    """How an index that is there is changed."""

    add: bool = False
    replace: bool = False
    remove: tuple[str, ...] = ()


@opt.with_settings("index", (Settings, "device"), WorkerOptions)
def index(
    source: Path | None = None,
    /,
    *,
    out: Path,
    encoder: Annotated[
        str | None, Parameter(completer=partial(opt.complete_name, "encoder"))
    ] = None,
    change: Annotated[IndexChange, Parameter("*")] = IndexChange(),
    export: Path | None = None,
    skip_bad: bool = False,
    force: opt.Force = False,
    options: opt.Options = None,
) -> None:
    """Encode a collection of pictures or texts once, to search it often.

    Needs the extras embedded and lance: pip install '.[embedded,lance]'.

    Args:
        source: Pictures: a folder, or a .csv, .tsv, .jsonl or .parquet with the column image.
            Texts: .txt (a line each), or a table with the column text.
        out: Index folder to write or change, for search --index.
        encoder: Encoder, as for rank (default: sight for pictures, e5 for texts; with --add, the
            index's).
        change.add: Add to the index; only new entries are encoded.
        change.replace: Replace an index of another source.
        change.remove: Remove entries: a name, or a pattern (cats/*). Repeat for several.
        export: Parquet file to write: names, paths, captions and vectors.
        skip_bad: Skip unusable entries, and count them.

    Examples:
        admire index photos/ --out photos.index
        admire index more_photos/ --out photos.index --add
    """
    from admire.apps.search.changes import (
        add_to_index,
        default_encoder,
        remove_from_index,
        write_index,
    )
    from admire.apps.search.encoding import encode_batches
    from admire.apps.search.index import MADE_BY, export_index, open_index, read_record
    from admire.core.storage import check_file
    from admire.encoders import open_encoder

    if not source and not change.remove and not export:
        raise UserError("Nothing to do: name a source, or what to remove or export.")
    device = opt.make(Settings, options).device
    encode = partial(encode_batches, workers=open_workers(options, device), device=device)
    if export:
        check_file(export, MADE_BY, force=force)
    if change.remove:
        changes = remove_from_index(change.remove, out)
        log.info("Removed %d from %s; %d remain", changes.gone, out, changes.entries)
    if source:
        if not encoder and change.add:
            encoder = read_record(out).encoder.name
        opened = open_encoder(encoder or default_encoder(source, skip_bad=skip_bad), device=device)
        write = add_to_index if change.add else partial(write_index, replace=change.replace)
        changes = write(source, opened, out, encode=encode, skip_bad=skip_bad)
        kind = "picture" if "image" in open_index(out).tracks else "text"
        counted = f"{changes.entries:,} {kind}{'s' * (changes.entries != 1)}"
        changed = f": {changes.new} new, {changes.gone} gone" if change.add else ""
        log.info("Wrote %s (%s%s)", out, counted, changed)
    if export:
        export_index(out, export)
        log.info("Wrote %s", export)
