"""The stage of a run that asks chat models: opens them, gets senses and meanings, and ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from admire.core.errors import UserError
from admire.core.schema import as_tuple
from admire.data.items import Item
from admire.encoders import TextEncoder
from admire.llm import ChatModel
from admire.llm.conversation import Conversation, converse
from admire.llm.session import BoundModel, Session, open_models
from admire.prompts import Prompts
from admire.rankers import Judgement, Ranker, any_ranker, open_rankers
from admire.rankers.judgement import refuse_unread, warn_of_unread
from admire.rankers.settings import RequestOptions, SetSummary, Settings
from admire.senses import Detector, open_detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.interpretation import (
    Glosses,
    Heard,
    Interpretation,
    Interpreter,
    check_contexts,
    refuse_unusable,
    sense_method,
    warn_of_unusable,
)
from admire.senses.meaning import Meaning
from admire.senses.sense import Sense, given

Model = str | ChatModel
"""A chat model, by name or as an object."""


class ResolvedModels(NamedTuple):
    """Settings, request options and models of a run; a model that is None is in the settings."""

    settings: Settings
    asking: RequestOptions
    llms: Sequence[Model]
    encoder: Sequence[str | TextEncoder] | None
    caption_encoder: TextEncoder | None
    detector: Detector | None


def resolve_models(
    settings: Settings | None = None,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
) -> ResolvedModels:
    """Move the names of models among the arguments of :func:`admire.rank` to the settings."""
    names: dict[str, Any] = {}
    given = as_tuple(llms)
    if any(isinstance(llm, str) for llm in given):
        names["llms"] = _names(given)
    encoders: Any = encoder
    if encoder is not None:
        encoders = [*encoder] if isinstance(encoder, list | tuple) else [encoder]
        names["encoder"] = _names(encoders)
    objects: dict[str, Any] = {"caption_encoder": caption_encoder, "detector": detector}
    for name, model in objects.items():
        if isinstance(model, str | Path):
            names[name], objects[name] = model, None
    settings = replace(settings or Settings(), **names)
    return ResolvedModels(
        settings, asking or RequestOptions(), given or settings.llms, encoders, **objects
    )


def _names(models: Sequence[Any]) -> tuple[str, ...]:
    return tuple(model if isinstance(model, str) else model.name for model in models)


Judged = tuple[Interpretation, Sequence[Judgement]]
"""A chat model's interpretation of an item, and the judgements that came of its replies."""


class Speaker(NamedTuple):
    """A chat model of a run.

    Attributes:
        llm: asked through the run's session.
        method: what decides the sense: its votes (``vote``), a detector, a ranker, or the data.
        rankers: those that judge items one by one, by its replies if they ask.
        purposes: of its questions besides those about meanings, see :meth:`ChatModel.check`.
    """

    llm: BoundModel
    method: str
    rankers: Sequence[Ranker]
    purposes: Sequence[str]


class ChatStage:
    """The conversations of a run with its chat models.

    Attributes:
        speakers: the chat models; none for a baseline.
        interpreter: decides senses and asks for meanings.
    """

    def __init__(
        self, summary: SetSummary, resolved: ResolvedModels, session: Session, prompts: Prompts
    ):
        settings = resolved.settings
        self.speakers: list[Speaker] = []
        for llm in _open_models(resolved, session):
            rankers = open_rankers(summary, llm, prompts, settings)
            decides = (ranker.name for ranker in rankers if ranker.decides_senses)
            method = sense_method(settings.sense, llm, next(decides, ""))
            if method == "given" and "sentence_type" in summary.first_missing:
                given(summary.first_missing["sentence_type"][1])
            reads = method == "detector" or (method == "vote" and not llm.recorded)
            if reads and "context" in summary.first_missing:
                check_contexts([summary.first_missing["context"][1]])
            asks = any(ranker.asks for ranker in rankers)
            purposes = ["senses"] * (method == "vote") + ["ranking"] * asks
            self.speakers.append(Speaker(llm, method, rankers, purposes))
        glosses = _requested_glosses(settings)
        self.interpreter = Interpreter(prompts, settings, settings.seed, glosses)
        if self.speakers:
            self.interpreter.dictionaries = open_dictionaries(settings.dictionaries)
        detects = any(speaker.method == "detector" for speaker in self.speakers)
        if detects and not session.imagines and "word" not in summary.contexts:
            self.interpreter.detector = resolved.detector or open_detector(settings.detector)

    def run(self, items: Sequence[Item], *, strict: bool) -> list[list[Judged]]:
        """Return what each chat model says about each item.

        Args:
            strict: whether a chat model without any usable reply is an error; otherwise a warning
                lists the items.
        """
        self.interpreter.look_up(items)
        return [self._hold(items, speaker, strict=strict) for speaker in self.speakers]

    def _hold(self, items: Sequence[Item], speaker: Speaker, *, strict: bool) -> list[Judged]:
        """Hold the conversations with one chat model."""
        llm, heard = speaker.llm, Heard([], [])
        judged: dict[str, list[tuple[Item, Judgement]]] = defaultdict(list)
        llm.check(items, speaker.purposes)
        senses = self.interpreter.decide(items, speaker.method, llm)

        def refuse() -> None:
            refuse_unusable(heard, llm.name)
            for pairs in judged.values():
                refuse_unread([judgement for _, judgement in pairs], llm.name)

        talks = [self._judge(speaker, item, senses.get(item), heard, judged) for item in items]
        results = converse(talks, llm, check=refuse if strict else None)
        warn_of_unusable(items, heard, llm)
        for pairs in judged.values():
            warn_of_unread(items, dict(pairs), llm.name)
        return results

    def _judge(
        self,
        speaker: Speaker,
        item: Item,
        sense: Sense | None,
        heard: Heard,
        judged: dict[str, list[tuple[Item, Judgement]]],
    ) -> Conversation[Judged]:
        """Interpret an item, and let the rankers judge its candidates (UoR-NCL, section 2)."""
        decided: dict[str, Judgement] = {}
        for ranker in speaker.rankers:
            if ranker.name == speaker.method:  # its answers contain the sense
                decided[ranker.name] = yield from ranker.talk(item, None)
                judged[ranker.name].append((item, decided[ranker.name]))
                sense = decided[ranker.name].sense
        reading = yield from self.interpreter.read(item, speaker.llm, sense, heard)
        judgements: list[Judgement] = []
        for ranker in speaker.rankers:
            judgement = decided.get(ranker.name)
            if judgement is None:
                judgement = yield from ranker.talk(item, reading)
                judged[ranker.name].append((item, judgement))
            judgements.append(judgement)
        gloss = next((judgement.meaning for judgement in judgements if judgement.meaning), None)
        if gloss and not (reading.idiomatic or reading.literal):  # it is in the answers alone
            if reading.sense.label == "idiomatic":
                reading = replace(reading, idiomatic=Meaning((gloss,)))
            else:
                reading = replace(reading, literal=Meaning((gloss,)))
        return reading, judgements


def _open_models(resolved: ResolvedModels, session: Session) -> list[BoundModel]:
    """Open the chat models, to be asked through a session; none for a baseline's settings."""
    settings, models = resolved.settings, list[BoundModel]()
    if settings.query != "meaning" and not settings.looks:
        return models
    for llm in resolved.llms:
        if isinstance(llm, str):
            models += open_models(
                llm,
                url=settings.llm_url,
                timeout=resolved.asking.timeout,
                parallel=resolved.asking.parallel,
                session=session,
                dictionaries=settings.dictionaries,
                plugins=settings.plugins,
            )
        else:
            models.append(session.bind(llm))
    if not models:
        raise UserError("No chat model is given to write meanings.", "llms")
    return models


def _requested_glosses(settings: Settings) -> Glosses:
    if not any_ranker(settings.rankers, "uses_meanings"):
        return "none"
    both = settings.scoring.gate == "soft" or any_ranker(settings.rankers, "weighs_both_senses")
    return "all" if both else "idiomatic"
