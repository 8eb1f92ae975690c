"""Commands that train projection heads, and compare them over a grid of settings."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated, Any

from admire.base.choices import Track
from admire.cli import options as opt
from admire.cli.config import TrainingFile
from admire.cli.output import print_figures, print_json, print_rows
from admire.cli.panels import HelpAll

log = logging.getLogger("admire")


def head_options(
    encoder: Annotated[
        str, opt.option("Encoder, as for rank.", autocompletion=opt.ENCODERS)
    ] = "e5",
    llm: Annotated[
        str, opt.option("Chat model that writes the glosses.", autocompletion=opt.CHATS)
    ] = "embedded",
    llm_url: opt.LlmUrl = None,
    lang: opt.Lang = None,
    track: Annotated[
        Track, opt.choice("track", Track, "What of the candidates to learn from.")
    ] = "caption",
    images: Annotated[Path | None, opt.option("Folder that admire augment images wrote.")] = None,
    captions: Annotated[Path | None, opt.option("File that admire augment captions wrote.")] = None,
    residual: Annotated[
        bool, opt.option("Add the head's output to its input (not the paper's).")
    ] = False,
    glosses_only: Annotated[
        bool,
        opt.option("Learn from glosses, and compare them alone in its space (not the paper's)."),
    ] = False,
    epochs: Annotated[int, opt.option("Epochs at most.")] = 200,
    device: opt.EncoderDevice = "auto",
    prompts: opt.PromptFolder = None,
    seed: opt.Seed = 0,
    config: TrainingFile = None,
    help_all: HelpAll = False,
) -> None:
    """The options of all commands that train heads."""


@opt.with_options(head_options)
def train_head(
    data: opt.TrainingData,
    out: Annotated[Path, opt.option("Folder of the head to write.")] = Path("head"),
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
    patience: Annotated[int, opt.option("Epochs without a lower validation loss.")] = 10,
    folds: Annotated[
        int | None, opt.option("Write no head; show by cross-validation whether heads help.")
    ] = None,
    **shared: Any,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %."""
    options = locals() | shared
    from admire import training
    from admire.base.schema import check_setting
    from admire.base.storage import check_folder
    from admire.data.reader import read_items
    from admire.models.training_settings import Folds, HeadTraining
    from admire.scores.leakage import summarise_card

    settings = opt.call_with(HeadTraining, options)
    if folds is None:
        check_folder(out, "head")
    else:
        check_setting("folds", folds, Folds)
    items = read_items(data, shared["lang"])
    triplets, opened = opt.call_with(training.open_triplets, shared, items=items)
    if folds is not None:
        orders = training.cross_validate_heads(
            items, triplets, [settings], folds=folds, seed=settings.seed
        )
        for title, figures in training.compare_heads(items, *orders, settings.seed).items():
            print_figures(figures, title)
        return
    head = training.train_head(triplets, settings, opened)
    head.save(out)
    log.info("Wrote %s", out)
    print(jsonlib.dumps(summarise_card(head.card), indent=2))


@opt.with_options(head_options)
def sweep(
    data: opt.TrainingData,
    out: Annotated[Path, opt.option("Results so far; goes on with them.")] = Path("sweep.jsonl"),
    batch_size: Annotated[list[int] | None, opt.option("To try; repeat. Else 16 and 32.")] = None,
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
    folds: Annotated[
        int | None,
        opt.option(
            "Show by nested cross-validation how good heads are whose settings are chosen "
            "like this: each fold is ranked by the head that validates best on the others."
        ),
    ] = None,
    json: opt.Json = False,
    **shared: Any,
) -> None:
    """Train heads over a grid, the paper's 162 settings, and show the ten that validate best."""
    options = locals()
    from admire import training
    from admire.base.schema import check_setting
    from admire.data.reader import read_items
    from admire.models.training_settings import Folds, HeadTraining

    axes = {name: options[name] or values for name, values in training.PAPER_AXES.items()}
    base = opt.call_with(HeadTraining, shared)
    settings = training.head_grid(base, axes)
    if folds is not None:
        check_setting("folds", folds, Folds)
    items = read_items(data, shared["lang"])
    triplets, _ = opt.call_with(training.open_triplets, shared, items=items)
    if folds is not None:
        orders = training.cross_validate_heads(
            items, triplets, settings, out, folds=folds, seed=base.seed
        )
        tables = training.compare_heads(items, *orders, base.seed)
        if json:
            print_json(tables)
            return
        for title, figures in tables.items():
            print_figures(figures, title)
        return
    found = training.sweep_heads(triplets, settings, out).sort_values("validation_loss")
    shown = [*axes, "epoch", "validation_loss", "test_top1", "none_top1"]
    if json:
        print(found[shown].to_json(orient="records", indent=2))
        return
    best = found[shown].head(10).itertuples(index=False)
    print_rows(shown, [[f"{value:g}" for value in row] for row in best], str(out))
