"""Interprets items: decides senses without a chat model, and asks one for the rest."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from admire.core import registry
from admire.core.choices import TEXTS, Meanings, SenseMethod
from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.encoders import TextEncoder, open_encoder
from admire.llm.chat import Capabilities, Conversation
from admire.prompts import Prompts
from admire.senses.describing import describe
from admire.senses.detector import Detector, open_detector
from admire.senses.dictionaries import NO_ENTRIES, Entries
from admire.senses.evidence import add_evidence, read_sequences
from admire.senses.meaning import NO_MEANING, REPEATS, Meaning, MeaningKind
from admire.senses.recording import Known, Recording, describe_uses, name_compounds
from admire.senses.sense import NO_SENSE, Sense
from admire.senses.settings import SenseSettings, Use
from admire.senses.votes import vote

log = logging.getLogger("admire")

HINTS = 2  #: maximum number of glosses from a dictionary in a prompt
WORD_HINTS = 10  #: the same for a word in a phrase, where any of them may be meant

Method = Literal["vote", "detector", "given"]
"""What decides senses: a chat model, or the recording in its place; a detector; or the data."""
Glosses = Literal["all", "idiomatic", "none"]
"""The items whose gloss is requested: all, those with the idiomatic sense, or none. With the
meanings ``meant``, and with ``both`` if the sense is known before the model is asked, it is
requested for their idiomatic sense; with ``meant`` also for the literal sense of the others, except
from the embedded model. Otherwise the literal sense is requested for all items."""


@dataclass(frozen=True)
class Interpretation:
    """One chat model's interpretation of an item: the intended sense and the meanings.

    Attributes:
        idiomatic: also the meaning of a word in a phrase.
        known: the compound's entries in dictionaries.
        asked: the senses whose meaning the model was asked for; not in run folders.
    """

    llm: str
    sense: Sense
    idiomatic: Meaning = NO_MEANING
    literal: Meaning = NO_MEANING
    known: Entries = NO_ENTRIES
    asked: Annotated[tuple[SenseLabel, ...], Field(exclude=True)] = field(default=(), compare=False)

    @property
    def gloss(self) -> str | None:
        """The first definition of the idiomatic sense."""
        return next(iter(self.idiomatic.definitions), None)

    @property
    def meant(self) -> str | None:
        """The first definition of the intended sense."""
        return next(iter(self._meant.definitions), None)

    @property
    def warning(self) -> str | None:
        """The fault of the intended meaning, if any; None for a literal use without a meaning."""
        meant = self._meant
        if self.sense.label == "literal" and not meant:
            return None
        if meant.unread is None:
            return meant.fault
        return "the model's reply could not be used" + (f": {meant.fault}" if meant.fault else "")

    @property
    def _meant(self) -> Meaning:
        idiomatic = self.sense.label == "idiomatic" or self.sense == NO_SENSE
        return self.idiomatic if idiomatic else self.literal

    def wording(self, phrase: str, definitions: Sequence[str] = ()) -> str | None:
        """Return the meaning to show: :attr:`meant`; of a literal use without one and without given
        ``definitions``, a dictionary's, or the phrase itself."""
        if self.sense.label != "literal" or definitions:
            return self.meant
        return self.meant or next(iter(self.known.glosses("literal")), phrase)

    def texts(self) -> dict[str, str]:
        """Return the texts to compare candidates with, by role; see :data:`TEXTS`."""
        texts: dict[str, str] = {}
        for meaning, (*roles, scene) in ((self.idiomatic, TEXTS[:3]), (self.literal, TEXTS[3:6])):
            pairs = [*zip(roles, meaning.definitions, strict=False), (scene, meaning.scene)]
            for role, text in pairs:
                if text:
                    texts[role] = text
        return texts


def sense_method(method: SenseMethod, llm: Capabilities | Recording) -> Method:
    """Resolve ``auto`` for this chat model; return other methods unchanged."""
    if method != "auto":
        return method
    return "vote" if llm.judges_senses else "detector"


def meanings_method(meanings: Meanings, llm: Capabilities | Recording) -> Meanings:
    """Resolve ``auto`` for this chat model; return other choices unchanged."""
    if meanings != "auto":
        return meanings
    return "both" if llm.describes_both_senses else "meant"


class Approach(NamedTuple):
    """How all chat models of a run interpret items; the first question of each has the seed."""

    prompts: Prompts
    settings: SenseSettings = SenseSettings()
    seed: int = 0
    glosses: Glosses = "idiomatic"


def detect(
    items: Sequence[Item],
    entries: Mapping[Item, Entries],
    prompts: Prompts,
    detector: Detector | None = None,
    encoder: TextEncoder | None = None,
) -> dict[Item, Sense]:
    """Return the senses by a detector, by the captions of sequences, and by dictionaries.

    Args:
        detector: None is the built-in one.
        encoder: compares captions of sequences; None is ``e5``.
    """
    check_contexts(items)
    senses: dict[Item, Sense] = {}
    sequences, others, uses, caption = list[Item](), list[Item](), [], attrgetter("caption")
    for item in items:
        if any(map(caption, item.sequence)) and any(map(caption, item.candidates)):
            sequences.append(item)
            continue
        others.append(item)
        if item.sequence:  # without captions to compare, its own replace the sentence
            item = replace(item, sentence=prompts.about(item, "sequence"))
        uses.append(Use(item))
    if sequences:
        by_captions = read_sequences(sequences, encoder or open_encoder("e5"))
        senses |= zip(sequences, by_captions, strict=True)
    if uses:
        detector = detector or open_detector()
        with registry.blamed(detector):
            decided = detector.classify(uses)
        senses |= zip(others, registry.checked(detector, decided, Sense, len(uses)), strict=True)
    adjusted = add_evidence(items, [senses[item] for item in items], entries)
    return dict(zip(items, adjusted, strict=True))


def interpret(
    item: Item,
    llm: Capabilities | Recording,
    how: Approach,
    sense: Sense | None,
    entries: Entries,
    recorded: Known | None = None,
) -> Conversation[Interpretation]:
    """Ask a chat model for what is needed to interpret an item.

    A word in a phrase (V-WSD) has no sense to decide, and one meaning is requested.

    Args:
        sense: None if the model votes.
        entries: the compound's in dictionaries: hints in the prompts for meanings.
        recorded: what a recording in the model's place knows; then nothing is asked.
    """
    settings = how.settings
    if sense is None and item.has_sense and not recorded:
        check_contexts([item])
        options: Any = {"votes": settings.votes, "temperature": settings.vote_temperature}
        sense = yield from vote(item, how.prompts, seed=how.seed, **options)
    sense = sense or NO_SENSE
    intended: SenseLabel = "literal" if sense.label == "literal" else "idiomatic"
    meanings: dict[SenseLabel, Meaning] = {intended: Meaning(item.definitions)}
    requested: list[SenseLabel] = []
    for kind in _kinds(item, sense, llm, how, free=recorded is not None):
        if item.definitions and kind in ("gloss", intended):  # a person says what it means
            continue
        label: SenseLabel = "literal" if kind == "literal" else "idiomatic"
        if recorded:
            meanings[label] = recorded.meaning(label, one=kind == "gloss")
        else:
            glosses = () if kind == "gloss" else entries.glosses(kind)
            hint = glosses[: HINTS if item.has_sense else WORD_HINTS]
            options = {"seed": how.seed, "gloss_tokens": settings.gloss_tokens}
            meanings[label] = yield from describe(item, kind, how.prompts, hint=hint, **options)
        requested.append(label)
    return Interpretation(llm.name, sense, **meanings, known=entries, asked=tuple(requested))


def _kinds(
    item: Item, sense: Sense, llm: Capabilities | Recording, how: Approach, *, free: bool
) -> list[MeaningKind]:
    """Return the kinds of meaning to request from a model for an item in this sense.

    After votes, or if it is ``free`` to request them, both senses are requested for all items.
    """
    if how.glosses == "none":
        return []
    if not item.has_sense:
        return ["idiomatic"]
    meanings, every = meanings_method(how.settings.meanings, llm), how.glosses == "all"
    idiomatic, both = every or sense.label == "idiomatic", meanings == "both"
    if meanings == "gloss":
        return ["gloss"] if idiomatic else []
    kinds: list[MeaningKind] = []
    if idiomatic or (both and (free or sense_method(how.settings.sense, llm) == "vote")):
        kinds.append("idiomatic")
    if both or every or (sense.label != "idiomatic" and llm.describes_both_senses):
        kinds.append("literal")
    return kinds


def check_contexts(items: Iterable[Item]) -> None:
    """Refuse items that have neither a sentence nor a sequence with captions."""
    for item in items:
        if not item.shows_sense:
            raise UserError(
                f"'{item.compound}': no sentence or sequence with captions to decide its sense.",
                "sense",
            )


Read = Sequence[tuple[Item, Interpretation]]  #: items with one model's interpretations of them


def warn_of_unusable(read: Read, name: str, *, voted: bool) -> None:
    """Warn about useless meanings, and votes if the model ``voted``; name the compounds."""
    count, replaced, unread, again = 0, 0, list[Item](), list[Item]()
    for item, reading in read:
        if voted and item.has_sense and not reading.sense.label:
            log.warning("%s: no vote on '%s' could be parsed.", name, item.compound)
        for label in reading.asked:
            meaning, count = getattr(reading, label), count + 1
            if meaning.unread is not None:
                unread.append(item)
                replaced += bool(meaning)
            elif meaning.fault == REPEATS:
                again.append(item)
    all_of_model = f"{count} meanings of {name}"
    if unread:
        text = "%d of %s unusable (%s); the dictionary was used for %d."
        log.warning(text, len(unread), all_of_model, name_compounds(unread), replaced)
    if again:
        text = "%d of %s only repeat the compound's words (%s)."
        log.warning(text, len(again), all_of_model, name_compounds(again))


def warn_of_gaps(read: Read, name: str) -> None:
    """Warn about the items whose intended meaning a recording or dictionary does not have."""
    idiomatic, unknown = 0, list[Item]()
    gaps: dict[SenseLabel, list[Item]] = {}
    for item, reading in read:
        label: SenseLabel = "literal" if reading.sense.label == "literal" else "idiomatic"
        if label in reading.asked:
            meaning: Meaning = getattr(reading, label)
            idiomatic += label == "idiomatic"
            if meaning.fault and label == "idiomatic":
                unknown.append(item)
            elif not (meaning or meaning.fault):
                gaps.setdefault(label, []).append(item)
    if unknown:
        log.warning(
            "%s has no idiomatic sense for the compounds of %d of %d idiomatic items (%s). They "
            "are ranked by the compound only.",
            *(name, len(unknown), idiomatic, name_compounds(unknown)),
        )
    for label, items in gaps.items():
        log.warning("%s has no %s meaning for %s.", name, label, describe_uses(items))
