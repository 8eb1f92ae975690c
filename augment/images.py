"""Variants of pictures: crops, rotations, flips, light and blur (UoR-NCL, section 2.4)."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import random
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core.errors import UserError, needs_extra
from admire.core.progress import show_progress
from admire.core.storage import MARKER, check_folder, mark_folder, write_whole
from admire.data.image_files import SUFFIXES, read_bytes, read_image

if TYPE_CHECKING:
    from PIL.Image import Image

CROP = 450  #: width and height of a crop, in pixels
MARK = "admire"  #: the text chunk of a variant's PNG that says how it was made
SHEET = "contact_sheet.png"
KIND = "set of augmented images"
THUMBNAIL, LABEL, GAP = 160, 16, 8
"""Of a contact sheet, in pixels: the heights of a thumbnail and of the name below it, and the white
between them."""


def augment_image(picture: Image, seed: int) -> Image:
    """Make a variant of a picture in RGB. A seed, 0 or more, always gives the same variant.

    The operations are drawn each on its own; about one variant in 25 is the picture itself. The
    paper (UoR-NCL, section 2.4) gives them, their probabilities, the crop's size and the angles.
    The ranges of light and blur are albumentations' defaults, and the white corners are ours.
    """
    import numpy as np
    from PIL import Image

    pipeline = _pipeline(*picture.size)
    # A seed given to Compose would start a generator for each operation, and all operations of
    # probability 0.5 would happen together or not at all. So they share one generator.
    pipeline.set_random_state(np.random.default_rng(seed), random.Random(seed))
    return Image.fromarray(pipeline(image=np.array(picture))["image"])


def augment_folder(
    folder: Path, out: Path, *, per_image: int = 1, limit: int | None = None, seed: int = 0
) -> list[Path]:
    """Write variants of every picture below a folder, by :func:`augment_image`.

    A picture ``animals/owl.jpg`` becomes ``animals/owl_1.png`` to ``animals/owl_<per_image>.png``
    below ``out``. A variant depends on the picture's bytes, its own number and ``seed`` alone. Its
    PNG says what it was made from, so a second run makes only the variants that are missing or
    would be different now. Nothing is deleted. Hidden files and folders are skipped.

    Args:
        out: a new or empty folder, or one that this function wrote.
        limit: how many pictures, the first by path; None for all.

    Returns:
        The variants' paths, those of a picture one after the other, pictures by path.

    Raises:
        UserError: the folder has no picture; the variants of two pictures would have the same
            names; ``out`` is inside ``folder``, or admire did not write it; a picture is damaged
            (variants made before it stay); albumentations is not installed.
    """
    albumentations = _albumentations()
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    plan = _plan(folder, out, per_image, limit)
    check_folder(out, KIND, adding=True)
    if not (out / MARKER).exists():
        mark_folder(out, KIND, ())  # first, so that a killed run can be resumed
    # Every setting, the library's defaults and its version included.
    settings = json.dumps(albumentations.to_dict(_pipeline(CROP, CROP)), sort_keys=True)
    for source, variants in show_progress(plan.items(), "Augmenting pictures", len(plan)):
        content = hashlib.sha256(read_bytes(source)).hexdigest()
        picture = None
        for k, variant in enumerate(variants, start=1):
            origin = hashlib.sha256(f"{content} {seed} {k}".encode())
            mark = hashlib.sha256(origin.digest() + settings.encode()).hexdigest()
            # A damaged file makes Pillow raise nearly anything.
            with suppress(Exception), Image.open(variant) as opened:
                if opened.info.get(MARK) == mark:
                    continue
            picture = picture or read_image(source)
            (info := PngInfo()).add_text(MARK, mark)
            seed_of_variant = int.from_bytes(origin.digest()[:8], "big")
            _write_png(augment_image(picture, seed_of_variant), variant, info)
    return [variant for variants in plan.values() for variant in variants]


def contact_sheet(folder: Path, out: Path, per_image: int, limit: int | None = None) -> Path:
    """Write ``contact_sheet.png`` into ``out``, a row a picture with its variants; return its path.

    At most twelve pictures are shown, evenly picked. The arguments are :func:`augment_folder`'s.

    Raises:
        UserError: a picture or a variant is missing or damaged.
    """
    from PIL import Image

    plan = list(_plan(folder, out, per_image, limit).items())
    count = min(12, len(plan))
    chosen = [plan[place * len(plan) // count] for place in range(count)]
    rows = [[_cell(path) for path in (source, *variants)] for source, variants in chosen]
    width, height = max(sum(cell.width + GAP for cell in row) for row in rows), THUMBNAIL + LABEL
    sheet = Image.new("RGB", (width + GAP, count * (height + GAP) + GAP), "white")
    for place, row in enumerate(rows):
        left, top = GAP, GAP + place * (height + GAP)
        for cell in row:
            sheet.paste(cell, (left, top))
            left += cell.width + GAP
    _write_png(sheet, out / SHEET)
    return out / SHEET


def _albumentations() -> Any:
    # Without this, its import asks the network for a newer version.
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    with needs_extra("augment", "Augmenting images"):
        import albumentations
        import PIL  # noqa: F401 - of the same extra
    return albumentations


def _pipeline(width: int, height: int) -> Any:
    """Compose the operations, for a picture of this size."""
    a = _albumentations()
    return a.Compose(
        [
            a.RandomCrop(height=min(CROP, height), width=min(CROP, width), p=0.5),
            a.Rotate(limit=(-45, 45), fill=255, p=0.5),
            a.HorizontalFlip(p=0.5),
            a.VerticalFlip(p=0.5),
            a.RandomBrightnessContrast(
                brightness_limit=(-0.2, 0.2), contrast_limit=(-0.2, 0.2), p=0.2
            ),
            a.GaussianBlur(sigma_limit=(0.5, 3.0), p=0.2),
        ]
    )


def _plan(folder: Path, out: Path, per_image: int, limit: int | None) -> dict[Path, list[Path]]:
    """Find each picture below the folder, by path, and name its variants."""
    sources: dict[Path, Path] = {}  # the picture by its place below `folder`, less the suffix
    for source in sorted(folder.rglob("*")):
        place = source.relative_to(folder)
        skipped = place == Path(SHEET) or any(part.startswith(".") for part in place.parts)
        if skipped or source.suffix.lower() not in SUFFIXES or not source.is_file():
            continue
        twin = sources.setdefault(place.with_suffix(""), source)
        if twin is not source:
            raise UserError(
                f"{source}: its variants would have the same names as those of {twin.name}. "
                "Rename one of the two."
            )
    if not sources:
        raise UserError(f"{folder}: neither this folder nor its subfolders contain a picture.")
    plan = {
        source: [out / place.parent / f"{place.name}_{k}.png" for k in range(1, per_image + 1)]
        for place, source in islice(sources.items(), limit)
    }
    # The next run would take them for pictures, and make variants of variants.
    if any(v.resolve().is_relative_to(folder.resolve()) for vs in plan.values() for v in vs):
        raise UserError(f"{out}: is inside the folder of pictures. Choose another folder.", "out")
    return plan


def _cell(path: Path) -> Image:
    """Draw a thumbnail with the file's name below it."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    # All have the same height, except panoramas, which would be too wide for the screen.
    picture = ImageOps.contain(read_image(path), (3 * THUMBNAIL, THUMBNAIL))
    name = "".join(letter if letter.isprintable() else "?" for letter in path.name)
    font = ImageFont.load_default(11)
    width = max(picture.width, min(math.ceil(font.getlength(name)), THUMBNAIL))
    cell = Image.new("RGB", (width, THUMBNAIL + LABEL), "white")
    cell.paste(picture)
    ImageDraw.Draw(cell).text((0, THUMBNAIL + 2), name, fill="black", font=font)
    return cell


def _write_png(picture: Image, path: Path, info: Any = None) -> None:
    # Encoded first: Pillow seeks in files that it writes to, and its errors are not the disk's.
    encoded = io.BytesIO()
    picture.save(encoded, "PNG", pnginfo=info)
    with write_whole(path, "wb") as file:
        file.write(encoded.getvalue())
