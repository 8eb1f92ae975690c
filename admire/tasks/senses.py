"""Deciding senses as tasks: of compounds (``sense``) and of the uses of Task 2A (``detect``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from admire.core.errors import UserError
from admire.core.options import Option, make
from admire.core.registry import register
from admire.core.schema import Count, settings
from admire.data.settings import ItemFiles
from admire.encoders.training_settings import FitSettings
from admire.rankers.settings import RequestOptions, Settings
from admire.senses.settings import Setting
from admire.tasks.retrieval.settings import QuerySettings
from admire.tasks.task import CONFIG_FILE, Data, Output, Result, Task, Values, as_rows, open_session
from admire.tasks.training.settings import ClassifierData, ClassifierTraining, paper_fit

if TYPE_CHECKING:
    from admire.data.items import Item
    from admire.llm.session import Session
    from admire.pipeline.forecast import DryRun
    from admire.senses import Detector
    from admire.senses.interpretation import Interpretation

log = logging.getLogger("admire")

TABLE = "\tpredicted_type\t"  #: by which a table of senses is recognised


@register("task", "sense")
class SenseTask(Task):
    """Classifies compounds as idiomatic or literal, and scores that where the type is known."""

    settings: ClassVar[Sequence[Any]] = (
        (ItemFiles, "lang", "limit", "images"),
        (QuerySettings, "llm"),
        (Settings, "llm_url", "sense", "votes", "vote_temperature"),
        (Settings, "dictionaries", "prompts", "detector", "seed"),
        RequestOptions,
        Output,
    )
    written = "senses.tsv"

    def run(self, data: Data, settings: Values, session: Session | None = None) -> Result:
        """Decide senses; the rows of items are those of the table that is written."""
        from admire.core.storage import check_file
        from admire.metrics.figures import summarise
        from admire.metrics.leakage import warn_if_leaked
        from admire.metrics.metrics import calibration_error
        from admire.senses import known_senses, sense_table, write_senses

        how, own = make(Settings, settings), make(Output, settings)
        if own.out:
            check_file(own.out, TABLE, force=own.force)
        items = list(make(ItemFiles, settings).read(data))
        if any(not item.has_sense for item in items):
            raise UserError(f"{data}: is a file of V-WSD, where there is no sense to decide.")
        readings, method, detector = _interpret(items, settings, session or open_session(settings))
        senses = [reading.sense for reading in readings]
        table = write_senses(own.out, items, senses) if own.out else sense_table(items, senses)
        if own.out:
            log.info("Wrote %s", own.out)
        scored = known_senses(table)
        figures = summarise(scored, columns=["accuracy"], seed=how.seed)
        if not scored.empty and not scored["confidence"].isna().all():
            probabilities = [senses[k].probability_idiomatic for k in scored.index]
            error = calibration_error(probabilities, scored["sentence_type"] == "idiomatic")
            log.info("The probabilities' expected calibration error: %.3f", error)
            if method == "detector":
                labelled = [items[k] for k in scored.index]
                warn_if_leaked(labelled, detector, scored, ["accuracy"], str(data))
        llm = make(QuerySettings, settings).llm
        record = {"data": str(data), "llm": llm, "sense": method, "votes": how.votes}
        files = [own.out] if own.out else []
        return Result(as_rows(figures), record | {"seed": how.seed}, files, as_rows(table))

    def join(self, results: Sequence[Result], metrics: Sequence[str] = ()) -> Result:
        items = [
            row | {"accuracy": float(row["predicted_type"] == row["sentence_type"])}
            for row in super().join(results).items
            if row["sentence_type"]
        ]
        return replace(results[0], items=items)

    def rehearse(self, data: Data, settings: Values, session: DryRun) -> None:
        _interpret(list(make(ItemFiles, settings).read(data)), settings, session)


def _interpret(
    items: Sequence[Item], settings: Values, session: Session
) -> tuple[list[Interpretation], str, Detector | None]:
    """Decide the items' senses; return also what decided them, and the detector, if one did."""
    from admire.llm import open_llm
    from admire.pipeline.chat_stage import interpret_items
    from admire.prompts import Prompts
    from admire.senses import open_detector
    from admire.senses.dictionaries import open_dictionaries
    from admire.senses.interpretation import Approach, sense_method

    how, name = make(Settings, settings), make(QuerySettings, settings).llm
    llm = open_llm(name, session, how.llm_url, how.dictionaries)
    method = sense_method(how.sense, llm)
    opens = not session.imagines and (how.detector or method == "detector")
    detector = open_detector(how.detector) if opens else None
    approach = Approach(Prompts(how.prompts), how, how.seed, "none")
    entries = open_dictionaries(how.dictionaries)
    (readings,) = interpret_items(items, [llm], approach, dictionaries=entries, detector=detector)
    return readings, method, detector


FILES = Option("Data and output", in_file=False)


@settings(frozen=True, kw_only=True)
class UseFiles(Output):
    """What of a file of Task 2A is read, and what is written."""

    gold: Annotated[Path | None, FILES] = None
    """CSV with ID and Label, where the data has no labels."""
    setting: Annotated[Setting | None, FILES] = None
    """Setting that the submission names (default: the detector's own, or zero_shot)."""
    table: Annotated[Path | None, FILES] = None
    """TSV to write, as that of admire sense: votes and probabilities."""
    limit: Annotated[Count | None, FILES] = None
    """Read only the first N rows (default: all)."""


@register("task", "detect")
class DetectTask(Task):
    """Classifies the sentences of a Task 2A file as idiomatic or literal, and scores that."""

    settings: ClassVar[Sequence[Any]] = ((Settings, "detector"), UseFiles)
    learns = "classifier"
    uses: ClassVar[Mapping[str, str]] = {"detector": "{}"}

    @classmethod
    def training(cls) -> Sequence[Any]:
        fit = ("batch_size", "learning_rate", "weight_decay", "warmup", "epochs", "precision")
        own = (paper_fit("zero_shot"), *fit, "seed")
        return ClassifierTraining, own, ClassifierData, CONFIG_FILE

    def run(self, data: Data, settings: Values, session: Session | None = None) -> Result:
        """Classify; the figures are those of each language, none without labels."""
        from admire.core.storage import check_file
        from admire.senses import detect_uses, open_detector

        own = make(UseFiles, settings)
        for path, mark in ((own.out, "ID,Language,Setting,Label\n"), (own.table, TABLE)):
            if path:
                check_file(path, mark, force=own.force)
        name = make(Settings, settings).detector
        how = {field: value for field, value in vars(own).items() if field != "force"}
        scores = detect_uses(Path(data), open_detector(name), **how)
        record = {"data": str(data), "detector": str(name) if name else None}
        files = [path for path in (own.out, own.table) if path]
        return Result([] if scores is None else as_rows(scores), record, files)

    def train(self, data: Sequence[Path], settings: Values) -> Result:
        """Fine-tune a classifier. A row of figures for each epoch."""
        from admire.senses import context_columns, read_uses
        from admire.tasks import training

        out = make(Output, settings).out or Path("classifier")
        source, own = make(ClassifierData, settings), make(ClassifierTraining, settings)
        fit = make(FitSettings, vars(paper_fit(own.setting)) | dict(settings))
        fit = replace(fit, patience=fit.epochs)  # all epochs are trained
        columns = context_columns(own.setting)
        uses = [use for path in data for use in read_uses(path, required=(*columns, "Label"))]
        validation = None
        if source.validation:
            required = columns if source.validation_gold else (*columns, "Label")
            validation = read_uses(source.validation, source.validation_gold, required=required)
        before, *after = training.train_classifier(
            source.encoder, uses, validation, replace(own, fit=fit), out, device=source.device
        )
        log.info("Wrote %s", out)
        figures = [{"macro_f1": figure} for figure in (before, *after)]
        return Result(figures, {"before": before, "epochs": after, "after": max(after)}, (out,))
