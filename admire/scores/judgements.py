"""What people judged on the cards of a report, and the gold as they correct it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from admire.base.errors import UserError
from admire.base.files import read_text
from admire.base.schema import STRICT, Text, read_as
from admire.data.items import Item, SenseLabel


class Judged(BaseModel):
    """One item's judgement.

    Attributes:
        number: of the item's card in the report.
        sentence: may be left out where an item has none.
        candidates: their names. None where the compound and the sentence are enough.
        verdict: whether what ``run`` says of the item is right; None for a note alone.
        sense, best: what is right, None where it was not told. Of an agreement these are the run's.
    """

    model_config = STRICT

    compound: Text
    number: int | None = None
    sentence: str = ""
    language: str | None = None
    candidates: list[str] | None = None
    verdict: Literal["agree", "disagree"] | None = None
    run: str | None = None
    sense: SenseLabel | None = None
    best: Text | None = None
    note: str = ""

    def is_of(self, item: Item) -> bool:
        """Whether it judges this item, as far as both name candidates."""
        shown = item.compound if item.word else item.sentence  # on a card of V-WSD, the phrase
        names = _names(item)
        return self.sentence in (shown, item.sentence) and (
            not self.candidates or not names or set(self.candidates) == set(names)
        )


class File(BaseModel):
    """A file of judgements. Each of them is checked by itself, to be named in messages."""

    model_config = STRICT

    judgements: list[dict[str, Any]]
    runs: list[str] = []


@dataclass(frozen=True)
class Corrected:
    """The gold as people corrected it.

    Attributes:
        items: all of them, in their order.
        judged: how many of them are judged.
        senses, bests: in how many the sense or the best candidate is another than by gold, or was
            not known.
    """

    items: list[Item]
    judged: int
    senses: int
    bests: int

    def __str__(self) -> str:
        items = "1 item is" if self.judged == 1 else f"{self.judged} items are"
        return (
            f"{items} judged; gold is corrected in the sense of {self.senses} and the best "
            f"candidate of {self.bests}."
        )


def read_judgements(path: Path) -> list[Judged]:
    """The judgements that a report saved.

    Raises:
        UserError: the file cannot be read or is no such file, or a judgement has a wrong value.
    """
    found = read_as(File, read_text(path), path).judgements
    return [read_as(Judged, one, _where(path, k)) for k, one in enumerate(found, start=1)]


def correct(items: Sequence[Item], path: Path, where: object) -> Corrected:
    """Items with their gold as a file of judgements corrects it.

    A sense takes the place of the gold's. A best candidate moves to the front of the gold order,
    and the others follow as before, so that each item keeps all figures. An item without a gold
    order gets top-1 alone. Items with the same compound, sentence and candidates are corrected
    alike.

    Args:
        where: what holds the items, for messages.

    Raises:
        UserError: as for :func:`read_judgements`, or a judgement does not fit the items, or two
            say different things of one.
    """
    by_compound = defaultdict(list)
    judgements = read_judgements(path)
    for number, one in enumerate(judgements, start=1):
        by_compound[one.compound].append((number, one))
    fits: set[int] = set()
    corrected = []
    judged = 0
    for item in items:
        found = [pair for pair in by_compound[item.compound] if pair[1].is_of(item)]
        fits.update(number for number, _ in found)
        for (first, one), (second, other) in pairwise(found):
            if (one.sense, one.best) != (other.sense, other.best):
                raise UserError(
                    f"{_where(path, second)} ('{item.compound}'): says other things than judgement "
                    f"{first}, which is of the same item. Keep one of them."
                )
        judged += bool(found)
        corrected.append(_corrected(item, *found[0], path) if found else item)
    for number, one in enumerate(judgements, start=1):
        if number not in fits:
            said = f" in “{one.sentence}”" if one.sentence else ""
            said += " with these candidates" if one.candidates else ""
            raise UserError(
                f"{_where(path, number)}: '{one.compound}'{said} is no item of {where}. Are the "
                "judgements of another set?"
            )
    pairs = list(zip(items, corrected, strict=True))
    return Corrected(
        corrected,
        judged,
        sum(item.sentence_type != now.sentence_type for item, now in pairs),
        sum(item.best != now.best for item, now in pairs),
    )


def _corrected(item: Item, number: int, one: Judged, path: Path) -> Item:
    names = _names(item)
    if one.best and names and one.best not in names:
        raise UserError(
            f"{_where(path, number)} ('{item.compound}'): best is '{one.best}', which is none of "
            f"the candidates: {', '.join(names)}."
        )
    item = replace(item, sentence_type=one.sense or item.sentence_type)
    if not one.best:
        return item
    if item.sequence or item.word or item.expected_item:
        return replace(item, expected_item=one.best)
    others = (name for name in item.expected_order or () if name != one.best)
    return replace(item, expected_order=(one.best, *others))


def _names(item: Item) -> Sequence[str]:
    return [one.name for one in item.candidates] or item.expected_order or ()


def _where(path: Path, number: int) -> str:
    return f"{path}, judgement {number}"
