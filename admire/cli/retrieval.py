"""Commands for texts: retrieval of the same meaning, and its benchmark."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated

from admire.base.choices import SenseMethod
from admire.cli import options as opt
from admire.cli.config import TrainingFile
from admire.cli.output import print_rows
from admire.cli.panels import HelpAll
from admire.tasks.retrieval.settings import (
    SPLITS,
    ComparedForm,
    InstructionFormat,
    QueryForm,
    SplitName,
)

log = logging.getLogger("admire")

RetrievalData = Annotated[
    str,
    opt.argument(
        "Benchmark: a folder with train, val and test, or a dataset on the hub "
        "(Intellexus/IdioLink)."
    ),
]
InstructionOption = Annotated[
    InstructionFormat,
    opt.choice(
        "instruction_format",
        InstructionFormat,
        "How an instruction is given: as 'Instruct: … Query: …', as the prompt argument of "
        "sentence-transformers, or plainly before the query; auto goes by the model's name.",
    ),
]


def benchmark(
    data: Annotated[Path, opt.argument("SemEval-2022 Task 2: subtask_a and subtask_b.")],
    out: Annotated[Path, opt.option("Benchmark folder to write.")],
    lang: Annotated[str, opt.option("Language of the sentences: en or pt.")] = "en",
    queries: Annotated[int, opt.option("Queries of each MWE and sense, at most.")] = 3,
    seed: opt.Seed = 0,
) -> None:
    """Build a retrieval benchmark in IdioLink's shape from SemEval-2022 Task 2."""
    from admire.tasks.retrieval.benchmark import build_benchmark, count_benchmark, write_benchmark

    splits = build_benchmark(data, lang, queries=queries, seed=seed)
    write_benchmark(out, splits)
    counts = count_benchmark(splits)
    print_rows(list(counts.columns), counts.itertuples(index=False), str(out))


def retrieve(
    data: RetrievalData,
    out: opt.RunFolder = Path("runs/retrieve"),
    encoder: Annotated[
        str, opt.option("bm25, or an encoder of texts: e5, sbert:REPOSITORY, sbert:FOLDER.")
    ] = "e5",
    query: Annotated[
        ComparedForm,
        opt.choice(
            "query",
            ComparedForm,
            "What of a query is compared with the documents; meaning is sense and gloss, as in "
            "rank.",
        ),
    ] = "sentence",
    split: Annotated[SplitName, opt.choice("split", SplitName, "The split to score.")] = "test",
    usage: Annotated[
        list[str] | None, opt.option("Usage of documents to keep in the index; repeat. Else all.")
    ] = None,
    gold: Annotated[
        bool, opt.option("Only queries and documents that people checked.", "--gold")
    ] = False,
    instruction_format: InstructionOption = "auto",
    k1: Annotated[float | None, opt.option("Of BM25; else k1 and b are tuned on val.")] = None,
    b: Annotated[float | None, opt.option("Of BM25.")] = None,
    llm: opt.ChatLlm = "embedded",
    llm_url: opt.LlmUrl = None,
    sense: Annotated[SenseMethod, opt.SENSE_OPTION] = "auto",
    contrast: Annotated[
        float, opt.option("Weight of the PIE against documents, with --query meaning.")
    ] = 0.0,
    lang: opt.QueryLanguage = "en",
    dictionary: opt.Dictionaries = None,
    prompts: opt.PromptFolder = None,
    device: opt.EncoderDevice = "auto",
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Retrieve what means the same as a query's span, and score that: R-precision, nDCG@10."""
    from admire.base.storage import check_folder
    from admire.tasks.retrieval.retrieve import retrieve_split
    from admire.tasks.retrieval.run_folder import write_retrieval
    from admire.tasks.retrieval.settings import RetrieveSettings

    tuples = {"usage": tuple(usage or ()), "dictionaries": opt.looked_up(dictionary)}
    settings = opt.call_with(RetrieveSettings, locals(), **tuples)
    check_folder(out, "retrieval run")
    retrieval = retrieve_split(data, settings)
    write_retrieval(retrieval, out)
    log.info("Wrote %s", out)
    summary = retrieval.summary
    if json:
        print(jsonlib.dumps(summary.to_dict("records"), indent=2))
        return
    rows = [(r.group, r.n, f"{r.r_precision:.1f}", f"{r.ndcg:.1f}") for r in summary.itertuples()]
    print_rows(("Queries", "n", "R-precision", "nDCG@10"), rows, f"{encoder}, {query}")


def train_retriever(
    data: RetrievalData,
    out: opt.ModelFolder,
    encoder: opt.StartEncoder,
    query: Annotated[
        QueryForm,
        opt.choice(
            "query", QueryForm, "What of a query is encoded, in training and in evaluation."
        ),
    ] = "sentence",
    instruction_format: InstructionOption = "auto",
    soft_negatives: Annotated[int, opt.option("Documents of other PIEs (α_N).")] = 3,
    hard_negatives: Annotated[
        int, opt.option("Documents of the PIE in its other sense (α_H).")
    ] = 3,
    positive_in_denominator: Annotated[
        bool,
        opt.option("The usual form of the loss; the paper's has only the negatives there."),
    ] = False,
    temperature: Annotated[float, opt.option("Of the loss; 1 is the paper's.")] = 1.0,
    batch_size: Annotated[int, opt.option("Queries in a batch.")] = 16,
    learning_rate: opt.AdamRate = 2e-5,
    epochs: Annotated[int, opt.option("Epochs at most.")] = 10,
    patience: Annotated[int, opt.option("Epochs without a better nDCG@10 on val.")] = 3,
    seeds: Annotated[
        int, opt.option("Models to train, with seeds from --seed; mean ± deviation.")
    ] = 1,
    device: opt.EncoderDevice = "auto",
    precision: opt.TrainingPrecision = "float32",
    seed: opt.Seed = 0,
    config: TrainingFile = None,
    json: opt.Json = False,
    help_all: HelpAll = False,
) -> None:
    """Fine-tune a sentence encoder to retrieve the same meaning, and score it on test."""
    options = locals()
    from admire.models.training_settings import FitSettings
    from admire.tasks.retrieval.passages import read_split
    from admire.tasks.retrieval.settings import RetrieverTraining
    from admire.tasks.retrieval.training import train_retrievers

    settings = opt.call_with(RetrieverTraining, options, fit=opt.call_with(FitSettings, options))
    splits = {name: read_split(data, name) for name in SPLITS}
    figures = train_retrievers(encoder, splits, settings, out, seeds=seeds, device=device)
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
    title = f"{encoder}, {query}, test, seeds {seed} to {seed + seeds - 1}"
    print_rows(("Model", "Queries", "R-precision", "nDCG@10"), rows, title)
