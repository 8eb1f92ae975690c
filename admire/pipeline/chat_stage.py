"""The stage of a run that asks chat models: senses, meanings, and rankers that look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from admire.data.items import Item
from admire.llm.conversation import Conversation, converse
from admire.llm.session import BoundModel, Session
from admire.pipeline.models import ResolvedModels
from admire.prompts import Prompts
from admire.rankers import Judgement, Ranker, any_ranker, open_rankers
from admire.rankers.judgement import refuse_unread, warn_of_unread
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings
from admire.senses import open_detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.interpretation import (
    Glosses,
    Heard,
    Interpretation,
    Interpreter,
    check_contexts,
    sense_method,
)
from admire.senses.meaning import Meaning
from admire.senses.sense import Sense, given


class Judged(NamedTuple):
    """A chat model's interpretation of an item, and the judgements that came of its replies."""

    reading: Interpretation
    judgements: tuple[Judgement, ...] = ()


@dataclass(frozen=True)
class Speaker:
    """A chat model of a run.

    Attributes:
        llm: asked through the run's session.
        method: what decides the sense: its votes (``vote``), a detector, a ranker, or the data.
        rankers: those that judge items one by one, by its replies if they ask.
    """

    llm: BoundModel
    method: str
    rankers: Sequence[Ranker]

    def check(self, items: Sequence[Item]) -> None:
        """Refuse items that the model cannot be asked about."""
        ranks = any(ranker.asks for ranker in self.rankers)
        self.llm.check(items, ["senses"] * (self.method == "vote") + ["ranking"] * ranks)


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
        for llm in resolved.open_models(session):
            rankers = open_rankers(summary, llm, prompts, settings)
            decides = (ranker.name for ranker in rankers if ranker.decides_senses)
            method = sense_method(settings.sense, llm, next(decides, ""))
            if method == "given" and "sentence_type" in summary.first_missing:
                given(summary.first_missing["sentence_type"][1])
            reads = method == "detector" or (method == "vote" and not llm.recorded)
            if reads and "context" in summary.first_missing:
                check_contexts([summary.first_missing["context"][1]])
            self.speakers.append(Speaker(llm, method, rankers))
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
        llm, heard = speaker.llm, Heard()
        judged: dict[str, list[tuple[Item, Judgement]]] = defaultdict(list)
        speaker.check(items)
        senses = self.interpreter.decide(items, speaker.method, llm)

        def refuse() -> None:
            heard.refuse_unusable(llm.name)
            for pairs in judged.values():
                refuse_unread([judgement for _, judgement in pairs], llm.name)

        talks = [self._judge(speaker, item, senses.get(item), heard, judged) for item in items]
        results = converse(talks, llm, check=refuse if strict else None)
        heard.warn(items, llm)
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
        judgements: dict[str, Judgement] = {}
        first = [ranker for ranker in speaker.rankers if ranker.name == speaker.method]
        for ranker in first:  # its answers contain the sense
            judgements[ranker.name] = yield from ranker.talk(item, None)
            judged[ranker.name].append((item, judgements[ranker.name]))
            sense = judgements[ranker.name].sense
        reading = yield from self.interpreter.read(item, speaker.llm, sense, heard)
        for ranker in speaker.rankers:
            if ranker not in first:
                judgements[ranker.name] = yield from ranker.talk(item, reading)
                judged[ranker.name].append((item, judgements[ranker.name]))
        ordered = tuple(judgements[ranker.name] for ranker in speaker.rankers)
        gloss = next((judgement.meaning for judgement in ordered if judgement.meaning), None)
        if gloss and not (reading.idiomatic or reading.literal):  # it is in the answers alone
            if reading.sense.label == "idiomatic":
                reading = replace(reading, idiomatic=Meaning((gloss,)))
            else:
                reading = replace(reading, literal=Meaning((gloss,)))
        return Judged(reading, ordered)


def _requested_glosses(settings: Settings) -> Glosses:
    if not any_ranker(settings.rankers, "uses_meanings"):
        return "none"
    both = settings.scoring.gate == "soft" or any_ranker(settings.rankers, "weighs_both_senses")
    return "all" if both else "idiomatic"
