"""The cards of a report: every item with its candidates and each run's results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np

from admire.base.choices import TEXTS, TRACKS
from admire.data.compounds import find_compound
from admire.data.items import Candidate, Item, SenseLabel, item_keys
from admire.data.languages import base_language
from admire.pages.report.report import Kind, file_name, plain_name
from admire.pages.report.thumbnails import Shown
from admire.rankers import Judgement
from admire.rankers.aggregate import agreement
from admire.rankers.scorer import Scores, comparable, contributions, query_weights
from admire.rankers.settings import Scoring
from admire.runs.past_runs import recorded_cosines
from admire.runs.ranking import Ranking, Run, score_rankings
from admire.runs.record import used_gold_sense
from admire.scores.metrics import ITEM_METRICS, confidence, dcg
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import Meaning
from admire.senses.sense import NO_SENSE, Sense

ROLES = (*TEXTS, "sequence", "sentence")
"""The texts that candidates are compared with, as in the columns of scores.csv."""

Part = tuple[str, str | None, Scores]
"""A part of the scores: a track or ranker, the text that a track was compared with, the values."""


def gallery(
    runs: Sequence[Run], names: Sequence[str], thumbnails: Mapping[Path, Shown]
) -> dict[str, Any]:
    """Return what the cards of ranked items show; ``docs/report.md`` says what is in it.

    Items of several runs are the same where compound, sentence and candidates are.
    """
    items: dict[Hashable, Item] = {}
    by_run: list[dict[Hashable, tuple[Ranking, dict[str, float] | None]]] = []
    metrics: dict[str, None] = {}
    for run in runs:
        keys = item_keys([ranking.item for ranking in run.rankings])
        for key, ranking in zip(keys, run.rankings, strict=True):
            items.setdefault(key, ranking.item)
        figures = _figures(run)
        metrics |= dict.fromkeys(name for values in figures for name in values or ())
        by_run.append(dict(zip(keys, zip(run.rankings, figures, strict=True), strict=True)))
    cards = []
    for number, (key, item) in enumerate(items.items(), start=1):
        results = [
            result(item, *of_run[key], run.record) if key in of_run else None
            for run, of_run in zip(runs, by_run, strict=True)
        ]
        cards.append(_card(number, item, results, thumbnails))
    records = json.dumps([run.record for run in runs], sort_keys=True, default=str)
    key_of_judgements = hashlib.sha256(records.encode()).hexdigest()[:16]
    return card_data("ranking", names, list(metrics), cards) | {"key": key_of_judgements}


def card_data(
    kind: Kind, names: Sequence[str], metrics: Sequence[str], cards: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what report.js reads."""
    runs = [{"name": name} for name in names]
    return {"kind": kind, "runs": runs, "metrics": list(metrics), "items": list(cards)}


def _figures(run: Run) -> list[dict[str, float] | None]:
    """Return the figures of each item of a run; None without gold."""
    scored = score_rankings(run)
    columns = [name for name in scored if name in ITEM_METRICS]
    by_item: dict[Any, Any] = scored[columns].astype(float).to_dict("index")
    return [by_item.get(place) for place in range(len(run.rankings))]


def _card(
    number: int,
    item: Item,
    results: Sequence[Mapping[str, Any] | None],
    thumbnails: Mapping[Path, Shown],
) -> dict[str, Any]:
    """Return one item with each run's :func:`result`."""
    names = [candidate.name for candidate in item.candidates]
    gold = [item.expected_item] if item.expected_item else item.expected_order
    there = [result for result in results if result]
    agreements = [judged["agreement"] for result in there for judged in result["judgements"]]
    if len(there) > 1:
        agreements = [agreement(np.argsort([result["order"] for result in there], axis=1))]
    numbers = [value for value in agreements if value is not None]
    return {
        **card_head(number, item),
        "gold": [names.index(name) for name in gold] if gold else None,
        "candidates": [_thing(candidate, thumbnails) for candidate in item.candidates],
        "sequence": [_thing(candidate, thumbnails) for candidate in item.sequence],
        "agreement": float(np.mean(numbers)) if numbers else None,
        "runs": list(results),
    }


def card_head(number: int, item: Item) -> dict[str, Any]:
    """Return the head of a card: what it says of its item first."""
    text, phrase = (item.compound, item.word) if item.word else (item.sentence, item.phrase)
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


def _thing(candidate: Candidate, thumbnails: Mapping[Path, Shown]) -> dict[str, Any]:
    thumbnail = thumbnails.get(candidate.image) if candidate.image else None
    picture = asdict(thumbnail) if thumbnail else {"picture": None}
    return {"name": candidate.name, "caption": candidate.caption, **picture}


def result(
    item: Item, ranking: Ranking, figures: Mapping[str, float] | None, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one run's result for an item.

    Args:
        item: the order of its candidates counts, and its gold.
        record: of the run, for the settings by which it was scored.
    """
    names = [candidate.name for candidate in item.candidates]
    own = [candidate.name for candidate in ranking.item.candidates]
    mine = [own.index(name) for name in names]
    scores = ranking.scores[mine]
    sense = ranking.predicted_type
    # A sense that was given is no prediction, so it is neither right nor sure.
    by = {reading.sense.by for reading in ranking.interpretations}
    given = used_gold_sense(record) or "given" in by
    probability = None if given else ranking.probability
    right = None if given or None in (sense, item.sentence_type) else sense == item.sentence_type
    top = np.sort(scores)[::-1]
    added = _parts(ranking, record)
    return {
        **({"given": True} if given else {}),
        **({"unsure": True} if ranking.unsure else {}),
        **({"no_meaning": True} if _lacks_meaning(sense, added, record) else {}),
        "sense": sense,
        "probability_idiomatic": probability,
        "confidence": None if probability is None else confidence(probability),
        "readings": [describe_reading(r, item.phrase) for r in ranking.interpretations],
        "order": [names.index(name) for name in ranking.order],
        "scores": scores.tolist(),
        "parts": [
            {"of": of, "text": text, "values": values[mine].tolist()} for of, text, values in added
        ],
        "judgements": [_judgement(judgement, names) for judgement in ranking.judgements],
        "figures": dict(figures) if figures else None,
        "loss": _loss(item, figures) if figures else None,
        "right": None if item.best is None else ranking.order[0] == item.best,
        "sense_right": right,
        "margin": float(top[0] - top[1]) if len(top) > 1 else 0.0,
    }


def _lacks_meaning(
    sense: SenseLabel | None, added: Sequence[Part], record: Mapping[str, Any]
) -> bool:
    """Return whether an idiom was ranked by the compound, because it has no meaning."""
    compared = {text for of, text, _ in added if of in TRACKS} - {"sequence"}
    is_by_compound = sense == "idiomatic" and compared == {"compound"}
    return is_by_compound and record["settings"]["query"] == "meaning"


def _loss(item: Item, figures: Mapping[str, float]) -> float:
    """Return the distance from the best order: in DCG, Subtask B's accuracy or V-WSD's MRR."""
    best = item.expected_order
    if "mrr" in figures:
        return 1 - figures["mrr"]
    if "dcg" not in figures or best is None:
        return 1 - figures["item_accuracy"]
    return dcg(best, best) - figures["dcg"]


def describe_reading(reading: Interpretation, phrase: str) -> dict[str, Any]:
    """Return what a chat model understands, and what dictionaries say."""
    return {
        "llm": plain_name(reading.llm),
        **decided(reading.sense),
        **({"no_sense": True} if reading.sense == NO_SENSE else {}),
        "wording": reading.wording(phrase),
        "idiomatic": _meaning(reading.idiomatic),
        "literal": _meaning(reading.literal),
        "dictionary": {
            sense: [
                {"gloss": entry.gloss, "source": plain_name(entry.source)}
                for entry in reading.known.of(sense)
            ]
            for sense in get_args(SenseLabel)
        },
    }


def decided(sense: Sense) -> dict[str, Any]:
    """Return a sense with its probability, and its votes or what decided it without."""
    votes = {"idiomatic": sense.idiomatic, "literal": sense.literal, "unparsed": sense.unparsed}
    based = {"by": sense.by} if sense.by else {"votes": votes}
    return {"sense": sense.label, "probability_idiomatic": sense.probability, **based}


def _meaning(meaning: Meaning) -> dict[str, Any]:
    scenes = [meaning.scene] if meaning.scene else []
    unread = {} if meaning.unread is None else {"unread": meaning.unread}
    return {"definitions": list(meaning.definitions), "scenes": scenes, **unread}


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
        "llm": plain_name(judgement.llm),
        "agreement": judgement.agreement,
        "unread": judgement.unread,
        "meaning": next((answer.meaning for answer in judgement.answers if answer.meaning), None),
        "reasons": of_candidates(reasons),
        "grades": of_candidates(grades),
    }


# ------------------------------------------------------------------------------ parts of scores


def _parts(ranking: Ranking, record: Mapping[str, Any]) -> list[Part]:
    """Return the parts of the candidates' scores: texts by track, rankers, or fused runs.

    The values, of shape (candidates,) each, sum to the scores. Parts of zeros are left out.
    """
    if ranking.fused:
        return _of_runs(ranking, record)
    size = len(ranking.item.candidates)
    readings = iter(ranking.interpretations)
    by_ranker: dict[str, list[list[Part]]] = {}
    for start in range(0, len(ranking.parts), size):  # the rows of one ranker and chat model
        chunk = ranking.parts[start : start + size]
        ranker = str(chunk[0].get("ranker", "embeddings"))
        if ranker == "embeddings":
            added = _of_texts(chunk, next(readings, None), record["settings"])
        else:
            added = [(ranker, None, comparable(np.array([row["llm_score"] for row in chunk])))]
        by_ranker.setdefault(ranker, []).append(added)
    means = [_mean(models) for models in by_ranker.values()]
    if len(means) > 1:
        means = [_standardised(part, len(means)) for part in means]
    return [part for rows in means for part in rows if part[2].any()]


def _of_runs(ranking: Ranking, record: Mapping[str, Any]) -> list[Part]:
    total = sum(run.weight for run in ranking.fused)
    added: list[Part] = []
    for k, run in enumerate(ranking.fused, start=1):
        scores = np.array([row[f"score{k}"] for row in ranking.parts])
        points = comparable(scores, record.get("fusion", "scores"))
        added.append(("run", file_name(run.run), run.weight / total * points))
    return [part for part in added if part[2].any()]


def _of_texts(
    rows: Sequence[Mapping[str, Any]],
    reading: Interpretation | None,
    settings: Mapping[str, Any],
) -> list[Part]:
    """Return the parts of texts by track, from the cosines of a chat model or a baseline.

    A text against which likeness counts is called ``unlike``, as ``unlike compound``.
    """
    scoring = Scoring(**settings["scoring"] | {"texts": tuple(settings["scoring"]["texts"])})
    roles, cosines = recorded_cosines(rows, ROLES)
    if settings["query"] != "meaning" or reading is None:
        weights = {settings["query"]: 1.0}
    else:
        weights = query_weights(scoring, reading.sense, roles)
    added = contributions(cosines, [weights.get(role, 0.0) for role in roles], scoring)
    return [
        (track, "unlike " * (weights[role] < 0) + role, values[k])
        for track, values in added.items()
        for k, role in enumerate(roles)
        if weights.get(role)
    ] + [(track, "pair", values[-1]) for track, values in added.items() if len(values) > len(roles)]


def _mean(models: Sequence[Sequence[Part]]) -> list[Part]:
    """Return the mean of several chat models' parts."""
    sums: dict[tuple[str, str | None], Scores] = {}
    for added in models:
        for of, text, values in added:
            sums[of, text] = sums.get((of, text), 0) + values / len(models)
    return [(*name, values) for name, values in sums.items()]


def _standardised(added: Sequence[Part], rankers: int) -> list[Part]:
    """Return the parts of a ranker as they count beside others; they sum to :func:`comparable`."""
    spread = np.round(np.sum([values for *_, values in added], axis=0), 9).std()
    return [
        (of, text, (values - values.mean()) / (spread if spread > 0 else 1.0) / rankers)
        for of, text, values in added
    ]
