"""Commands that train projection heads, and compare them over a grid of settings."""

from __future__ import annotations

import logging
from pathlib import Path

from admire.apps.cli import options as opt
from admire.apps.cli.config import with_file
from admire.apps.cli.output import print_dry_run, print_figures, print_json, print_rows
from admire.encoders.training_settings import HeadTraining
from admire.rankers.settings import RequestOptions
from admire.tasks.rank import Rank
from admire.tasks.task import open_session
from admire.tasks.training.settings import HeadData, SweepAxes, TripletSettings

log = logging.getLogger("admire")


@opt.with_settings("train head", *Rank.training(), headings=True)
def train_head(
    data: Path,
    /,
    *,
    out: Path = Path("head"),
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %.

    With --folds, cross-validates and writes no head.

    Needs the extras embedded and train.

    Args:
        data: As for rank, with types and gold orders.
        out: Folder of the head to write.

    Examples:
        admire train head train.tsv --out my_head/
        admire train head train.tsv --folds 5
    """
    import pandas as pd

    options = with_file("train head", options)
    if dry_run:
        return print_dry_run(Rank().rehearse_training, [data], options, json=json)
    result = Rank().train([data], options | {"out": out})
    if json:
        return print_json(result.record if result.files else result.figures)
    if card := result.record:
        top1 = [(name, f"{card['test_top1'][name]:.4f}") for name in ("none", "head")]
        used = f"{card['encoder']['name']}, test, epoch {card['epoch']}"
        return print_rows(("Head", "Top-1"), top1, used)
    for title, figures in pd.DataFrame(result.figures).groupby("table", sort=False):
        print_figures(figures, str(title))


@opt.with_settings(
    "sweep",
    *(SweepAxes, HeadTraining, TripletSettings, HeadData, RequestOptions, opt.CONFIG_FILE),
    headings=True,
)
def sweep(
    data: Path,
    /,
    *,
    out: Path = Path("sweep.jsonl"),
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Train heads over a grid of settings, by default the paper's 162, and print the best ten.

    Needs the extras embedded and train.

    Args:
        data: As for rank, with types and gold orders.
        out: File of results. An interrupted sweep resumes from it.

    Examples:
        admire sweep train.tsv --out sweep.jsonl
    """
    from admire.core.storage import check_place
    from admire.data.reader import read_items
    from admire.tasks import training

    check_place(out)
    options = with_file("sweep", options)
    axes, source = vars(opt.make(SweepAxes, options)), opt.make(HeadData, options)
    base = opt.make(HeadTraining, {name: options[name] for name in options.keys() - axes.keys()})
    settings = training.head_grid(base, axes)
    items = read_items(data, source.lang)
    training.check_heads(items, settings, out, folds=source.folds, seed=base.seed)
    triplet_settings = opt.make(TripletSettings, options)
    triplets, _ = training.open_triplets(
        items, triplet_settings, seed=base.seed, session=open_session(options)
    )
    if source.folds is not None:
        orders = training.cross_validate_heads(
            items, triplets, settings, out, folds=source.folds, seed=base.seed
        )
        tables = training.compare_heads(items, *orders, base.seed)
        if json:
            return print_json(tables)
        for title, figures in tables.items():
            print_figures(figures, title)
        return
    results = training.sweep_heads(triplets, settings, out).sort_values("validation_loss")
    columns = [*axes, "epoch", "validation_loss", "test_top1", "none_top1"]
    if json:
        return print_json(results[columns])
    best = results[columns].head(10).itertuples(index=False)
    print_rows(columns, [[f"{value:g}" for value in row] for row in best], str(out))
