"""The cards of a report: every item with its candidates and each run's results."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import numpy as np

from admire.apps.report.pictures import Shown
from admire.apps.report.report import Kind, describe_figure, file_name, short_name
from admire.core.choices import TRACKS
from admire.data.compounds import find_compound
from admire.data.items import Candidate, Item, SenseLabel
from admire.data.languages import base_language
from admire.metrics.figures import item_metrics
from admire.metrics.metrics import BEST_DCG
from admire.pipeline.ranking import Ranking, RunScores, used_gold_sense
from admire.pipeline.score_parts import by_encoder, score_parts
from admire.rankers import Judgement
from admire.rankers.aggregate import agreement
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import Meaning
from admire.senses.sense import NO_SENSE, Sense

Matched = dict[int, tuple[int, Ranking]]
"""An item's place and ranking in each run that has it, by the run's number."""


class Cards:
    """The cards of ranked items, kept as JSON texts; iterating over it makes the cards.

    Runs are read side by side, and no ranking is kept. Items of several runs are the same where
    their keys are. An item's number, its figures and how its pictures are shown are filled in at
    each iteration.

    Attributes:
        scores: the figures of each run.
        files: the pictures of all cards, each once.
    """

    def __init__(
        self,
        runs: Sequence[Iterable[tuple[Hashable, Ranking]]],
        records: Sequence[Mapping[str, Any]],
        metrics: Sequence[str] = (),
    ) -> None:
        """Read the rankings of runs, each with its item's key."""
        self.scores = [RunScores(record, metrics) for record in records]
        cards = []
        for matched in self._match(runs):
            run, (place, ranking) = min(matched.items())
            text = json.dumps(_card(ranking.item, matched, records), separators=(",", ":"))
            pictures = [thing.image for thing in ranking.item.things if thing.image]
            cards.append((run, place, text, pictures))
        cards.sort()
        self._texts = [text for _, _, text, _ in cards]
        self.files = list(dict.fromkeys(file for *_, pictures in cards for file in pictures))

    def _match(self, runs: Sequence[Iterable[tuple[Hashable, Ranking]]]) -> Iterator[Matched]:
        """Yield the items; each waits only until every run has delivered it or has ended."""
        waiting = defaultdict[Hashable, Matched](dict)
        left = set(range(len(runs)))
        for place, row in enumerate(zip_longest(*runs)):
            before, left = left, {run for run, keyed in enumerate(row) if keyed}
            for run in left:
                key, ranking = row[run]
                self.scores[run].add(ranking)
                waiting[key][run] = place, ranking
            for key in {row[run][0] for run in left} if left == before else [*waiting]:
                if left <= waiting[key].keys():
                    yield waiting.pop(key)
        yield from waiting.values()

    def data(self, names: Sequence[str], thumbnails: Mapping[Path, Shown]) -> dict[str, Any]:
        """Return what report.js reads of runs with these names; see ``docs/report.md``."""
        scored = [scores.table() for scores in self.scores]
        self._figures = [
            table[item_metrics(table)].astype(float).to_dict("index") for table in scored
        ]
        self._shown = {str(file): thumbnail for file, thumbnail in thumbnails.items()}
        metrics = dict.fromkeys(metric for table in scored for metric in item_metrics(table))
        records = json.dumps([run.record for run in self.scores], sort_keys=True, default=str)
        key_of_judgements = hashlib.sha256(records.encode()).hexdigest()[:16]
        return card_data("ranking", names, list(metrics), self) | {"key": key_of_judgements}

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, text in enumerate(self._texts, start=1):
            card: dict[str, Any] = json.loads(text) | {"number": number}
            for thing in (*card["candidates"], *card["sequence"]):
                thing |= self._shown.get(thing["picture"], {"picture": None})
            for result, figures in zip(card["runs"], self._figures, strict=True):
                if result:
                    row = figures.get(result["figures"], {}).items()
                    own = {str(metric): value for metric, value in row if value == value}
                    result |= {"figures": own or None, "loss": _loss(own) if own else None}
            yield card


def card_data(
    kind: Kind, names: Sequence[str], metrics: Sequence[str], cards: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what report.js reads."""
    runs = [{"name": name} for name in names]
    headings = {metric: describe_figure(metric) for metric in metrics}
    header = {"kind": kind, "runs": runs, "metrics": list(metrics), "headings": headings}
    return {**header, "items": cards}


def _card(item: Item, matched: Matched, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an item's card, with places instead of figures and files instead of pictures."""
    results = [
        result(item, matched[run][1], record) | {"figures": matched[run][0]}
        if run in matched
        else None
        for run, record in enumerate(records)
    ]
    gold = [item.expected_item] if item.expected_item else item.expected_order
    there = [*filter(None, results)]
    agreements = [judged["agreement"] for result in there for judged in result["judgements"]]
    if len(there) > 1:
        agreements = [agreement(np.argsort([result["order"] for result in there], axis=1))]
    numbers = [value for value in agreements if value is not None]
    return {
        **card_head(0, item),
        "gold": [item.names.index(name) for name in gold] if gold else None,
        "candidates": list(map(_thing, item.candidates)),
        "sequence": list(map(_thing, item.sequence)),
        "agreement": float(np.mean(numbers)) if numbers else None,
        "runs": results,
    }


def card_head(number: int, item: Item) -> dict[str, Any]:
    """Return the head of a card: what it says of its item first."""
    text, phrase = (item.sentence, item.phrase) if item.has_sense else (item.compound, item.word)
    return {
        "number": number,
        "compound": item.compound,
        "sentence": pieces(text, *(find_compound(text, phrase) or (0, 0))),
        "language": item.language,
        "lang": base_language(item.language),
        "sense": item.sentence_type,
    }


def pieces(text: str, start: int, end: int) -> list[tuple[str, bool]]:
    """Return the text before, in and after a span, each with whether it is the span."""
    three = [(text[:start], False), (text[start:end], True), (text[end:], False)]
    return [piece for piece in three if piece[0]]


def _thing(thing: Candidate) -> dict[str, Any]:
    image = thing.image and str(thing.image)
    return {"name": thing.name, "caption": thing.caption, "picture": image}


def result(item: Item, ranking: Ranking, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return one run's result for an item, without its figures, in the order of its candidates."""
    names = item.names
    mine = [*map(ranking.item.names.index, names)]
    scores = ranking.scores[mine]
    lead = float(np.subtract(*np.sort(scores)[-1:-3:-1])) if len(scores) > 1 else 0.0
    parts = score_parts(ranking)
    compared = {part.text for part in parts if part.of in TRACKS} - {"sequence"}
    # An idiom that has no meaning was ranked by the compound.
    is_by_compound = ranking.predicted_type == "idiomatic" and compared == {"compound"}
    lacks_meaning = is_by_compound and record["settings"]["query"] == "meaning"
    return {
        **_sense(item, ranking, record),
        **({"no_meaning": True} if lacks_meaning else {}),
        "readings": [
            describe_reading(r, item.phrase, item.definitions) for r in ranking.interpretations
        ],
        "order": [names.index(name) for name in ranking.order],
        "scores": scores.tolist(),
        **({"uncompared": [*map(names.index, ranking.uncompared)]} if ranking.uncompared else {}),
        "parts": [
            {
                "of": part.of,
                "text": file_name(part.text) if part.of == "run" and part.text else part.text,
                "values": part.values[mine].tolist(),
            }
            | {name: short_name(encoder) for name, encoder in by_encoder(part).items()}
            for part in parts
        ],
        "judgements": [_judgement(judgement, names) for judgement in ranking.judgements],
        "figures": None,
        "loss": None,
        "right": None if item.best is None else ranking.order[0] == item.best,
        "margin": ranking.margin if ranking.margin is not None else lead,
    }


def _sense(item: Item, ranking: Ranking, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's sense. A given one is not a prediction: neither right nor sure."""
    sense, gold = ranking.predicted_type, item.sentence_type
    is_gold = used_gold_sense(record) or "given" in {r.sense.by for r in ranking.interpretations}
    return {
        **({"given": True} if is_gold else {}),
        **({"unsure": True} if ranking.unsure else {}),
        **({"by_sense": ranking.by_sense} if ranking.by_sense else {}),
        "sense": sense,
        "sense_right": None if is_gold or None in (sense, gold) else sense == gold,
        "probability_idiomatic": None if is_gold else ranking.probability_idiomatic,
        "confidence": None if is_gold else ranking.confidence,
    }


def _loss(figures: Mapping[str, float]) -> float:
    """Return the distance from the best order: in DCG, Subtask B's accuracy or V-WSD's MRR."""
    if "mrr" in figures:
        return 1 - figures["mrr"]
    if "dcg" not in figures:
        return 1 - figures["item_accuracy"]
    return BEST_DCG - figures["dcg"]


def describe_reading(
    reading: Interpretation, phrase: str, definitions: Sequence[str]
) -> dict[str, Any]:
    """Return what a chat model understands, and what dictionaries say."""
    return {
        "llm": short_name(reading.llm),
        **decided(reading.sense),
        **({"no_sense": True} if reading.sense == NO_SENSE else {}),
        "wording": reading.wording(phrase, definitions),
        "idiomatic": _meaning(reading.idiomatic),
        "literal": _meaning(reading.literal),
        "dictionary": {
            sense: [
                {"gloss": entry.gloss, "source": short_name(entry.source)}
                for entry in getattr(reading.known, sense)
            ]
            for sense in get_args(SenseLabel)
        },
    }


def decided(sense: Sense) -> dict[str, Any]:
    """Return a sense with its probabilities, and its votes or what decided it without."""
    votes = {name: getattr(sense, name) for name in ("idiomatic", "literal", "unparsed")}
    based = {"by": sense.by} if sense.by else {"votes": votes}
    return {"sense": sense.label, "probability_idiomatic": sense.probability_idiomatic, **based}


def _meaning(meaning: Meaning) -> dict[str, Any]:
    scenes = [meaning.scene] if meaning.scene else []
    faults = {n: text for n in ("unread", "fault") if (text := getattr(meaning, n)) is not None}
    return {"definitions": list(meaning.definitions), "scenes": scenes, **faults}


def _judgement(judgement: Judgement, names: Sequence[str]) -> dict[str, Any]:
    """Return a ranker's answers: the first answer's reasons, and the grades of all."""
    reasons = next((answer.reasons for answer in judgement.answers if answer.reasons), {})
    grades = {answer.shown[0]: answer.grades for answer in judgement.answers if answer.grades}

    def of_candidates(answers: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"candidate": names.index(name), "said": dict(answer)}
            for name, answer in answers.items()
            if name in names
        ]

    return {
        "ranker": judgement.ranker,
        "llm": short_name(judgement.llm),
        "agreement": judgement.agreement,
        "unread": judgement.unread,
        "meaning": next((answer.meaning for answer in judgement.answers if answer.meaning), None),
        "reasons": of_candidates(reasons),
        "grades": of_candidates(grades),
    }
