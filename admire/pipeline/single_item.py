"""Ranks one item from pictures and texts in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from admire.core.errors import UserError
from admire.core.progress import Progress
from admire.data.frames import describe_type, plain_row
from admire.data.languages import check_language, detect_language
from admire.data.rows import RowReader
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
    lists = {"definitions": definitions, "images": images, "captions": captions}
    row = plain_row({"compound": compound, "sentence": sentence, **lists})
    for name in lists:
        if row[name] and not isinstance(row[name], list):
            raise UserError(f"{name} must be a list, not {describe_type(row[name])}.", name)
    row["images"] = [
        Path(image).expanduser() if isinstance(image, str) and image else image
        for image in row["images"]
    ]
    tag = check_language(language) if language else detect_language(sentence)
    item = RowReader(language=tag).item(row, "")
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
