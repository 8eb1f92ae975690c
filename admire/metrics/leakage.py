"""Training data of heads and detectors, by their cards, and the items that share parts of it."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from admire.data.items import Item
from admire.data.overlap import KINDS, Digests, Kind, Part, digests, parts_of, shared
from admire.metrics.figures import item_metrics

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

SAW = "saw"
"""The key of a card's list: digests by kind of all that it was trained on or stopped by."""

Leaks = Mapping[str, Sequence[Kind]]
"""The kinds of an item's parts that occur in the training data of ``head`` or ``detector``."""

Digest = Annotated[str, StringConstraints(pattern="^([0-9a-f]{16}|[0-9a-f]{64})$")]


class _Measured(BaseModel):
    accuracy: float


class Card(BaseModel):
    """What is checked of the card of a head or detector."""

    saw: dict[Kind, list[Digest]] = {}
    other_languages: dict[str, _Measured] = Field({}, alias="other languages")


def training_digests(model: object) -> Digests | None:
    """Return the list on the card of a head or detector; None where there is none."""
    card: Mapping[str, Digests | None] = getattr(model, "card", {SAW: None})
    if SAW not in card:
        log.warning("The card of a head or detector does not list what it was trained on.")
    return card.get(SAW)


def detector_parts(items: Iterable[Item]) -> list[Part]:
    """Return the parts of items that detectors read: compounds and sentences."""
    parts = parts_of(items, pictures=False)
    return [part for part in parts if part.kind != "caption"]


def summarise_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card for printing: with the number of digests in place of the digests."""
    return {**card, SAW: {kind: len(digests) for kind, digests in card.get(SAW, {}).items()}}


def find_leaks(
    items: Sequence[Item], trained_on: Mapping[str, Digests], *, pictures: bool
) -> list[dict[str, list[Kind]]]:
    """Return for each item, by head or detector, which kinds of its parts were seen in training.

    Args:
        trained_on: by ``head`` or ``detector``, the list on its card.
        pictures: whether pictures are compared, if a card lists some. This reads them.
    """
    leaked: list[dict[str, list[Kind]]] = [{} for _ in items]
    if not trained_on:
        return leaked
    pictures = pictures and any(lists.get("picture") for lists in trained_on.values())
    parts = list(parts_of(items, pictures=pictures))
    for model, lists in trained_on.items():
        for part in shared(parts, lists):
            kinds = leaked[part.item].setdefault(model, [])
            if part.kind not in kinds:
                kinds.append(part.kind)
    return leaked


def merge_leaks(leaked: Iterable[Leaks]) -> dict[str, list[Kind]]:
    """Return the kinds of an item's parts that were seen in any of several runs."""
    merged: dict[str, dict[Kind, None]] = defaultdict(dict)
    for model, kinds in chain.from_iterable(run_leaks.items() for run_leaks in leaked):
        merged[model] |= dict.fromkeys(kinds)
    return {model: [*kinds] for model, kinds in merged.items()}


def warn_of_shared(
    parts: Iterable[Part],
    splits: Iterable[tuple[Collection[int], Collection[int]]],
    compounds: Sequence[str],
    model: str,
) -> None:
    """Warn if test items share parts with training items.

    Args:
        parts, compounds: of all items.
        splits: indices of training and of test items.
        model: what was trained, for the message.
    """
    parts = list(parts)
    repeated: set[Part] = set()
    tested: set[int] = set()
    example = ""
    for training, test in splits:
        training, test = set(map(int, training)), set(map(int, test))
        training_parts = [part for part in parts if part.item in training]
        repeats = shared((part for part in parts if part.item in test), digests(training_parts))
        if repeats and not example:
            first, name = repeats[0], textwrap.shorten(repeats[0].name, 60, placeholder="…")
            source = next(p for p in training_parts if shared([first], {p.kind: [p.digest]}))
            example = (
                f"{first.kind} '{name}' of '{compounds[first.item]}', also in "
                f"'{compounds[source.item]}'"
            )
        repeated.update(repeats)
        tested |= test
    if repeated:
        log.warning(
            "%d of %d items that are evaluated share %s with items of other compounds that %s "
            "learned from, so their figures may be too good. The first is the %s.",
            len({part.item for part in repeated}),
            len(tested),
            count_parts((part.kind, part.item) for part in repeated),
            model,
            example,
        )


def describe_leaks(
    scored: pd.DataFrame, leaked: Sequence[Leaks], columns: Sequence[str] | None = None
) -> list[str]:
    """Return sentences on scored items that were seen in training.

    There are none, or one for each of head and detector and one with the mean figures of the other
    items: of ``columns``, or of all.
    """
    sentences = []
    for model in sorted(set[str]().union(*leaked)):
        kinds = [(kind, k) for k, leaks in enumerate(leaked) for kind in leaks.get(model, ())]
        count = len({k for _, k in kinds})
        sentences.append(
            f"{count} of {len(leaked)} items share {count_parts(kinds)} with what the {model} saw "
            "in training."
        )
    if not sentences:
        return []
    unseen = [not any(item_leaks.values()) for item_leaks in leaked]
    if not any(unseen):
        return [*sentences, "So these figures say little about unseen items."]
    means = scored.loc[unseen, list(columns or item_metrics(scored))].mean()
    figures = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    return [*sentences, f"Figures of the other {sum(unseen)}: {figures}."]


def warn_if_leaked(
    items: Sequence[Item], detector: object, scored: pd.DataFrame, columns: Sequence[str], name: str
) -> None:
    """Warn if a detector saw parts of scored items in training; see :func:`describe_leaks`."""
    listed = training_digests(detector)
    leaked = find_leaks(items, {"detector": listed} if listed else {}, pictures=False)
    for line in describe_leaks(scored, leaked, columns):
        log.warning("%s: %s", name, line)


def count_parts(parts: Iterable[tuple[Kind, int]]) -> str:
    """Count the items that share each kind, as ``captions (12) and pictures (11)``."""
    items = Counter(kind for kind, _ in set(parts))
    *start, end = [f"{kind}s ({items[kind]})" for kind in KINDS if items[kind]]
    return f"{', '.join(start)} and {end}" if start else end
