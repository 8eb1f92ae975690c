"""Scorecards: the figures of submissions and runs, and their reliability."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from admire.core.choices import BoardTrack, PublishedSet
from admire.core.errors import UserError
from admire.core.options import Option, Panel, make
from admire.core.registry import register
from admire.core.schema import Seed, adapter, settings
from admire.tasks.task import Data, Result, Task, Values, as_rows

if TYPE_CHECKING:
    import pandas as pd

    from admire.data.items import Item
    from admire.data.submission import Prediction
    from admire.llm.session import Session
    from admire.metrics.judgements import CorrectedGold
    from admire.metrics.published import Subtask

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Scorecard:
    """The figures of a submission or a run, by the path of its file or folder.

    Attributes:
        scored: see :func:`admire.metrics.item_figures.score_items`.
        figures: see :func:`admire.metrics.figures.summarise`.
        uncorrected: the same by the gold before people's judgements; None without these.
        languages: see :func:`admire.metrics.figures.summarise_languages`; None for one language.
        senses: the reliability of a run's senses: ``figures`` (``sense_summary``), ``curve``
            (``risk_curve``), and, if the run marks items as ``unsure``, the confidence ``below``
            which it does, how many ``items`` are and the figures ``without`` them.
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
        import pandas as pd

        return pd.concat([self.figures, self.languages])


@dataclass(frozen=True)
class Scorecards(Result):
    """Scorecards; the others are compared with the first.

    Attributes:
        figures: of each submission, by its path.
        cards: none without gold.
        differences: paired, of the others from the first, by their names: ``second minus first`` of
            two, else ``PATH minus PATH``; none without gold.
        agreements: by the same names, see :func:`admire.metrics.agreement.order_agreement`.
        gold: as people's judgements corrected it; None without judgements.
    """

    cards: Sequence[Scorecard] = ()
    differences: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    agreements: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    gold: CorrectedGold | None = None


def score_submissions(paths: Sequence[Path], settings: ScoreSettings) -> Scorecards:
    """Score submissions or runs; of several without gold, only compare the orders."""
    from admire.metrics.agreement import order_agreement, shared_places
    from admire.metrics.figures import paired_difference, with_ndcg
    from admire.metrics.judgements import correct_gold

    gold, seed = settings.gold, settings.seed
    items, predictions, records = _read(paths, gold, settings.published)
    corrected: CorrectedGold | None = None
    before: Sequence[Item] = ()
    if settings.judgements:
        corrected = correct_gold(items, settings.judgements, gold or paths[0])
        log.info("%s: %s", settings.judgements, corrected)
        items, before = corrected.items, items
    names = [f"{path} minus {paths[0]}" for path in paths[1:]]
    names = ["second minus first"] if len(names) == 1 else names

    def agreements() -> dict[str, pd.DataFrame]:
        rows = _at(predictions, shared_places(predictions, paths)) if gold else predictions
        tables = (order_agreement(rows[0], other, seed=seed) for other in rows[1:])
        return dict(zip(names, tables, strict=True))

    if names and not gold and not any(item.best for item in items):
        log.info("The runs have no gold, so they are not scored. Give it with --gold.")
        return Scorecards([], agreements=agreements(), gold=corrected)
    rows = zip(paths, predictions, records, strict=True)
    cards = [_scorecard(*row, items, before, settings) for row in rows]
    figures = [{"submission": str(c.path)} | row for c in cards for row in as_rows(c.all_figures)]
    first, *others = (card.scored for card in cards)
    tables = (with_ndcg(paired_difference(first, other, seed=seed)) for other in others)
    differences = dict(zip(names, tables, strict=True))
    agree = agreements() if names else {}
    return Scorecards(
        figures, cards=cards, differences=differences, agreements=agree, gold=corrected
    )


def _read(
    paths: Sequence[Path], gold: Path | None, published: PublishedSet | None
) -> tuple[Sequence[Item], Sequence[Sequence[Prediction]], Sequence[dict[str, Any]]]:
    """Read the gold's items (of several submissions none), the predictions and their records.

    If there are several and no ``gold``, all are cut to the items that each has.
    """
    from admire.data.reader import iter_items
    from admire.data.rows import RowReader
    from admire.metrics.agreement import shared_places
    from admire.metrics.published import describe_misfit
    from admire.pipeline.run_folder import read_rows
    from admire.pipeline.scoring import check_own_gold, read_predictions

    compares = len(paths) > 1 and not gold
    if gold:
        items = list(iter_items(gold, rows=RowReader(whole=False)))
    elif compares and not paths[0].is_dir() and not published:
        items = []
    else:
        check_own_gold(paths[0])
        items = [row.item for row in read_rows(paths[0])]
    predictions, records = zip(*map(read_predictions, paths), strict=True)
    if compares:
        places = shared_places(predictions, paths)
        predictions = _at(predictions, places)
        items = [items[place] for place, *_ in places] if items else []
    if published and (note := describe_misfit(published, items)):
        log.warning("%s", note)
    return items, predictions, records


def _at(
    predictions: Sequence[Sequence[Prediction]], places: Sequence[tuple[int, ...]]
) -> list[list[Prediction]]:
    """Return the predictions of each run at its indices."""
    columns = zip(*places, strict=True)
    return [[run[k] for k in column] for run, column in zip(predictions, columns, strict=True)]


def _scorecard(
    path: Path,
    predictions: Sequence[Prediction],
    record: Mapping[str, Any],
    items: Sequence[Item],
    uncorrected: Sequence[Item],
    settings: ScoreSettings,
) -> Scorecard:
    """Score one submission or run; see :func:`score_submissions`."""
    from admire.metrics.figures import summarise, summarise_languages, with_ndcg
    from admire.metrics.item_figures import score_items
    from admire.pipeline.record import refuse_limited

    refuse_limited(path, record, len(predictions), len(items))
    metrics, seed = settings.metrics, settings.seed
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
    if not settings.published:
        return card
    places, notes = place_on_boards(card.all_figures, settings.published, settings.track, record)
    for note in notes:
        log.warning("%s: %s", settings.published, note)
    return replace(card, boards=places)


def _reliability(
    scored: pd.DataFrame, record: Mapping[str, Any], name: str, seed: int
) -> dict[str, Any] | None:
    """Return the reliability of a run's senses; log why it is unknown."""
    from admire.metrics.figures import decided_items, risk_curve, sense_summary, summarise_sure

    if not record or "mrr" in scored:  # V-WSD has no senses
        return None
    if decided_items(scored).empty:
        log.info("%s has no senses to score, so no calibration table is printed.", name)
        return None
    senses: dict[str, Any] = {"figures": sense_summary(scored, seed=seed)}
    senses["curve"] = risk_curve(scored)
    if (below := record.get("settings", {}).get("abstain_below")) is not None:
        without, unsure = summarise_sure(scored, seed=seed), int(scored["unsure"].sum())
        senses["unsure"] = {"below": below, "items": unsure, "without": without}
    return senses


def place_on_boards(
    figures: pd.DataFrame,
    published: PublishedSet,
    track: BoardTrack | None,
    record: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return figures on each board of a set, see :attr:`Scorecard.boards`, and notes on them.

    The default track is the one in which the run of the record is judged; without one, all are.
    """
    from admire.metrics.published import boards, in_interval, published_systems, standings
    from admire.pipeline.ranking import used_gold_sense
    from admire.pipeline.scoring import judged_track

    gold_sense = used_gold_sense(record)
    subtask: Subtask = "b" if "item_accuracy" in set(figures["metric"]) else "a"
    track = track or (judged_track(record) if record else None)
    of_set, notes = boards(published, subtask, track)
    entries = []
    for board in of_set:
        systems = published_systems(board)
        places = standings(figures, systems, board)
        within = {f"{place.metric}_within": in_interval(systems, place) for place in places}
        systems = systems.assign(**within).drop(columns="decimals")
        entry = {"gold_sense": gold_sense, "places": [] if gold_sense else places}
        entries.append({**asdict(board), **entry, "systems": systems})
    return entries, notes


SCORING: Panel = "Scoring"


@settings(frozen=True, kw_only=True)
class ScoreSettings:
    """By what submissions are scored, and with what they are compared."""

    gold: Annotated[Path | None, Option(SCORING)] = None
    """File with the expected orders, or a folder with one file per language (default: the run's
    own)."""
    judgements: Annotated[Path | None, Option(SCORING)] = None
    """File saved by a report (judgements.json), with people's corrections of the gold."""
    published: Annotated[PublishedSet | None, Option(SCORING)] = None
    """Published set of the gold data: also compare with its published figures."""
    track: Annotated[BoardTrack | None, Option(SCORING)] = None
    """Track of the leaderboard (default: the run's)."""
    metrics: Annotated[tuple[str, ...], Option(SCORING, "metric", completes="metric")] = ()
    """Further metric, a plug-in. Repeat for several."""
    seed: Annotated[Seed, Option(SCORING)] = 0
    """Seed for resampling."""

    def __post_init__(self) -> None:
        if self.published and self.judgements:
            text = "Published figures use the original gold. Omit one of the two options."
            raise UserError(text, "published", "judgements")


@register("task", "score")
class Score(Task):
    """Scores submissions or run folders; several are also compared with the first."""

    settings: ClassVar[Sequence[Any]] = (ScoreSettings,)

    def run(
        self, data: Data | Sequence[Path], settings: Values, session: Session | None = None
    ) -> Scorecards:
        paths = [Path(data)] if isinstance(data, str | Path) else data
        own = make(ScoreSettings, settings)
        record: dict[str, Any] = adapter(ScoreSettings).dump_python(own, mode="json")
        record["submissions"] = [str(path) for path in paths]
        return replace(score_submissions(paths, own), record=record)
