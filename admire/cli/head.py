"""Commands that train heads and detectors, and make variants to train on."""

from __future__ import annotations

import json as jsonlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from admire.head.settings import TrainSettings
    from admire.head.triplets import Triplets
    from admire.items import Item

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
    batch_size: Annotated[int, typer.Option(help="Anchors in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-4,
    weight_decay: Annotated[float, typer.Option(help="Of Adam, decoupled.")] = 0.0,
    soft_negatives: Annotated[
        int, typer.Option(help="Candidates of other compounds for each anchor (the paper's K).")
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
        typer.Option(min=2, help="Write no head; tell by cross-validation whether it helps."),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %."""
    from admire.encoders import open_encoder
    from admire.head.settings import TrainSettings
    from admire.head.training import train_head
    from admire.head.triplets import read_triplets
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.prompts import Prompts

    settings = TrainSettings(
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
    items = read_items(data, lang)
    opened = open_encoder(encoder, device=device)
    triplets = read_triplets(
        items,
        opened,
        track,
        llm=open_llm(llm, url=llm_url),
        prompts=Prompts(prompts),
        images=images,
        captions=captions,
        seed=seed,
    )
    if folds:
        print_cross_validated(items, triplets, [settings], None, folds, seed)
        return
    head = train_head(triplets, settings, opened)
    head.save(out)
    log.info("Wrote %s", out)
    print(jsonlib.dumps(head.card, indent=2))


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
            min=2,
            help="Tell by nested cross-validation how well heads do whose settings are chosen "
            "so: each fold is ranked by the head that validates best among the other folds.",
        ),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train heads over a grid, the paper's 162 settings, and show the ten that validate best."""
    from admire.encoders import open_encoder
    from admire.head.settings import TrainSettings
    from admire.head.sweep import AXES, grid
    from admire.head.sweep import sweep as sweep_heads
    from admire.head.triplets import read_triplets
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.prompts import Prompts

    given = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "soft_negatives": soft_negatives,
        "temperature": temperature,
        "dropout": dropout,
    }
    base = TrainSettings(residual=residual, glosses_only=glosses_only, epochs=epochs, seed=seed)
    settings = grid(base, AXES | {name: values for name, values in given.items() if values})
    items = read_items(data, lang)
    opened = open_encoder(encoder, device=device)
    triplets = read_triplets(
        items,
        opened,
        track,
        llm=open_llm(llm, url=llm_url),
        prompts=Prompts(prompts),
        images=images,
        captions=captions,
        seed=seed,
    )
    if folds:
        print_cross_validated(items, triplets, settings, out, folds, seed, json)
        return
    found = sweep_heads(triplets, settings, out).sort_values("validation_loss")
    shown = [*AXES, "epoch", "validation_loss", "test_top1", "none_top1"]
    if json:
        print(found[shown].to_json(orient="records", indent=2))
        return
    best = found[shown].head(10).itertuples(index=False)
    print_rows(shown, [[f"{value:g}" for value in row] for row in best], str(out))


def print_cross_validated(
    items: Sequence[Item],
    triplets: Triplets,
    settings: Sequence[TrainSettings],
    out: Path | None,
    folds: int,
    seed: int,
    json: bool = False,
) -> None:
    from admire.evaluation import paired_difference, score_items, summarise
    from admire.head.sweep import cross_validate

    found = cross_validate(items, triplets, settings, out, folds=folds, seed=seed)
    without, having = (score_items(items, orders, "head") for orders in found)
    tables = {
        "without a head": summarise(without, seed=seed),
        "in the head's space": summarise(having, seed=seed),
        "second minus first": paired_difference(without, having, seed=seed),
    }
    print_summaries(tables, json)
