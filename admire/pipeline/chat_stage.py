"""The stage of a run that asks chat models: opens them, gets senses and meanings, and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from admire.core import registry
from admire.core.errors import UserError
from admire.core.schema import as_tuple, check_setting
from admire.data.items import Item
from admire.data.schema import parse_order
from admire.encoders import TextEncoder
from admire.llm import ChatModel
from admire.llm.bound_model import BoundModel
from admire.llm.chat import Conversation, Question, Reply, inner
from admire.llm.conversation import converse
from admire.llm.session import Session
from admire.prompts import Prompts
from admire.rankers import Judgement, Ranker, any_ranker, open_rankers
from admire.rankers.aggregate import aggregate, places
from admire.rankers.judgement import Answer, warn_of_unread
from admire.rankers.settings import RequestOptions, SetSummary, Settings
from admire.senses import Detector, Recording, open_detector
from admire.senses.dictionaries import Dictionary, Entries, look_up_item, open_dictionaries
from admire.senses.interpretation import (
    Approach,
    Glosses,
    Interpretation,
    Method,
    check_contexts,
    detect,
    interpret,
    sense_method,
    warn_of_gaps,
    warn_of_unusable,
)
from admire.senses.meaning import Meaning
from admire.senses.recording import Known
from admire.senses.sense import Sense, given, likelier

Model = str | ChatModel | Recording
"""A chat model, by name or as an object, or what is used instead."""


class ResolvedModels(NamedTuple):
    """Settings, request options and models of a run; a model that is None is in the settings."""

    settings: Settings
    asking: RequestOptions
    llms: Sequence[Model]
    encoder: Sequence[str | TextEncoder] | None
    caption_encoder: TextEncoder | None
    detector: Detector | None


class Models(TypedDict, total=False):
    """The models of :func:`admire.rank`, by name or as objects."""

    llms: Sequence[Model] | None
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None
    caption_encoder: str | TextEncoder | None
    detector: str | Path | Detector | None


def resolve_models(
    settings: Settings | None = None,
    asking: RequestOptions | None = None,
    **models: Unpack[Models],
) -> ResolvedModels:
    """Move the names of models among the arguments of :func:`admire.rank` to the settings."""
    if unknown := sorted(models.keys() - Models.__annotations__.keys()):
        raise TypeError(f"unexpected argument '{unknown[0]}'")
    check_setting("settings", settings, Settings | None)
    names: dict[str, Any] = {}
    llms: Any = as_tuple(models.get("llms"))
    encoders: Any = models.get("encoder")
    if any(isinstance(llm, str) for llm in llms):
        names["llms"] = _names(llms)
    if encoders is not None:
        encoders = encoders if isinstance(encoders, list | tuple) else [encoders]
        names["encoder"] = _names(encoders)
    objects: dict[str, Any] = {"caption_encoder": None, "detector": None}
    for name in objects:
        model = models.get(name)
        places = names if isinstance(model, str | Path) else objects
        places[name] = model
    settings = replace(settings or Settings(), **names)
    return ResolvedModels(
        settings, asking or RequestOptions(), llms or settings.llms, encoders, **objects
    )


def _names(models: Iterable[Any]) -> tuple[str, ...]:
    return tuple(model if isinstance(model, str) else model.name for model in models)


Judged = tuple[Interpretation, Sequence[Judgement]]
"""A chat model's interpretation of an item, and the judgements that came of its replies."""
Decided = tuple[Mapping[Item, Entries], Mapping[str, Mapping[Item, Sense]]]
"""Dictionary entries of items, and the senses that no chat model decides, by method."""
IMAGINED = likelier(1.0, "detector")
"""A detector's sense in a dry run: idiomatic uses need the most questions."""


class Speaker(NamedTuple):
    """A chat model of a run, or a recording in its place, which is not asked."""

    model: BoundModel | Recording
    method: Method | Literal["ranker"]  #: what decides the sense; "ranker" is the decider
    rankers: Sequence[Ranker] = ()  #: those that judge items one by one, by its replies if they ask
    decider: Ranker | None = None  #: the one of them whose answers contain the sense; it goes first


def check_recorded(speaker: Speaker, items: Sequence[Item]) -> None:
    """Refuse items whose sense or order is needed and missing in a recording."""
    if not isinstance(speaker.model, BoundModel):
        purposes = ["senses"] * (speaker.method == "vote")
        purposes += ["ranking"] * any(ranker.asks for ranker in speaker.rankers)
        with registry.blamed(speaker.model):
            speaker.model.check(items, purposes)


@dataclass(frozen=True)
class ChatStage:
    """The conversations of a run with its chat models.

    Attributes:
        speakers: the chat models; none for a baseline.
        dictionaries: their entries are hints in prompts, and evidence for the detector.
        detector: decides senses for the method ``detector`` (default: the built-in one).
        imagines: whether it is a dry run, which opens no detector.
    """

    speakers: Sequence[Speaker]
    how: Approach
    dictionaries: Sequence[Dictionary] = ()
    detector: Detector | None = None
    imagines: bool = False

    def hold(
        self, items: Sequence[Item], decided: Decided, *, strict: bool = True
    ) -> list[list[Judged]]:
        """Hold the conversations about items, and return what each chat model says about each.

        Args:
            decided: what :meth:`decide` returns of the items.
            strict: whether a chat model without any usable reply is an error, not a warning.
        """
        rows, (entries, senses) = [], decided
        for speaker in self.speakers:
            own = senses[speaker.method]
            talks = [self._judge(item, speaker, own.get(item), entries[item]) for item in items]
            model = speaker.model if isinstance(speaker.model, BoundModel) else _Nobody()
            row = converse(talks, model, strict=strict)
            rows.append(row)
            readings = [(item, reading) for item, (reading, _) in zip(items, row, strict=True)]
            warn_of_unusable(readings, speaker.model.name, voted=speaker.method == "vote")
            if not isinstance(speaker.model, BoundModel):
                warn_of_gaps(readings, speaker.model.name)
            for judged in zip(*(judgements for _, judgements in row), strict=True):
                warn_of_unread(zip(items, judged, strict=True), speaker.model.name)
        return rows

    def decide(self, items: Sequence[Item], encoder: TextEncoder | None = None) -> Decided:
        """Look the items up in the dictionaries, and return the senses that no chat model decides.

        Args:
            encoder: compares captions of sequences with the method ``detector`` (default: ``e5``).
        """
        entries = {item: look_up_item(self.dictionaries, item) for item in items}
        uses = [item for item in items if item.has_sense]
        senses: dict[str, dict[Item, Sense]] = {"vote": {}, "ranker": {}}
        for speaker in self.speakers:
            check_recorded(speaker, items)
            if speaker.method in senses:
                continue
            if speaker.method == "given":
                senses["given"] = {item: given(item) for item in uses}
            elif self.imagines or not uses:
                senses["detector"] = dict.fromkeys(uses, IMAGINED)
            else:
                senses["detector"] = detect(uses, entries, self.how.prompts, self.detector, encoder)
        return entries, senses

    def _judge(
        self, item: Item, speaker: Speaker, sense: Sense | None, entries: Entries
    ) -> Conversation[Judged]:
        """Interpret an item, and let the rankers judge its candidates (UoR-NCL, section 2)."""
        recorded, first, model = None, None, speaker.model
        if not isinstance(model, BoundModel):
            with registry.blamed(model, f"'{item.compound}'"):
                (recorded,) = registry.checked(model, [model.known(item)], Known)
                sense = sense or recorded.decided
        elif speaker.decider:
            first = yield from speaker.decider.talk(item, None)
            sense = first.sense
        reading = yield from interpret(item, model, self.how, sense, entries, recorded)
        judgements, gloss = list[Judgement](), None
        for ranker in speaker.rankers:
            if ranker is speaker.decider and first:
                judgement = first
            elif ranker.asks and not isinstance(model, BoundModel):
                judgement = _recorded_order(item, model, ranker)
            else:
                judgement = yield from ranker.talk(item, reading)
            judgements.append(replace(judgement, llm=model.name))
            gloss = gloss or judgement.meaning
        if gloss and not (reading.idiomatic or reading.literal):  # it is in the answers alone
            meant = "idiomatic" if reading.sense.label == "idiomatic" else "literal"
            definition: dict[str, Any] = {meant: Meaning((gloss,))}
            reading = replace(reading, **definition)
        return reading, judgements


class _Nobody(ChatModel):
    """Answers for a recording, whose rankers ask nothing."""

    name = identity = "nobody"

    def ask(self, question: Question) -> Reply:
        raise UserError("A recording cannot be asked.", "llms", "rankers")


def _recorded_order(item: Item, recording: Recording, ranker: Ranker) -> Judgement:
    """Return the judgement by the order that is recorded, whichever ranker would have asked."""
    with registry.blamed(recording, f"'{item.compound}'"):
        order = recording.order(item)
    order = [*order] if isinstance(order, Sequence) else order
    order = parse_order(order, item.names, f"{recording.name}, '{item.compound}'", column="order")
    points = aggregate(places([[*order]], item.names))
    return Judgement(ranker.name, "", tuple(points.tolist()), (Answer(item.names, order),))


def open_stage(
    summary: SetSummary, resolved: ResolvedModels, session: Session, prompts: Prompts
) -> ChatStage:
    """Open the chat models of a run, with their rankers, dictionaries and detector.

    A baseline has none, unless a ranker asks.
    """
    settings, speakers = resolved.settings, list[Speaker]()
    asks = settings.query == "meaning" or settings.looks
    for name in resolved.llms if asks else ():
        options = settings.llm_url, settings.dictionaries, settings.plugins
        for model in session.open(name, *options):
            speakers.append(_speaker(model, summary, settings, prompts))
    if asks and not speakers:
        raise UserError("No chat model is given to write meanings.", "llms")
    dictionaries = open_dictionaries(settings.dictionaries) if speakers else ()
    detector = None
    detects = any(speaker.method == "detector" for speaker in speakers)
    if detects and not session.imagines and "word" not in summary.contexts:
        detector = resolved.detector or open_detector(settings.detector)
    glosses: Glosses = "none"
    if any_ranker(settings.rankers, "uses_meanings"):
        both = settings.scoring.gate == "soft" or any_ranker(settings.rankers, "weighs_both_senses")
        glosses = "all" if both else "idiomatic"
    how = Approach(prompts, settings, settings.seed, glosses)
    return ChatStage(speakers, how, dictionaries, detector, session.imagines)


def _speaker(
    model: BoundModel | Recording, summary: SetSummary, settings: Settings, prompts: Prompts
) -> Speaker:
    """Return what interprets a set with a chat model; refuse a set that it cannot interpret."""
    bound = model if isinstance(model, BoundModel) else None
    rankers = open_rankers(summary, bound, prompts, settings)
    method: Any = sense_method(settings.sense, model)
    decider = None
    if bound and method == "vote" and settings.sense == "auto":
        decider = next((ranker for ranker in rankers if ranker.decides_senses), None)
        method = "ranker" if decider else method
    if method == "given" and "sentence_type" in summary.first_missing:
        given(summary.first_missing["sentence_type"][1])
    reads = method == "detector" or (method == "vote" and bound)
    if reads and "context" in summary.first_missing:
        check_contexts([summary.first_missing["context"][1]])
    return Speaker(model, method, rankers, decider)


def interpret_items(
    items: Sequence[Item],
    models: Sequence[Any],
    how: Approach,
    *,
    dictionaries: Sequence[Dictionary] = (),
    detector: Detector | None = None,
    encoder: TextEncoder | None = None,
) -> list[list[Interpretation]]:
    """Return each open chat model's interpretations of the items, in the items' order.

    Args:
        dictionaries, detector, encoder: see :class:`ChatStage`, as for the errors.
    """
    speakers = []
    for model in models:
        bound: Any = BoundModel(inner(model)) if hasattr(model, "ask") else model
        speakers.append(Speaker(bound, sense_method(how.settings.sense, bound)))
    imagines = any(getattr(speaker.model, "imagines", False) for speaker in speakers)
    stage = ChatStage(speakers, how, dictionaries, detector, imagines)
    rows = stage.hold(items, stage.decide(items, encoder))
    return [[reading for reading, _ in row] for row in rows]
