"""The encoders of a run: how they are opened, and what they encode and count."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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

Default = TypeVar("Default")


Encoded = Mapping[tuple[str, bool], tuple[Mapping[str, Vectors], Mapping[Any, Vectors]]]
"""The windows of texts, and those of images or captions, by track and whether a head projected
them."""


def _of_track(candidates: Iterable[Candidate], track: str) -> list[Any]:
    """Return the images or captions that candidates have."""
    return [thing for candidate in candidates if (thing := getattr(candidate, track))]


@dataclass(frozen=True)
class RunEncoder:
    """An encoder of a run.

    Attributes:
        tracks: the encoder by track. Captions may have their own.
        head: projects its vectors before they are compared.
    """

    tracks: Mapping[str, CachedEncoder]
    head: Projection | None = None

    @property
    def name(self) -> str:
        """The encoder's name; of two, joined by a plus."""
        return " + ".join(dict.fromkeys(encoder.name for encoder in self.tracks.values()))

    @property
    def stated_noise(self) -> dict[str, float]:
        """Its noise by track, as far as it is stated, see :class:`TextEncoder`; not with a head."""
        stated = {t: getattr(e.encoder, "noise", {}).get(t) for t, e in self.tracks.items()}
        return {t: noise for t, noise in stated.items() if noise is not None and not self.head}

    def compares(self, item: Item) -> bool:
        """Return whether it knows the item's language, and two candidates have what it encodes."""
        known = all(encoder.knows(item.language) for encoder in self.tracks.values())
        return known and not shares_no_view(item, self.tracks)

    def encode(self, items: Sequence[Item], texts: Iterable[str]) -> Encoded:
        """Encode queries' texts, and each image or caption, also those of sequences."""
        texts = list(dict.fromkeys(texts))
        encoded: dict[str, Windows] = {}
        for encoder in self.tracks.values():  # the texts of all, before any candidate
            if encoder.identity not in encoded:
                encoded[encoder.identity] = encoder.text_windows(texts, role="query")
        spaces: dict[bool, Callable[[Vectors], Vectors]] = {False: lambda vectors: vectors}
        if self.head:
            spaces[True] = self.head.project
        by_track = {}
        for track, encoder in self.tracks.items():
            every = chain.from_iterable(_of_track(item.things, track) for item in items)
            things = list(dict.fromkeys(every))
            if track == "caption":
                of_things = encoder.text_windows(things, role="document")
            else:
                of_things = Windows.of(encoder.encode_images(things))
            of_texts = encoded[encoder.identity]
            narrow, wide = sorted(of.vectors.shape[1] for of in (of_texts, of_things))
            if 0 < narrow < wide:  # 0 is of none
                raise UserError(
                    f"The encoder '{encoder.name}' returned vectors of {narrow} and {wide} "
                    "dimensions, which cannot be compared."
                )
            for headed, project in spaces.items():
                by_track[track, headed] = (
                    dict(zip(texts, of_texts.map(project).each, strict=True)),
                    dict(zip(things, of_things.map(project).each, strict=True)),
                )
        return by_track

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
            things = _of_track(item.candidates, track)
            candidates = {
                headed: Windows.joined([of_things[thing] for thing in things])
                for (of, headed), (_, of_things) in encoded.items()
                if of == track
            }
            for row, (role, text) in zip(cosines[track], texts.items(), strict=True):
                headed = bool(self.head and self.head.projects(role))
                of_texts, of_things = encoded[track, headed]
                queries = [of_texts[text]] if role != "sequence" else []
                if role == "sequence":
                    queries = [of_things[thing] for thing in _of_track(item.sequence, track)]
                row[there] = 0.0
                if queries:
                    compared = compare(Windows.joined(queries), candidates[headed])
                    row[there] = compared.mean(axis=0)
        return cosines


class RunEncoders(Sequence[RunEncoder]):
    """The encoders of a run, and what was counted and measured with them so far.

    Attributes:
        noise: of each encoder by track, as far as it is known.
    """

    def __init__(self, encoders: Iterable[RunEncoder] = ()):
        self._encoders = list(encoders)
        self.noise = [encoder.stated_noise for encoder in self]
        self._counted: list[dict[str, Any]] = [{} for _ in self]

    def __getitem__(self, place: Any) -> Any:
        return self._encoders[place]

    def __len__(self) -> int:
        return len(self._encoders)

    def that_compare(self, item: Item) -> list[RunEncoder]:
        """Return the encoders that compare an item's candidates; if none does, the first one."""
        return [e for e in self if e.compares(item)] or self._encoders[:1]

    def encode(self, place: int, items: Sequence[Item], texts: Sequence[str] = ()) -> Encoded:
        """Encode items and texts by one encoder, see :meth:`RunEncoder.encode`.

        Noise that is not known is measured: compounds are compared with other items' candidates.
        """
        encoder: RunEncoder = self[place]
        if missing := encoder.tracks.keys() - self.noise[place].keys():
            texts = [*texts, *(item.phrase for item in items)]
        encoded = encoder.encode(items, texts)
        self.noise[place] |= _measure(items, encoder, encoded, missing)
        return encoded

    def measure(self, items: Sequence[Item]) -> None:
        """Measure the noise that encoders do not state, on the first items of a run."""
        for place, encoder in enumerate(self):
            if encoder.tracks.keys() - self.noise[place].keys():
                self.encode(place, [item for item in items if encoder in self.that_compare(item)])

    def count_long(self, items: Iterable[Item]) -> None:
        """Count the captions of further items that are longer than an encoder reads."""
        for item in items:
            captions = [thing.caption for thing in item.things if thing.caption]
            comparing = self.that_compare(item) if captions else []
            for place, encoder in enumerate(self):
                if encoder in comparing and "caption" in encoder.tracks:
                    before = self._counted[place]
                    counted = encoder.tracks["caption"].count_long(captions)
                    for name in ("texts", "longer"):
                        counted[name] += before.get(name, 0)
                    self._counted[place] = counted

    @property
    def long_texts(self) -> list[dict[str, Any]]:
        """How many captions so far were longer than each encoder reads; those that read none have
        no entry."""
        return [counted for counted in self._counted if counted]


def _measure(
    items: Sequence[Item], encoder: RunEncoder, encoded: Encoded, tracks: Collection[str]
) -> dict[str, float]:
    """Return the mean deviation of compounds' cosines with the candidates of the next item."""
    spreads: dict[str, list[float]] = defaultdict(list)
    for item, other in zip(items, [*items[1:], *items[:1]], strict=True):
        if tracks and item.phrase.casefold() != other.phrase.casefold():
            cosines = encoder.cosines(other, {"compound": item.phrase}, encoded)
            for track in tracks:
                row = cosines[track][0]
                if not np.isnan(row).all() and (spread := float(np.nanstd(row))) > SMALLEST:
                    spreads[track].append(spread)
    return {track: float(np.mean(own)) for track, own in spreads.items()}


def shares_no_view(item: Item, tracks: Iterable[str] = TRACKS) -> bool:
    """Return whether no two candidates have a modality in common, such as image and caption."""
    shown = Counter(track for track in tracks for c in item.candidates if getattr(c, track))
    return max(shown.values(), default=0) < 2


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


def encoder_attribute(name: str, attribute: str, default: Default) -> Default:
    """Return an attribute of an encoder by its name, without opening it, see :class:`TextEncoder`;
    the default if it has none, or the encoder is not installed."""
    family = name.partition(":")[0]
    if family not in registry.names("encoder"):
        return default
    value: Default = getattr(registry.find("encoder", family).make, attribute, default)
    return value


def reads_pictures(summary: SetSummary, settings: Settings) -> bool:
    """Return whether a run with these settings reads pictures, without opening any model."""
    if not summary.images or "image" not in (settings.track or "image"):
        return False
    reads = bool(settings.track or summary.without_caption)
    for name in settings.llms:
        plugin, _ = registry.resolve("chat", name)
        reads |= settings.looks and "key" in plugin.needs
    for name in settings.encoder:
        plugin, _ = registry.resolve("encoder", name)
        reads |= reads_images(plugin.make)
    return reads


def open_encoders(
    summary: SetSummary,
    settings: Settings,
    encoders: Sequence[str | TextEncoder] | None = None,
    caption_encoder: TextEncoder | None = None,
) -> RunEncoders:
    """Open the encoders of a run for the tracks to rank by: images, captions or both.

    Args:
        encoders: names and opened encoders in place of those of the settings.

    Raises:
        UserError: no candidate has the track, no encoder supports it, or a head does not fit.
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
    return RunEncoders(_with_heads(run_encoders, settings) if settings.head else run_encoders)


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
    """Return what encodes each track. Captions may have an encoder of their own.

    Images that no encoder encodes are refused, or logged if captions can be ranked without them.
    """
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
        replace(run, head=by_identity[next(iter(run.tracks.values())).identity])
        for run in run_encoders
    ]
