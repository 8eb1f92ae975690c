"""Ranks one item from pictures and texts in memory."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd

from admire.core.errors import UserError, needs_extra
from admire.core.progress import Progress
from admire.core.schema import Text, check_setting
from admire.core.storage import cache_dir, write_whole
from admire.data.frames import describe_type
from admire.data.image_files import check_image
from admire.data.items import Candidate, Item
from admire.data.languages import check_language, detect_language
from admire.data.limits import Limit
from admire.data.rows import Definitions
from admire.encoders import TextEncoder
from admire.pipeline.models import Model
from admire.pipeline.ranking import Run
from admire.pipeline.run import rank
from admire.rankers.settings import RequestOptions, Settings
from admire.senses import Detector

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | bytes | Image


def rank_one(
    compound: str,
    sentence: str,
    images: Iterable[Picture | None] | None = None,
    captions: Iterable[str | None] | None = None,
    *,
    definitions: Iterable[str] | None = None,
    language: str | None = None,
    settings: Settings | None = None,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
    progress: Progress = None,
) -> Run:
    """Rank pictures, captions, or pictures with captions, for one sentence.

    A candidate's name is that of its picture's file, or ``image1``, ``image2``, … for pictures in
    memory, or ``candidate1``, ``candidate2``, … without a picture. Repeated names get a number.

    Args:
        images: paths, the bytes of image files, or PIL's images, in a list, an array or a column
            of a table; None for a candidate without. Bytes and PIL's images are stored in
            ``pictures`` in admire's cache, as files named by their SHA-256.
        captions: in the images' order; None or an empty text for a candidate without.
        language: of sentence and captions (default: detected in the sentence).
        definitions: up to two definitions of the compound in the sentence; then no model is asked.
        settings, asking, llms, encoder, caption_encoder, detector, progress: as for
            :func:`admire.rank`.

    Raises:
        UserError: an argument is invalid; and as for :func:`admire.rank`.
    """
    for name, text in (("compound", compound), ("sentence", sentence)):
        check_setting(name, text, Annotated[Text, Limit(name)])
    meant = _listed("definitions", definitions)
    check_setting("definitions", meant, Definitions)
    pictures, texts = _listed("images", images), _listed("captions", captions)
    check_setting("captions", texts, list[str | None])
    if pictures and texts and len(pictures) != len(texts):
        raise UserError(
            f"{len(pictures)} images, but {len(texts)} captions: use None or an empty text as gap."
        )
    count = max(len(pictures), len(texts))
    if count < 2:
        raise UserError("A ranking needs at least two images or captions.")
    none = [None] * count
    seen: Counter[str] = Counter()
    candidates = []
    for k, (picture, text) in enumerate(zip(pictures or none, texts or none, strict=True), start=1):
        file, caption = _file(picture, k), (text or "").strip() or None
        if not (file or caption):
            raise UserError(f"Candidate {k} has neither an image nor a caption.")
        name = f"image{k}" if file else f"candidate{k}"
        if file and isinstance(picture, str | Path):
            name = file.name
        seen[name] += 1
        number = f" ({seen[name]})" * (seen[name] > 1)
        candidates.append(Candidate(name + number, file, caption))
    item = Item(
        compound,
        sentence,
        check_language(language) if language else detect_language(sentence),
        tuple(candidates),
        definitions=tuple(meant),
    )
    return rank(
        [item],
        settings,
        asking=asking,
        llms=llms,
        encoder=encoder,
        caption_encoder=caption_encoder,
        detector=detector,
        progress=progress,
    )


def _listed(name: str, things: Iterable[Any] | None) -> list[Any]:
    """Return a list, a column of a table or an array as a list; None for a missing value."""
    single = isinstance(things, str | Path | bytes | Mapping) or getattr(things, "ndim", 1) == 2
    if single or not isinstance(things, Iterable | None):
        raise UserError(f"{name} must be a list, not {describe_type(things)}.", name)
    values = [] if things is None else list(things)
    return [None if pd.api.types.is_scalar(v) and pd.isna(v) else v for v in values]


def _file(picture: Any, k: int) -> Path | None:
    """Return the picture's file; write one if there is none."""
    if picture is None:
        return None
    if isinstance(picture, str | Path):
        path = Path(picture).expanduser()
        if not path.is_file():
            raise UserError(f"{path}: image file not found (number {k} of images).")
        return path
    with needs_extra("embedded", "A picture in memory"):
        from PIL.Image import Image
    if isinstance(picture, Image):
        picture = _png(picture, k)
    if not isinstance(picture, bytes):
        hint = " Use PIL.Image.fromarray." if hasattr(picture, "ndim") else ""
        raise UserError(
            f"Image {k} of images is {describe_type(picture)}, not a path, bytes or PIL's.{hint}",
            "images",
        )
    path = cache_dir() / "pictures" / sha256(picture).hexdigest()
    if not path.exists():
        with write_whole(path, "wb") as file:
            file.write(picture)
    try:
        check_image(path)
    except UserError as error:
        path.unlink(missing_ok=True)
        reason = str(error).removeprefix(f"{path}: ")
        raise UserError(f"Image {k} of images: {reason}", "images") from None
    return path


def _png(picture: Image, k: int) -> bytes:
    """Return one of PIL's images as the content of a PNG file, upright."""
    from PIL.ImageOps import exif_transpose

    if not all(picture.size):
        raise UserError(f"Image {k} of images has no pixels.", "images")
    if picture.mode == "F":
        raise UserError(f"Image {k} of images has floating-point pixels. Convert it.", "images")
    written = io.BytesIO()
    try:
        upright = exif_transpose(picture)
        if upright.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):  # PNG's
            upright = upright.convert("RGB")
        upright.save(written, "PNG")
    except Exception as error:  # for closed or damaged files decoders may raise anything
        reason = str(error) or type(error).__name__
        raise UserError(
            f"Image {k} of images cannot be read ({reason}). It may be closed: pass its path, or "
            "load it first (image.load()).",
            "images",
        ) from error
    return written.getvalue()
