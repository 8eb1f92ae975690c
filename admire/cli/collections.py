"""Commands for collections: their index, and search in them."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from admire.base.choices import EngineName
from admire.base.errors import UserError
from admire.base.terminal import visible
from admire.cli import options as opt
from admire.cli.output import print_rows
from admire.rankers.settings import Settings
from admire.tasks.collections.settings import SearchSettings

if TYPE_CHECKING:
    from admire.tasks.collections.search import Found

log = logging.getLogger("admire")

SHOWN = 120
"""How many letters of a picture's caption are printed; --json has all."""


@opt.takes("search", SearchSettings)
def search(
    text: str,
    /,
    *,
    span: str,
    index: Path,
    json: opt.Json = False,
    given: opt.Given = None,
) -> None:
    """Find the pictures and texts that show or mean what the compound means here.

    Args:
        text: A text that uses the compound.
        span: The compound, as it stands in the text.
        index: What to search: a folder that admire index wrote, or a file of texts, as there.
    """
    from admire.tasks.collections.search import search_index

    settings = opt.make(SearchSettings, given)
    found = search_index(text, span, index, settings)
    reading = found.reading
    if json:
        understood = (
            {
                "sense": reading.sense.label,
                "probability": reading.sense.probability,
                "gloss": reading.gloss,
            }
            if reading
            else {"query": settings.query}
        )
        told = jsonlib.dumps(understood | _told(found), indent=2, ensure_ascii=False)
        print("\n".join(map(visible, told.split("\n"))))
        return
    title = f"{span}, {settings.query}"
    if reading:
        meant = reading.meant if found.pictures else reading.gloss
        title = f"{span}, {reading.sense.label}: {meant or '–'}"
    if found.pictures:
        rows = [
            (
                f"{score:+z.2f}",
                str(one.image or one.name),
                shorten(one.caption or "", SHOWN, placeholder="…"),
            )
            for one, score in found.things
        ]
        print_rows(("Score", "Picture", "Caption"), rows, title)
    else:
        rows = [(f"{score:+z.2f}", one.name, one.caption or "") for one, score in found.things]
        print_rows(("Score", "Id", "Text"), rows, title)


def _told(found: Found) -> dict[str, Any]:
    """What was found, for programs: ``pictures``, or ``texts``."""
    if not found.pictures:
        texts = [{"id": t.name, "score": score, "text": t.caption} for t, score in found.things]
        return {"texts": texts}
    pictures = [
        {
            "id": one.name,
            "score": score,
            "image": str(one.image) if one.image else None,
            "caption": one.caption,
        }
        for one, score in found.things
    ]
    return {"pictures": pictures}


@opt.takes("index", (Settings, "device"))
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
    workers: opt.Workers = None,
    ray_address: opt.RayAddress = None,
    given: opt.Given = None,
) -> None:
    """Encode a collection of pictures or texts once, to search it often.

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
    """
    from admire.models.encoders import open_encoder
    from admire.tasks.collections.building import (
        add_to_index,
        default_encoder,
        remove_from_index,
        write_index,
    )
    from admire.tasks.collections.encoding import encode_here, encode_over
    from admire.tasks.collections.export import check_export, export_index
    from admire.tasks.collections.index import read_record

    if not source and not remove and not export:
        raise UserError("There is nothing to do: name a source, or what to remove or export.")
    if add and not source:
        raise UserError("There is nothing to add: name a source.", "add")
    device = opt.make(Settings, given).device
    shared = opt.crew(workers, ray_address, device)
    encode = encode_over(shared, device) if shared else encode_here
    if export:
        check_export(export)
    if remove:
        changes = remove_from_index(remove, out)
        log.info("Took %d out of %s, %d are left", changes.gone, out, changes.things)
    if source and add:
        name = encoder or read_record(out).encoder.name
        changes = add_to_index(source, open_encoder(name, device=device), out, encode=encode)
        log.info(
            "Wrote %s, %d things: %d new, %d gone", out, changes.things, changes.new, changes.gone
        )
    elif source:
        name = encoder or default_encoder(source)
        opened = open_encoder(name, device=device)
        changes = write_index(source, opened, out, engine=engine, encode=encode)
        log.info("Wrote %s, %d things", out, changes.things)
    if export:
        export_index(out, export)
        log.info("Wrote %s", export)
