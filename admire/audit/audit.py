"""What a set of items shares with other sets, repeats and lacks: whether its figures mean much."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from admire.base.errors import UserError
from admire.base.files import read_text
from admire.data.items import Candidate, Item, SenseLabel
from admire.data.overlap import KINDS, Digests, Kind, Part, alike, parts_of, picture_hashes
from admire.scores.cards import SAW, check_saw
from admire.scores.metrics import Evenness, evenness

if TYPE_CHECKING:
    from admire.audit.candidate_order import OrderCheck

AUDIT = "audit.json"
"""What an audit is called in the folder of a run."""

CARDS = ("head.json", "admire.json")
"""The cards in the folders of heads and of classifiers."""

Relation = Literal["same", "opposite", "both"]
"""Whether what is shared stands elsewhere in the same sense, in the opposite one, or in both."""

BEGINNING = 60
"""So many characters of a text tell which one it is."""


@dataclass(frozen=True)
class Place:
    """Where a part stands: the item's number in its set, from 1, and what it is called there."""

    item: int
    name: str


@dataclass(frozen=True)
class Match:
    """A part that several places have.

    Attributes:
        name: the beginning of the text, or the picture's name, at the first place.
        here: where it stands in the set.
        there: where it stands in the other set; empty where that is known by digests alone, and
            for what the set itself repeats.
        sense: of the items there, beside those here; None where one is not known.
    """

    kind: Kind
    name: str
    here: tuple[Place, ...]
    there: tuple[Place, ...] = ()
    sense: Relation | None = None


@dataclass(frozen=True)
class Shared:
    """How much of one kind is shared.

    Attributes:
        compared: how many different compounds, sentences, captions or pictures of the set were
            looked for; 0 where the other set has none.
        shared: how many of them the other set has, too.
        items: how many items of the set have such.
    """

    compared: int
    shared: int
    items: int


@dataclass(frozen=True)
class Touched:
    """An item that shares something.

    Attributes:
        item: its number, from 1.
        parts: how many of its parts are shared, by kind.
        there: the numbers of the other set's items that have them.
        sense: of these, beside its own; None where one is not known.
    """

    item: int
    compound: str
    parts: dict[str, int]
    there: tuple[int, ...]
    sense: Relation | None


@dataclass(frozen=True)
class Overlap:
    """What the set shares with another one.

    Attributes:
        name: the other set's.
        items: how many items that has; None where it is known by digests alone.
        kinds: by kind, how much is shared.
        touched: the items that share anything.
        matches: all that is shared.
        unread: why pictures of the other set could not be read, once for each reason.
    """

    name: str
    items: int | None
    kinds: dict[str, Shared]
    touched: tuple[Touched, ...]
    matches: tuple[Match, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lack:
    """What some items lack.

    Attributes:
        what: what is missing.
        count: how often.
        of: of how many items or candidates.
        items: the numbers of the items.
        which: what is to be said of single ones: the missing file, say.
    """

    what: str
    count: int
    of: int
    items: tuple[int, ...]
    which: tuple[str, ...] = ()


@dataclass(frozen=True)
class Senses:
    """How many items of a language are meant in each sense."""

    language: str
    items: int
    idiomatic: int
    literal: int
    unknown: int


@dataclass(frozen=True)
class Length:
    """How long something is: the number of items, words or candidates of each."""

    what: str
    least: int
    median: float
    most: int


@dataclass(frozen=True)
class Audit:
    """What is known of a set.

    Attributes:
        against: what it shares with each other set.
        compared: by kind, how many different ones it has.
        repeated: what several of its items have.
        doubled: captions and pictures that several candidates of one item have.
        best: on which places in the file the best candidates by gold stand; None without gold.
        order: whether the order in which candidates stand matters; None if that was left out.
    """

    items: int
    against: tuple[Overlap, ...]
    compared: dict[str, int]
    repeated: tuple[Match, ...]
    doubled: tuple[Match, ...]
    lacks: tuple[Lack, ...]
    senses: tuple[Senses, ...]
    best: Evenness | None
    lengths: tuple[Length, ...]
    order: OrderCheck | None = None

    def told(self, data: str = "") -> dict[str, Any]:
        """The audit as JSON has it.

        Args:
            data: the file or folder of the set.
        """
        told: dict[str, Any] = json.loads(json.dumps({"data": data, **asdict(self)}))
        return told


def audit(
    items: Sequence[Item],
    against: Mapping[str, Sequence[Item] | Digests] | None = None,
    *,
    order: OrderCheck | None = None,
    seed: int = 0,
) -> Audit:
    """Compare a set of items with others and with itself, and count what it lacks.

    A picture that cannot be read is counted, not refused.

    Args:
        against: by name other sets, or digests of what a head or detector saw.
        order: see :func:`admire.audit.candidate_order.check_order`.
        seed: of the simulation that judges places.

    Raises:
        UserError: the seed is negative.
    """
    hashes, unread = _hashes(items)
    parts = list(parts_of(items, hashes=hashes))
    lacks = (*_lacks(items), _unreadable(items, unread))
    places = [
        ([candidate.name for candidate in item.candidates].index(item.best), len(item.candidates))
        for item in items
        if item.best and item.candidates
    ]
    return Audit(
        items=len(items),
        against=tuple(
            _overlap(name, items, parts, other) for name, other in (against or {}).items()
        ),
        compared={kind: len({p.digest for p in parts if p.kind == kind}) for kind in KINDS},
        repeated=tuple(_repeated(parts, several_items=True)),
        doubled=tuple(_repeated(parts, several_items=False)),
        lacks=tuple(lack for lack in lacks if lack.of),
        senses=tuple(_senses(items)),
        best=evenness(places, seed=seed) if places else None,
        lengths=tuple(_lengths(items)),
        order=order,
    )


def _hashes(items: Iterable[Item]) -> tuple[dict[Path, str], dict[Path, str]]:
    """The hashes of items' pictures and, by picture, why some have none."""
    things = (one for item in items for one in (*item.candidates, *item.sequence))
    return picture_hashes(one.image for one in things if one.image)


# ---------------------------------------------------------------------------------- other sets


def _overlap(
    name: str, items: Sequence[Item], parts: Sequence[Part], other: Sequence[Item] | Digests
) -> Overlap:
    others: Sequence[Item] = () if isinstance(other, Mapping) else other
    hashes, unread = _hashes(others)
    known: dict[Kind, dict[str, list[Part]]] = {kind: {} for kind in KINDS}
    for part in parts_of(others, hashes=hashes):
        known[part.kind].setdefault(part.digest, []).append(part)
    if isinstance(other, Mapping):
        known = {kind: {digest: [] for digest in other.get(kind, ())} for kind in KINDS}
    senses = [item.sentence_type for item in items]
    other_senses = [item.sentence_type for item in others]
    pictures = alike((p.digest for p in parts if p.kind == "picture"), known["picture"])
    matches: list[Match] = []
    touched: dict[int, tuple[Counter[str], set[int]]] = {}
    for (kind, digest), here in _by_digest(parts).items():
        found = pictures.get(digest, ()) if kind == "picture" else {digest} & known[kind].keys()
        if not found:
            continue
        there = [part for one in found for part in known[kind][one]]
        numbers = {part.item for part in here}
        for number in numbers:
            shared, partners = touched.setdefault(number, (Counter(), set()))
            shared[kind] += 1
            partners |= {part.item for part in there}
        sense = _relation({senses[k] for k in numbers}, {other_senses[p.item] for p in there})
        matches.append(Match(kind, _called(here[0]), _places(here), _places(there), sense))
    return Overlap(
        name,
        None if isinstance(other, Mapping) else len(others),
        {kind: _shared(kind, parts, matches, bool(known[kind])) for kind in KINDS},
        tuple(
            Touched(
                number + 1,
                items[number].compound,
                dict(touched[number][0]),
                tuple(sorted(k + 1 for k in touched[number][1])),
                _relation({senses[number]}, {other_senses[k] for k in touched[number][1]}),
            )
            for number in sorted(touched)
        ),
        tuple(matches),
        tuple(dict.fromkeys(unread.values())),
    )


def _relation(here: set[SenseLabel | None], there: set[SenseLabel | None]) -> Relation | None:
    """How senses stand to each other; None where one is unknown, or there is none."""
    if not here or not there or None in here | there:
        return None
    if len(here | there) == 1:
        return "same"
    return "both" if here & there else "opposite"


def _shared(kind: Kind, parts: Iterable[Part], matches: Iterable[Match], there: bool) -> Shared:
    of_kind = [match for match in matches if match.kind == kind]
    items = {place.item for match in of_kind for place in match.here}
    compared = {part.digest for part in parts if part.kind == kind and there}
    return Shared(len(compared), len(of_kind), len(items))


def _by_digest(parts: Iterable[Part]) -> dict[tuple[Kind, str], list[Part]]:
    found: dict[tuple[Kind, str], list[Part]] = {}
    for part in parts:
        found.setdefault((part.kind, part.digest), []).append(part)
    return found


def _called(part: Part) -> str:
    if part.kind == "picture":
        return part.name
    return textwrap.shorten(part.name, BEGINNING, placeholder="…")


def _places(parts: Iterable[Part]) -> tuple[Place, ...]:
    return tuple(Place(part.item + 1, _called(part)) for part in parts)


def read_saw(path: Path) -> Digests | None:
    """The digests of what a head or detector was trained on, as its card has them.

    None where the path is neither the folder of a head or of a classifier, nor a JSON file.

    Raises:
        UserError: the card is damaged, or was made before cards had digests.
    """
    cards = [path / name for name in CARDS if (path / name).is_file()]
    if not cards and (path.is_dir() or path.suffix != ".json"):
        return None
    try:
        card: Any = json.loads(read_text(cards[0] if cards else path))
        card = card if cards else card["card"]
        if SAW not in card:
            raise UserError(
                f"{path}: does not say what it was trained on, because it was made before this "
                "was noted. Train it again.",
                "against",
            )
        check_saw(card)
        saw: Digests = card[SAW]
        return saw
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path}: is no head or detector that admire wrote, or its card is damaged. Train it "
            "again.",
            "against",
        ) from None


# --------------------------------------------------------------------------------- in the set


def _repeated(parts: Sequence[Part], *, several_items: bool) -> Iterator[Match]:
    """What several items have, or several candidates of one item."""
    hashes = list(dict.fromkeys(part.digest for part in parts if part.kind == "picture"))
    first: dict[str, str] = {}  # the first picture that looks like it, for every picture
    for one, near in alike(hashes, hashes).items():
        for other in near:
            first.setdefault(other, first.get(one, one))
    same = [replace(part, digest=first.get(part.digest, part.digest)) for part in parts]
    for (kind, _), there in _by_digest(same).items():
        counts = Counter(part.item for part in there)
        if several_items and len(counts) > 1:
            yield Match(kind, _called(there[0]), _places(there))
        elif not several_items:
            for number, count in counts.items():
                if count > 1:
                    twice = [part for part in there if part.item == number]
                    yield Match(kind, _called(twice[0]), _places(twice))


def _lacks(items: Sequence[Item]) -> Iterator[Lack]:
    checks: tuple[tuple[str, Callable[[Item], object]], ...] = (
        ("a sentence or sequence", lambda item: item.sentence.strip() or item.sequence),
        ("a sense", lambda item: item.sentence_type),
        ("a gold order", lambda item: item.best),
        ("candidates", lambda item: item.candidates),
    )
    for what, has in checks:
        lacking = [number for number, item in enumerate(items, start=1) if not has(item)]
        yield Lack(what, len(lacking), len(items), tuple(lacking))
    written = [(number, i) for number, i in enumerate(items, start=1) if i.sentence.strip()]
    lacking = [number for number, item in written if not _in_sentence(item)]
    yield Lack("the compound in the sentence", len(lacking), len(written), tuple(lacking))
    things = list(_things(items))
    bare = [(number, place, one) for number, place, one in things if not one.image]
    without = [number for number, _, one in things if not one.caption]
    nameless = [number for number, place, one in bare if one.name == place]
    lost = [(number, one.name) for number, place, one in bare if one.name != place]
    yield Lack("a caption", len(without), len(things), _distinct(without))
    yield Lack("a picture", len(nameless), len(things), _distinct(nameless))
    files = tuple(name for _, name in lost)
    yield Lack("the picture's file", len(lost), len(things), _distinct(k for k, _ in lost), files)


def _unreadable(items: Sequence[Item], reasons: Mapping[Path, str]) -> Lack:
    """Pictures that cannot be read."""
    pictures = [(number, one) for number, _, one in _things(items) if one.image]
    found = [(number, one) for number, one in pictures if one.image in reasons]
    said = tuple(dict.fromkeys(reasons[one.image] for _, one in found if one.image))
    numbers = _distinct(number for number, _ in found)
    return Lack("a readable picture", len(found), len(pictures), numbers, said)


def _things(items: Iterable[Item]) -> Iterator[tuple[int, str, Candidate]]:
    """Each candidate and thing of a sequence with its item's number, and with what it would be
    called by its place."""
    for number, item in enumerate(items, start=1):
        for kind, things in (("candidate", item.candidates), ("sequence", item.sequence)):
            for k, one in enumerate(things, start=1):
                yield number, f"{kind}{k}", one


def _distinct(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))


def _in_sentence(item: Item) -> bool:
    """Whether the compound is in its sentence, be it inflected or with words between."""
    from admire.senses.light import find_compound

    if item.phrase.casefold() in item.sentence.casefold():
        return True
    return find_compound(item.sentence, item.phrase) != (0, len(item.sentence))


def _senses(items: Sequence[Item]) -> Iterator[Senses]:
    for language in dict.fromkeys(item.language for item in items):
        of_language = [item.sentence_type for item in items if item.language == language]
        counts = Counter(of_language)
        yield Senses(
            language, len(of_language), counts["idiomatic"], counts["literal"], counts[None]
        )


def _lengths(items: Sequence[Item]) -> Iterator[Length]:
    captions = [one.caption.split() for _, _, one in _things(items) if one.caption]
    for what, counts in (
        ("words of a sentence", [len(i.sentence.split()) for i in items if i.sentence]),
        ("words of a caption", [len(words) for words in captions]),
        ("candidates of an item", [len(i.candidates) for i in items if i.candidates]),
    ):
        if counts:
            yield Length(what, min(counts), float(np.median(counts)), max(counts))
