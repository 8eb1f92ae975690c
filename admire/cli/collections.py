"""Commands for collections: their index, and search in them."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from admire.base.choices import EngineName
from admire.base.errors import UserError
from admire.base.terminal import visible
from admire.cli import options as opt
from admire.cli.output import print_rows, shortened
from admire.rankers.settings import Settings
from admire.tasks.collections.settings import SearchSettings

if TYPE_CHECKING:
    from admire.data.items import Candidate

log = logging.getLogger("admire")


@opt.with_settings("search", SearchSettings)
def search(
    text: str, /, *, span: str, index: Path, json: opt.Json = False, options: opt.Options = None
) -> None:
    """Find the pictures and texts that show or mean what the compound means here.

    Needs the extra embedded, and for an index lance. A file of texts needs no index.

    Args:
        text: A text that uses the compound.
        span: The compound, as it stands in the text.
        index: What to search: a folder that admire index wrote, or a file of texts, as there.

    Examples:
        admire search "He got cold feet." --span "cold feet" --index texts.txt
    """
    from admire.tasks.collections.search import search_index

    settings = opt.make(SearchSettings, options)
    result = search_index(text, span, index, settings)
    reading, pictures = result.reading, result.pictures
    if json:
        content: dict[str, Any] = {"query": settings.query}
        if reading:
            sense = reading.sense
            content = {
                "sense": sense.label,
                "probability_idiomatic": sense.probability_idiomatic,
                "confidence": sense.confidence,
                "gloss": reading.gloss,
            }
        content["pictures" if pictures else "texts"] = [
            {"id": candidate.name, "score": score} | _picture_or_text(candidate, pictures=pictures)
            for candidate, score in result.entries
        ]
        lines = jsonlib.dumps(content, indent=2, ensure_ascii=False).split("\n")
        print("\n".join(map(visible, lines)))
        return
    title = f"{span}, {settings.query}"
    if reading:
        meaning = reading.wording(span) if pictures else reading.gloss
        title = f"{span}, {reading.sense.label}: {meaning or '–'}"
    headings = ("Score", "Picture", "Caption") if pictures else ("Score", "Id", "Text")
    rows = []
    for candidate, score in result.entries:
        name, caption = candidate.name, candidate.caption or ""
        if pictures:
            name = str(candidate.image or candidate.name)
            caption = shortened(caption, 120)  # --json has all
        rows.append((f"{score:+z.2f}", name, caption))
    print_rows(headings, rows, title)


def _picture_or_text(candidate: Candidate, *, pictures: bool) -> dict[str, str | None]:
    """Return a picture or a text that was found, for programs."""
    if not pictures:
        return {"text": candidate.caption}
    image = str(candidate.image) if candidate.image else None
    return {"image": image, "caption": candidate.caption}


@opt.with_settings("index", (Settings, "device"), opt.WorkerOptions)
def index(
    source: Path | None = None,
    /,
    *,
    out: Path,
    encoder: Annotated[str | None, Parameter(completer=opt.model_names("encoders"))] = None,
    engine: EngineName = "exact",
    add: bool = False,
    remove: list[str] | None = None,
    export: Path | None = None,
    skip_bad: bool = False,
    force: opt.Force = False,
    options: opt.Options = None,
) -> None:
    """Encode a collection of pictures or texts once, to search it often.

    Needs the extras embedded and lance: pip install '.[embedded,lance]'.

    Args:
        source: Pictures: a folder, a .lst of paths, a .csv, .tsv or .jsonl with the column image,
            .parquet, or .tar (WebDataset). Texts: .txt (a line each), or a table with the column
            text.
        out: Index folder to write or change, for search --index.
        encoder: Encoder, as for rank; else sight for pictures, e5 for texts, with --add the
            index's.
        engine: What searches: a comparison with every vector, from disk; or LanceDB, nearly exact
            and faster.
        add: Add to the index; only what is new is encoded.
        remove: Take this out of the index: a name, or a pattern (cats/*). Repeat for several.
        export: Parquet file to write: names, paths, captions and vectors.
        skip_bad: Skip unusable entries, and count them.

    Examples:
        admire index photos/ --out photos.index
        admire index more_photos/ --out photos.index --add
    """
    from admire.base.storage import check_file
    from admire.models.encoders import open_encoder
    from admire.tasks.collections.changes import (
        add_to_index,
        default_encoder,
        remove_from_index,
        write_index,
    )
    from admire.tasks.collections.encoding import encode_here, encode_over
    from admire.tasks.collections.index import MADE_BY, check_export, export_index, read_record

    if not source and not remove and not export:
        raise UserError("There is nothing to do: name a source, or what to remove or export.")
    if add and not source:
        raise UserError("There is nothing to add: name a source.", "add")
    device = opt.make(Settings, options).device
    shared = opt.open_workers(options, device)
    encode = encode_over(shared, device) if shared else encode_here
    if export:
        check_export(export)
        check_file(export, MADE_BY, force=force)
    if remove:
        changes = remove_from_index(remove, out)
        log.info("Removed %d from %s; %d remain", changes.gone, out, changes.entries)
    if source and add:
        name = encoder or read_record(out).encoder.name
        opened = open_encoder(name, device=device)
        changes = add_to_index(source, opened, out, encode=encode, skip_bad=skip_bad)
        counts = out, _counted(changes.entries, out), changes.new, changes.gone
        log.info("Wrote %s (%s: %d new, %d gone)", *counts)
    elif source:
        name = encoder or default_encoder(source, skip_bad=skip_bad)
        opened = open_encoder(name, device=device)
        changes = write_index(source, opened, out, engine=engine, encode=encode, skip_bad=skip_bad)
        log.info("Wrote %s (%s)", out, _counted(changes.entries, out))
    if export:
        export_index(out, export)
        log.info("Wrote %s", export)


def _counted(count: int, folder: Path) -> str:
    """Return a number of entries of an index, and what they are."""
    from admire.tasks.collections.index import open_index

    kind = "picture" if "image" in open_index(folder).tracks else "text"
    return f"{count:,} {kind}{'s' * (count != 1)}"
