"""Dictionaries used instead of a chat model: they know meanings but not senses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.compounds import replace_compound
from admire.data.items import Item, SenseLabel
from admire.encoders import TextEncoder, open_encoder
from admire.senses.dictionaries import Dictionary, look_up_item, open_dictionaries
from admire.senses.meaning import DEFINITIONS, Meaning
from admire.senses.recording import Known, Recording

NO_ENTRY = "no dictionary has this sense of it"


class DictionaryModel(Recording):
    """Knows what dictionaries say, and no senses.

    The sentence with the gloss instead of the compound is the scene. For a word in a phrase, the
    gloss nearest to the phrase counts, by the encoder (default: ``e5``).
    """

    judges_senses = False

    def __init__(
        self, name: str, dictionaries: Sequence[Dictionary], encoder: TextEncoder | None = None
    ):
        self.name, self._dictionaries = name, dictionaries
        self.identity = "dictionary:" + "+".join(each.identity for each in dictionaries)
        self._encoder = encoder

    def known(self, item: Item) -> Known:
        """Return the glosses of both senses, and the sentence with the idiomatic one."""
        entries = look_up_item(self._dictionaries, item)
        idiomatic, literal = entries.glosses("idiomatic"), entries.glosses("literal")
        scene = None
        if idiomatic and item.has_sense:
            scene = replace_compound(item.sentence, item.phrase, idiomatic[0]) or item.sentence
        elif len(idiomatic) > 1:
            encoder = self._encoder = self._encoder or open_encoder("e5")
            vectors = encoder.encode_texts([item.phrase, *idiomatic], role="query").astype(float)
            idiomatic = (idiomatic[int((vectors[1:] @ vectors[0]).argmax())],)
        meanings = Meaning(idiomatic[:DEFINITIONS], scene or None), Meaning(literal[:DEFINITIONS])
        marked = (meaning or Meaning(fault=NO_ENTRY) for meaning in meanings)
        return Known(None, dict(zip(get_args(SenseLabel), marked, strict=True)))

    def check(self, items: Sequence[Item], purposes: Collection[str]) -> None:
        """Refuse to decide senses and to order candidates; unknown compounds have no meaning."""
        if "senses" in purposes:
            raise UserError("A dictionary cannot decide the sense. Use detector or given.", "sense")
        super().check(items, purposes)


@register("chat", "dictionary")
def open_dictionary_model(*, dictionaries: Sequence[str] = ("wordnet",)) -> DictionaryModel:
    """The dictionaries alone, in place of a chat model."""
    return DictionaryModel("dictionary", open_dictionaries(dictionaries))
