"""What people judged on the cards of a report, and the gold as they correct it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from admire.core.errors import UserError
from admire.core.files import read_text
from admire.core.schema import STRICT, Text, read_as
from admire.data.items import Item, SenseLabel


class Judgement(BaseModel):
    """A person's judgement of one item.

    Attributes:
        number: of the item's card in the report.
        candidates: their names. None where the compound and the sentence are enough.
        verdict: whether what ``run`` says of the item is right; None for a note alone.
        sense, best: what is right, as far as it was told; in an agreement, the run's.
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
        """Return whether it judges this item, as far as both name candidates."""
        card_text, names = item.sentence if item.has_sense else item.compound, _names(item)
        return self.sentence in (card_text, item.sentence) and (
            not self.candidates or not names or set(self.candidates) == set(names)
        )

    def correct(self, item: Item) -> Item:
        """Return the item with this sense and best candidate as its gold."""
        item = replace(item, sentence_type=self.sense or item.sentence_type)
        if not self.best:
            return item
        if item.gold_column == "expected_item":
            return replace(item, expected_item=self.best)
        others = (name for name in item.expected_order or () if name != self.best)
        return replace(item, expected_order=(self.best, *others))


class JudgementFile(BaseModel):
    """A file of judgements. Each of them is checked by itself, to be named in messages."""

    model_config = STRICT

    judgements: list[dict[str, Any]]
    runs: list[str] = []


@dataclass(frozen=True)
class CorrectedGold:
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


def correct_gold(items: Sequence[Item], path: Path, source: object) -> CorrectedGold:
    """Correct the gold of items by a file of judgements.

    A sense replaces the gold's. A best candidate moves to the front of the gold order, so that each
    item keeps all figures; an item without a gold order gets top-1 alone. Items with the same
    compound, sentence and candidates are corrected alike. Messages name the items' ``source``.

    Raises:
        UserError: the file cannot be read, a judgement does not fit the items, or two contradict
            each other.
    """
    rows = read_as(JudgementFile, read_text(path), path).judgements
    by_compound = defaultdict(list)
    unused: dict[str, Judgement] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{path}, judgement {number}"
        unused[place] = judgement = read_as(Judgement, row, place)
        by_compound[judgement.compound].append((place, judgement))
    corrected, judged = [], 0
    for item in items:
        own = [pair for pair in by_compound[item.compound] if pair[1].is_of(item)]
        for place, _ in own:
            unused.pop(place, None)
        judged += bool(own)
        _check(item, own)
        corrected.append(own[0][1].correct(item) if own else item)
    for place, judgement in unused.items():
        text = f" in “{judgement.sentence}”" if judgement.sentence else ""
        text += " with these candidates" if judgement.candidates else ""
        raise UserError(f"{place}: '{judgement.compound}'{text} is not an item of {source}.")
    pairs = list(zip(items, corrected, strict=True))
    return CorrectedGold(
        corrected,
        judged,
        sum(item.sentence_type != now.sentence_type for item, now in pairs),
        sum(item.best != now.best for item, now in pairs),
    )


def _check(item: Item, judgements: Sequence[tuple[str, Judgement]]) -> None:
    """Check that judgements of an item name one of its candidates and agree with each other."""
    names = _names(item)
    for place, judgement in judgements:
        if judgement.best and names and judgement.best not in names:
            raise UserError(
                f"{place} ('{item.compound}'): best is '{judgement.best}', which is none of the "
                f"candidates: {', '.join(names)}."
            )
    for (first, judgement), (second, other) in pairwise(judgements):
        if (judgement.sense, judgement.best) != (other.sense, other.best):
            raise UserError(f"{second} ('{item.compound}'): contradicts {first}. Keep one.")


def _names(item: Item) -> Sequence[str]:
    return item.names or item.expected_order or ()
