"""Runs compared and scored, from their folders."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import pandas as pd

from admire.core.choices import BoardTrack
from admire.core.errors import UserError
from admire.data.items import Item, SenseLabel, item_keys
from admire.data.reader import Data, take_items
from admire.data.submission import Prediction, read_submission
from admire.metrics.figures import describe_ties, paired_difference, summarise
from admire.metrics.item_figures import drop_missing_senses, score_item, score_items
from admire.metrics.leakage import Leaks, describe_leaks, merge_leaks
from admire.metrics.metrics import open_metrics
from admire.pipeline.ranking import Ranking, Row, Run, blocks, run_figures, used_gold_sense
from admire.pipeline.record import refuse_limited
from admire.pipeline.run_folder import (
    ITEMS,
    RECORD,
    read_record,
    read_rows,
    read_run,
    submission_names,
    with_gold,
    with_scores,
)
from admire.rankers.settings import Settings, compares_vectors

log = logging.getLogger("admire")

DIFFERENCE = {
    "n": "shared",
    "mean": "difference",
    "low": "difference_low",
    "high": "difference_high",
}
"""The columns of a paired difference beside a run's own."""

UNSEEN: Leaks = MappingProxyType({})
"""Shared by all items: with a dict each and texts as senses, 10⁵ items took 20 MiB more."""

SENSE_TYPES = dict.fromkeys(
    ("sentence_type", "predicted_type"), pd.CategoricalDtype([*get_args(SenseLabel)])
)
"""Dtypes of columns where strings would take fifty bytes per row."""


def score(
    run: Run | str | Path,
    gold: Data | None = None,
    *,
    judgements: str | Path | None = None,
    metrics: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a run's or submission's figures: means with 95 % intervals, see
    :func:`admire.metrics.figures.interval`.

    Columns: ``group`` (all, idiomatic, literal), ``n``, ``metric``, ``mean``, ``low``, ``high``;
    and ``gold_sense``, which is True, if the run took the sense from the gold.

    Args:
        run: a run, its folder, or the file of a submission.
        gold: the items with their gold, in any form that :func:`admire.rank` accepts. None for the
            run's own gold; a submission has none.
        judgements: a file saved by ``admire report``, with people's corrections of the gold.
        metrics: names of further metrics, plug-ins.

    Raises:
        UserError: something cannot be read, an item of ``gold`` has no gold, the predictions or
            judgements do not fit it, or a metric is unknown or fails.
    """
    from admire.metrics.judgements import correct_gold

    if gold is not None:
        items = take_items(gold)
        if judgements:
            items = correct_gold(items, Path(judgements), "the gold").items
        name = "the run" if isinstance(run, Run) else str(run)
        predictions, record = _predictions(run)
        refuse_limited(name, record, len(predictions), len(items))
        return run_figures(score_items(items, predictions, name, metrics), record)
    if not isinstance(run, Run):
        check_own_gold(Path(run))
        run = read_run(run)
    if judgements:
        own = [ranking.item for ranking in run.rankings]
        corrected = correct_gold(own, Path(judgements), "the run").items
        pairs = zip(run.rankings, corrected, strict=True)
        run = replace(run, rankings=tuple(ranking.with_item(item) for ranking, item in pairs))
    return run.figures(metrics)


def check_own_gold(path: Path) -> None:
    """Check that the path is a run folder, because no other gold is given."""
    if not path.exists():
        raise UserError(f"{path}: does not exist.")
    if not path.is_dir():
        raise UserError(
            f"{path}: is not a run folder, so it contains no gold. Give the gold.", "gold"
        )


def compare_runs(runs: Sequence[Run | str | Path], *, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Return the settings and figures of runs as a tidy table to pivot, plot and filter.

    For each run and language the rows of :func:`admire.metrics.figures.summarise` (``group``,
    ``n``, ``metric``, ``mean``, ``low``, ``high``), each with ``run`` (the folder; for a run in
    memory its number, as ``run 1``), ``language``, ``method``, ``llm``, ``encoder`` and every
    setting of the run (``sense``, ``head``, ``scoring.gate``, …). ``method`` is the paper's name:
    CI for images, CIC for images and captions, and by analogy CC for captions, with -F in a head's
    space; or the baseline (``compound``, ``sentence``) or ranker. Fused runs are joined by ``&``,
    and have ``fusion`` and ``weights`` instead of settings.

    ``difference``, ``difference_low`` and ``difference_high`` are the mean of the differences from
    the first run item by item, and its 95 % interval, on the ``shared`` items that both have.

    Args:
        metrics: names of further metrics, plug-ins.

    Raises:
        UserError: a folder is not a run, an item of it has no gold order, or a metric fails.
    """
    from admire.metrics.agreement import describe_shared, shared_items

    tables, items = [], []
    first: dict[str, pd.DataFrame] = {}
    names = _names(runs)
    for name, run in zip(names, runs, strict=True):
        rows: Iterable[Row]
        if isinstance(run, Run):
            record, rows = run.record, run.rankings
        else:
            record, rows = read_record(Path(run)), read_rows(Path(run))
        gold: list[Item] = []
        by_language = defaultdict(list)
        for number, row in enumerate(rows, start=1):
            gold.append(with_gold(row.item, name, number))
            by_language[row.language].append((gold[-1], row.prediction))
        items.append(item_keys(gold))
        models, flat = _describe(record)
        scored = {
            language: score_items(
                [item for item, _ in pairs], [row for _, row in pairs], name, metrics
            )
            for language, pairs in by_language.items()
        }
        if ties := describe_ties(pd.concat(scored.values())):
            log.warning("%s: %s", name, ties)
        for language, table in scored.items():
            pair = shared_items([first[language], table]) if language in first else []
            figures = summarise(table)
            difference = paired_difference(*pair) if pair and len(pair[0]) else figures.iloc[:0]
            difference = difference.rename(columns=DIFFERENCE)
            figures = figures.merge(difference, how="left", on=["group", "metric"])
            columns = {"run": name, "language": language, **models}
            tables.append(figures.assign(**flat | columns))
        first = first or scored
    if note := describe_shared(names, items):
        log.warning("%s", note)
    table = pd.concat(tables, ignore_index=True)
    heads = ["run", "language", "method", "llm", "encoder", "group", "n", "metric"]
    return table[[*heads, *table.columns.difference(heads, sort=False)]]


def _names(runs: Sequence[Run | str | Path]) -> list[str]:
    """Return the names of runs: their folders, or numbers for runs in memory."""
    return [
        f"run {place}" if isinstance(run, Run) else str(Path(run))
        for place, run in enumerate(runs, start=1)
    ]


def agreement(first: Run | str | Path, second: Run | str | Path, *, seed: int = 0) -> pd.DataFrame:
    """Return how far two runs, folders or submissions agree on the items that both have.

    Returns:
        ``group`` (all), ``n``, ``metric``, ``mean`` and a 95 % interval, ``low`` and ``high``. The
        metrics are ``same_first``, the share of items with the same candidate first, and
        ``kendall_tau``, the mean of Kendall's tau of their orders, from -1 to 1.

    Raises:
        UserError: something cannot be read, or they have no item in common.
    """
    from admire.metrics.agreement import order_agreement, shared_places

    first_rows, second_rows = (_predictions(run)[0] for run in (first, second))
    pairs = shared_places([first_rows, second_rows], _names([first, second]))
    matched = [first_rows[a] for a, _ in pairs], [second_rows[b] for _, b in pairs]
    return order_agreement(*matched, seed=seed)


def _describe(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a run's name by its method and models, and its settings."""
    if "fused" in record:
        runs = [_describe(fused["record"])[0] for fused in record["fused"]]
        joined = {name: " & ".join(dict.fromkeys(run[name] for run in runs)) for name in runs[0]}
        weights = ",".join(f"{fused['weight']:g}" for fused in record["fused"])
        return joined, {"fusion": record["fusion"], "weights": weights}
    defaults = asdict(Settings())
    settings = defaults | record["settings"]
    by_track = record["models"]["encoders"].values()
    encoders = [encoder["name"] for encoder in chain.from_iterable(by_track)]
    compared = settings["query"]
    if compared == "meaning" and encoders:
        compared = {"image": "CI", "caption": "CC", "image+caption": "CIC"}[settings["track"]]
        compared += "-F" * bool(settings["head"])
    names = [compared if compares_vectors(name) else name for name in settings.pop("rankers")]
    llms = " + ".join(settings.pop("llms"))
    columns = {
        "method": " + ".join(names),
        "llm": llms if record["models"]["llms"] else "–",
        "encoder": " + ".join(dict.fromkeys(encoders)) or "–",
    }
    scores = defaults["scoring"] | settings.pop("scoring")
    scores["texts"] = ",".join(scores["texts"])
    for name in ("dictionaries", "head"):
        settings[name] = ",".join(map(str, settings[name] or ()))
    return columns, settings | {f"scoring.{name}": value for name, value in scores.items()}


def judged_track(record: Mapping[str, Any]) -> BoardTrack | None:
    """Return the track that a run is judged in: ``caption`` if it used captions only."""
    if "fused" in record:
        tracks = {judged_track(fused["record"]) for fused in record["fused"]}
        return next((name for name in ("image+caption", None, "caption") if name in tracks), None)
    seen = record["saw"]
    return "image+caption" if "image" in seen else "caption" if "caption" in seen else None


class RunSummary(NamedTuple):
    """The summary of a run that is printed when it has been written, with its first rankings.

    Attributes:
        scored: the figures of the items that have gold, as
            :func:`admire.metrics.item_figures.score_items` without ``compound`` and ``sentence``,
            and with ``seen`` (see :attr:`admire.pipeline.ranking.Row.seen`).
        senses: ``sentence_type`` and ``sense_accuracy``, 1 or 0, of the items whose sense is known,
            if the run predicts senses and was not given them.
    """

    record: dict[str, Any]
    first: list[Ranking]
    scored: pd.DataFrame | None
    senses: pd.DataFrame | None
    unsure: int
    tied: int


def summarise_run(folder: Path, count: int = 0, metrics: Sequence[str] = ()) -> RunSummary:
    """Read a run folder once; return its summary with its first ``count`` rankings."""
    record, rows = read_record(folder), read_rows(folder)
    first, figures = list(islice(rows, count)), open_metrics(metrics)
    tables, name = [], str(folder)
    for block in blocks(enumerate(chain(first, rows), start=1)):
        cells: list[dict[str, Any]] = []  # without texts
        for number, row in block:
            item, prediction = row.item, row.prediction
            of_row = {
                "has_gold": item.best is not None,
                "right_sense": float(prediction.sentence_type == item.sentence_type),
                "seen": row.seen or UNSEEN,
                "tied": bool(row.tied),
            }
            cells.append(of_row | score_item(item, prediction, name, number, figures))
        tables.append(pd.DataFrame(cells).astype(SENSE_TYPES))
    if not tables:
        raise UserError(f"{folder / ITEMS}: contains no items.")
    items = pd.concat(tables, ignore_index=True)
    labelled = items["sentence_type"].notna()
    predicts = bool(items["predicted_type"].notna().any())
    senses = items.loc[labelled, ["sentence_type", "right_sense"]]
    scored = items[items["has_gold"]].drop(columns=["has_gold", "right_sense", "tied"])
    return RunSummary(
        record,
        list(with_scores(folder, first)),
        None if scored.empty else drop_missing_senses(scored.reset_index(drop=True), predicts),
        senses.rename(columns={"right_sense": "sense_accuracy"})
        if len(senses) and predicts and not used_gold_sense(record)
        else None,
        int(items["unsure"].sum()),
        int(items["tied"].sum()),
    )


def _predictions(run: Run | str | Path) -> tuple[list[Prediction], dict[str, Any]]:
    return (run.predictions(), run.record) if isinstance(run, Run) else read_predictions(Path(run))


def read_predictions(path: Path) -> tuple[list[Prediction], dict[str, Any]]:
    """Read a submission or a whole run, with the record of the run that contains the senses.

    For a submission whose rows are not those of a run in its folder, the record is empty, and this
    is logged; one to V-WSD, a ``.txt``, has no senses.
    """
    if path.is_dir():
        record = read_record(path)
        return [row.prediction for row in read_rows(path)], record
    submitted, folder = read_submission(path), path.parent
    if path.suffix.lower() == ".txt":
        return submitted, {}
    why = "its folder contains no run"
    if (folder / ITEMS).is_file():
        try:
            record, rows = read_record(folder), list(read_rows(folder))
            names = submission_names(record, [row.language for row in rows])
            of_run = [row.prediction for row in rows if names[row.language] == path.name]
            pairs = zip_longest(map(_answer, submitted), map(_answer, of_run))
            other = next((number for number, (a, b) in enumerate(pairs, start=1) if a != b), None)
            if other is None:
                return of_run, record
            why = f"its row {other} is not the run's"
        except UserError as error:
            why = f"the run in its folder cannot be read. {error}".rstrip(".")
    log.info("%s: no calibration table, because %s.", path, why)
    return submitted, {}


def _answer(prediction: Prediction) -> tuple[object, ...]:
    """Return what a submission has of a prediction in all tasks."""
    answer = prediction.expected_item or prediction.order
    return prediction.compound, answer, prediction.sentence_type


def warn_if_runs_leaked(scored: pd.DataFrame, *runs: Path) -> None:
    """Warn if the head or detector of runs saw parts of scored items in training.

    Args:
        scored: of :func:`score_items`, with ``compound`` and ``sentence``; or of
            :func:`summarise_run`, which has ``seen`` instead.
        runs: run folders, or files in them; files elsewhere are ignored.
    """
    places = dict.fromkeys(run if run.is_dir() else run.parent for run in runs)
    folders = [at for at in places if (at / RECORD).is_file() and (at / ITEMS).is_file()]
    if not folders:
        return
    name = " & ".join(map(str, folders))
    by_run: list[list[Leaks]] = []
    try:
        for folder in folders if "seen" not in scored else ():
            rows: dict[tuple[str, str], list[Leaks]] = defaultdict(list)
            for row in read_rows(folder):
                rows[row.compound, row.sentence].append(row.seen)
            remaining = {key: iter(leaks) for key, leaks in rows.items()}  # repeated rows in order
            keys = zip(scored["compound"], scored["sentence"], strict=True)
            by_run.append([next(remaining.get(key, iter(())), {}) for key in keys])
    except UserError as error:
        log.warning("%s Overlap with training data is unknown.", error)
        return
    leaked = map(merge_leaks, zip(*by_run, strict=True)) if by_run else scored["seen"]
    for line in describe_leaks(scored, list(leaked)):
        log.warning("%s: %s", name, line)
