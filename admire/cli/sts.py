"""Commands for sentence similarity: idiomatic STS, and encoders fine-tuned for it."""

from __future__ import annotations

import logging
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated

from admire.base.errors import UserError
from admire.base.schema import Count
from admire.cli import options as opt
from admire.cli.config import with_file
from admire.cli.output import print_json, print_rows
from admire.models.training_settings import FitSettings, StartEncoder
from admire.tasks.sts.settings import (
    SentenceFiles,
    SentenceTraining,
    SimilaritySettings,
    TrainingSetting,
    usual_batch_size,
)

log = logging.getLogger("admire")


@opt.with_settings("sts", SimilaritySettings)
def sts(
    data: Path,
    /,
    *,
    gold: Path | None = None,
    split: str | None = None,
    limit: Count | None = None,
    out: Path | None = None,
    force: opt.Force = False,
    setting: TrainingSetting = "fine_tune",
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Measure the similarity of sentence pairs, and score it: Spearman's correlation.

    Prints it for all pairs, those with an idiom and plain STS pairs, with 95 % intervals by
    bootstrap over the pairs.

    Needs the extra embedded for e5, or clip for other encoders.

    Args:
        data: Pairs: SemEval-2022 Task 2B, ChengyuSTS, STS Benchmark (.tsv) or ASSIN2 (.xml), or a
            folder with train.csv, dev.csv and test.csv.
        gold: Task 2B's gold file, for its dev file.
        split: Split of STS Benchmark or of a folder: train, dev or test (default: all).
        limit: Read only the first N pairs of each file (default: all).
        out: Submission to write, a CSV.
        setting: Setting that the submission names for its training data.

    Examples:
        admire sts dev.csv --gold dev.gold.csv
    """
    from admire.base.storage import check_file
    from admire.scores.figures import figure_text
    from admire.tasks.sts.evaluation import measure_similarity, write_similarities
    from admire.tasks.sts.pairs import read_pairs

    if out:
        check_file(out, "ID,Language,Setting,Sim\n", force=force)
    settings = opt.make(SimilaritySettings, options)
    pairs = read_pairs(data, gold, split=split, limit=limit)
    if not out and not any(pair.gold for pair in pairs):
        why = "has no similarities. Give a gold file, or a place for a submission."
        raise UserError(f"{data}: {why}", "gold", "out")
    measured = measure_similarity(pairs, settings)
    if out:
        write_similarities(out, pairs, measured.similarities, setting)
        log.info("Wrote %s (%d pairs)", out, len(pairs))
    if json:
        print(measured.correlations.to_json(orient="records", indent=2))
        return
    rows = [
        (*row[:3], "undefined (all equal)" if isnan(row[3]) else figure_text(*row[3:]))
        for row in measured.correlations.itertuples(index=False, name=None)
    ]
    if rows:
        print_rows(("Language", "Pairs", "n", "Spearman"), rows, settings.llm or settings.encoder)


@opt.with_settings(
    "train sentences",
    SentenceTraining,
    FitSettings,
    SentenceFiles,
    StartEncoder,
    opt.CONFIG_FILE,
    unset=("batch_size",),
    headings=True,
)
def train_sentences(
    data: list[Path],
    /,
    *,
    out: Path,
    json: Annotated[opt.Json, opt.RARE] = False,
    options: opt.Options = None,
) -> None:
    """Fine-tune a sentence encoder on idioms and their paraphrases, or on sentence pairs.

    The default batch size is 64 sentences for adaptive and multi-negative, and 16 rows for the
    other objectives.

    Needs the extra finetune.

    Args:
        data: Task 2B's training file or ChengyuSTS; for regression, classification and cosent STS
            Benchmark and ASSIN2. Several are joined. From a folder train.csv is read, and dev.csv
            if it is also the validation file.
        out: Folder of the model to write, for sbert:FOLDER.

    Examples:
        admire train sentences train.csv --encoder sbert:FOLDER --out mine/
    """
    import pandas as pd

    from admire.base.storage import check_folder
    from admire.models.encoders.families import open_trainable
    from admire.tasks.sts.rows import read_training_data
    from admire.tasks.sts.training import check_training
    from admire.tasks.sts.training import train_sentences as train

    options = with_file("train sentences", options)
    settings, start = opt.make(SentenceTraining, options), opt.make(StartEncoder, options)
    usual = {"batch_size": usual_batch_size(settings.objective)}
    fit, files = opt.make(FitSettings, usual | options), opt.make(SentenceFiles, options)
    check_folder(out, "model")
    training_data = read_training_data(data, settings.objective, **vars(files), seed=fit.seed)
    parts = training_data.groups, training_data.pairs, training_data.validation
    log.info("%d groups and %d pairs to learn from, %d to validate", *map(len, parts))
    check_training(training_data, settings)
    encoder = open_trainable(
        start.encoder, device=start.device, trust_remote_code=start.trust_remote_code
    )
    history = train(encoder, training_data, replace(settings, fit=fit), out)
    log.info("Wrote %s", out)
    if json:
        print_json({"validation": pd.DataFrame(history)})
        return
    rows = [
        (epoch or "before", *(f"{figure:.3f}" for figure in figures.values()))
        for epoch, figures in enumerate(history)
    ]
    title = f"{start.encoder}, {settings.objective}: Spearman, validation"
    print_rows(("Epoch", *history[0]), rows, title)
