"""Dictionaries in place of a chat model: meanings are looked up, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admire.base.errors import UserError
from admire.data.items import Item
from admire.models.encoders import TextEncoder, open_encoder
from admire.prompts import Prompts
from admire.senses.dictionaries import Dictionary, Known, known_of
from admire.senses.light import find_compound
from admire.senses.meaning import DEFINITIONS, Meaning
from admire.senses.sense import Sense
from admire.senses.source import Wanted


@dataclass(frozen=True)
class LookedUp:
    """Dictionaries as a :class:`admire.senses.source.Source` of meanings.

    They define both senses as far as they know them. In place of a scene stands the sentence with
    the gloss in the compound's place. The sense is the detector's or the data's. Of a word in a
    phrase, the gloss that is nearest to the phrase counts.

    Attributes:
        encoder: what tells which gloss is nearest; None is ``e5``.
    """

    name: str
    dictionaries: tuple[Dictionary, ...]
    encoder: TextEncoder | None = None

    llm = None

    @property
    def identity(self) -> str:
        return "dictionary:" + "+".join(one.identity for one in self.dictionaries)

    def check(self, items: Iterable[Item]) -> None:
        """Of what they do not know, the sentence and the compound are left."""

    def senses(
        self, items: Iterable[Item], prompts: Prompts, *, votes: int, seed: int
    ) -> list[Sense]:
        """None.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"{self.name} decides no sense. Let the detector decide it (detector), or take it from "
            "the data (given).",
            "sense",
        )

    def meanings(
        self,
        items: Sequence[Item],
        what: Wanted,
        prompts: Prompts,
        *,
        seed: int,
        known: Mapping[Item, Known] | None = None,
    ) -> dict[Item, Meaning]:
        """The glosses of a sense, and for the idiomatic one the sentence in other words."""
        found = {}
        by_phrase = any(item.word for item in items)
        encoder = (self.encoder or open_encoder("e5")) if by_phrase else None
        for item in items:
            entries = known_of(self.dictionaries, item)
            glosses = [
                entry.gloss for entry in entries.of("literal" if what == "literal" else "idiomatic")
            ]
            if item.word and encoder:
                found[item] = Meaning(nearest(item.phrase, glosses, encoder))
            elif what == "gloss":
                found[item] = Meaning(tuple(glosses[:1]))
            else:
                scene = paraphrase(item, glosses[0]) if glosses and what == "idiomatic" else None
                if what == "idiomatic" and not glosses:
                    scene = item.sentence or None
                found[item] = Meaning(tuple(glosses[:DEFINITIONS]), scene)
        return found

    def order(self, item: Item) -> None:
        """None."""


def nearest(phrase: str, glosses: Sequence[str], encoder: TextEncoder) -> tuple[str, ...]:
    """The gloss that is most like a phrase, alone; none if there are none."""
    if len(glosses) < 2:
        return tuple(glosses)
    vectors = encoder.encode_texts([phrase, *glosses], role="query").astype(float)
    return (glosses[int((vectors[1:] @ vectors[0]).argmax())],)


def paraphrase(item: Item, gloss: str) -> str | None:
    """The item's sentence with the gloss in the compound's place; None without a sentence.

    Where the compound is not found, the sentence is left as it is.
    """
    if not item.sentence:
        return None
    start, end = find_compound(item.sentence, item.phrase)
    if (start, end) == (0, len(item.sentence)):
        return item.sentence
    return item.sentence[:start] + gloss + item.sentence[end:]
