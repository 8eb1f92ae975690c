"""How items are understood: each one's sense and, where wanted, its meanings."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from admire.base.choices import Meanings, Ranker, SenseMethod
from admire.data.items import Item
from admire.models.encoders import TextEncoder, open_encoder
from admire.models.llm import ChatModel
from admire.prompts import Prompts
from admire.senses.detector import Detector, Use, open_detector
from admire.senses.dictionaries.entries import UNKNOWN, Dictionary, Known, known_of
from admire.senses.dictionary_evidence import add_evidence
from admire.senses.meaning import DEFINITIONS, UNSAID, Meaning
from admire.senses.sense import NO_SENSE, Sense, given
from admire.senses.sequence import read_sequences, shows_captions
from admire.senses.source import Source, as_source, check_contexts

log = logging.getLogger("admire")


Glosses = Literal["all", "idiomatic", "none"]
"""Whose gloss is asked for: of all items, of those taken as idiomatic, or of none."""


@dataclass(frozen=True)
class Interpretation:
    """How one chat model understands one item: which sense is meant, and what each one means.

    Attributes:
        idiomatic: also what a word means in its phrase, where no sense is decided.
        known: what dictionaries say of the compound.
    """

    llm: str
    sense: Sense
    idiomatic: Meaning = UNSAID
    literal: Meaning = UNSAID
    known: Known = UNKNOWN

    @property
    def gloss(self) -> str | None:
        """The first definition of the idiomatic sense."""
        return next(iter(self.idiomatic.definitions), None)

    @property
    def meant(self) -> str | None:
        """The first definition of the sense that is meant."""
        first = self.sense.label == "idiomatic" or self.sense == NO_SENSE
        meaning = self.idiomatic if first else self.literal
        return next(iter(meaning.definitions), None)

    def texts(self) -> dict[str, str]:
        """What there is to compare candidates with, by role; see :data:`TEXTS`."""
        found: dict[str, str | None] = {}
        for one, first, scene in (
            (self.idiomatic, "gloss", "scene"),
            (self.literal, "literal", "literal_scene"),
        ):
            names = [first, *(f"{first}{k}" for k in range(2, DEFINITIONS + 1))]
            found |= dict(zip(names, one.definitions, strict=False)) | {scene: one.scene}
        return {role: text for role, text in found.items() if text}


def sense_method(
    wanted: SenseMethod, source: Source, rankers: Collection[Ranker] = ()
) -> SenseMethod | Literal["listwise"]:
    """Resolves ``auto`` for this source; returns other methods unchanged.

    Args:
        rankers: of the run; if ``listwise`` is among them, a chat model's replies say the sense.
    """
    if wanted != "auto":
        return wanted
    if source.name in ("embedded", "dictionary"):
        return "detector"
    return "listwise" if "listwise" in rankers and source.llm else "vote"


def meanings_wanted(wanted: Meanings, source: Source) -> Meanings:
    """Resolves ``auto`` for this source; returns others unchanged."""
    if wanted != "auto":
        return wanted
    return "meant" if source.name == "embedded" else "both"


def unasked(method: str) -> bool:
    """Whether senses by this method are known before a chat model is asked anything."""
    return method in ("detector", "given")


def interpret(
    items: Sequence[Item],
    llms: Sequence[ChatModel | Source],
    prompts: Prompts,
    *,
    sense: SenseMethod = "auto",
    votes: int = 5,
    seed: int = 0,
    detector: Detector | None = None,
    encoder: TextEncoder | None = None,
    meanings: Meanings = "auto",
    glosses: Glosses = "idiomatic",
    known: Mapping[str, Sequence[Sense]] | None = None,
    dictionaries: Sequence[Dictionary] = (),
) -> list[list[Interpretation]]:
    """How each source understands each item: a list for each source, in the items' order.

    A sense that does not depend on the source is decided once for all of them. For a word in a
    phrase (V-WSD) none is decided, and one meaning is asked for.

    Args:
        llms: chat models, or other sources of senses and meanings.
        sense: how the sense is decided.
        votes: how often a model is asked for a sense, with the method ``vote``.
        detector: what the method ``detector`` asks; None is the built-in one.
        encoder: what that method compares captions with, where there are sequences; None is
            ``e5``.
        meanings: what is asked for; see :data:`admire.base.choices.Meanings`.
        glosses: the items whose gloss is asked for. With ``meant``, and with ``both`` where the
            sense is known without asking, it is their idiomatic sense, and with ``meant`` the
            others' literal one. Otherwise the literal sense is asked for of all items, unless this
            is ``none``.
        known: senses that are decided already, by the chat model's name.
        dictionaries: what they say is a hint in the prompts for meanings, and a witness beside the
            detector.

    Raises:
        UserError: a model cannot be asked, or nothing tells an item's sense; the message names
            the item.
    """
    sources = [as_source(llm) for llm in llms]
    for source in sources:
        source.check(items)  # before a detector reads all of them
    entries = {item: known_of(dictionaries, item) if dictionaries else UNKNOWN for item in items}
    words = [item for item in items if item.word]
    rest = [item for item in items if not item.word]
    common: dict[str, Sequence[Sense]] = {}
    found = []
    for source in sources:
        method = sense_method(sense, source)
        senses: Sequence[Sense]
        if not rest:
            senses = ()
        elif known and source.name in known:
            senses = known[source.name]
        elif method == "vote":
            senses = source.senses(rest, prompts, votes=votes, seed=seed)
            for item, one in zip(rest, senses, strict=True):
                if one.label is None:
                    log.warning("%s: no vote on '%s' could be read.", source.name, item.compound)
        else:
            if method not in common:
                common[method] = _without_asking(rest, method, detector, encoder, prompts, entries)
            senses = common[method]
        wanted = [
            item
            for item, one in zip(rest, senses, strict=True)
            if glosses == "all" or one.label == "idiomatic"
        ]
        asked = meanings_wanted(meanings, source)
        if glosses == "none":
            idiomatic, literal = {}, {}
        elif asked != "gloss":
            # Asked of all items after votes, so that one batch holds both; what costs nothing, too.
            everything = asked == "both" and not (source.llm and unasked(method))
            described = items if everything else [*wanted, *words]
            idiomatic = source.meanings(described, "idiomatic", prompts, seed=seed, known=entries)
            described = [
                item
                for item, one in zip(rest, senses, strict=True)
                if asked == "both" or glosses == "all" or one.label != "idiomatic"
            ]
            literal = source.meanings(described, "literal", prompts, seed=seed, known=entries)
        else:
            idiomatic = source.meanings(wanted, "gloss", prompts, seed=seed, known=entries)
            if words:
                idiomatic |= source.meanings(words, "idiomatic", prompts, seed=seed, known=entries)
            literal = {}
        decided = iter(senses)
        senses = [NO_SENSE if item.word else next(decided) for item in items]
        found.append(
            [
                Interpretation(
                    source.name,
                    one,
                    idiomatic.get(item, UNSAID),
                    literal.get(item, UNSAID),
                    entries[item],
                )
                for item, one in zip(items, senses, strict=True)
            ]
        )
    return found


def true_queries(
    items: Sequence[Item], llm: ChatModel | Source, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """What the items are compared with if the sense is known: the gloss, or the compound.

    Raises:
        UserError: an item's type is not given, or the model cannot be asked.
    """
    (readings,) = interpret(items, [llm], prompts, sense="given", seed=seed, meanings="gloss")
    return [reading.gloss or item.phrase for item, reading in zip(items, readings, strict=True)]


def _without_asking(
    items: Sequence[Item],
    method: str,
    detector: Detector | None,
    encoder: TextEncoder | None,
    prompts: Prompts,
    known: Mapping[Item, Known],
) -> list[Sense]:
    if method == "given":
        return [given(item) for item in items]
    check_contexts(items)
    compared = [item for item in items if shows_captions(item)]
    uses = [
        # Nothing to compare: what the sequence shows is read as if it were the sentence.
        Use(replace(item, sentence=prompts.about(item, "sequence")) if item.sequence else item)
        for item in items
        if not shows_captions(item)
    ]
    shown = iter(read_sequences(compared, encoder or open_encoder("e5")) if compared else ())
    read = iter((detector or open_detector()).classify(uses) if uses else ())
    senses = [next(shown if shows_captions(item) else read) for item in items]
    return add_evidence(items, senses, known)
