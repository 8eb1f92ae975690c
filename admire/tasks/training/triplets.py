"""Anchors, positives and negatives for training a head, from embeddings computed once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.core.errors import UserError
from admire.data.items import Item
from admire.data.overlap import Part, parts_of
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.encoders.cached import checked, log_long
from admire.llm import Session, open_llm
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.senses.interpretation import Approach
from admire.senses.settings import SenseSettings
from admire.tasks.training.settings import TripletSettings

Indices = npt.NDArray[np.int64]
Modalities = dict[str, Mapping[Any, Path | str]]
"""By modality, see :class:`Triplets`, the variant of each image file or caption."""


@dataclass(frozen=True)
class Triplets:
    """What a head is trained on (UoR-NCL, section 2.4): S samples, M modalities, width d.

    A modality is the paper's word for one form of a candidate: its image, a variant of its image,
    its caption, a rewriting of its caption. Each belongs to a track, image or caption. A sample's
    hard negatives are its other candidates; for soft ones see :func:`draw_soft_negatives`.
    """

    compounds: tuple[str, ...]  #: of each sample, in lower case
    anchors: npt.NDArray[np.float32]  #: the queries for the true senses, shape (S, d)
    documents: npt.NDArray[np.float32]  #: candidates by modality, zeros without, (S, C, M, d)
    present: npt.NDArray[np.bool_]  #: which of them exist, shape (S, C, M)
    positive: Indices  #: the index of the best candidate by gold, shape (S,)
    modalities: tuple[str, ...]  #: ``image``, ``augmented image 1``, ``paraphrase by t5``, …
    gloss: npt.NDArray[np.bool_]  #: which anchors are glosses, not compounds, shape (S,)
    items: tuple[Item, ...] = ()  #: what they were made of; empty if unknown

    def parts(self) -> Iterator[Part]:
        """Iterate over the parts of the items that a head learns from; variants are their bases."""
        captions = "caption" in self.modalities
        parts = parts_of(self.items, pictures="image" in self.modalities)
        return (part for part in parts if captions or part.kind != "caption")


def image_modalities(items: Sequence[Item], augmented: Path | None) -> Modalities:
    """Map each modality of the image track to the candidates' image files, or to their variants.

    In a folder that :func:`admire.augment.images.augment_folder` wrote, ``night_owl_1.png`` is the
    first variant of ``night_owl.png``. Without a variant of these images it is a UserError.
    """
    images = {c.image for item in items for c in item.candidates if c.image}
    modalities: Modalities = {"image": {image: image for image in images}}
    if augmented is None:
        return modalities
    by_name = defaultdict[str, list[Path]](list)
    for variant in augmented.rglob("*.png"):
        by_name[variant.name].append(variant)
    k = 1
    while variants := {
        image: variant
        for image in images
        for variant in by_name[f"{image.stem}_{k}.png"]
        if variant.parent.name == image.parent.name or variant.parent == augmented
    }:
        modalities[f"augmented image {k}"] = variants
        k += 1
    if k == 1:
        raise UserError(f"{augmented}: contains no augmented image of these candidates.", "images")
    return modalities


def caption_modalities(items: Sequence[Item], rewritten: Path | None) -> Modalities:
    """Map each modality of the caption track to the candidates' captions, originals or rewrites.

    Each rewriter in a file that :func:`admire.augment.captions.write_rewritten` wrote is a
    modality. A file that cannot be read, or rewrites none of these captions, is a UserError.
    """
    captions = {c.caption for item in items for c in item.candidates if c.caption}
    modalities: Modalities = {"caption": {caption: caption for caption in captions}}
    if rewritten is None:
        return modalities
    from admire.augment.captions import read_rewritten

    by_rewriter: dict[str, dict[str, str]] = {}
    for caption, rows in read_rewritten(rewritten).items():
        for row in rows if caption in captions else ():
            by_rewriter.setdefault(f"{row.kind} by {row.made_by}", {})[caption] = row.text
    if not by_rewriter:
        raise UserError(
            f"{rewritten}: contains no rewritten caption of these candidates.", "captions"
        )
    return modalities | by_rewriter


def open_triplets(
    items: Sequence[Item],
    settings: TripletSettings | None = None,
    *,
    seed: int = 0,
    session: Session | None = None,
) -> tuple[Triplets, TextEncoder]:
    """Make triplets of items whose types and orders are known; return also the encoder.

    A chat model, asked by the session or one of its own, writes the glosses, sampled by the seed.
    What can be refused is refused before it is asked.

    Raises:
        UserError: a model is missing; an item's type is not given; ``images`` or ``captions`` is,
            but the track does not use it; and as for :func:`encode_triplets`.
    """
    settings = settings or TripletSettings()
    track, images, captions = settings.track, settings.images, settings.captions
    for part, path in (("image", images), ("caption", captions)):
        if path and part not in track:
            raise UserError(
                f"{path}: the track {track} uses no {part}s. Use the track image+caption.", "track"
            )
    modalities = image_modalities(items, images) if "image" in track else {}
    modalities |= caption_modalities(items, captions) if "caption" in track else {}
    encoder = open_encoder(settings.encoder, device=settings.device)
    _find_inputs(items, encoder, modalities)
    queries = write_queries(items, settings, seed=seed, session=session)
    return encode_triplets(items, queries, encoder, modalities), encoder


def write_queries(
    items: Sequence[Item], settings: TripletSettings, *, seed: int, session: Session | None = None
) -> list[str]:
    """Return what each item's candidates are compared with: the gloss of the given sense, by the
    chat model, or the compound."""
    llm = open_llm(settings.llm, session, url=settings.llm_url)
    senses = SenseSettings(sense="given", meanings="gloss")
    (readings,) = interpret_items(items, [llm], Approach(Prompts(settings.prompts), senses, seed))
    return [reading.gloss or item.phrase for item, reading in zip(items, readings, strict=True)]


def encode_triplets(
    items: Sequence[Item],
    queries: Sequence[str],
    encoder: TextEncoder,
    modalities: Modalities,
) -> Triplets:
    """Encode the items' queries, glosses or compounds, and every modality of their candidates.

    Raises:
        UserError: an item's best candidate is unknown or has none of the modalities, no candidate
            has any of them, or the encoder does not suit the track.
    """
    encoder = checked(encoder, "cut")  # as in the paper
    inputs, positive = _find_inputs(items, encoder, modalities)
    texts = [text for row in inputs.values() for text in row.values() if isinstance(text, str)]
    log_long([encoder.count_long([*queries, *texts])], "texts")
    width = max(len(item.candidates) for item in items)
    anchors = encoder.encode_texts(list(queries), role="query")
    shape = (len(items), width, len(inputs))
    documents = np.zeros((*shape, anchors.shape[1]), dtype=np.float32)
    present = np.zeros(shape, dtype=bool)
    for m, by_candidate in enumerate(inputs.values()):
        paths = [own for own in by_candidate.values() if isinstance(own, Path)]
        if paths and isinstance(encoder, ImageEncoder):
            vectors = encoder.encode_images(paths)
        else:
            vectors = encoder.encode_texts([*map(str, by_candidate.values())], role="document")
        for (s, c), vector in zip(by_candidate, vectors, strict=True):
            documents[s, c, m], present[s, c, m] = vector, True
    return Triplets(
        tuple(item.compound.casefold() for item in items),
        anchors,
        documents,
        present,
        np.array(positive),
        tuple(inputs),
        np.array([query != item.phrase for query, item in zip(queries, items, strict=True)]),
        tuple(items),
    )


def _find_inputs(
    items: Sequence[Item], encoder: TextEncoder, modalities: Modalities
) -> tuple[dict[str, dict[tuple[int, int], Path | str]], list[int]]:
    """Find the file or text of each candidate that has one, by modality and by sample and
    candidate, and the place of each item's best candidate."""
    inputs: dict[str, dict[tuple[int, int], Path | str]] = {}
    for modality, variants in modalities.items():
        by_place = {
            (s, c): variants[own]
            for s, item in enumerate(items)
            for c, candidate in enumerate(item.candidates)
            for own in (candidate.image, candidate.caption)
            if own in variants
        }
        if by_place:
            inputs[modality] = by_place
    if not inputs:
        raise UserError("No candidate has an image or caption of the track to train on.", "track")
    has_images = any(isinstance(own, Path) for row in inputs.values() for own in row.values())
    if has_images and not isinstance(encoder, ImageEncoder):
        raise UserError(f"The encoder '{encoder.name}' reads no images. Use captions.", "track")
    there, positive = set().union(*inputs.values()), []
    for s, item in enumerate(items):
        best = (item.expected_order or ("",))[0]
        if best not in item.names or (s, item.names.index(best)) not in there:
            raise UserError(
                f"Item {s + 1} ('{item.compound}'): its best candidate '{best}' by expected_order "
                "has no image or caption of the track to train on."
            )
        positive.append(item.names.index(best))
    return inputs, positive


def split_compounds(compounds: Sequence[str], seed: int = 0) -> tuple[Indices, Indices, Indices]:
    """Split samples, by their compounds, for training, validation and test.

    No compound is in two of the parts. A fifth of them is for the test, a tenth of the others for
    validation. 70 become 50, 6 and 14, and 32 become 23, 3 and 6, as in the paper (section 3).
    """
    names, compound = np.unique(np.array(compounds), return_inverse=True)
    if len(names) < 3:
        raise UserError(f"A split needs at least three compounds; there are {len(names)}.")
    test = max(1, round(0.2 * len(names)))
    validation = max(1, round(0.1 * (len(names) - test)))
    dealt = np.random.default_rng(seed).permutation(len(names))
    parts = np.split(dealt, [len(names) - validation - test, len(names) - test])
    train, valid, held = (np.flatnonzero(np.isin(compound, part)) for part in parts)
    return train, valid, held


def draw_soft_negatives(
    data: Triplets, anchors: Indices, pool: Indices, k: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Draw K candidates of other compounds for each anchor (A,), each of another sample of the
    pool. If that has fewer than K such samples, it is a UserError.

    Returns:
        The samples that were drawn and the candidate of each, both of shape (A, K).
    """
    check_soft_negatives(data.compounds, anchors, pool, k)
    names = np.array(data.compounds)
    keys = rng.random((len(anchors), len(pool)))
    own = np.equal.outer(names[anchors], names[pool])
    samples = pool[np.argsort(np.where(own, 2.0, keys), axis=1)[:, :k]]
    there = data.present[samples].any(axis=3)
    candidates = np.where(there, rng.random(there.shape), -1.0).argmax(axis=2)
    return samples, candidates


def check_soft_negatives(compounds: Sequence[str], anchors: Indices, pool: Indices, k: int) -> None:
    """Refuse to draw more soft negatives of an anchor than there are samples of other compounds."""
    counts = Counter(compounds[sample] for sample in pool)
    most = max((counts[compounds[anchor]] for anchor in anchors), default=0)
    if k > len(pool) - most:
        raise UserError(
            f"{k} soft negatives are too many: a training item has only {len(pool) - most} other "
            "items whose compounds differ from its own. Use fewer soft negatives or more data.",
            "soft_negatives",
        )
