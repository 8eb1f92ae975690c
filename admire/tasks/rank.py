"""Ranking as a task: its settings from profile, file and options; and training of heads for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from admire.core.errors import UserError
from admire.core.options import Option, make, plugin_settings, take_settings
from admire.core.registry import register
from admire.core.schema import as_tuple
from admire.data.settings import ItemFiles
from admire.rankers.settings import PROFILES, RequestOptions, Scoring, Settings
from admire.tasks.task import (
    CONFIG_FILE,
    Data,
    Output,
    Result,
    SettingsSource,
    Task,
    Values,
    WorkerOptions,
    as_rows,
    open_session,
    open_workers,
    read_options,
)

if TYPE_CHECKING:
    from admire.llm.session import Session
    from admire.pipeline.forecast import DryRun

log = logging.getLogger("admire")


@register("task", "rank")
class Rank(Task):
    """Ranks the candidates of items and writes a run folder."""

    settings: ClassVar[Sequence[Any]] = (
        *(Settings, Scoring, RequestOptions, ItemFiles, SettingsSource),
        *(WorkerOptions, (Output, "out")),
    )
    learns, written, variants = "head", "run-{}", ("images", "captions")
    uses: ClassVar[Mapping[str, str]] = {"profile": "paper", "head": "{}"}

    def run(self, data: Data, settings: Values, session: Session | None = None) -> Result:
        """Rank with a session of its own, because its budget is a setting."""
        from admire.pipeline.run_folder import read_record

        out = make(Output, settings).out or Path("runs/latest")
        submissions = write_ranking(data, out, settings)
        for path in submissions:
            log.info("Wrote %s", path)
        return replace(join_runs([out]), record=read_record(out), files=(out, *submissions))

    def effective(self, settings: Values) -> Values:
        """Return the settings that count, those of a profile among them."""
        own = run_settings(settings)
        asks = own.query == "meaning" or own.looks
        return vars(own) if asks else {**vars(own), "llms": None}

    def join(self, results: Sequence[Result], metrics: Sequence[str] = ()) -> Result:
        several = len(results) > 1 or metrics
        return join_runs([r.files[0] for r in results], metrics) if several else results[0]

    def rehearse(self, data: Data, settings: Values, session: DryRun) -> None:
        from admire.data.image_files import check_image
        from admire.data.rows import RowReader
        from admire.pipeline.chat_stage import resolve_models
        from admire.pipeline.forecast import rehearse

        files, asking = make(ItemFiles, settings), make(RequestOptions, settings)
        skipping = RowReader(look=check_image, skip=lambda fault: None)
        items = list(files.read(data, skipping if files.skip_bad else None))
        rehearse(items, resolve_models(run_settings(settings), asking), session)

    @classmethod
    def training(cls) -> Sequence[Any]:
        from admire.encoders.training_settings import HeadTraining
        from admire.tasks.training.settings import HeadData, TripletSettings

        return HeadTraining, TripletSettings, HeadData, RequestOptions, CONFIG_FILE

    def rehearse_training(self, data: Sequence[Path], settings: Values, session: DryRun) -> None:
        from admire.data.reader import read_items
        from admire.tasks.training.triplets import write_queries

        head, triplets, source = (make(kind, settings) for kind in self.training()[:3])
        items = [item for path in data for item in read_items(path, source.lang)]
        write_queries(items, triplets, seed=head.seed, session=session)

    def train(self, data: Sequence[Path], settings: Values) -> Result:
        """Train a projection head. Its figures are its history, by epoch.

        With ``folds`` no head is written; the figures are those of cross-validation, by ``table``.
        """
        from admire.core.storage import check_folder
        from admire.data.reader import read_items
        from admire.metrics.leakage import summarise_card
        from admire.tasks import training

        out = make(Output, settings).out or Path("head")
        own, of_triplets, source = (make(kind, settings) for kind in self.training()[:3])
        split = {"folds": source.folds, "seed": own.seed}
        if source.folds is None:
            check_folder(out, "head")
        items = [item for path in data for item in read_items(path, source.lang)]
        training.check_heads(items, [own], **split)
        session = open_session(settings)
        triplets, encoder = training.open_triplets(
            items, of_triplets, seed=own.seed, session=session
        )
        if source.folds is not None:
            orders = training.cross_validate_heads(items, triplets, [own], **split)
            tables = training.compare_heads(items, *orders, own.seed).items()
            return Result([{"table": t} | row for t, table in tables for row in as_rows(table)])
        head = training.train_head(triplets, own, encoder)
        head.save(out)
        log.info("Wrote %s", out)
        return Result([asdict(e) for e in head.history], summarise_card(head.card), (out,))

    def trained(self, model: Path) -> Result:
        card = json.loads((model / "head.json").read_text(encoding="utf-8"))
        numbers = {"test_top1": card["test_top1"]["head"], "none_top1": card["test_top1"]["none"]}
        numbers |= {name: card[name] for name in ("epoch", "validation_loss")}
        figures = [{"metric": name, "mean": number} for name, number in numbers.items()]
        return Result(figures, items=card["history"])


def write_ranking(data: Data, out: Path, settings: Values) -> list[Path]:
    """Rank data as :class:`Rank` does, without the figures; return the submissions."""
    from admire.pipeline.run_blocks import rank_file

    own, files = run_settings(settings), make(ItemFiles, settings)
    asking, workers = make(RequestOptions, settings), open_workers(settings, own.device)
    return rank_file(data, out, own, files, asking=asking, workers=workers)


def join_runs(runs: Sequence[Path], metrics: Sequence[str] = ()) -> Result:
    """Return the figures of the items of all these run folders together; none if one lacks gold.

    A row for each metric and group of items; of several languages also for each, and their mean.
    The result's items are those with gold and their figures.
    """
    import pandas as pd

    from admire.metrics.figures import item_metrics, summarise, summarise_languages
    from admire.pipeline.run_folder import read_rows
    from admire.pipeline.scoring import summarise_run

    scored = [summarise_run(run, metrics=metrics).scored for run in runs]
    if any(table is None for table in scored):
        return Result([])
    table = pd.concat(scored, ignore_index=True)
    rows = [row for run in runs for row in read_rows(run) if row.item.best]
    languages = [row.language for row in rows]
    figures = summarise(table)
    if len(set(languages)) > 1:
        figures = pd.concat([figures, summarise_languages(table, languages)])
    columns = [name for name in ("sentence_type", "tied_first") if name in table]
    items: Any = table[[*columns, *item_metrics(table)]].assign(
        compound=[row.compound for row in rows], sentence=[row.sentence for row in rows]
    )
    records: Any = figures.to_dict("records")
    return Result(records, items=items.to_dict("records"))


def run_settings(options: Values | None = None) -> Settings:
    """Return the settings of a profile or a run, changed by a file, changed by options.

    Raises:
        UserError: a setting cannot have its value, the file or the run cannot be read, a profile
            and a run are both named, or the file or the run names a server that is not trusted.
    """
    from admire.pipeline.run_folder import read_settings

    options, own = options or {}, take_settings(*Rank.settings)
    plugins, config, like = plugin_settings(own), options.get("config"), options.get("like")
    from_file = read_options(config, "rank", own | plugins, options) if config else {}
    profile = options.get("profile") or from_file.pop("profile", None)
    if like and profile:
        raise UserError("Begin with a profile or with a run, not with both.", "profile", "like")
    settings = read_settings(like) if like else PROFILES[profile or "embedded"]
    if like and "llm_url" not in {**from_file, **options}:
        from admire.llm.address import check_named_in_file

        check_named_in_file(settings.llm_url, like)
    try:
        settings = _changed(settings, from_file, plugins)
    except UserError as error:
        raise UserError(f"{config}: {error}") from None
    return _changed(settings, options, plugins)


def _changed(settings: Settings, changes: Values, plugins: Mapping[str, Option]) -> Settings:
    """Return settings with other values of some fields of Settings, Scoring and plug-ins."""
    if "encoder" in changes:  # else a profile's would go on reading the captions
        changes = {"caption_encoder": None, **changes}
    elif changes.get("caption_encoder"):
        changes = {"encoder": settings.encoder[:1], **changes}
    elif heads := changes.get("head"):  # one for each encoder
        changes = {"encoder": settings.encoder[: len(as_tuple(heads))], **changes}
    of_plugins, scoring, own = dict(settings.plugins), {}, {}
    for name, value in changes.items():
        if name in vars(settings.scoring):
            scoring[name] = value
        elif name in vars(settings):
            own[name] = value
        elif name in plugins and (owner := plugins[name].plugin):
            of_plugins[owner[0]] = {**of_plugins.get(owner[0], {}), owner[1]: value}
    scored = replace(settings.scoring, **scoring)
    return replace(settings, scoring=scored, **own | {"plugins": of_plugins})
