"""Anchors, positives and negatives for contrastive learning, from embeddings computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from admire.choices import Track
from admire.encoders import ImageEncoder, TextEncoder
from admire.errors import UserError
from admire.interpretation import true_queries
from admire.items import Item
from admire.llm import ChatModel
from admire.prompts import Prompts

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Triplets:
    """What a projection is trained on (UoR-NCL, section 2.4): S samples, M modalities, width d.

    Attributes:
        compounds: the compound of each sample, in lower case.
        anchors: the query of the ground-truth sense, shape (S, d).
        documents: each candidate in each modality (image, augmented image, caption, its
            back-translation and paraphrase, …), shape (S, C, M, d); zeros where there is none.
        present: where there is one, shape (S, C, M).
        positive: the index of the top-ranked candidate by gold, shape (S,). The others are the hard
            negatives; soft negatives are candidates of other compounds, see :func:`soft_negatives`.
        modalities: what the M are called.
        gloss: which anchors are glosses, shape (S,). The others are compounds.
    """

    compounds: tuple[str, ...]
    anchors: npt.NDArray[np.float32]
    documents: npt.NDArray[np.float32]
    present: npt.NDArray[np.bool_]
    positive: Indices
    modalities: tuple[str, ...]
    gloss: npt.NDArray[np.bool_]


def image_modalities(items: Sequence[Item], augmented: Path | None) -> dict[str, dict[Path, Path]]:
    """The candidates' images, and for each k the k-th variants that ``admire augment images`` made
    of them: ``night_owl_1.png`` below ``augmented`` stands for ``night_owl.png``."""
    images = {c.image for item in items for c in item.candidates if c.image}
    found = {"image": {image: image for image in images}}
    if augmented is None:
        return found
    below: dict[str, list[Path]] = {}
    for variant in augmented.rglob("*.png"):
        below.setdefault(variant.name, []).append(variant)
    k = 1
    while variants := {
        image: variant
        for image in images
        for variant in below.get(f"{image.stem}_{k}.png", ())
        if variant.parent.name == image.parent.name or variant.parent == augmented
    }:
        found[f"augmented image {k}"] = variants
        k += 1
    if k == 1:
        raise UserError(f"{augmented}: holds no augmented image of these candidates.")
    return found


def caption_modalities(items: Sequence[Item], rewritten: Path | None) -> dict[str, dict[str, str]]:
    """The candidates' captions, and what ``admire augment captions`` made of them, by maker."""
    captions = {c.caption for item in items for c in item.candidates if c.caption}
    found = {"caption": {caption: caption for caption in captions}}
    if rewritten is None:
        return found
    from admire.augment.captions import read_rewritten

    for caption, rows in read_rewritten(rewritten).items():
        for row in rows if caption in captions else ():
            found.setdefault(f"{row.kind} by {row.made_by}", {})[caption] = row.text
    if len(found) == 1:
        raise UserError(f"{rewritten}: holds no rewritten caption of these candidates.")
    return found


def read_triplets(
    items: Sequence[Item],
    encoder: TextEncoder,
    track: Track,
    *,
    llm: ChatModel,
    prompts: Prompts,
    images: Path | None = None,
    captions: Path | None = None,
    seed: int = 0,
) -> Triplets:
    """The triplets of items whose types and orders are known, with a chat model's glosses.

    ``images`` and ``captions`` are what the two ``admire augment`` commands wrote.

    Raises:
        UserError: one of these is given for a track that does not use it; and what
            :func:`triplets` and :func:`admire.interpretation.true_queries` say.
    """
    for kind, given in (("image", images), ("caption", captions)):
        if given and kind not in track:
            raise UserError(f"{given}: is not used on --track {track}. Use --track image+caption.")
    queries = true_queries(items, llm, prompts, seed=seed)
    return triplets(
        items,
        queries,
        encoder,
        images=image_modalities(items, images) if "image" in track else None,
        captions=caption_modalities(items, captions) if "caption" in track else None,
    )


def triplets(
    items: Sequence[Item],
    queries: Sequence[str],
    encoder: TextEncoder,
    *,
    images: Mapping[str, Mapping[Path, Path]] | None = None,
    captions: Mapping[str, Mapping[str, str]] | None = None,
) -> Triplets:
    """Encode the items' queries and every modality of their candidates.

    Args:
        queries: what each item is compared with, the gloss or the compound.
        images: for each image modality, the file that stands for a candidate's image; None leaves
            images out.
        captions: for each caption modality, the text that stands for a candidate's caption.

    Raises:
        UserError: an item has no gold order or names a candidate that is not there, its best
            candidate has none of the modalities, or nothing of what is asked for is there.
    """
    if not items:
        raise UserError("There are no items to train on.")
    for number, item in enumerate(items, start=1):
        if not item.expected_order:
            raise UserError(f"Item {number} ('{item.compound}') has no expected_order to learn.")
    width = max(len(item.candidates) for item in items)
    found: dict[str, dict[tuple[int, int], Path | str]] = {}
    for kind, sources in (("image", images or {}), ("caption", captions or {})):
        for modality, stands_for in sources.items():
            found[modality] = {
                (s, c): stands_for[getattr(candidate, kind)]
                for s, item in enumerate(items)
                for c, candidate in enumerate(item.candidates)
                if getattr(candidate, kind) in stands_for
            }
    found = {modality: things for modality, things in found.items() if things}
    if not found:
        raise UserError("No candidate has an image or caption of the track to train on.")
    anchors = encoder.encode_texts(list(queries), role="query")
    shape = (len(items), width, len(found))
    documents = np.zeros((*shape, anchors.shape[1]), dtype=np.float32)
    present = np.zeros(shape, dtype=bool)
    for m, (modality, things) in enumerate(found.items()):
        vectors = _encode(list(things.values()), encoder)
        if vectors.shape[1] != anchors.shape[1]:
            raise UserError(f"The encoder '{encoder.name}' has no common space for {modality}s.")
        for (s, c), vector in zip(things, vectors, strict=True):
            documents[s, c, m], present[s, c, m] = vector, True
    positive = []
    for s, item in enumerate(items):
        names = [candidate.name for candidate in item.candidates]
        best = (item.expected_order or ("",))[0]
        if best not in names or not present[s, names.index(best)].any():
            raise UserError(
                f"Item {s + 1} ('{item.compound}'): its best candidate '{best}' has no image or "
                "caption of the track to train on."
            )
        positive.append(names.index(best))
    return Triplets(
        tuple(item.compound.casefold() for item in items),
        anchors,
        documents,
        present,
        np.array(positive),
        tuple(found),
        np.array([query != item.compound for query, item in zip(queries, items, strict=True)]),
    )


def _encode(things: Sequence[Path | str], encoder: TextEncoder) -> npt.NDArray[np.float32]:
    paths = [thing for thing in things if isinstance(thing, Path)]
    if not paths:
        return encoder.encode_texts([str(thing) for thing in things], role="document")
    if not isinstance(encoder, ImageEncoder):
        raise UserError(f"The encoder '{encoder.name}' reads no images. Train on captions alone.")
    return encoder.encode_images(paths)


def split(compounds: Sequence[str], seed: int = 0) -> tuple[Indices, Indices, Indices]:
    """Indices to train on, to validate and to test, so that no compound is on two sides.

    A fifth of the compounds is for testing, a tenth of the others for validation: of 70 that leaves
    50, 6 and 14, of 32 it leaves 23, 3 and 6, as in the paper (section 3).

    Raises:
        UserError: there are fewer than three compounds.
    """
    names, compound = np.unique(np.array(compounds), return_inverse=True)
    if len(names) < 3:
        raise UserError(
            f"Training, validation and test need three compounds at least; there are {len(names)}."
        )
    test = max(1, round(0.2 * len(names)))
    validation = max(1, round(0.1 * (len(names) - test)))
    dealt = np.random.default_rng(seed).permutation(len(names))
    parts = np.split(dealt, [len(names) - validation - test, len(names) - test])
    train, valid, held = (np.flatnonzero(np.isin(compound, part)) for part in parts)
    return train, valid, held


def soft_negatives(
    data: Triplets, anchors: Indices, pool: Indices, k: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """K candidates of other compounds for each anchor: samples and candidates, shape (A, K) each.

    A compound's own samples are never drawn, and no sample twice for one anchor.

    Raises:
        UserError: the pool has fewer than K samples of other compounds.
    """
    names = np.array(data.compounds)
    keys = rng.random((len(anchors), len(pool)))
    own = np.equal.outer(names[anchors], names[pool])
    smallest = int((~own).sum(axis=1).min()) if len(anchors) else k
    if k > smallest:
        raise UserError(
            f"{k} soft negatives are asked for, but there are only {smallest} samples of other "
            "compounds to draw from. Use a smaller K."
        )
    samples = pool[np.argsort(np.where(own, 2.0, keys), axis=1)[:, :k]]
    there = data.present[samples].any(axis=3)
    candidates = np.where(there, rng.random(there.shape), -1.0).argmax(axis=2)
    return samples, candidates
