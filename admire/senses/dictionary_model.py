"""Dictionaries in the place of a chat model: they know meanings, and no senses."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.compounds import replace_compound
from admire.data.items import Item
from admire.encoders import TextEncoder, open_encoder
from admire.llm.chat import ChatModel, Question, Reply
from admire.senses.dictionaries import Dictionary, look_up_item, open_dictionaries
from admire.senses.meaning import DEFINITIONS, Meaning
from admire.senses.recorded import refuse_orders

NO_ENTRY = "no dictionary has this sense of it"


class DictionaryModel(ChatModel):
    """A chat model that returns what dictionaries say.

    The sentence with the gloss instead of the compound serves as the scene. Without an entry both
    are empty. For a word in a phrase, the gloss nearest to the phrase counts, by the encoder
    (default: ``e5``).
    """

    recorded = True
    judges_senses = False

    def __init__(
        self, name: str, dictionaries: Sequence[Dictionary], encoder: TextEncoder | None = None
    ):
        self.name, self._dictionaries = name, dictionaries
        self.identity = "dictionary:" + "+".join(each.identity for each in dictionaries)
        self._encoder = encoder

    def ask(self, question: Question) -> Reply:
        """Return the glosses of a sense, with the paraphrased sentence for the idiomatic one."""
        item, sense = question.about, question.sense
        assert isinstance(item, Item)
        if not sense:  # its words in English
            return Reply("")
        glosses = look_up_item(self._dictionaries, item).glosses(sense)
        if not glosses:
            return Reply("", data=Meaning(fault=NO_ENTRY))
        if item.has_sense:
            scene = None
            if sense == "idiomatic":
                scene = replace_compound(item.sentence, item.phrase, glosses[0]) or item.sentence
            return Reply("", data=Meaning(glosses[:DEFINITIONS], scene or None))
        if len(glosses) > 1:
            encoder = self._encoder = self._encoder or open_encoder("e5")
            vectors = encoder.encode_texts([item.phrase, *glosses], role="query").astype(float)
            glosses = (glosses[int((vectors[1:] @ vectors[0]).argmax())],)
        return Reply("", data=Meaning(glosses))

    def check(self, items: Sequence[Item], purposes: Collection[str]) -> None:
        """Refuse to decide senses and to order candidates; unknown compounds have no meaning."""
        if "senses" in purposes:
            raise UserError("A dictionary cannot decide the sense. Use detector or given.", "sense")
        if "ranking" in purposes:
            refuse_orders(self.name, items)


@register("chat", "dictionary")
def open_dictionary_model(*, dictionaries: Sequence[str]) -> DictionaryModel:
    """The dictionaries alone, in place of a chat model."""
    return DictionaryModel("dictionary", open_dictionaries(dictionaries))
