"""Commands for texts: retrieval of the same meaning, and training for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from admire.apps.cli import options as opt
from admire.apps.cli.config import with_file
from admire.apps.cli.output import print_dry_run, print_json, print_rows
from admire.encoders.training_settings import FitSettings
from admire.tasks.retrieval.settings import RetrieverStart, RetrieverTraining
from admire.tasks.retrieval.task import RetrieveTask

RetrievalData = Annotated[
    str,
    Parameter(
        help="Benchmark: a folder with train, val and test, or a dataset on the hub "
        "(Intellexus/IdioLink)."
    ),
]


@opt.with_settings("retrieve", *RetrieveTask.settings)
def retrieve(
    data: RetrievalData,
    /,
    *,
    out: Path = Path("runs/retrieve"),
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Retrieve documents with the same meaning as the query span, and evaluate.

    Prints R-precision and nDCG@10.

    Needs the extra embedded; other encoders and datasets on the hub need clip.

    Args:
        out: Run folder to write.

    Examples:
        admire retrieve benchmark/ --query meaning
        admire retrieve benchmark/ --encoder bm25 --query span
    """
    if dry_run:
        return print_dry_run(RetrieveTask().rehearse, data, options, json=json)
    result = RetrieveTask().run(data, {"out": out} | dict(options or {}))
    if json:
        return print_json(result.figures)
    rows = [
        (row["group"], row["n"], f"{row['r_precision']:.1f}", f"{row['ndcg']:.1f}")
        for row in result.figures
    ]
    title = "{encoder}, {query}".format(**result.record)
    print_rows(("Queries", "n", "R-precision", "nDCG@10"), rows, title)


@opt.with_settings("train retriever", *RetrieveTask.training(), headings=True)
def train_retriever(
    data: RetrievalData,
    /,
    *,
    out: Path,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Fine-tune a sentence encoder to retrieve the same meaning, and evaluate it on test.

    Needs the extra finetune.

    Args:
        out: Folder of the model to write, for sbert:FOLDER.

    Examples:
        admire train retriever benchmark/ --encoder sbert:FOLDER --out mine/
    """
    options = with_file("train retriever", options)
    figures = RetrieveTask().train([data], options | {"out": out}).figures
    if json:
        return print_json(figures)
    rows = [
        (
            row["model"],
            row["group"],
            *(f"{row[n]:.1f} ± {row[f'{n}_deviation']:.1f}" for n in ("r_precision", "ndcg")),
        )
        for row in figures
    ]
    start, fit = opt.make(RetrieverStart, options), opt.make(FitSettings, options)
    query = opt.make(RetrieverTraining, options).query
    seeds = f"{fit.seed} to {fit.seed + start.seeds - 1}"
    title = f"{start.encoder}, {query}, test, seeds {seeds}"
    print_rows(("Model", "Queries", "R-precision", "nDCG@10"), rows, title)
