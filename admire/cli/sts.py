"""Commands for sentence similarity: idiomatic STS, and encoders fine-tuned for it."""

from __future__ import annotations

import json as jsonlib
import logging
import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from admire.cli.options import EncoderDevice, Json, LlmUrl, PromptFolder, Seed, TrainingPrecision
from admire.cli.output import print_rows
from admire.errors import UserError
from admire.sts import Objective

log = logging.getLogger("admire")


def sts(
    data: Annotated[
        Path,
        typer.Argument(
            help="Pairs: SemEval-2022 Task 2B, ChengyuSTS, STS Benchmark (.tsv) or ASSIN2 (.xml)."
        ),
    ],
    gold: Annotated[Path | None, typer.Option(help="Task 2B's gold file, for its dev file.")] = (
        None
    ),
    encoder: Annotated[str, typer.Option(help="Encoder of texts: e5 or sbert:…")] = "e5",
    llm: Annotated[
        str | None, typer.Option(help="A chat model that rates the pairs, in place of an encoder.")
    ] = None,
    llm_url: LlmUrl = None,
    split: Annotated[str | None, typer.Option(help="Of STS Benchmark: train, dev or test.")] = None,
    out: Annotated[Path | None, typer.Option(help="Submission to write, a CSV.")] = None,
    setting: Annotated[
        Literal["pre_train", "fine_tune"], typer.Option(help="What the submission says of itself.")
    ] = "fine_tune",
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare sentence pairs and score that: Spearman over all, idiomatic and plain STS pairs."""
    from admire.encoders import open_encoder
    from admire.encoders.sentence import SentenceEncoder
    from admire.llm import open_llm
    from admire.prompts import Prompts
    from admire.sts.evaluation import compare, evaluate, rate, write_submission
    from admire.sts.mwes import reader
    from admire.sts.pairs import read_pairs

    pairs = read_pairs(data, gold, split=split)
    if not out and not any(pair.gold for pair in pairs):
        raise UserError(f"{data}: tells no similarities. Give --gold, or --out for a submission.")
    similarities: dict[tuple[str, str], float]
    if llm:
        similarities = rate(pairs, open_llm(llm, url=llm_url), Prompts(prompts), seed=seed)
        missing = sum(
            any(asked and asked not in similarities for asked in ((p.first, p.second), p.reference))
            for p in pairs
        )
        if missing:
            log.warning("%d of %d pairs were given no rating and are left out", missing, len(pairs))
    else:
        opened = open_encoder(encoder, device=device)
        if isinstance(opened.encoder, SentenceEncoder):
            read = reader(opened.encoder.model, {pair.mwe for pair in pairs if pair.mwe})
            similarities = compare(pairs, opened, read)
        else:
            similarities = compare(pairs, opened)
    if out:
        write_submission(out, pairs, similarities, setting)
        log.info("Wrote %s, %d pairs", out, len(pairs))
    scored = evaluate(pairs, similarities)
    if json:
        print(scored.to_json(orient="records", indent=2))
        return
    rows = [
        (
            one["language"],
            one["subset"],
            one["n"],
            "undefined (all equal)" if math.isnan(one["spearman"]) else f"{one['spearman']:.3f}",
        )
        for one in scored.to_dict("records")
    ]
    if rows:
        print_rows(("Language", "Pairs", "n", "Spearman"), rows, llm or encoder)


def train_sentences(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Task 2B's training file or ChengyuSTS; for regression, classification and cosent "
            "STS Benchmark and ASSIN2. Several are joined."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the model to write, for sbert:FOLDER.")],
    encoder: Annotated[str, typer.Option(help="The model to begin with: sbert:…")],
    objective: Annotated[
        Objective,
        typer.Option(
            help="He et al.'s: adaptive, multi-negative; YNU-HPCC's: triplet+ranking, regression, "
            "classification, cosent; ChengyuSTS's: simcse; ours: consistent."
        ),
    ] = "adaptive",
    sts: Annotated[
        list[Path] | None,
        typer.Option(help="STS pairs to mix in by CoSENT, so that general similarity is kept."),
    ] = None,
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(help="Pairs that share a sentence with this file are not learned from."),
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Pairs to choose the epoch by; else a tenth is held out.")
    ] = None,
    validation_gold: Annotated[Path | None, typer.Option(help="Their gold file.")] = None,
    miner_margin: Annotated[float, typer.Option(help="Of He et al.'s miner.")] = 0.4,
    margin: Annotated[
        float | None, typer.Option(help="Of the triplet loss; else the paper's (0.3, 0.1).")
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="Of SimCSE, of ranking and of CoSENT (there 1 / λ).")
    ] = 0.05,
    last_layers: Annotated[
        int, typer.Option(min=1, max=2, help="2: the mean of the last two layers (He et al.).")
    ] = 1,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of a sentence that are read; else the model's own.")
    ] = None,
    mwe_tokens: Annotated[
        bool, typer.Option("--mwe-tokens", help="Make each expression a token of its own.")
    ] = False,
    token_rate: Annotated[float, typer.Option(help="Learning rate of those tokens.")] = 1e-3,
    repeat: Annotated[
        int, typer.Option(help="Groups of rare expressions are repeated until there are so many.")
    ] = 1,
    sts_weight: Annotated[float, typer.Option(help="Of the loss on --sts pairs.")] = 1.0,
    batch_size: Annotated[
        int | None, typer.Option(help="Sentences (adaptive, multi-negative: 64) or rows (16).")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW, at its highest.")] = 2e-5,
    epochs: Annotated[int, typer.Option(help="Epochs at most.")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs without a better correlation.")] = 3,
    device: EncoderDevice = "auto",
    precision: TrainingPrecision = "float32",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fine-tune a sentence encoder on idioms and their paraphrases, or on sentence pairs."""
    from admire.encoders.sentence import open_trainable
    from admire.sts.pairs import Group, Pair, read_groups, read_pairs, without
    from admire.sts.rows import hold_out, split_pairs
    from admire.sts.training import FROM_PAIRS, TRIPLET_LOSSES, SentenceTraining
    from admire.sts.training import finetune_sentences as train
    from admire.trainer import FitSettings

    settings = SentenceTraining(
        objective=objective,
        miner_margin=miner_margin,
        margin=margin,
        temperature=temperature,
        last_layers=2 if last_layers == 2 else 1,
        max_length=max_length,
        mwe_tokens=mwe_tokens,
        token_rate=token_rate,
        repeat=repeat,
        sts_weight=sts_weight,
        fit=FitSettings(
            batch_size=batch_size or (64 if objective in TRIPLET_LOSSES else 16),
            learning_rate=learning_rate,
            epochs=epochs,
            patience=patience,
            precision=precision,
            seed=seed,
        ),
    )
    from_pairs = objective in FROM_PAIRS
    if from_pairs and sts:
        raise UserError(f"'{objective}' learns from pairs: name the files as DATA, without --sts.")
    groups: list[Group] = []
    if not from_pairs:
        groups = [group for path in data for group in read_groups(path)]
    pairs: list[Pair] = [
        pair
        for path in (data if from_pairs else sts or ())
        for pair in read_pairs(path, split="train")
    ]
    for path in leave_out or ():
        pairs = without(pairs, read_pairs(path))
    held: list[Pair]
    if validation:
        held = read_pairs(validation, validation_gold)
    else:
        groups, held = hold_out(groups, seed=seed)
        pairs, held_pairs = split_pairs(pairs, seed=seed)
        held += held_pairs
    if not any(pair.gold for pair in held):
        raise UserError("There is nothing to validate on. Give --validation.")
    log.info(
        "%d groups and %d pairs to learn from, %d to validate", len(groups), len(pairs), len(held)
    )
    history = train(open_trainable(encoder, device=device), groups, pairs, held, settings, out)
    log.info("Wrote %s", out)
    if json:
        print(jsonlib.dumps({"validation": history}, indent=2))
        return
    rows = [(epoch or "before", f"{figure:.3f}") for epoch, figure in enumerate(history)]
    print_rows(("Epoch", "Spearman, validation"), rows, f"{encoder}, {objective}")
