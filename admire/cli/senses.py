"""Commands that decide between the senses, score that, and train detectors."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from admire.base.errors import UserError
from admire.base.schema import Count
from admire.cli import options as opt
from admire.cli.config import with_file
from admire.cli.output import print_figures, print_json, print_rows
from admire.data.settings import ItemFiles
from admire.models.training_settings import FitSettings
from admire.rankers.settings import Settings
from admire.senses.detector import Setting
from admire.tasks.retrieval.settings import QuerySettings
from admire.training.settings import (
    ClassifierData,
    ClassifierTraining,
    DetectorData,
    DetectorTraining,
    paper_fit,
)

log = logging.getLogger("admire")

TABLE = "\tpredicted_type\t"
"""By which a table of senses is recognised."""


@opt.with_settings(
    "sense",
    (ItemFiles, "lang", "limit"),
    (QuerySettings, "llm"),
    (Settings, "llm_url", "sense", "votes", "vote_temperature"),
    (Settings, "dictionaries", "prompts", "detector", "seed"),
)
def sense(
    data: Path,
    /,
    *,
    out: Path = Path("senses.tsv"),
    force: opt.Force = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Classify each compound as idiomatic or literal, and score that where the type is known.

    Needs the extra embedded, or a server's model (--llm openai:MODEL).

    Args:
        data: As for rank; candidates are not needed.
        out: TSV to write.

    Examples:
        admire sense my_set/ --out my_senses.tsv
        admire sense targets.tsv --llm openai:gpt-6.1-sol --votes 3
    """
    from admire.base.storage import check_file
    from admire.prompts import Prompts
    from admire.runs.sources import open_source
    from admire.scores.figures import summarise
    from admire.scores.leakage import warn_if_seen
    from admire.scores.metrics import calibration_error
    from admire.senses import known_senses, open_detector, write_senses
    from admire.senses.dictionaries import open_dictionaries
    from admire.senses.interpretation import ReadingSettings, interpret, sense_method

    if data.suffix.lower() == ".txt":
        raise UserError(f"{data}: is a file of V-WSD, where there is no sense to decide.")
    check_file(out, TABLE, force=force)
    items = list(opt.make(ItemFiles, options).read(data))
    settings, llm = opt.make(Settings, options), opt.make(QuerySettings, options).llm
    source = open_source(llm, url=settings.llm_url, dictionaries=settings.dictionaries)
    detects = sense_method(settings.sense, source) == "detector"
    detector = open_detector(settings.detector) if settings.detector or detects else None
    (readings,) = interpret(
        items,
        [source],
        Prompts(settings.prompts),
        ReadingSettings(
            settings.sense,
            settings.votes,
            settings.seed,
            glosses="none",
            vote_temperature=settings.vote_temperature,
        ),
        detector=detector,
        dictionaries=open_dictionaries(settings.dictionaries),
    )
    table = write_senses(out, items, [reading.sense for reading in readings])
    log.info("Wrote %s", out)
    scored = known_senses(table)
    summary = summarise(scored, columns=["accuracy"], seed=settings.seed)
    if json:
        print_json({"figures": summary, "senses": table})
    elif not scored.empty:
        print_figures(summary, f"Sense, {llm}")
    if not scored.empty and not scored["confidence"].isna().all():
        probabilities = [readings[k].sense.probability_idiomatic for k in scored.index]
        error = calibration_error(probabilities, scored["sentence_type"] == "idiomatic")
        log.info("The probabilities' expected calibration error: %.3f", error)
        if detects:
            labelled = [items[k] for k in scored.index]
            warn_if_seen(labelled, detector, scored, ["accuracy"], str(data))


@opt.with_settings("detect", (Settings, "detector"))
def detect(
    data: Path,
    /,
    *,
    gold: Path | None = None,
    out: Path | None = None,
    setting: Setting | None = None,
    table: Path | None = None,
    limit: Count | None = None,
    force: opt.Force = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Classify the sentences of a Task 2A file as idiomatic or literal, and score that.

    Prints macro F1 and accuracy with 95 % intervals by bootstrap over the rows, if the file has
    labels or a gold file is given.

    Needs the extra embedded; a classifier needs clip.

    Args:
        data: CSV of SemEval-2022 Task 2A.
        gold: CSV with ID and Label, where the data has no labels.
        out: Submission to write: ID, Language, Setting, Label.
        setting: Setting that the submission names (default: the detector's own, or zero_shot).
        table: TSV to write, as that of admire sense: votes and probabilities.
        limit: Read only the first N rows (default: all).

    Examples:
        admire detect dev.csv --gold dev_gold.csv
    """
    from admire.base.storage import check_file
    from admire.scores.figures import figure_text
    from admire.senses import detect_uses, open_detector
    from admire.senses.task2a import FIGURES

    for path, mark in ((out, "ID,Language,Setting,Label\n"), (table, TABLE)):
        if path:
            check_file(path, mark, force=force)
    detector = open_detector(opt.make(Settings, options).detector)
    scores = detect_uses(
        data, detector, gold=gold, out=out, setting=setting, table=table, limit=limit
    )
    if scores is None:
        return
    if json:
        print(scores.to_json(orient="records", indent=2, double_precision=15))
        return
    rows = [
        (
            row["language"],
            row["n"],
            *(figure_text(*(row[name + end] for end in ("", "_low", "_high"))) for name in FIGURES),
        )
        for row in scores.to_dict("records")
    ]
    print_rows(("Language", "n", "Macro F1", "Accuracy"), rows, str(data))


@opt.with_settings("train detector", DetectorTraining, DetectorData, opt.CONFIG_FILE)
def train_detector(
    data: list[Path],
    /,
    *,
    out: Path = Path("detector.json"),
    force: opt.Force = False,
    options: opt.Options = None,
) -> None:
    """Train a light detector of idiomatic use, like the one that comes with admire.

    Needs the extras embedded and train.

    Args:
        data: CSVs of SemEval-2022 Task 2A, or files as for rank with the sense given.
        out: Detector to write.

    Examples:
        admire train detector train.csv --out mine.json
    """
    from admire import training
    from admire.base.storage import check_file
    from admire.scores.leakage import summarise_card
    from admire.senses import open_context_encoder, read_compounds, read_idiomaticity

    check_file(out, '{"encoder":', force=force)
    options = with_file("train detector", options)
    settings, source = opt.make(DetectorTraining, options), opt.make(DetectorData, options)
    unseen = [compound for path in source.leave_out for compound in read_compounds(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    encoder = open_context_encoder(source.encoder)
    detector = training.train_detector(items, encoder, settings, leave_out=unseen)
    detector.save(out)
    print_json(summarise_card(detector.card))
    log.info("Wrote %s", out)


@opt.with_settings(
    "train classifier",
    ClassifierTraining,
    (paper_fit("zero_shot"), "batch_size", "learning_rate", "epochs", "precision", "seed"),
    ClassifierData,
    opt.CONFIG_FILE,
    unset=("batch_size",),
)
def train_classifier(
    data: list[Path], /, *, out: Path, json: opt.Json = False, options: opt.Options = None
) -> None:
    """Fine-tune an encoder to detect idiomatic use, for --detector.

    The default batch size is 32 sentences, or 4 for one_shot.

    Needs the extra finetune.

    Args:
        data: Training CSVs of SemEval-2022 Task 2A; for one_shot both.
        out: Folder of the detector to write.

    Examples:
        admire train classifier train.csv --config mine.toml --out my_detector/
    """
    from admire import training
    from admire.senses import context_columns, read_uses

    options = with_file("train classifier", options)
    source, settings = opt.make(ClassifierData, options), opt.make(ClassifierTraining, options)
    fit = opt.make(FitSettings, vars(paper_fit(settings.setting)) | options)
    fit = replace(fit, patience=fit.epochs)  # all epochs are trained
    columns = context_columns(settings.setting)
    uses = [use for path in data for use in read_uses(path, required=(*columns, "Label"))]
    validation = None
    if source.validation:
        required = columns if source.validation_gold else (*columns, "Label")
        validation = read_uses(source.validation, source.validation_gold, required=required)
    before, *after = training.train_classifier(
        source.encoder, uses, validation, replace(settings, fit=fit), out, device=source.device
    )
    log.info("Wrote %s", out)
    if json:
        print_json({"before": before, "epochs": after, "after": max(after)})
        return
    rows = [("before", f"{before:.4f}"), ("after", f"{max(after):.4f}")]
    print_rows(("Model", "Macro F1"), rows, f"{source.encoder}, {settings.setting}, validation")
