"""What heads and detectors saw in training, as their cards list it, and where it comes back."""

from __future__ import annotations

import logging
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from admire.data.items import Item
from admire.data.overlap import KINDS, SIDE, Digests, Kind, Part, digests, parts_of, shared
from admire.scores import metrics

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

SAW = "saw"
"""Where a card lists by kind the digests of what a head or detector was fitted and stopped on."""

Seen = Mapping[str, Sequence[Kind]]
"""Which kinds of an item's parts were seen, by ``head`` or ``detector``."""


def what_it_saw(made: object) -> Digests | None:
    """What the card of a head or detector lists; None where it has no card or an older one."""
    listed: Digests | None = getattr(made, "card", {}).get(SAW)
    return listed


def check_saw(card: Mapping[str, Any]) -> None:
    """Refuse a card whose list cannot have been written by admire.

    Raises:
        ValueError: it is not one of digests.
    """
    if not isinstance(card, dict):
        raise ValueError("the card is not an object")
    listed = card.get(SAW, {})
    if not isinstance(listed, dict) or set(listed) - set(KINDS):
        raise ValueError(f"'{SAW}' is not a list of what was seen")
    for kind, found in listed.items():
        digits = SIDE * SIDE // 4 if kind == "picture" else 16
        if not isinstance(found, list) or not all(
            isinstance(one, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", one) for one in found
        ):
            raise ValueError(f"'{SAW}' has no digests of {kind}s")


def read_by_detectors(items: Iterable[Item]) -> list[Part]:
    """The parts of items that a detector reads: compounds and sentences."""
    parts = parts_of(items, pictures=False)
    return [part for part in parts if part.kind in ("compound", "sentence")]


def brief(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card to look at: how many of each kind were seen, in place of their digests."""
    if SAW not in card:
        return dict(card)
    return {**card, SAW: {kind: len(found) for kind, found in card[SAW].items()}}


def seen_by(
    items: Sequence[Item], saw: Mapping[str, Digests], *, pictures: bool
) -> list[dict[str, list[Kind]]]:
    """For each item, by head or detector, the kinds of parts that it saw; only where there are any.

    Args:
        saw: by ``head`` or ``detector``, what its card lists.
        pictures: whether pictures are compared, where the card lists some. They are read for that.

    Raises:
        UserError: a picture cannot be read.
    """
    found: list[dict[str, list[Kind]]] = [{} for _ in items]
    if not saw:
        return found
    pictures = pictures and any(listed.get("picture") for listed in saw.values())
    parts = list(parts_of(items, pictures=pictures))
    for who, listed in saw.items():
        for part in shared(parts, listed):
            kinds = found[part.item].setdefault(who, [])
            if part.kind not in kinds:
                kinds.append(part.kind)
    return found


def merged(seen: Iterable[Seen]) -> dict[str, list[Kind]]:
    """What of an item was seen in any of several runs."""
    found: dict[str, list[Kind]] = {}
    for one in seen:
        for who, kinds in one.items():
            found[who] = [*dict.fromkeys([*found.get(who, ()), *kinds])]
    return found


def warn_of_shared(
    parts: Iterable[Part],
    splits: Iterable[tuple[Collection[int], Collection[int]]],
    compounds: Sequence[str],
    who: str,
) -> None:
    """Warn if items that are evaluated share parts with items that were learned from.

    Args:
        parts: of all items.
        splits: the places of the items that were learned from, and of those that are evaluated.
        compounds: of all items.
        who: what has learned, for the message.
    """
    parts = list(parts)
    found: dict[Part, None] = {}
    tested: set[int] = set()
    told = ""
    for learned, evaluated in splits:
        learnt, tested_here = set(map(int, learned)), set(map(int, evaluated))
        taught = [part for part in parts if part.item in learnt]
        again = shared((part for part in parts if part.item in tested_here), digests(taught))
        if again and not found:
            first, name = again[0], textwrap.shorten(again[0].name, 60, placeholder="…")
            other = compounds[_source(first, taught).item]
            told = f"{first.kind} '{name}' of '{compounds[first.item]}', which '{other}' has, too"
        found.update(dict.fromkeys(again))
        tested |= tested_here
    if found:
        log.warning(
            "%d of %d items that are evaluated share %s with items of other compounds that %s "
            "learned from, so their figures may be too good. The first is the %s.",
            len({part.item for part in found}),
            len(tested),
            counts((part.kind, part.item) for part in found),
            who,
            told,
        )


def _source(part: Part, taught: Sequence[Part]) -> Part:
    """The first of the parts that is the same as this one, or looks like it."""
    return next(one for one in taught if shared([part], {one.kind: [one.digest]}))


def told_of_seen(
    scored: pd.DataFrame, seen: Sequence[Seen], columns: Sequence[str] | None = None
) -> list[str]:
    """What to say of scored items that were seen in training: nothing, or a sentence for each of
    head and detector, and the mean figures of the items that were not seen.

    Args:
        seen: of each scored item.
        columns: the figures; None takes those of :func:`admire.scores.evaluation.score_items`.
    """
    found = []
    for who in sorted({who for one in seen for who in one}):
        kinds = [(kind, k) for k, one in enumerate(seen) for kind in one.get(who, ())]
        count = len({k for _, k in kinds})
        found.append(
            f"{count} of {len(seen)} items share {counts(kinds)} with what the {who} saw in "
            "training."
        )
    left = [not any(one.values()) for one in seen]
    if found and not any(left):
        found.append("So these figures say little of unseen items.")
    elif found:
        known = (*metrics.METRICS, *metrics.SEQUENCE_METRICS)
        names = columns or [one for one in known if one in scored]
        means = scored.loc[left, list(names)].mean()
        said = ", ".join(f"{one} {means[one]:.3f}" for one in names)
        found.append(f"Figures of the other {sum(left)}: {said}.")
    return found


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


def counts(found: Iterable[tuple[str, int]]) -> str:
    """How many items share each kind, as ``captions (12) and pictures (11)``.

    Args:
        found: kinds, each with the place of an item.
    """
    items: dict[str, set[int]] = {}
    for kind, item in found:
        items.setdefault(kind, set()).add(item)
    said = [f"{kind}s ({len(items[kind])})" for kind in KINDS if kind in items]
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))
