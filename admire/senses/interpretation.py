"""Interprets items: decides which senses and meanings a chat model is asked for."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from admire.core import registry
from admire.core.choices import TEXTS, Meanings, SenseMethod
from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.encoders import TextEncoder, open_encoder
from admire.llm.chat import ChatModel
from admire.llm.conversation import Conversation, converse
from admire.prompts import Prompts
from admire.senses.detector import Detector, Use, open_detector
from admire.senses.dictionaries import NO_ENTRIES, Dictionary, Entries, look_up_item
from admire.senses.evidence import add_evidence, read_sequences, shows_captions
from admire.senses.meaning import NO_MEANING, REPEATS, Meaning, MeaningKind, describe
from admire.senses.sense import NO_SENSE, Sense, given, likelier
from admire.senses.settings import SenseSettings
from admire.senses.votes import vote

log = logging.getLogger("admire")

FEW = 3
"""If none of at least so many replies is usable, the model is at fault, not a compound."""
HINTS = 2
"""Maximum number of glosses from a dictionary in a prompt."""
WORD_HINTS = 10
"""The same for a word in a phrase, where any of them may be meant."""
IMAGINED = likelier(1.0, "detector")
"""A detector's sense in a dry run: idiomatic uses need the most questions."""

Glosses = Literal["all", "idiomatic", "none"]
"""The items whose gloss is requested: all, those with the idiomatic sense, or none. With the
meanings ``meant``, and with ``both`` if the sense is known before the model is asked, it is
requested for their idiomatic sense; with ``meant`` also for the literal sense of the others, except
from the embedded model. Otherwise the literal sense is requested for all items."""


@dataclass(frozen=True)
class Interpretation:
    """One chat model's interpretation of an item: the intended sense and the meanings.

    Attributes:
        idiomatic: also the meaning of a word in a phrase, which has no sense to decide.
        known: the compound's entries in dictionaries.
    """

    llm: str
    sense: Sense
    idiomatic: Meaning = NO_MEANING
    literal: Meaning = NO_MEANING
    known: Entries = NO_ENTRIES

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
        is_literal = self.sense.label == "literal"
        return None if is_literal and not self._meant else self._meant.warning

    @property
    def _meant(self) -> Meaning:
        idiomatic = self.sense.label == "idiomatic" or self.sense == NO_SENSE
        return self.idiomatic if idiomatic else self.literal

    def wording(self, phrase: str, definitions: Sequence[str] = ()) -> str | None:
        """Return the meaning to show: :attr:`meant`, or for some literal uses the phrase itself.

        The meaning of a literal use comes from given ``definitions``, from a chat model that
        describes both senses, or from a dictionary.
        """
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


def sense_method(method: SenseMethod, llm: ChatModel, decided_by: str = "") -> str:
    """Resolve ``auto`` for this chat model; return other methods unchanged.

    Args:
        decided_by: the run's ranker that decides senses; empty if none does.
    """
    if method != "auto":
        return method
    if not llm.judges_senses:
        return "detector"
    return decided_by if decided_by and not llm.recorded else "vote"


def meanings_method(meanings: Meanings, llm: ChatModel) -> Meanings:
    """Resolve ``auto`` for this chat model; return other choices unchanged."""
    if meanings != "auto":
        return meanings
    return "both" if llm.describes_both_senses else "meant"


class Heard(NamedTuple):
    """What conversations with one chat model have come to so far, with their items.

    Attributes:
        meanings: each with its sense, if that is the intended one.
    """

    votes: list[tuple[Item, Sense]]
    meanings: list[tuple[Item, Meaning, SenseLabel | None]]


def refuse_unusable(heard: Heard, name: str) -> None:
    """Refuse a chat model none of whose votes, or none of whose meanings, can be used."""
    unparsed = [sense.unparsed for _, sense in heard.votes if not sense.label]
    unread = [meaning for _, meaning, _ in heard.meanings if meaning.unread is not None]
    if sum(unparsed) >= FEW and len(unparsed) == len(heard.votes):
        reason, settings = f"none of the {sum(unparsed)} votes could be parsed", ["sense"]
    elif len(unread) >= FEW and len(unread) == len(heard.meanings):
        example = textwrap.shorten(unread[0].unread or "", 80, placeholder="…")
        first = f"the first reply is {f'“{example}”' if example else 'empty'}"
        if example and unread[0].fault:
            first += f": {unread[0].fault}"
        reason, settings = f"none of the {len(unread)} meanings is usable ({first})", []
    else:
        return
    raise UserError(
        f"{name}: {reason}. See its answers on one item (admire one), or use another model.",
        *("llms", "llm_url", *settings),
    )


def warn_of_unusable(items: Sequence[Item], heard: Heard, llm: ChatModel) -> None:
    """Warn about votes and meanings that cannot be used: how many, and of which compounds."""
    places = {item: place for place, item in enumerate(items)}
    entries: list[Any]
    for entries in heard:  # replies come in any order
        entries.sort(key=lambda entry: places[entry[0]])
    for item, sense in heard.votes:
        if not sense.label:
            log.warning("%s: no vote on '%s' could be parsed.", llm.name, item.compound)
    asked = f"{len(heard.meanings)} meanings of {llm.name}"
    unread = [(item, bool(m)) for item, m, _ in heard.meanings if m.unread is not None]
    if unread:
        names, replaced = _names(item for item, _ in unread), sum(known for _, known in unread)
        text = "%d of %s unusable (%s); the dictionary was used for %d."
        log.warning(text, len(unread), asked, names, replaced)
    again = [item for item, m, _ in heard.meanings if m.fault == REPEATS and m.unread is None]
    if again:
        text = "%d of %s only repeat the compound's words (%s)."
        log.warning(text, len(again), asked, _names(again))
    if llm.recorded:
        _warn_of_gaps(heard.meanings, llm.name)


@dataclass
class Interpreter:
    """Interprets items, in the same way for all chat models of a run.

    Attributes:
        seed: of the first question; further ones have the next numbers.
        detector: for the method ``detector`` (default: the built-in one).
        encoder: compares captions of sequences with that method (default: ``e5``).
        dictionaries: their entries are hints in the prompts for meanings, and additional evidence
            for the detector.
        entries: those of the items that were looked up.
    """

    prompts: Prompts
    settings: SenseSettings = field(default_factory=SenseSettings)
    seed: int = 0
    glosses: Glosses = "idiomatic"
    detector: Detector | None = None
    encoder: TextEncoder | None = None
    dictionaries: Sequence[Dictionary] = ()
    entries: dict[Item, Entries] = field(default_factory=dict)
    _decided: dict[Item, Sense] = field(default_factory=dict)

    def look_up(self, items: Iterable[Item]) -> None:
        """Look up the compounds of the items to interpret next in the dictionaries."""
        self.entries = {item: look_up_item(self.dictionaries, item) for item in items}
        self._decided = {}

    def decide(self, items: Sequence[Item], method: str, llm: ChatModel) -> dict[Item, Sense]:
        """Return the senses that no chat model decides: from the data, or from a detector.

        Args:
            items: those that were looked up last.
            method: see :func:`sense_method`.

        Raises:
            UserError: an item has no sense in the data, or none can be decided.
        """
        uses = [item for item in items if item.has_sense]
        if method == "given":
            return {item: given(item) for item in uses}
        if method != "detector" or not uses:
            return {}
        if getattr(llm, "imagines", False):  # a dry run opens no detector
            return dict.fromkeys(uses, IMAGINED)
        self._decided = self._decided or self._detect(uses)
        return self._decided

    def _detect(self, items: Sequence[Item]) -> dict[Item, Sense]:
        """Return the senses by a detector, by the captions of sequences, and by dictionaries."""
        check_contexts(items)
        senses: dict[Item, Sense] = {}
        if sequences := [item for item in items if shows_captions(item)]:
            by_captions = read_sequences(sequences, self.encoder or open_encoder("e5"))
            senses |= zip(sequences, by_captions, strict=True)
        if others := [item for item in items if item not in senses]:
            # Without captions to compare, the captions of the sequence replace the sentence.
            contexts = [
                replace(item, sentence=self.prompts.about(item, "sequence"))
                if item.sequence
                else item
                for item in others
            ]
            detector = self.detector or open_detector()
            with registry.blamed(detector):
                senses |= zip(others, detector.classify([*map(Use, contexts)]), strict=True)
        decided = add_evidence(items, [senses[item] for item in items], self.entries)
        return dict(zip(items, decided, strict=True))

    def read(
        self, item: Item, llm: ChatModel, sense: Sense | None, heard: Heard
    ) -> Conversation[Interpretation]:
        """Ask a chat model for what is needed to interpret an item.

        A word in a phrase (V-WSD) has no sense to decide, and one meaning is requested.

        Args:
            sense: None if the model votes.
            heard: gets its votes and meanings as they come.
        """
        if sense is None and item.has_sense:
            if not llm.recorded:
                check_contexts([item])
            votes, temperature = self.settings.votes, self.settings.vote_temperature
            sense = yield from vote(
                item, self.prompts, votes=votes, temperature=temperature, seed=self.seed
            )
            heard.votes.append((item, sense))
        sense = sense or NO_SENSE
        intended: SenseLabel = "literal" if sense.label == "literal" else "idiomatic"
        meanings: dict[SenseLabel, Meaning] = {intended: Meaning(item.definitions)}
        options: Any = {"seed": self.seed, "gloss_tokens": self.settings.gloss_tokens}
        for kind in self._kinds(item, sense, llm):
            if item.definitions and kind in ("gloss", intended):  # a person says what it means
                continue
            glosses = () if kind == "gloss" else self.entries[item].glosses(kind)
            hint = glosses[: HINTS if item.has_sense else WORD_HINTS]
            meaning = yield from describe(item, kind, self.prompts, hint=hint, **options)
            label: SenseLabel = "literal" if kind == "literal" else "idiomatic"
            meanings[label] = meaning
            heard.meanings.append((item, meaning, label if label == intended else None))
        return Interpretation(llm.name, sense, **meanings, known=self.entries[item])

    def _kinds(self, item: Item, sense: Sense, llm: ChatModel) -> list[MeaningKind]:
        """Return the kinds of meaning to request from a model for an item in this sense."""
        if self.glosses == "none":
            return []
        if not item.has_sense:
            return ["idiomatic"]
        meanings, every = meanings_method(self.settings.meanings, llm), self.glosses == "all"
        idiomatic, both = every or sense.label == "idiomatic", meanings == "both"
        wanted: dict[MeaningKind, bool] = {"gloss": idiomatic}
        if meanings != "gloss":
            # After votes, both senses are requested for all items.
            method = sense_method(self.settings.sense, llm)
            votes = llm.recorded or method not in ("detector", "given")
            literal = sense.label != "idiomatic" and llm.describes_both_senses
            wanted = {
                "idiomatic": idiomatic or (both and votes),
                "literal": both or every or literal,
            }
        return [kind for kind, asks in wanted.items() if asks]


def interpret(
    items: Sequence[Item],
    llms: Sequence[ChatModel],
    prompts: Prompts,
    settings: SenseSettings | None = None,
    **options: Any,
) -> list[list[Interpretation]]:
    """Return each chat model's interpretations of the items, in the items' order.

    Args:
        options: fields of :class:`Interpreter`.

    Raises:
        UserError: the model fails, none of its votes or none of its meanings is usable, or an
            item's sense cannot be decided.
    """
    interpreter = Interpreter(prompts, settings or SenseSettings(), **options)
    interpreter.look_up(items)
    rows: list[Any] = []
    for llm in llms:
        method, heard = sense_method(interpreter.settings.sense, llm), Heard([], [])
        senses = interpreter.decide(items, method, llm)
        llm.check(items, ["senses"] if method == "vote" else [])
        talks = [interpreter.read(item, llm, senses.get(item), heard) for item in items]
        rows.append(converse(talks, llm, check=partial(refuse_unusable, heard, llm.name)))
        warn_of_unusable(items, heard, llm)
    return rows


def true_queries(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """Return the text for comparing items in their given sense: the gloss, or the compound."""
    settings = SenseSettings(sense="given", meanings="gloss")
    (readings,) = interpret(items, [llm], prompts, settings, seed=seed)
    return [reading.gloss or item.phrase for item, reading in zip(items, readings, strict=True)]


def check_contexts(items: Iterable[Item]) -> None:
    """Refuse items that have neither a sentence nor a sequence with captions."""
    for item in items:
        if not item.shows_sense:
            raise UserError(
                f"'{item.compound}': no sentence or sequence with captions to decide its sense.",
                "sense",
            )


def _warn_of_gaps(meanings: Sequence[tuple[Item, Meaning, SenseLabel | None]], name: str) -> None:
    """Warn about the items whose intended meaning a recording or dictionary does not have."""
    idiomatic = [(item, meaning) for item, meaning, label in meanings if label == "idiomatic"]
    if unknown := [item for item, meaning in idiomatic if meaning.fault]:
        log.warning(
            "%s has no idiomatic sense for the compounds of %d of %d idiomatic items (%s). They "
            "are ranked by the compound only.",
            name,
            len(unknown),
            len(idiomatic),
            _names(unknown),
        )
    gaps = [(item, label) for item, m, label in meanings if label and not (m or m.fault)]
    for label in dict.fromkeys(label for _, label in gaps):
        missing = [item for item, other in gaps if other == label]
        log.warning("%s has no %s meaning for %s.", name, label, describe_uses(missing))


def describe_uses(items: Sequence[Item]) -> str:
    """Return the items by compound and sentence, the first three of many."""
    shorten = partial(textwrap.shorten, width=60, placeholder="…")
    return _first([f"'{item.compound}' in “{shorten(item.sentence)}”" for item in items])


def _names(items: Iterable[Item]) -> str:
    """Return the first compounds of these items, and the number of further ones."""
    return _first([f"'{name}'" for name in dict.fromkeys(item.compound for item in items)])


def _first(names: Sequence[str]) -> str:
    """Return the first three names, and the number of further ones."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
