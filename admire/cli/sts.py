"""Commands for sentence similarity: idiomatic STS, and encoders fine-tuned for it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from admire.base.errors import UserError
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
    out: Path | None = None,
    force: opt.Force = False,
    setting: TrainingSetting = "fine_tune",
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Compare sentence pairs and score that: Spearman over all, idiomatic and plain STS pairs.

    Needs the extra embedded for e5, or clip for other encoders.

    Args:
        data: Pairs: SemEval-2022 Task 2B, ChengyuSTS, STS Benchmark (.tsv) or ASSIN2 (.xml), or a
            folder with train.csv, dev.csv and test.csv.
        gold: Task 2B's gold file, for its dev file.
        split: Split of STS Benchmark or of a folder: train, dev or test; else all.
        out: Submission to write, a CSV.
        setting: What the submission says of its training data.

    Examples:
        admire sts dev.csv --gold dev.gold.csv
    """
    from admire.base.storage import check_file
    from admire.tasks.sts.evaluation import measure_similarity, write_similarities
    from admire.tasks.sts.pairs import read_pairs

    if out:
        check_file(out, "ID,Language,Setting,Sim\n", force=force)
    settings = opt.make(SimilaritySettings, options)
    pairs = read_pairs(data, gold, split=split)
    if not out and not any(pair.gold for pair in pairs):
        why = "has no similarities. Give a gold file, or a place for a submission."
        raise UserError(f"{data}: {why}", "gold", "out")
    measured = measure_similarity(pairs, settings)
    if out:
        write_similarities(out, pairs, measured.similarities, setting)
        log.info("Wrote %s, %d pairs", out, len(pairs))
    if json:
        print(measured.correlations.to_json(orient="records", indent=2))
        return
    rows = [
        (r.language, r.subset, r.n, f"{r.spearman:.3f}".replace("nan", "undefined (all equal)"))
        for r in measured.correlations.itertuples()
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

    A batch has 64 sentences for adaptive and multi-negative, else 16 rows, if --batch-size does not
    say otherwise.

    Needs the extra finetune.

    Args:
        data: Task 2B's training file or ChengyuSTS; for regression, classification and cosent STS
            Benchmark and ASSIN2. Several are joined. A folder has train.csv to learn from and
            dev.csv to validate on.
        out: Folder of the model to write, for sbert:FOLDER.

    Examples:
        admire train sentences train.csv --encoder sbert:FOLDER --out mine/
    """
    import pandas as pd

    from admire.base.storage import check_folder
    from admire.models.encoders.families import open_trainable
    from admire.tasks.sts.rows import read_training_data
    from admire.tasks.sts.training import train_sentences as train

    options = with_file("train sentences", options)
    settings, start = opt.make(SentenceTraining, options), opt.make(StartEncoder, options)
    usual = {"batch_size": usual_batch_size(settings.objective)}
    fit, files = opt.make(FitSettings, usual | options), opt.make(SentenceFiles, options)
    check_folder(out, "model")
    training_data = read_training_data(data, settings.objective, **vars(files), seed=fit.seed)
    parts = training_data.groups, training_data.pairs, training_data.validation
    log.info("%d groups and %d pairs to learn from, %d to validate", *map(len, parts))
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
