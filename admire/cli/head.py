"""Commands that train projection heads, and compare them over a grid of settings."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated

from admire.cli import options as opt
from admire.cli.output import print_rows, print_summaries

log = logging.getLogger("admire")


def train_head(
    data: opt.TrainingData,
    out: Annotated[Path, opt.option("Folder of the head to write.")] = Path("head"),
    encoder: opt.EncoderOption = "e5",
    llm: opt.GlossLlm = "embedded",
    llm_url: opt.LlmUrl = None,
    lang: opt.Lang = None,
    track: opt.TrainingTrack = "caption",
    images: opt.AugmentedImages = None,
    captions: opt.RewrittenCaptions = None,
    batch_size: Annotated[int, opt.option("Items in a batch.")] = 16,
    learning_rate: Annotated[float, opt.option("Of Adam.")] = 1e-4,
    weight_decay: Annotated[float, opt.option("Of AdamW; 0 is plain Adam.")] = 0.0,
    soft_negatives: Annotated[
        int, opt.option("Candidates of other compounds for each item (the paper's K).")
    ] = 30,
    temperature: Annotated[float, opt.option("The paper's τ.")] = 0.1,
    dropout: Annotated[float, opt.option("Between the two layers.")] = 0.3,
    hidden: Annotated[int, opt.option("Width of the first layer.")] = 768,
    output: Annotated[int, opt.option("Width of the second layer.")] = 768,
    residual: opt.Residual = False,
    glosses_only: opt.GlossesOnly = False,
    epochs: opt.Epochs = 200,
    patience: Annotated[int, opt.option("Epochs without a lower validation loss.")] = 10,
    folds: Annotated[
        int | None, opt.option("Write no head; show by cross-validation whether heads help.")
    ] = None,
    device: opt.EncoderDevice = "auto",
    prompts: opt.PromptFolder = None,
    seed: opt.Seed = 0,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %."""
    options = locals()
    from admire.base.schema import check_setting
    from admire.base.storage import check_folder
    from admire.data.items import read_items
    from admire.models.head_settings import Folds, HeadTraining
    from admire.scores.cards import brief
    from admire.training import compare_heads, open_triplets
    from admire.training import train_head as train

    settings = opt.call_with(HeadTraining, options)
    if folds is None:
        check_folder(out, "head")
    else:
        check_setting("folds", folds, Folds)
    items = read_items(data, lang)
    triplets, opened = opt.call_with(open_triplets, options, items=items)
    if folds is not None:
        print_summaries(compare_heads(items, triplets, [settings], folds=folds, seed=seed), False)
        return
    head = train(triplets, settings, opened)
    head.save(out)
    log.info("Wrote %s", out)
    print(jsonlib.dumps(brief(head.card), indent=2))


def sweep(
    data: opt.TrainingData,
    out: Annotated[Path, opt.option("Results, a line each; goes on with them.")] = Path(
        "sweep.jsonl"
    ),
    encoder: opt.EncoderOption = "e5",
    llm: opt.GlossLlm = "embedded",
    llm_url: opt.LlmUrl = None,
    lang: opt.Lang = None,
    track: opt.TrainingTrack = "caption",
    images: opt.AugmentedImages = None,
    captions: opt.RewrittenCaptions = None,
    batch_size: Annotated[
        list[int] | None, opt.option("To try; repeat. Else the paper's 16 and 32.")
    ] = None,
    learning_rate: Annotated[
        list[float] | None, opt.option("To try; repeat. Else 1e-3, 1e-4 and 1e-5.")
    ] = None,
    soft_negatives: Annotated[
        list[int] | None, opt.option("K to try; repeat. Else 10, 30 and 49.")
    ] = None,
    temperature: Annotated[
        list[float] | None, opt.option("τ to try; repeat. Else 0.08, 0.09 and 0.1.")
    ] = None,
    dropout: Annotated[
        list[float] | None, opt.option("To try; repeat. Else 0.1, 0.3 and 0.5.")
    ] = None,
    residual: opt.Residual = False,
    glosses_only: opt.GlossesOnly = False,
    epochs: opt.Epochs = 200,
    folds: Annotated[
        int | None,
        opt.option(
            "Show by nested cross-validation how good heads are whose settings are chosen "
            "like this: each fold is ranked by the head that validates best on the others."
        ),
    ] = None,
    device: opt.EncoderDevice = "auto",
    prompts: opt.PromptFolder = None,
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Train heads over a grid, the paper's 162 settings, and show the ten that validate best."""
    options = locals()
    from admire.base.schema import check_setting
    from admire.data.items import read_items
    from admire.models.head_settings import Folds, HeadTraining
    from admire.training import PAPER_AXES, compare_heads, head_grid, open_triplets, sweep_heads

    axes = {name: options[name] or values for name, values in PAPER_AXES.items()}
    base = HeadTraining(residual=residual, glosses_only=glosses_only, epochs=epochs, seed=seed)
    settings = head_grid(base, axes)
    if folds is not None:
        check_setting("folds", folds, Folds)
    items = read_items(data, lang)
    triplets, _ = opt.call_with(open_triplets, options, items=items)
    if folds is not None:
        print_summaries(compare_heads(items, triplets, settings, out, folds=folds, seed=seed), json)
        return
    found = sweep_heads(triplets, settings, out).sort_values("validation_loss")
    shown = [*axes, "epoch", "validation_loss", "test_top1", "none_top1"]
    if json:
        print(found[shown].to_json(orient="records", indent=2))
        return
    best = found[shown].head(10).itertuples(index=False)
    print_rows(shown, [[f"{value:g}" for value in row] for row in best], str(out))
