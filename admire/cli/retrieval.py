"""Commands for texts: retrieval of the same meaning, and its benchmark."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from admire.cli import options as opt
from admire.cli.config import with_file
from admire.cli.output import print_json, print_rows
from admire.models.training_settings import FitSettings
from admire.tasks.retrieval.settings import (
    SPLITS,
    RetrieverStart,
    RetrieverTraining,
    RetrieveSettings,
)

log = logging.getLogger("admire")

RetrievalData = Annotated[
    str,
    Parameter(
        help="Benchmark: a folder with train, val and test, or a dataset on the hub "
        "(Intellexus/IdioLink)."
    ),
]


def benchmark(
    data: Path, /, *, out: Path, lang: str = "en", queries: int = 3, seed: opt.Seed = 0
) -> None:
    """Build a retrieval benchmark in IdioLink's shape from SemEval-2022 Task 2.

    Args:
        data: SemEval-2022 Task 2: subtask_a and subtask_b.
        out: Benchmark folder to write.
        lang: Language of the sentences: en or pt.
        queries: Maximum number of queries for each MWE and sense.

    Examples:
        admire benchmark SemEval_2022_Task2/ --out benchmark/
    """
    from admire.tasks.retrieval.benchmark import build_benchmark, count_benchmark, write_benchmark

    splits = build_benchmark(data, lang, queries=queries, seed=seed)
    write_benchmark(out, splits)
    counts = count_benchmark(splits)
    print_rows(list(counts.columns), counts.itertuples(index=False), str(out))


@opt.with_settings("retrieve", RetrieveSettings)
def retrieve(
    data: RetrievalData,
    /,
    *,
    out: Path = Path("runs/retrieve"),
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
    from admire.base.storage import check_folder
    from admire.tasks.retrieval.retrieve import retrieve_split
    from admire.tasks.retrieval.run_folder import write_retrieval

    settings = opt.make(RetrieveSettings, options)
    check_folder(out, "retrieval run")
    retrieval = retrieve_split(data, settings)
    write_retrieval(retrieval, out)
    log.info("Wrote %s", out)
    summary = retrieval.summary
    if json:
        print_json(summary.to_dict("records"))
        return
    rows = [(r.group, r.n, f"{r.r_precision:.1f}", f"{r.ndcg:.1f}") for r in summary.itertuples()]
    headings = ("Queries", "n", "R-precision", "nDCG@10")
    print_rows(headings, rows, f"{settings.encoder}, {settings.query}")


@opt.with_settings(
    "train retriever",
    RetrieverTraining,
    FitSettings,
    RetrieverStart,
    opt.CONFIG_FILE,
    headings=True,
)
def train_retriever(
    data: RetrievalData,
    /,
    *,
    out: Path,
    json: Annotated[opt.Json, opt.RARE] = False,
    options: opt.Options = None,
) -> None:
    """Fine-tune a sentence encoder to retrieve the same meaning, and evaluate it on test.

    Needs the extra finetune.

    Args:
        out: Folder of the model to write, for sbert:FOLDER.

    Examples:
        admire train retriever benchmark/ --encoder sbert:FOLDER --out mine/
    """
    from admire.tasks.retrieval.passages import read_split
    from admire.tasks.retrieval.training import train_retrievers

    options = with_file("train retriever", options)
    fit, start = opt.make(FitSettings, options), opt.make(RetrieverStart, options)
    settings = replace(opt.make(RetrieverTraining, options), fit=fit)
    splits = {name: read_split(data, name) for name in SPLITS}
    figures = train_retrievers(
        start.encoder,
        splits,
        settings,
        out,
        seeds=start.seeds,
        device=start.device,
        trust_remote_code=start.trust_remote_code,
    )
    if json:
        print(figures.to_json(orient="records", indent=2))
        return
    rows = [
        (
            r.model,
            r.group,
            f"{r.r_precision:.1f} ± {r.r_precision_deviation:.1f}",
            f"{r.ndcg:.1f} ± {r.ndcg_deviation:.1f}",
        )
        for r in figures.itertuples()
    ]
    seeds = f"{fit.seed} to {fit.seed + start.seeds - 1}"
    title = f"{start.encoder}, {settings.query}, test, seeds {seeds}"
    print_rows(("Model", "Queries", "R-precision", "nDCG@10"), rows, title)
