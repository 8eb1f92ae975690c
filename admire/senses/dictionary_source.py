"""Dictionaries as a source of meanings, without a chat model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.compounds import replace_compound
from admire.data.items import Item, SenseLabel
from admire.encoders import TextEncoder, open_encoder
from admire.senses.dictionaries import Dictionary, look_up_item, open_dictionaries
from admire.senses.meaning import DEFINITIONS, Meaning, MeaningKind
from admire.senses.sense import Sense

NO_ENTRY = "no dictionary has this sense of it"


@dataclass(frozen=True)
class DictionarySource:
    """Dictionaries as a :class:`admire.senses.source.Source` of meanings.

    The sentence with the gloss instead of the compound serves as the scene. Without an entry both
    are empty. For a word in a phrase, the gloss nearest to the phrase counts, by the encoder
    (default: ``e5``).
    """

    name: str
    dictionaries: tuple[Dictionary, ...]
    encoder: TextEncoder | None = None

    llm = None
    judges_senses = False
    describes_both_senses = True

    @property
    def identity(self) -> str:
        return "dictionary:" + "+".join(each.identity for each in self.dictionaries)

    def check(self, items: Iterable[Item]) -> None:
        """Accept all items: the meaning of unknown compounds is empty."""

    def senses(self, *_: object, **__: object) -> list[Sense]:
        """Refuse to decide senses."""
        raise UserError("A dictionary cannot decide the sense. Use detector or given.", "sense")

    def meanings(
        self, items: Sequence[Item], kind: MeaningKind, *_: object, **__: object
    ) -> dict[Item, Meaning]:
        """Return the glosses of a sense, with the paraphrased sentence for the idiomatic one."""
        encoder = self.encoder
        if encoder is None and not all(item.has_sense for item in items):
            encoder = open_encoder("e5")
        sense: SenseLabel = "literal" if kind == "literal" else "idiomatic"
        meanings = {}
        for item in items:
            glosses = look_up_item(self.dictionaries, item).glosses(sense)
            if not glosses:
                meanings[item] = Meaning(fault=NO_ENTRY)
            elif encoder and not item.has_sense:
                meanings[item] = Meaning(_nearest(item.phrase, glosses, encoder))
            elif kind == "gloss":
                meanings[item] = Meaning(glosses[:1])
            else:
                scene = _paraphrase(item, glosses) if kind == "idiomatic" else None
                meanings[item] = Meaning(glosses[:DEFINITIONS], scene)
        return meanings

    def order(self, item: Item) -> None:
        """Return None: dictionaries order no candidates."""


@register("chat", "dictionary")
def open_source(*, dictionaries: Sequence[str]) -> DictionarySource:
    """The dictionaries alone, in place of a chat model."""
    return DictionarySource("dictionary", open_dictionaries(dictionaries))


def _nearest(phrase: str, glosses: tuple[str, ...], encoder: TextEncoder) -> tuple[str, ...]:
    """Return the gloss that is most like a phrase, alone; nothing if there are none."""
    if len(glosses) < 2:
        return glosses
    vectors = encoder.encode_texts([phrase, *glosses], role="query").astype(float)
    return (glosses[int((vectors[1:] @ vectors[0]).argmax())],)


def _paraphrase(item: Item, glosses: tuple[str, ...]) -> str | None:
    """Return the sentence with the first gloss in the compound's place; None without a sentence."""
    return replace_compound(item.sentence, item.phrase, glosses[0]) or item.sentence or None
