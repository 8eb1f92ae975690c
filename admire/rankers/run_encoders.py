"""The encoders of a run: how they are opened, and what they encode and count."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, filterfalse
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from admire.core import registry
from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.data.languages import language_name
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked
from admire.encoders.protocols import Vectors, reads_images
from admire.encoders.windows import Windows, compare
from admire.rankers.scorer import SMALLEST, Scores
from admire.rankers.settings import SetSummary, Settings

if TYPE_CHECKING:
    from admire.encoders.projection import Projection

log = logging.getLogger("admire")

Encoded = Mapping[tuple[str, bool], tuple[Mapping[str, Vectors], Mapping[Any, Vectors]]]
"""The windows of texts, and those of images or captions, by track and whether a head projected
them."""


def _of_track(candidates: Iterable[Candidate], track: str) -> list[Any]:
    """Return the images or captions that candidates have."""
    return list(filter(None, map(attrgetter(track), candidates)))


class RunEncoder:
    """An encoder of a run.

    Args:
        tracks: the encoder by track. Captions may have their own.
        head: projects its vectors before they are compared.

    Attributes:
        name: of two encoders, joined by a plus.
        noise: by track, as far as it is stated, see :class:`TextEncoder` (not with a head), or
            measured.
        long_texts: how many captions so far were longer than it reads; empty if it read none.
    """

    def __init__(self, tracks: Mapping[str, CachedEncoder], head: Projection | None = None):
        self.tracks, self.head = tracks, head
        self.name = " + ".join(dict.fromkeys(map(attrgetter("name"), tracks.values())))
        self.long_texts: dict[str, Any] = {}
        self.noise: dict[str, float] = {}
        for track, encoder in tracks.items():
            stated = getattr(encoder.encoder, "noise", {}).get(track)
            if stated is not None and not head:
                self.noise[track] = stated

    def compares(self, item: Item) -> bool:
        """Return whether it knows the item's language, and two candidates have what it encodes."""
        knows = (encoder.knows(item.language) for encoder in self.tracks.values())
        return all(knows) and not shares_no_view(item, self.tracks)

    @property
    def unmeasured(self) -> set[str]:
        """The tracks whose noise is not known yet."""
        return self.tracks.keys() - self.noise.keys()

    def encode(self, items: Sequence[Item], texts: Iterable[str] = ()) -> Encoded:
        """Encode queries' texts, and each image or caption, also those of sequences.

        Noise that is not known is measured: compounds are compared with other items' candidates.
        """
        unmeasured = self.unmeasured
        phrases = map(attrgetter("phrase"), items if unmeasured else ())
        texts = list(dict.fromkeys([*texts, *phrases]))
        read: dict[str, Windows] = {}
        for encoder in self.tracks.values():  # the texts of all, before any candidate
            if encoder.identity not in read:
                read[encoder.identity] = encoder.text_windows(texts, role="query")
        encoded = {}
        for track, encoder in self.tracks.items():
            every = chain.from_iterable(map(attrgetter("things"), items))
            things = list(dict.fromkeys(_of_track(every, track)))
            if track == "caption":
                of_things = encoder.text_windows(things, role="document")
            else:
                of_things = Windows.of(encoder.encode_images(things))
            of_texts = read[encoder.identity]
            narrow, wide = sorted((of_texts.vectors.shape[1], of_things.vectors.shape[1]))
            if 0 < narrow < wide:  # 0 is of none
                raise UserError(
                    f"The encoder '{encoder.name}' returned vectors of {narrow} and {wide} "
                    "dimensions, which cannot be compared."
                )
            for project in (None, self.head.project) if self.head else (None,):
                if project:
                    of_texts, of_things = of_texts.map(project), of_things.map(project)
                encoded[track, project is not None] = (
                    dict(zip(texts, of_texts.each, strict=True)),
                    dict(zip(things, of_things.each, strict=True)),
                )
        if unmeasured:
            self._measure(items, encoded, unmeasured)
        return encoded

    def _measure(self, items: Sequence[Item], encoded: Encoded, tracks: Iterable[str]) -> None:
        """Note the mean deviation of compounds' cosines with the candidates of the next item."""
        spreads = defaultdict(list)
        for item, other in zip(items, [*items[1:], *items[:1]], strict=True):
            if item.phrase.casefold() != other.phrase.casefold():
                cosines = self.cosines(other, {"compound": item.phrase}, encoded)
                for track in tracks:
                    row = cosines[track][0]
                    if not np.isnan(row).all() and (spread := float(np.nanstd(row))) > SMALLEST:
                        spreads[track].append(spread)
        for track, own in spreads.items():
            self.noise[track] = float(np.mean(own))

    def cosines(self, item: Item, texts: Mapping[str, str], encoded: Encoded) -> dict[str, Scores]:
        """Return the cosines of texts by role with an item's candidates, by track.

        The shape is (texts, candidates); a candidate that lacks the track has NaN. The role
        ``sequence`` has the mean over the parts of the item's sequence.
        """
        cosines: dict[str, Scores] = {}
        for track in self.tracks:
            there = np.array([bool(getattr(c, track)) for c in item.candidates])
            cosines[track] = np.full((len(texts), len(there)), np.nan)
            if not there.any():
                continue
            things, joined = _of_track(item.candidates, track), dict[bool, Windows]()
            for row, (role, text) in zip(cosines[track], texts.items(), strict=True):
                headed = bool(self.head and self.head.projects(role))
                of_texts, of_things = encoded[track, headed]
                queries = [of_texts[text]] if role != "sequence" else []
                if role == "sequence":
                    queries = [of_things[thing] for thing in _of_track(item.sequence, track)]
                row[there] = 0.0
                if queries:
                    if headed not in joined:
                        joined[headed] = Windows.joined([of_things[thing] for thing in things])
                    row[there] = compare(Windows.joined(queries), joined[headed]).mean(axis=0)
        return cosines


def that_compare(encoders: Sequence[RunEncoder], item: Item) -> list[RunEncoder]:
    """Return the encoders that compare an item's candidates; if none does, the first one."""
    return [encoder for encoder in encoders if encoder.compares(item)] or [*encoders[:1]]


def count_long(encoders: Sequence[RunEncoder], item: Item) -> None:
    """Count the captions of a further item that are longer than an encoder reads."""
    captions = _of_track(item.things, "caption")
    for encoder in that_compare(encoders, item) if captions else ():
        if "caption" in encoder.tracks:
            counted = encoder.tracks["caption"].count_long(captions)
            for name in ("texts", "longer"):
                counted[name] += encoder.long_texts.get(name, 0)
            encoder.long_texts = counted


def shares_no_view(item: Item, tracks: Iterable[str] = TRACKS) -> bool:
    """Return whether no two candidates have a modality in common, such as image and caption."""
    return all(len(_of_track(item.candidates, track)) < 2 for track in tracks)


def share_a_view(item: Item, encoders: Mapping[str, TextEncoder]) -> Item:
    """Return the item with captions from ``sight``'s labels if no modality is in common."""
    if not shares_no_view(item, encoders):
        return item
    in_words: Any = getattr(getattr(encoders.get("image"), "encoder", None), "in_words", None)
    described = in_words and "caption" in encoders
    how = "captions are generated from sight's labels" if described else "their scores are 0"
    log.warning("'%s': candidates have no modality in common: %s.", item.compound, how)
    if not described:
        return item
    candidates = (
        c if c.caption or not c.image else replace(c, caption=in_words(c.image))
        for c in item.candidates
    )
    return replace(item, candidates=tuple(candidates))


def look_where_no_caption_is(summary: SetSummary, settings: Settings) -> Settings:
    """Return settings with ``sight`` in place of ``e5`` if candidates lack captions.

    It encodes texts as e5 does. If there are captions as well, pictures have half their weight: on
    train, with captions hidden at random, that ranked better than captions alone.
    """
    if settings.track or settings.caption_encoder or settings.head or not summary.without_caption:
        return settings
    encoders = tuple(encoder_attribute(name, "companion", "") or name for name in settings.encoder)
    companion = next((new for new in encoders if new not in settings.encoder), "")
    if not companion:
        return settings
    weight = encoder_attribute(companion, "picture_weight", 1.0)
    log.warning(
        "%d of %d candidates have no caption: the encoder %s encodes the pictures%s.",
        summary.without_caption,
        summary.candidates,
        companion,
        f", with weight {weight:g} relative to captions" if summary.captions else "",
    )
    scoring = settings.scoring
    if summary.captions:
        scoring = replace(scoring, image_weight=weight * scoring.image_weight)
    return replace(settings, encoder=encoders, scoring=scoring)


def encoder_attribute(name: str, attribute: str, default: Any) -> Any:
    """Return an attribute of an encoder by its name, without opening it, or the default."""
    family = name.partition(":")[0]
    there = family in registry.names("encoder")
    return getattr(registry.find("encoder", family).make, attribute, default) if there else default


def reads_pictures(summary: SetSummary, settings: Settings) -> bool:
    """Return whether a run with these settings reads pictures, without opening any model."""
    if not summary.images or "image" not in (settings.track or "image"):
        return False
    reads = bool(settings.track or summary.without_caption)
    for name in settings.llms:
        reads |= settings.looks and "key" in registry.resolve("chat", name)[0].needs
    for name in settings.encoder:
        reads |= reads_images(registry.resolve("encoder", name)[0].make)
    return reads


def open_encoders(
    summary: SetSummary,
    settings: Settings,
    encoders: Sequence[str | TextEncoder] | None = None,
    caption_encoder: TextEncoder | None = None,
) -> list[RunEncoder]:
    """Open the encoders of a run for the tracks to rank by: images, captions or both.

    Args:
        encoders, caption_encoder: names and objects in place of those of the settings.
    """
    tracks = settings.track.split("+") if settings.track else summary.tracks
    for track in tracks:
        if track not in summary.tracks:
            raise UserError(f"No candidate has {track}s. Use another track.", "track")

    for_captions = None
    if "caption" in tracks and (chosen := caption_encoder or settings.caption_encoder):
        for_captions = _open(chosen, settings)
    if for_captions and "image" not in tracks:
        several = [for_captions]
    else:
        several = [_open(encoder, settings) for encoder in encoders or settings.encoder]
    several = _by_language(several, summary.languages)
    run_encoders = _by_track(several, for_captions, tracks, settings)
    if settings.scoring.standardise == "no" and any(
        len({encoder.identity for encoder in run.tracks.values()}) > 1 for run in run_encoders
    ):
        raise UserError(
            "Cosines of two encoders differ in scale: standardise them, or use one encoder.",
            "standardise",
        )
    return _with_heads(run_encoders, settings) if settings.head else run_encoders


def _open(encoder: str | TextEncoder, settings: Settings) -> CachedEncoder:
    if isinstance(encoder, str):
        placed: Any = {"device": settings.device, "precision": settings.precision}
        encoder = open_encoder(encoder, plugins=settings.plugins, **placed)
    return checked(encoder, settings.long_texts)


def _by_language(encoders: list[CachedEncoder], languages: list[str]) -> list[CachedEncoder]:
    """Leave out encoders that know none of a set's languages, if others do; say which stay out."""
    used = []
    for encoder in encoders:
        unknown = list(filterfalse(encoder.knows, languages))
        if unknown and len(encoders) > 1:
            names = ", ".join(dict.fromkeys(map(language_name, unknown)))
            log.info("The encoder '%s' does not compare texts in %s.", encoder.name, names)
        if len(unknown) < len(languages) or not languages:
            used.append(encoder)
    return used or encoders


def _by_track(
    encoders: Sequence[CachedEncoder],
    for_captions: CachedEncoder | None,
    tracks: Sequence[str],
    settings: Settings,
) -> list[RunEncoder]:
    """Return what encodes each track; refuse images that nothing encodes if they are needed."""
    run_encoders, blind = [], []
    for encoder in encoders:
        by_track: dict[str, CachedEncoder] = {}
        if "image" in tracks and isinstance(encoder, ImageEncoder):
            by_track["image"] = encoder
        elif "image" in tracks:
            blind.append(f"'{encoder.name}'")
        if "caption" in tracks:
            by_track["caption"] = for_captions or encoder
        if by_track:
            run_encoders.append(RunEncoder(by_track))
    if blind:
        names, all_blind = " and ".join(blind), len(blind) == len(encoders)
        if all_blind and (settings.track or "caption" not in tracks):
            raise UserError(
                f"Images are not encoded by {names}. Compare captions, or use an encoder that does "
                "(sight, mclip:NAME, openclip:MODEL/TAG).",
                "track",
                "encoder",
            )
        level = logging.WARNING if all_blind else logging.INFO
        log.log(level, "Images are not encoded by %s: only captions count there.", names)
    return run_encoders


def _with_heads(run_encoders: Sequence[RunEncoder], settings: Settings) -> list[RunEncoder]:
    """Open the heads of a run, and give each encoder the one that was trained on it."""
    from admire.encoders.projection import load_projection

    heads = [load_projection(Path(folder)) for folder in settings.head]
    cards = [head.card["encoder"] for head in heads]
    trained_on = [(card["name"], card["identity"]) for card in cards]
    used = [{(e.name, e.identity) for e in run.tracks.values()} for run in run_encoders]
    if sorted(of for _, of in chain(*used)) != sorted(of for _, of in trained_on):
        described = (
            ", ".join(f"'{name}' ({identity})" for name, identity in sorted(pairs))
            for pairs in (trained_on, set().union(*used))
        )
        raise UserError(
            "Each encoder needs one head that was trained on it, or none has one. The heads are of "
            "{}; the encoders are {}.".format(*described),
            "head",
        )
    if settings.query != "meaning" and not all(head.projects(settings.query) for head in heads):
        raise UserError(f"The head compares glosses, not the query '{settings.query}'.", "query")
    by_identity = {identity: head for (_, identity), head in zip(trained_on, heads, strict=True)}
    return [
        RunEncoder(run.tracks, by_identity[next(iter(run.tracks.values())).identity])
        for run in run_encoders
    ]
