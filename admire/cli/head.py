"""Commands that train projection heads, and compare them over a grid of settings."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated

import typer

from admire.cli.options import (
    AugmentedImages,
    EncoderDevice,
    EncoderOption,
    Epochs,
    GlossesOnly,
    GlossLlm,
    Json,
    Lang,
    LlmUrl,
    PromptFolder,
    Residual,
    RewrittenCaptions,
    Seed,
    TrainingData,
    TrainingTrack,
)
from admire.cli.output import print_rows, print_summaries

log = logging.getLogger("admire")


def train_head(
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="Folder of the head to write.")] = Path("head"),
    encoder: EncoderOption = "e5",
    llm: GlossLlm = "embedded",
    llm_url: LlmUrl = None,
    lang: Lang = None,
    track: TrainingTrack = "caption",
    images: AugmentedImages = None,
    captions: RewrittenCaptions = None,
    batch_size: Annotated[int, typer.Option(help="Items in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-4,
    weight_decay: Annotated[float, typer.Option(help="Of AdamW; 0 is plain Adam.")] = 0.0,
    soft_negatives: Annotated[
        int, typer.Option(help="Candidates of other compounds for each item (the paper's K).")
    ] = 30,
    temperature: Annotated[float, typer.Option(help="The paper's τ.")] = 0.1,
    dropout: Annotated[float, typer.Option(help="Between the two layers.")] = 0.3,
    hidden: Annotated[int, typer.Option(help="Width of the first layer.")] = 768,
    output: Annotated[int, typer.Option(help="Width of the second layer.")] = 768,
    residual: Residual = False,
    glosses_only: GlossesOnly = False,
    epochs: Epochs = 200,
    patience: Annotated[int, typer.Option(help="Epochs without a lower validation loss.")] = 10,
    folds: Annotated[
        int | None,
        typer.Option(help="Write no head; show by cross-validation whether heads help."),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %."""
    from admire.base.schema import check_setting
    from admire.base.storage import check_folder
    from admire.data.items import read_items
    from admire.models.head_settings import Folds, HeadTraining
    from admire.scores.cards import brief
    from admire.training import compare_heads, open_triplets
    from admire.training import train_head as train

    settings = HeadTraining(
        hidden=hidden,
        output=output,
        dropout=dropout,
        residual=residual,
        glosses_only=glosses_only,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        soft_negatives=soft_negatives,
        temperature=temperature,
        epochs=epochs,
        patience=patience,
        seed=seed,
    )
    if folds is None:
        check_folder(out, "head")
    else:
        check_setting("folds", folds, Folds)
    items = read_items(data, lang)
    triplets, opened = open_triplets(
        items,
        encoder,
        track,
        llm=llm,
        llm_url=llm_url,
        device=device,
        prompts=prompts,
        images=images,
        captions=captions,
        seed=seed,
    )
    if folds is not None:
        print_summaries(compare_heads(items, triplets, [settings], folds=folds, seed=seed), False)
        return
    head = train(triplets, settings, opened)
    head.save(out)
    log.info("Wrote %s", out)
    print(jsonlib.dumps(brief(head.card), indent=2))


def sweep(
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="Results, a line each; goes on with them.")] = Path(
        "sweep.jsonl"
    ),
    encoder: EncoderOption = "e5",
    llm: GlossLlm = "embedded",
    llm_url: LlmUrl = None,
    lang: Lang = None,
    track: TrainingTrack = "caption",
    images: AugmentedImages = None,
    captions: RewrittenCaptions = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="To try; repeat. Else the paper's 16 and 32.")
    ] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help="To try; repeat. Else 1e-3, 1e-4 and 1e-5.")
    ] = None,
    soft_negatives: Annotated[
        list[int] | None, typer.Option(help="K to try; repeat. Else 10, 30 and 49.")
    ] = None,
    temperature: Annotated[
        list[float] | None, typer.Option(help="τ to try; repeat. Else 0.08, 0.09 and 0.1.")
    ] = None,
    dropout: Annotated[
        list[float] | None, typer.Option(help="To try; repeat. Else 0.1, 0.3 and 0.5.")
    ] = None,
    residual: Residual = False,
    glosses_only: GlossesOnly = False,
    epochs: Epochs = 200,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Show by nested cross-validation how good heads are whose settings are chosen "
            "like this: each fold is ranked by the head that validates best on the others.",
        ),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train heads over a grid, the paper's 162 settings, and show the ten that validate best."""
    from admire.base.schema import check_setting
    from admire.data.items import read_items
    from admire.models.head_settings import Folds, HeadTraining
    from admire.training import PAPER_AXES, compare_heads, head_grid, open_triplets, sweep_heads

    given = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "soft_negatives": soft_negatives,
        "temperature": temperature,
        "dropout": dropout,
    }
    base = HeadTraining(residual=residual, glosses_only=glosses_only, epochs=epochs, seed=seed)
    axes = PAPER_AXES | {name: values for name, values in given.items() if values}
    settings = head_grid(base, axes)
    if folds is not None:
        check_setting("folds", folds, Folds)
    items = read_items(data, lang)
    triplets, _ = open_triplets(
        items,
        encoder,
        track,
        llm=llm,
        llm_url=llm_url,
        device=device,
        prompts=prompts,
        images=images,
        captions=captions,
        seed=seed,
    )
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
