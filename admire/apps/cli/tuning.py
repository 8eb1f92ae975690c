"""Commands that tune a run's scoring, or fusion weights, by cross-validation."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_figures, print_json

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

FEW = 200
"""Choices that are made on fewer items hardly carry over."""


def tune(run: Path, /, *, seed: opt.Seed = 0, json: opt.Json = False) -> None:
    """Tune a run's gate, contrast, texts and weights by cross-validation.

    Prints the figures of the run with its own settings, those of cross-validation on held-out
    items, and the difference.

    Args:
        run: Run folder of admire rank, with gold orders.

    Examples:
        admire tune runs/train
    """
    from admire.pipeline.tuning import tune as tune_run

    before, scored, best = tune_run(run, seed=seed)
    names = f"{run}, own settings", f"{run}, settings tuned on the other compounds"
    options = f"--gate {best.gate} --contrast {best.contrast:g} --standardise {best.standardise}"
    options += f" --texts {','.join(best.texts)}"
    if (best.image_weight, best.caption_weight) != (1, 1):
        options += f" --image-weight {best.image_weight:g} --caption-weight {best.caption_weight:g}"
    _print_tuning(before, scored, names, options, [run], seed, json)


def tune_fusion(
    runs: list[Path],
    /,
    *,
    method: opt.FusionMethod = "scores",
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Tune fusion weights by cross-validation.

    Prints the figures of equal weights, those of cross-validation on held-out items, and the
    difference.

    Args:
        runs: Run folders to fuse, with gold orders.

    Examples:
        admire tune-fusion runs/a runs/b
    """
    from admire.pipeline.tuning import tune_weights

    before, scored, best = tune_weights(runs, method, seed=seed)
    fused = f"{' & '.join(map(str, runs))}, fused"
    names = f"{fused} with equal weights", f"{fused} with weights tuned on the other compounds"
    counts = ",".join(map(str, best))
    chosen = f"admire fuse {shlex.join(map(str, runs))} --method {method} --weight {counts}"
    _print_tuning(before, scored, names, chosen, runs, seed, json)


def _print_tuning(
    before: pd.DataFrame,
    scored: pd.DataFrame,
    names: tuple[str, str],
    chosen: str,
    runs: Sequence[Path],
    seed: int,
    json: bool,
) -> None:
    """Print the figures before and after tuning, their difference, and advice."""
    from admire.apps.audit.run_leakage import warn_if_runs_leaked
    from admire.metrics.figures import figure_text, paired_difference, summarise

    difference = paired_difference(before, scored, seed=seed)
    default, tuned = summarise(before, seed=seed), summarise(scored, seed=seed)
    if json:
        print_json({"default": default, "tuned": tuned, "tuned minus default": difference})
    else:
        print_figures(default, f"Default: {names[0]}")
        print_figures(tuned, f"Tuned: {names[1]}")
        print_figures(difference, "Tuned minus default")
    warn_if_runs_leaked(scored, *runs)
    if len(scored) < FEW:
        log.warning(
            "%d items are too few: what is chosen on so few hardly carries over. On AdMIRe's 70 a "
            "choice gained 0.082 in DCG and lost 0.007 on 115 new compounds.",
            len(scored),
        )
    whole = difference[difference["group"] == "all"].to_dict("records")
    dcg, top1 = (next(row for row in whole if row["metric"] == name) for name in ("dcg", "top1"))
    gain = f"DCG {figure_text(dcg['mean'], dcg['low'], dcg['high'], signed=True)}"
    gain += f", top-1 {top1['mean']:+z.3f}"
    if dcg["mean"] <= 1e-9 or top1["mean"] < -1e-9:
        no_better = "Settings tuned on the other items do not improve the ranking of held-out items"
        log.info("Keep the default. %s (%s).", no_better, gain)
    elif not dcg["low"] > 0:
        log.info("The gain over the default may be chance (%s).", gain)
    log.info("Best on all items: %s", chosen)
