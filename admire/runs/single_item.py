"""One item ranked, from pictures and texts in memory."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from admire.base.errors import UserError, needs_extra
from admire.base.progress import Progress
from admire.base.schema import Text, check_setting, suggesting
from admire.base.storage import cache_dir, write_whole
from admire.data.frames import describe_type
from admire.data.items import Candidate, Item
from admire.data.languages import check_language
from admire.data.limits import Limit
from admire.models.encoders import TextEncoder
from admire.rankers.settings import Asking, Settings
from admire.runs.ranking import Run
from admire.runs.run import rank
from admire.runs.sources import Model
from admire.senses import Detector

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | bytes | Image


@suggesting(settings=Settings, asking=Asking)
def rank_one(
    compound: str,
    sentence: str,
    images: Iterable[Picture | None] | None = None,
    captions: Iterable[str | None] | None = None,
    *,
    language: str = "en",
    settings: Settings | None = None,
    asking: Asking | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
    progress: Progress = None,
) -> Run:
    """Rank pictures, captions, or pictures with captions, for one sentence.

    A candidate is called as its picture's file is, or ``image1``, ``image2``, …, or ``candidate1``,
    ``candidate2``, … where there is none; later ones of a name get a number.

    Args:
        images: paths, the bytes of image files, or PIL's images; None for a candidate without.
            Bytes and PIL's images are kept in ``pictures`` in admire's cache, as files that are
            named by their SHA-256.
        captions: in the images' order; None or an empty text for a candidate without.
        settings, asking, llms, encoder, caption_encoder, detector, progress: as for
            :func:`admire.rank`.

    Raises:
        UserError: an argument is not taken; and as for :func:`admire.rank`.
    """
    for name, text in (("compound", compound), ("sentence", sentence)):
        check_setting(name, text, Annotated[Text, Limit(name)])
    pictures, texts = _listed("images", images), _listed("captions", captions)
    check_setting("captions", texts, list[str | None])
    if pictures and texts and len(pictures) != len(texts):
        raise UserError(
            f"{len(pictures)} images, {len(texts)} captions: None or an empty text is a gap."
        )
    count = max(len(pictures), len(texts))
    if count < 2:
        raise UserError("A ranking needs two images or captions, or more.")
    nothing = [None] * count
    seen: Counter[str] = Counter()
    candidates = []
    for k, (picture, text) in enumerate(
        zip(pictures or nothing, texts or nothing, strict=True), start=1
    ):
        file, caption = _file(picture, k), (text or "").strip() or None
        if not (file or caption):
            raise UserError(f"Candidate {k} has neither an image nor a caption.")
        name = f"image{k}" if file else f"candidate{k}"
        if file and isinstance(picture, str | Path):
            name = file.name
        seen[name] += 1
        number = f" ({seen[name]})" * (seen[name] > 1)
        candidates.append(Candidate(name + number, file, caption))
    item = Item(compound, sentence, check_language(language), tuple(candidates))
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
    if isinstance(things, str | Path | bytes) or not isinstance(things, Iterable | None):
        raise UserError(f"{name} is a list, not {describe_type(things)}.", name)
    return list(things or ())


def _file(picture: Any, k: int) -> Path | None:
    """Return the picture's file, which is written where there is none."""
    if picture is None:
        return None
    if isinstance(picture, str | Path):
        path = Path(picture).expanduser()
        if not path.is_file():
            raise UserError(f"{path}: there is no such image (number {k} of images).")
        return path
    if isinstance(picture, bytes):
        return _kept(picture)
    with needs_extra("embedded", "A picture in memory"):
        from PIL.Image import Image
        from PIL.ImageOps import exif_transpose
    if not isinstance(picture, Image):
        raise UserError(
            f"Image {k} of images is {describe_type(picture)}, no path, bytes or PIL's.", "images"
        )
    written = io.BytesIO()
    upright = exif_transpose(picture)
    if upright.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):  # PNG's
        upright = upright.convert("RGB")
    upright.save(written, "PNG")
    return _kept(written.getvalue())


def _kept(content: bytes) -> Path:
    path = cache_dir() / "pictures" / sha256(content).hexdigest()
    if not path.exists():
        with write_whole(path, "wb") as file:
            file.write(content)
    return path
