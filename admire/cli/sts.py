"""Commands for sentence similarity: idiomatic STS, and encoders fine-tuned for it."""

from __future__ import annotations

import json as jsonlib
import logging
import math
from pathlib import Path
from typing import Annotated

from admire.base.errors import UserError
from admire.cli import options as opt
from admire.cli.config import TrainingFile
from admire.cli.output import print_rows
from admire.cli.panels import HelpAll
from admire.tasks.sts.objectives import Objective, TrainingSetting, usual_batch_size

log = logging.getLogger("admire")


def sts(
    data: Annotated[
        Path,
        opt.argument(
            "Pairs: SemEval-2022 Task 2B, ChengyuSTS, STS Benchmark (.tsv) or ASSIN2 (.xml)."
        ),
    ],
    gold: Annotated[Path | None, opt.option("Task 2B's gold file, for its dev file.")] = None,
    encoder: Annotated[str, opt.option("Encoder of texts: e5 or sbert:…")] = "e5",
    llm: Annotated[
        str | None, opt.option("A chat model that rates the pairs, in place of an encoder.")
    ] = None,
    llm_url: opt.LlmUrl = None,
    split: Annotated[str | None, opt.option("Of STS Benchmark: train, dev or test.")] = None,
    out: Annotated[Path | None, opt.option("Submission to write, a CSV.")] = None,
    setting: Annotated[
        TrainingSetting,
        opt.choice("setting", TrainingSetting, "What the submission says of its training data."),
    ] = "fine_tune",
    device: opt.EncoderDevice = "auto",
    prompts: opt.PromptFolder = None,
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Compare sentence pairs and score that: Spearman over all, idiomatic and plain STS pairs."""
    from admire.tasks.sts.evaluation import write_similarities
    from admire.tasks.sts.pairs import read_pairs
    from admire.tasks.sts.settings import SimilaritySettings
    from admire.tasks.sts.similarity import measure_similarity

    settings = opt.call_with(SimilaritySettings, locals())
    pairs = read_pairs(data, gold, split=split)
    if not out and not any(pair.gold for pair in pairs):
        raise UserError(
            f"{data}: has no similarities. Give a gold file, or a place for a submission.",
            "gold",
            "out",
        )
    measured = measure_similarity(pairs, settings)
    if out:
        write_similarities(out, pairs, measured.similarities, setting)
        log.info("Wrote %s, %d pairs", out, len(pairs))
    if json:
        print(measured.correlations.to_json(orient="records", indent=2))
        return
    rows = [
        (
            one["language"],
            one["subset"],
            one["n"],
            "undefined (all equal)" if math.isnan(one["spearman"]) else f"{one['spearman']:.3f}",
        )
        for one in measured.correlations.to_dict("records")
    ]
    if rows:
        print_rows(("Language", "Pairs", "n", "Spearman"), rows, llm or encoder)


def train_sentences(
    data: Annotated[
        list[Path],
        opt.argument(
            "Task 2B's training file or ChengyuSTS; for regression, classification and cosent "
            "STS Benchmark and ASSIN2. Several are joined."
        ),
    ],
    out: opt.ModelFolder,
    encoder: opt.StartEncoder,
    objective: Annotated[
        Objective,
        opt.choice(
            "objective",
            Objective,
            "He et al.'s: adaptive, multi-negative; YNU-HPCC's: triplet+ranking, regression, "
            "classification, cosent; ChengyuSTS's: simcse; ours: consistent.",
        ),
    ] = "adaptive",
    sts: Annotated[
        list[Path] | None,
        opt.option("STS pairs to mix in by CoSENT, so that general similarity is kept."),
    ] = None,
    leave_out: Annotated[
        list[Path] | None,
        opt.option("Pairs that share a sentence with this file are not learned from."),
    ] = None,
    validation: Annotated[
        Path | None, opt.option("Pairs to choose the epoch by; else a tenth is held out.")
    ] = None,
    validation_gold: Annotated[Path | None, opt.option("Their gold file.")] = None,
    miner_margin: Annotated[float, opt.option("Of He et al.'s miner.")] = 0.4,
    margin: Annotated[
        float | None, opt.option("Of the triplet loss; else the paper's (0.3, 0.1).")
    ] = None,
    temperature: Annotated[
        float, opt.option("Of SimCSE, of ranking and of CoSENT (there 1 / λ).")
    ] = 0.05,
    last_layers: Annotated[
        int, opt.option("2: pool the mean of the last two layers (He et al.).")
    ] = 1,
    max_length: Annotated[
        int | None, opt.option("Tokens of a sentence that are read; else the model's own.")
    ] = None,
    mwe_tokens: Annotated[bool, opt.option("Make each expression a token of its own.")] = False,
    token_rate: Annotated[float, opt.option("Learning rate of those tokens.")] = 1e-3,
    repeat: Annotated[
        int, opt.option("Repeat the groups of rare expressions up to this number.")
    ] = 1,
    sts_weight: Annotated[float, opt.option("Of the loss on --sts pairs.")] = 1.0,
    batch_size: Annotated[
        int | None, opt.option("Sentences (adaptive, multi-negative: 64) or rows (16).")
    ] = None,
    learning_rate: opt.AdamRate = 2e-5,
    epochs: Annotated[int, opt.option("Epochs at most.")] = 10,
    patience: Annotated[int, opt.option("Epochs without a better correlation.")] = 3,
    device: opt.EncoderDevice = "auto",
    precision: opt.TrainingPrecision = "float32",
    seed: opt.Seed = 0,
    config: TrainingFile = None,
    json: opt.Json = False,
    help_all: HelpAll = False,
) -> None:
    """Fine-tune a sentence encoder on idioms and their paraphrases, or on sentence pairs."""
    options = locals()
    from admire.base.storage import check_folder
    from admire.models.encoders.families import open_trainable
    from admire.models.training_settings import FitSettings
    from admire.tasks.sts.rows import read_training_data
    from admire.tasks.sts.settings import SentenceTraining
    from admire.tasks.sts.training import train_sentences as train

    size = usual_batch_size(objective) if batch_size is None else batch_size
    fit = opt.call_with(FitSettings, options, batch_size=size)
    settings = opt.call_with(SentenceTraining, options, fit=fit)
    check_folder(out, "model")
    found = read_training_data(
        data,
        objective,
        sts=sts or (),
        leave_out=leave_out or (),
        validation=validation,
        validation_gold=validation_gold,
        seed=seed,
    )
    log.info(
        "%d groups and %d pairs to learn from, %d to validate",
        len(found.groups),
        len(found.pairs),
        len(found.validation),
    )
    history = train(open_trainable(encoder, device=device), found, settings, out)
    log.info("Wrote %s", out)
    if json:
        print(jsonlib.dumps({"validation": history}, indent=2))
        return
    rows = [(epoch or "before", f"{figure:.3f}") for epoch, figure in enumerate(history)]
    print_rows(("Epoch", "Spearman, validation"), rows, f"{encoder}, {objective}")
