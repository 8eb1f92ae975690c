"""Commands that decide between the senses, score that, and train detectors."""

from __future__ import annotations

import logging
from pathlib import Path

from admire.apps.cli import options as opt
from admire.apps.cli.config import with_file
from admire.apps.cli.output import (
    figure_cell,
    print_dry_run,
    print_figures,
    print_json,
    print_rows,
)
from admire.tasks.senses import DetectTask, SenseTask
from admire.tasks.training.settings import DetectorData, DetectorTraining

log = logging.getLogger("admire")


@opt.with_settings("sense", *SenseTask.settings)
def sense(
    data: Path,
    /,
    *,
    out: Path = Path("runs/senses.tsv"),
    force: opt.Force = False,
    dry_run: opt.DryRun = False,
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
    import pandas as pd

    if dry_run:
        return print_dry_run(SenseTask().rehearse, data, options, json=json)
    result = SenseTask().run(data, {"out": out, "force": force} | dict(options or {}))
    if json:
        print_json({"figures": result.figures, "senses": result.items})
    elif result.figures:
        print_figures(pd.DataFrame(result.figures), f"Sense, {result.record['llm']}")


@opt.with_settings("detect", *DetectTask.settings)
def detect(
    data: Path,
    /,
    *,
    out: Path | None = None,
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
        out: Submission to write: ID, Language, Setting, Label.

    Examples:
        admire detect dev.csv --gold dev_gold.csv
    """
    from admire.senses.task2a import FIGURES

    result = DetectTask().run(data, {"out": out, "force": force} | dict(options or {}))
    if not result.figures:
        return
    if json:
        return print_json(result.figures)
    rows = [
        (row["language"], row["n"], *(figure_cell(row, name) for name in FIGURES))
        for row in result.figures
    ]
    print_rows(("Language", "n", "Macro F1", "F1 of averages", "Accuracy"), rows, str(data))


@opt.with_settings("train detector", DetectorTraining, DetectorData, opt.CONFIG_FILE)
def train_detector(
    data: list[Path],
    /,
    *,
    out: Path = Path("detector.json"),
    force: opt.Force = False,
    json: opt.Json = False,
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
    from admire.core.storage import check_file
    from admire.encoders import open_context_encoder
    from admire.metrics.leakage import summarise_card
    from admire.senses import read_compounds, read_idiomaticity
    from admire.tasks import training

    check_file(out, '{"encoder', force=force)
    options = with_file("train detector", options)
    settings, source = opt.make(DetectorTraining, options), opt.make(DetectorData, options)
    unseen = [compound for path in source.leave_out for compound in read_compounds(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    encoders = [*map(open_context_encoder, source.encoder)]
    detector = training.train_detector(items, encoders, settings, leave_out=unseen)
    detector.save(out)
    log.info("Wrote %s", out)
    if json:
        return print_json(summarise_card(detector.card))
    print_rows(("Unseen compounds", ""), detector.card["unseen compounds"].items(), str(out))


@opt.with_settings("train classifier", *DetectTask.training(), unset=("batch_size",))
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
    options = with_file("train classifier", options)
    card = DetectTask().train(data, options | {"out": out}).record
    if json:
        return print_json(card)
    rows = [(name, f"{card[name]:.4f}") for name in ("before", "after")]
    print_rows(("Model", "Macro F1"), rows, "{encoder}, {setting}, validation".format(**options))
