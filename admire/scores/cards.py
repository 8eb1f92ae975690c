"""What heads and detectors saw in training, and which items share something with it."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, StringConstraints

from admire.data.items import Item
from admire.data.overlap import KINDS, Digests, Kind, Part, digests, parts_of, shared
from admire.scores import metrics

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

SAW = "saw"
"""The key of a card's list: digests by kind of all that a head or detector was trained on, the
items that stopped the training included."""

Seen = Mapping[str, Sequence[Kind]]
"""Which kinds of an item's parts were seen, by ``head`` or ``detector``."""

Digest = Annotated[str, StringConstraints(pattern="^([0-9a-f]{16}|[0-9a-f]{64})$")]


class _Card(BaseModel):
    saw: dict[Kind, list[Digest]] = {}


def check_saw(card: object) -> None:
    """Check the list of a card that was read from a file.

    Raises:
        ValueError: the card is not an object, or its list is not one of digests.
    """
    _Card.model_validate(card)


def what_it_saw(made: object) -> Digests | None:
    """The list on the card of a head or detector; None where there is none."""
    card = getattr(made, "card", {SAW: None})
    if SAW not in card:
        log.warning("The card of a head or detector does not list what it was trained on.")
    saw: Digests | None = card.get(SAW)
    return saw


def read_by_detectors(items: Iterable[Item]) -> list[Part]:
    """The items' compounds and sentences."""
    parts = parts_of(items, pictures=False)
    return [part for part in parts if part.kind in ("compound", "sentence")]


def brief(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card for printing: with the number of digests in place of the digests."""
    return {**card, SAW: {kind: len(digests) for kind, digests in card.get(SAW, {}).items()}}


def seen_by(
    items: Sequence[Item], saw: Mapping[str, Digests], *, pictures: bool
) -> list[dict[str, list[Kind]]]:
    """For each item, by head or detector, which kinds of its parts were seen in training.

    Args:
        saw: by ``head`` or ``detector``, the list on its card.
        pictures: whether pictures are compared, if a card lists some. This reads them.

    Raises:
        UserError: a picture cannot be read.
    """
    seen: list[dict[str, list[Kind]]] = [{} for _ in items]
    if not saw:
        return seen
    pictures = pictures and any(listed.get("picture") for listed in saw.values())
    parts = list(parts_of(items, pictures=pictures))
    for who, listed in saw.items():
        for part in shared(parts, listed):
            kinds = seen[part.item].setdefault(who, [])
            if part.kind not in kinds:
                kinds.append(part.kind)
    return seen


def merged(seen: Iterable[Seen]) -> dict[str, list[Kind]]:
    """Which kinds of an item's parts were seen in any of several runs."""
    kinds: dict[str, dict[Kind, None]] = {}
    for of_run in seen:
        for who, some in of_run.items():
            kinds.setdefault(who, {}).update(dict.fromkeys(some))
    return {who: list(some) for who, some in kinds.items()}


def warn_of_shared(
    parts: Iterable[Part],
    splits: Iterable[tuple[Collection[int], Collection[int]]],
    compounds: Sequence[str],
    who: str,
) -> None:
    """Warn if test items share parts with training items.

    Args:
        parts: of all items.
        splits: indices of training and of test items.
        compounds: of all items.
        who: what was trained, for the message.
    """
    parts = list(parts)
    repeated: dict[Part, None] = {}
    tested: set[int] = set()
    example = ""
    for training, test in splits:
        training, test = set(map(int, training)), set(map(int, test))
        taught = [part for part in parts if part.item in training]
        again = shared((part for part in parts if part.item in test), digests(taught))
        if again and not example:
            first, name = again[0], textwrap.shorten(again[0].name, 60, placeholder="…")
            source = next(p for p in taught if shared([first], {p.kind: [p.digest]}))
            example = (
                f"{first.kind} '{name}' of '{compounds[first.item]}', which "
                f"'{compounds[source.item]}' has, too"
            )
        repeated.update(dict.fromkeys(again))
        tested |= test
    if repeated:
        log.warning(
            "%d of %d items that are evaluated share %s with items of other compounds that %s "
            "learned from, so their figures may be too good. The first is the %s.",
            len({part.item for part in repeated}),
            len(tested),
            counts((part.kind, part.item) for part in repeated),
            who,
            example,
        )


def told_of_seen(
    scored: pd.DataFrame, seen: Sequence[Seen], columns: Sequence[str] | None = None
) -> list[str]:
    """Sentences on scored items that were seen in training: none, or one for each of head and
    detector and one with the mean figures of the other items.

    Args:
        seen: of each scored item.
        columns: the figures; None takes those of :func:`admire.scores.evaluation.score_items`.
    """
    sentences = []
    for who in sorted({who for one in seen for who in one}):
        kinds = [(kind, k) for k, one in enumerate(seen) for kind in one.get(who, ())]
        count = len({k for _, k in kinds})
        sentences.append(
            f"{count} of {len(seen)} items share {counts(kinds)} with what the {who} saw in "
            "training."
        )
    unseen = [not any(one.values()) for one in seen]
    if sentences and not any(unseen):
        sentences.append("So these figures say little of unseen items.")
    elif sentences:
        names = columns or [name for name in metrics.ITEM_METRICS if name in scored]
        means = scored.loc[unseen, list(names)].mean()
        figures = ", ".join(f"{name} {means[name]:.3f}" for name in names)
        sentences.append(f"Figures of the other {sum(unseen)}: {figures}.")
    return sentences


def warn_of_use(
    items: Sequence[Item], detector: object, scored: pd.DataFrame, columns: Sequence[str], name: str
) -> None:
    """Warn if a detector saw parts of scored items in training.

    Args:
        scored: a row for each item.
        columns: its figures.
        name: of the items, for the message.
    """
    saw = what_it_saw(detector)
    seen = seen_by(items, {"detector": saw} if saw else {}, pictures=False)
    for line in told_of_seen(scored, seen, columns):
        log.warning("%s: %s", name, line)


def counts(parts: Iterable[tuple[Kind, int]]) -> str:
    """How many items share each kind, as ``captions (12) and pictures (11)``.

    Args:
        parts: their kinds and items.
    """
    items = Counter(kind for kind, _ in set(parts))
    *before, last = [f"{kind}s ({items[kind]})" for kind in KINDS if items[kind]]
    return f"{', '.join(before)} and {last}" if before else last
