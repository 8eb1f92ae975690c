"""Scorecards: the figures of submissions and runs, and their reliability."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from admire.core.choices import BoardTrack, PublishedSet
from admire.core.errors import UserError
from admire.data.items import Item
from admire.data.reader import iter_items
from admire.data.submission import Prediction
from admire.metrics.agreement import order_agreement, shared_places
from admire.metrics.figures import paired_difference, summarise, summarise_languages, with_ndcg
from admire.metrics.item_figures import score_items
from admire.metrics.judgements import CorrectedGold, correct_gold
from admire.metrics.published import (
    Subtask,
    boards,
    describe_misfit,
    in_interval,
    published_systems,
    standings,
)
from admire.metrics.reliability import decided_items, risk_curve, sense_summary, summarise_sure
from admire.pipeline.past_runs import read_rows
from admire.pipeline.record import refuse_limited, used_gold_sense
from admire.pipeline.scoring import abstained_below, check_own_gold, judged_track, read_predictions
from admire.tasks.task import Result, as_rows

if TYPE_CHECKING:
    from admire.tasks.score import ScoreSettings

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Scorecard:
    """The figures of a submission or a run, by the path of its file or folder.

    Attributes:
        scored: see :func:`admire.metrics.item_figures.score_items`.
        figures: see :func:`admire.metrics.figures.summarise`.
        uncorrected: the same by the gold before people's judgements; None without these.
        languages: see :func:`admire.metrics.figures.summarise_languages`; None for one language.
        senses: the reliability of a run's senses: ``figures`` and ``curve`` (see
            :mod:`admire.metrics.reliability`), and, if the run marks items as ``unsure``, the
            confidence ``below`` which it does, how many ``items`` are and the figures ``without``
            them. None if unknown.
        boards: for each board of the published set: ``set``, ``subtask`` and ``track``; whether the
            ``gold_sense`` was used, so that the run has no places; its ``places``, and the
            ``systems``, whose ``METRIC_within`` is whether a figure is in the interval of ours.
    """

    path: Path
    scored: pd.DataFrame
    figures: pd.DataFrame
    uncorrected: pd.DataFrame | None
    languages: pd.DataFrame | None
    senses: dict[str, Any] | None
    boards: list[dict[str, Any]] = field(default_factory=list)

    @property
    def all_figures(self) -> pd.DataFrame:
        """The figures with those by language, which are compared with published ones."""
        return pd.concat([self.figures, self.languages])


@dataclass(frozen=True)
class Scorecards(Result):
    """One scorecard, or two with the paired difference, second minus first.

    Attributes:
        figures: of each submission, by its path.
        cards: none without gold.
        agreement: of two, see :func:`admire.metrics.agreement.order_agreement`.
        gold: as people's judgements corrected it; None without judgements.
    """

    cards: Sequence[Scorecard] = ()
    difference: pd.DataFrame | None = None
    agreement: pd.DataFrame | None = None
    gold: CorrectedGold | None = None


def score_submissions(paths: Sequence[Path], settings: ScoreSettings) -> Scorecards:
    """Score one submission or run, or two; for two without gold, only compare their orders."""
    gold, judgements, published = settings.gold, settings.judgements, settings.published
    if len(paths) > 2:
        raise UserError("Give one submission, or two to compare.")
    if published and judgements:
        text = "Published figures use the original gold. Omit one of the two options."
        raise UserError(text, "published", "judgements")
    if gold:
        uncorrected = list(iter_items(gold, whole=False))
    elif len(paths) == 1 or paths[0].is_dir() or published:
        check_own_gold(paths[0])
        uncorrected = [row.item for row in read_rows(paths[0])]
    else:
        uncorrected = []
    read = [read_predictions(path) for path in paths]
    predictions = [rows for rows, _ in read]
    if len(paths) == 2 and not gold:
        places = shared_places(predictions, paths)
        predictions = _chosen(predictions, places)
        uncorrected = [uncorrected[place] for place, _ in places] if uncorrected else []
    if published and (note := describe_misfit(published, uncorrected)):
        log.warning("%s", note)
    corrected = correct_gold(uncorrected, judgements, gold or paths[0]) if judgements else None
    if corrected:
        log.info("%s: %s", judgements, corrected)
    items, before = (corrected.items, uncorrected) if corrected else (uncorrected, [])
    if len(paths) == 2 and not gold and not any(item.best for item in items):
        log.info("The runs have no gold, so they are not scored. Give it with --gold.")
        agreement = order_agreement(*predictions, seed=settings.seed)
        return Scorecards([], agreement=agreement, gold=corrected)
    cards = [
        _scorecard(path, rows, record, items, before, settings)
        for path, rows, (_, record) in zip(paths, predictions, read, strict=True)
    ]
    figures = [{"submission": str(c.path)} | row for c in cards for row in as_rows(c.all_figures)]
    if len(cards) == 1:
        return Scorecards(figures, cards=cards, gold=corrected)
    first, second = (card.scored for card in cards)
    difference = with_ndcg(paired_difference(first, second, seed=settings.seed))
    if gold:
        predictions = _chosen(predictions, shared_places(predictions, paths))
    agreement = order_agreement(*predictions, seed=settings.seed)
    return Scorecards(
        figures, cards=cards, difference=difference, agreement=agreement, gold=corrected
    )


def _chosen(
    predictions: Sequence[Sequence[Prediction]], places: Sequence[tuple[int, int]]
) -> list[list[Prediction]]:
    """Return two runs' predictions at pairs of indices."""
    first, second = predictions
    return [[first[place] for place, _ in places], [second[place] for _, place in places]]


def _scorecard(
    path: Path,
    predictions: Sequence[Prediction],
    record: Mapping[str, Any],
    items: Sequence[Item],
    uncorrected: Sequence[Item],
    settings: ScoreSettings,
) -> Scorecard:
    """Score one submission or run; see :func:`score_submissions`."""
    published, seed, metrics = settings.published, settings.seed, settings.metrics
    refuse_limited(path, record, len(predictions), len(items))
    scored = score_items(items, predictions, str(path), metrics)
    before = languages = None
    if any(item.best for item in uncorrected):
        uncorrected_scores = score_items(uncorrected, predictions, str(path), metrics)
        before = with_ndcg(summarise(uncorrected_scores, seed=seed))
    tags = [item.language for item in items if item.best]
    if len(set(tags)) > 1:
        languages = with_ndcg(summarise_languages(scored, tags, seed=seed))
    figures = with_ndcg(summarise(scored, seed=seed))
    senses = _reliability(scored, record, str(path), seed)
    card = Scorecard(path, scored, figures, before, languages, senses)
    if not published:
        return card
    entries, notes = place_on_boards(card.all_figures, published, settings.track, record)
    for note in notes:
        log.warning("%s: %s", published, note)
    return replace(card, boards=entries)


def _reliability(
    scored: pd.DataFrame, record: Mapping[str, Any], name: str, seed: int
) -> dict[str, Any] | None:
    """Return the reliability of a run's senses; log why it is unknown."""
    if not record or "mrr" in scored:  # V-WSD has no senses
        return None
    if decided_items(scored).empty:
        log.info("%s %s, so no calibration table is printed.", name, _why_no_senses(record, scored))
        return None
    senses: dict[str, Any] = {"figures": sense_summary(scored, seed=seed)}
    senses["curve"] = risk_curve(scored)
    below = abstained_below(record)
    if below is not None:
        sure, unsure = summarise_sure(scored, seed=seed), int(scored["unsure"].sum())
        senses["unsure"] = {"below": below, "items": unsure, "without": sure}
    return senses


def _why_no_senses(record: Mapping[str, Any], scored: pd.DataFrame) -> str:
    """Return why the sense of a run cannot be scored."""
    if "probability_idiomatic" in scored:
        return "has gold without senses"
    return "was given its senses" if used_gold_sense(record) else "predicts no sense"


def place_on_boards(
    figures: pd.DataFrame,
    published: PublishedSet,
    track: BoardTrack | None,
    record: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Place figures on each board of a set; see :attr:`Scorecard.boards`.

    Args:
        track: of the boards (default: the one in which the run is judged, or every track).
        record: of the run; empty for a submission without one.
    """
    gold_sense = used_gold_sense(record)
    subtask: Subtask = "b" if "item_accuracy" in set(figures["metric"]) else "a"
    track = track or (judged_track(record) if record else None)
    every, notes = boards(published, subtask, track)
    entries = []
    for board in every:
        systems = published_systems(board)
        places = standings(figures, systems, board)
        within = {f"{place.metric}_within": in_interval(systems, place) for place in places}
        systems = systems.assign(**within).drop(columns="decimals")
        entry = {"gold_sense": gold_sense, "places": [] if gold_sense else places}
        entries.append({**asdict(board), **entry, "systems": systems})
    return entries, notes
