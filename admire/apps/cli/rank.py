"""Commands that make, tune and fuse runs, and write submissions."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from admire.apps.cli import options as opt
from admire.apps.cli.output import (
    print_account,
    print_dry_run,
    print_figures,
    print_json,
    print_rankings,
    print_ties,
    print_why,
    show_run,
)
from admire.core.errors import UserError
from admire.data.settings import ItemFiles
from admire.rankers.settings import RequestOptions, Scoring, Settings
from admire.tasks.rank import Rank, run_settings, write_ranking

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

FEW = 200  #: choices that are made on fewer items hardly carry over


def demo(
    *, out: Path = Path("runs/demo"), every: Annotated[bool, Parameter("--all")] = False
) -> None:
    """Rank the bundled samples locally; needs no API key and no download.

    Needs the extra embedded.

    Args:
        out: Run folder to write.
        every: Rank all samples, not only the first two.

    Examples:
        admire demo
        admire demo --all --out runs/samples
    """
    from admire.data.items import SAMPLES

    rank(SAMPLES, out=out, report=True, options={} if every else {"limit": 2})


@opt.with_settings("rank", *Rank.settings, headings=True)
def rank(
    data: opt.Data,
    /,
    *,
    out: Path = Path("runs/latest"),
    dry_run: opt.DryRun = False,
    report: bool = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Rank each item's candidates and write a run folder with a submission.

    Options override the settings of --config, --like or the profile. The profile embedded needs no
    API key and no download. In vision and vision-local a chat model sees the candidates. best uses
    the models that we expect to be strongest; paper reproduces UoR-NCL's system.

    Needs the extra embedded; other encoders need clip, and --workers needs ray.

    Args:
        out: Run folder to write.
        report: Also write report.html, a page that shows the run.

    Examples:
        admire rank my_set/ --out runs/my_set --report
        admire rank my_set/ --limit 5 --dry-run --llm openai:gpt-6.1-sol
    """
    started = time.monotonic()
    if dry_run:
        return print_dry_run(Rank().rehearse, data, options, json=json)
    if report:
        from admire.apps.report import check_report

        check_report()
    written = write_ranking(data, out, options or {})
    has_gold = show_run(out, written, report=report, json=json, data=data)
    took = time.monotonic() - started
    minutes = "{}:{:02} min".format(*divmod(int(took), 60))
    log.info("That took %s.", f"{took:.1f} s" if took < 60 else minutes)
    if not report:
        apart = ["--data", str(data)] if options and options.get("images") else []
        log.info("Next: %s", shlex.join(["admire", "report", str(out), *apart]))
    if not (has_gold or json):
        score_it = shlex.join(["admire", "score", str(out), "--judgements", "judgements.json"])
        log.info("No gold: judge the items in report.html, save the judgements, and %s", score_it)


@opt.with_settings(
    "one", (ItemFiles, "lang"), Settings, Scoring, RequestOptions, opt.SettingsSource, headings=True
)
def one(
    compound: str,
    sentence: str,
    /,
    *pictures: Path,
    caption: list[str] | None = None,
    definition: list[str] | None = None,
    why: bool = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Rank pictures, captions, or pictures with captions, for one sentence.

    Needs the extra embedded; other encoders need clip.

    Args:
        compound: The compound, such as "cold feet".
        sentence: A sentence that uses it.
        pictures: Picture files.
        caption: A caption, in the pictures' order. Repeat for each; "" for none.
        definition: Meaning of the compound in the sentence, used instead of a model's definition.
            Repeat for a second one.
        why: Also print why the first candidate is first, and the parts of all scores. --json always
            contains both.

    Examples:
        admire one "cold feet" "He got cold feet." feet.png church.png --why
        admire one "cold feet" "He got cold feet." --caption Ice --caption Doubt
    """
    from admire.pipeline.run import rank_one
    from admire.pipeline.score_parts import explain_first, parts_by_candidate

    run = rank_one(
        compound,
        sentence,
        pictures,
        caption,
        definitions=definition,
        language=opt.make(ItemFiles, options).lang,
        settings=run_settings(options),
        asking=opt.make(RequestOptions, options),
    )
    (ranking,) = run.rankings
    if json:
        scores = dict(zip(ranking.item.names, ranking.scores.tolist(), strict=True))
        parts, reason = parts_by_candidate(ranking), explain_first(ranking)
        figures = {name: getattr(ranking, name) for name in ("probability_idiomatic", "confidence")}
        row = ranking.model_dump(mode="json") | figures
        print_json(row | {"scores": scores, "parts": parts, "why": reason})
    else:
        print_rankings([ranking], 1)
        if why:
            print_why(ranking)
    print_account(run.record["asked"])


def fuse(
    runs: list[Path],
    /,
    *,
    out: Path = Path("runs/fused"),
    method: opt.FusionMethod = "scores",
    weight: list[float] | None = None,
) -> None:
    """Fuse runs of any rankers and chat models into one, by a weighted mean.

    Args:
        runs: Run folders of the same items.
        out: Run folder to write.
        weight: Weight of each run: 2,1, or repeat the option for each run (default: equal).

    Examples:
        admire fuse runs/a runs/b --weight 2,1 --out runs/fused
    """
    from admire.core.storage import check_folder
    from admire.pipeline.fusion import write_fused

    check_folder(out, "run")
    if out.resolve() in [run.resolve() for run in runs]:
        raise UserError(f"{out}: is one of the runs to fuse, and would be overwritten.", "out")
    show_run(out, write_fused(runs, out, weights=weight, method=method))


def submit(
    run: Path,
    /,
    *,
    out: Path = Path("submission.zip"),
    force: opt.Force = False,
    data: Path | None = None,
    without_sense: bool = False,
) -> None:
    """Write the submission ZIP for AdMIRe or AdMIRe 2, checked against the blind files.

    Args:
        run: Run folder of rank or fuse.
        out: ZIP file to write.
        data: Path of the run's blind files, if they have moved.
        without_sense: Omit the column sentence_type.

    Examples:
        admire submit runs/dev --out submission.zip
    """
    from admire.core.storage import check_file
    from admire.pipeline.team_submission import write_submission_zip

    check_file(out, "submission_", force=force)
    names = write_submission_zip(run, out, data=data, sense=not without_sense)
    log.info("Wrote %s with %s", out, ", ".join(names))


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
    from admire.metrics.figures import figure_text, paired_difference, summarise
    from admire.pipeline.scoring import warn_if_runs_leaked

    difference = paired_difference(before, scored, seed=seed)
    default, tuned = summarise(before, seed=seed), summarise(scored, seed=seed)
    if json:
        print_json({"default": default, "tuned": tuned, "tuned minus default": difference})
    else:
        print_figures(default, f"Default: {names[0]}")
        print_ties(before)
        print_figures(tuned, f"Tuned: {names[1]}")
        print_ties(scored)
        print_figures(difference, "Tuned minus default")
    warn_if_runs_leaked(scored, *runs)
    if len(scored) < FEW:
        log.warning(
            "%d items are too few: what is chosen on so few hardly carries over. On AdMIRe's 70 a "
            "choice gained 0.082 in DCG and lost 0.007 on 115 new compounds.",
            len(scored),
        )
    whole: Any = difference[difference["group"] == "all"].set_index("metric").to_dict("index")
    dcg, top1 = whole["dcg"], whole["top1"]["mean"]
    gain = f"DCG {figure_text(dcg['mean'], dcg['low'], dcg['high'], signed=True)}"
    gain += f", top-1 {top1:+z.3f}"
    if dcg["mean"] <= 1e-9 or top1 < -1e-9:
        no_better = "Settings tuned on the other items do not improve the ranking of held-out items"
        log.info("Keep the default. %s (%s).", no_better, gain)
    elif not dcg["low"] > 0:
        log.info("The gain over the default may be chance (%s).", gain)
    log.info("Best on all items: %s", chosen)
