"""Interprets items: each one's sense and, on request, its meanings."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from admire.core import registry
from admire.core.choices import TEXTS, Meanings, SenseMethod
from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.encoders import TextEncoder, open_encoder
from admire.llm import ChatModel, Unanswered
from admire.prompts import Prompts
from admire.senses.detector import Detector, Use
from admire.senses.dictionaries import NO_ENTRIES, Dictionary, Entries, look_up_item
from admire.senses.dictionary_evidence import add_evidence
from admire.senses.meaning import NO_MEANING, Meaning, MeaningKind
from admire.senses.opening import open_detector
from admire.senses.sense import NO_SENSE, UNDECIDED, Sense, given
from admire.senses.sequence import read_sequences, shows_captions
from admire.senses.settings import SenseSettings
from admire.senses.source import Source, as_source, check_contexts

log = logging.getLogger("admire")

FEW = 3
"""If none of at least so many replies is usable, the model is at fault, not a compound."""

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
        texts: dict[str, str | None] = {}
        for meaning, (*roles, scene) in ((self.idiomatic, TEXTS[:3]), (self.literal, TEXTS[3:6])):
            texts |= dict(zip(roles, meaning.definitions, strict=False)) | {scene: meaning.scene}
        return {role: text for role, text in texts.items() if text}


def sense_method(method: SenseMethod, source: Source, decided_by: str = "") -> str:
    """Resolve ``auto`` for this source; return other methods unchanged.

    Args:
        decided_by: the run's ranker that decides senses; empty if none does.
    """
    if method != "auto":
        return method
    if not source.judges_senses:
        return "detector"
    return decided_by if decided_by and source.llm else "vote"


def meanings_method(meanings: Meanings, source: Source) -> Meanings:
    """Resolve ``auto`` for this source; return other choices unchanged."""
    if meanings != "auto":
        return meanings
    return "both" if source.describes_both_senses else "meant"


def interpret(
    items: Sequence[Item],
    llms: Sequence[ChatModel | Source],
    prompts: Prompts,
    settings: SenseSettings | None = None,
    *,
    seed: int = 0,
    glosses: Glosses = "idiomatic",
    guess: bool = False,
    strict: bool = True,
    detector: Detector | None = None,
    encoder: TextEncoder | None = None,
    senses: Mapping[str, Sequence[Sense]] | None = None,
    dictionaries: Sequence[Dictionary] = (),
) -> list[list[Interpretation]]:
    """Return each source's interpretations of the items, in the items' order.

    A sense that does not depend on the source is decided once. A word in a phrase (V-WSD) has no
    sense to decide, and one meaning is requested. If a session that only reads the cache lacks a
    reply, the senses that need it are :data:`UNDECIDED` and the meanings empty.

    Args:
        llms: chat models, or other sources of senses and meanings.
        seed: of the first question; further ones have the next numbers.
        guess: whether :data:`UNDECIDED` items are asked about in both senses, or only about what
            either sense needs.
        strict: whether a chat model without any usable vote, or without any usable meaning, is an
            error; otherwise a warning lists the items.
        detector: for the method ``detector`` (default: the built-in one).
        encoder: compares captions of sequences with that method (default: ``e5``).
        senses: senses that are decided already, by the source's name.
        dictionaries: their entries are hints in the prompts for meanings, and additional evidence
            for the detector.

    Raises:
        UserError: a model fails, or an item's sense cannot be decided; or see ``strict``.
    """
    settings = settings or SenseSettings()
    sources = [as_source(llm) for llm in llms]
    for source in sources:
        source.check(items)  # before a detector reads all of them
    entries = {item: look_up_item(dictionaries, item) for item in items}
    uses = [item for item in items if item.has_sense]
    shared: dict[str, list[Sense]] = {}
    readings = []
    for source in sources:
        method = sense_method(settings.sense, source)
        decided: Sequence[Sense] = ()
        if senses and source.name in senses:
            decided = senses[source.name]
        elif uses and method == "vote":
            decided = _vote(uses, source, prompts, settings, seed, strict=strict)
        elif uses:
            if method not in shared:
                shared[method] = _decide(uses, method, detector, encoder, prompts, entries)
            decided = shared[method]
        left = iter(decided)
        all_senses = [next(left) if item.has_sense else NO_SENSE for item in items]
        ask = partial(
            source.meanings,
            prompts=prompts,
            seed=seed,
            entries=entries,
            gloss_tokens=settings.gloss_tokens,
        )
        kinds = [
            _meaning_kinds(item, sense, source, settings, glosses, guess=guess)
            for item, sense in zip(items, all_senses, strict=True)
        ]
        idiomatic, literal = _ask_meanings(items, all_senses, kinds, source, ask, strict=strict)
        readings.append(
            [
                Interpretation(source.name, sense, idiomatic[item], literal[item], entries[item])
                for item, sense in zip(items, all_senses, strict=True)
            ]
        )
    return readings


def _vote(
    items: Sequence[Item],
    source: Source,
    prompts: Prompts,
    settings: SenseSettings,
    seed: int,
    *,
    strict: bool,
) -> list[Sense]:
    """Return the senses by the source's votes; warn about items without a valid vote."""
    try:
        senses = source.senses(
            items,
            prompts,
            votes=settings.votes,
            temperature=settings.vote_temperature,
            seed=seed,
        )
    except Unanswered:
        return [UNDECIDED] * len(items)
    unread = [item for item, sense in zip(items, senses, strict=True) if not sense.label]
    votes = sum(sense.unparsed for sense in senses)
    if strict and len(unread) == len(items) and votes >= FEW:
        raise _unusable(source.name, f"none of the {votes} votes could be parsed", "sense")
    for item in unread:
        log.warning("%s: no vote on '%s' could be parsed.", source.name, item.compound)
    return senses


def _decide(
    items: Sequence[Item],
    method: str,
    detector: Detector | None,
    encoder: TextEncoder | None,
    prompts: Prompts,
    entries: Mapping[Item, Entries],
) -> list[Sense]:
    """Return the senses from the data, or from a detector and dictionaries."""
    if method == "given":
        return [given(item) for item in items]
    check_contexts(items)
    sequences = [item for item in items if shows_captions(item)]
    uses = [
        # Without captions to compare, the captions of the sequence replace the sentence.
        Use(replace(item, sentence=prompts.about(item, "sequence")) if item.sequence else item)
        for item in items
        if not shows_captions(item)
    ]
    by_captions: list[Sense] = []
    if sequences:
        by_captions = read_sequences(sequences, encoder or open_encoder("e5"))
    by_detector = _detected(uses, detector or open_detector()) if uses else []
    remaining = {True: iter(by_captions), False: iter(by_detector)}
    senses = [next(remaining[shows_captions(item)]) for item in items]
    return add_evidence(items, senses, entries)


def _detected(uses: Sequence[Use], detector: Detector) -> list[Sense]:
    """Return a detector's senses; a plug-in is blamed if it fails."""
    with registry.blamed(detector):
        senses = list(detector.classify(uses))
    plugin = registry.plugin_of(detector)
    if plugin and (len(senses) != len(uses) or not all(isinstance(s, Sense) for s in senses)):
        raise plugin.error(
            f"returned {len(senses)} results for {len(uses)} uses, or not all are senses."
        )
    return senses


def _ask_meanings(
    items: Sequence[Item],
    senses: Sequence[Sense],
    kinds: Sequence[set[MeaningKind]],
    source: Source,
    ask: Callable[[Sequence[Item], MeaningKind], dict[Item, Meaning]],
    *,
    strict: bool,
) -> tuple[dict[Item, Meaning], dict[Item, Meaning]]:
    """Ask a source for all meanings of one kind, then of the next; return them by sense.

    An item's own ``definitions`` are the meaning of its sense.
    """
    by_kind: dict[MeaningKind, list[Item]] = {"gloss": [], "idiomatic": [], "literal": []}
    for item, requested in zip(items, kinds, strict=True):
        for kind in requested:
            by_kind[kind].append(item)
    idiomatic = dict.fromkeys(items, NO_MEANING)
    literal = idiomatic.copy()
    for item, sense in zip(items, senses, strict=True):
        if item.definitions:
            (literal if sense.label == "literal" else idiomatic)[item] = Meaning(item.definitions)
    pairs: list[tuple[Item, Meaning]] = []
    for kind, chosen in by_kind.items():
        if chosen:
            answers = literal if kind == "literal" else idiomatic
            with suppress(Unanswered):
                meanings = ask(chosen, kind)
                answers |= meanings
                pairs += meanings.items()
    if source.llm:
        _check_meanings(pairs, source.name, strict=strict)
    meant = [item for item, sense in zip(items, senses, strict=True) if sense.label == "idiomatic"]
    missing = [item for item in meant if not source.llm and idiomatic[item].fault]
    if missing:
        log.warning(
            "%s has no idiomatic sense for the compounds of %d of %d idiomatic items (%s). They "
            "are ranked by the compound only.",
            source.name,
            len(missing),
            len(meant),
            _names(missing),
        )
    return idiomatic, literal


def _check_meanings(pairs: Sequence[tuple[Item, Meaning]], name: str, *, strict: bool) -> None:
    """Warn about unusable meanings: how many there are, and for which compounds.

    Raises:
        UserError: ``strict``, and none can be used.
    """
    unread = [(item, meaning) for item, meaning in pairs if meaning.unread is not None]
    if strict and len(pairs) >= FEW and len(unread) == len(pairs):
        example = textwrap.shorten(unread[0][1].unread or "", 80, placeholder="…")
        first = f"the first reply is {f'“{example}”' if example else 'empty'}"
        if example and unread[0][1].fault:
            first += f": {unread[0][1].fault}"
        raise _unusable(name, f"none of the {len(pairs)} meanings is usable ({first})")
    if unread:
        log.warning(
            "%d of %d meanings of %s unusable (%s); the dictionary was used for %d.",
            len(unread),
            len(pairs),
            name,
            _names(item for item, _ in unread),
            sum(bool(meaning) for _, meaning in unread),
        )
    repeating = [item for item, meaning in pairs if meaning.fault and meaning.unread is None]
    if repeating:
        log.warning(
            "%d of %d meanings of %s only repeat the compound's words (%s).",
            len(repeating),
            len(pairs),
            name,
            _names(repeating),
        )


def _names(items: Iterable[Item]) -> str:
    """Return the first compounds of these items, and the number of further ones."""
    names = [f"'{compound}'" for compound in dict.fromkeys(item.compound for item in items)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _unusable(name: str, reason: str, *settings: str) -> UserError:
    return UserError(
        f"{name}: {reason}. See its answers on one item (admire one), or use another model.",
        *("llms", "llm_url", *settings),
    )


def _meaning_kinds(
    item: Item,
    sense: Sense,
    source: Source,
    settings: SenseSettings,
    glosses: Glosses,
    *,
    guess: bool,
) -> set[MeaningKind]:
    """Return the kinds of meaning to request from a source for an item in this sense."""
    if glosses == "none":
        return set()
    kinds_of = partial(
        _meaning_kinds, source=source, settings=settings, glosses=glosses, guess=guess
    )
    if item.definitions:
        others = kinds_of(replace(item, definitions=()), sense)
        return others & {"idiomatic" if sense.label == "literal" else "literal"}
    if not item.has_sense:
        return {"idiomatic"}
    if sense == UNDECIDED:
        either = [Sense(label, 0.5) for label in get_args(SenseLabel)]
        first, second = (kinds_of(item, sense) for sense in either)
        return first | second if guess else first & second
    meanings = meanings_method(settings.meanings, source)
    idiomatic = glosses == "all" or sense.label == "idiomatic"
    if meanings == "gloss":
        return {"gloss"} if idiomatic else set()
    kinds: set[MeaningKind] = set()
    # After votes, both senses are requested for all items, in one batch.
    first_known = source.llm and sense_method(settings.sense, source) in ("detector", "given")
    if idiomatic or (meanings == "both" and not first_known):
        kinds.add("idiomatic")
    literal = sense.label != "idiomatic" and source.describes_both_senses
    if meanings == "both" or glosses == "all" or literal:
        kinds.add("literal")
    return kinds


def true_queries(
    items: Sequence[Item], llm: ChatModel | Source, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """Return the text for comparing items in their given sense: the gloss, or the compound."""
    settings = SenseSettings(sense="given", meanings="gloss")
    (readings,) = interpret(items, [llm], prompts, settings, seed=seed)
    return [reading.gloss or item.phrase for item, reading in zip(items, readings, strict=True)]
