"""Commands for texts: retrieval of the same meaning, and its benchmark."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated

import typer

from admire.base.choices import SenseMethod
from admire.cli.options import (
    SENSE_OPTION,
    ChatLlm,
    EncoderDevice,
    Json,
    LlmUrl,
    PromptFolder,
    QueryLanguage,
    Seed,
    TrainingPrecision,
    choice,
)
from admire.cli.output import print_rows
from admire.tasks.retrieval.modes import (
    COMPARED,
    FORMATS,
    MODES,
    SPLITS,
    Compared,
    Format,
    Mode,
    SplitName,
)

log = logging.getLogger("admire")

RetrievalData = Annotated[
    str,
    typer.Argument(
        help="Benchmark: a folder with train, val and test, or a dataset on the hub "
        "(Intellexus/IdioLink)."
    ),
]
InstructionFormat = Annotated[
    Format,
    choice(
        "instruction_format",
        FORMATS,
        "How an instruction is given: as 'Instruct: … Query: …', as the prompt argument of "
        "sentence-transformers, or plainly before the query; auto goes by the model's name.",
    ),
]


def benchmark(
    data: Annotated[Path, typer.Argument(help="SemEval-2022 Task 2: subtask_a and subtask_b.")],
    out: Annotated[Path, typer.Option(help="Benchmark folder to write.")],
    lang: Annotated[str, typer.Option(help="Language of the sentences: en or pt.")] = "en",
    queries: Annotated[int, typer.Option(help="Queries of each MWE and sense, at most.")] = 3,
    seed: Seed = 0,
) -> None:
    """Build a retrieval benchmark in IdioLink's shape from SemEval-2022 Task 2."""
    from admire.tasks.retrieval.benchmark import build_benchmark, count_benchmark, write_benchmark

    splits = build_benchmark(data, lang, queries=queries, seed=seed)
    write_benchmark(out, splits)
    counts = count_benchmark(splits)
    print_rows(list(counts.columns), counts.itertuples(index=False), str(out))


def retrieve(
    data: RetrievalData,
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/retrieve"),
    encoder: Annotated[
        str, typer.Option(help="bm25, or an encoder of texts: e5, sbert:REPOSITORY, sbert:FOLDER.")
    ] = "e5",
    query: Annotated[
        Compared,
        choice(
            "query",
            COMPARED,
            "What of a query is compared with the documents; meaning is sense and gloss, as in "
            "rank.",
        ),
    ] = "sentence",
    split: Annotated[SplitName, choice("split", SPLITS, "The split to score.")] = "test",
    usage: Annotated[
        list[str] | None,
        typer.Option(help="Usage of documents to keep in the index; repeat. Else all."),
    ] = None,
    gold: Annotated[
        bool, typer.Option("--gold", help="Only queries and documents that people checked.")
    ] = False,
    instruction_format: InstructionFormat = "auto",
    k1: Annotated[float | None, typer.Option(help="Of BM25; else k1 and b are tuned on val.")] = (
        None
    ),
    b: Annotated[float | None, typer.Option(help="Of BM25.")] = None,
    llm: ChatLlm = "embedded",
    llm_url: LlmUrl = None,
    sense: Annotated[SenseMethod, SENSE_OPTION] = "auto",
    contrast: Annotated[
        float, typer.Option(help="Weight of the PIE against documents, with --query meaning.")
    ] = 0.0,
    lang: QueryLanguage = "en",
    prompts: PromptFolder = None,
    device: EncoderDevice = "auto",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Retrieve what means the same as a query's span, and score that: R-precision, nDCG@10."""
    from admire.base.storage import check_folder
    from admire.tasks.retrieval.retrieve import RetrieveSettings, retrieve_split
    from admire.tasks.retrieval.run_folder import write_retrieval

    settings = RetrieveSettings(
        encoder=encoder,
        query=query,
        split=split,
        usage=tuple(usage or ()),
        gold=gold,
        instruction_format=instruction_format,
        k1=k1,
        b=b,
        llm=llm,
        llm_url=llm_url,
        sense=sense,
        contrast=contrast,
        lang=lang,
        prompts=prompts,
        device=device,
        seed=seed,
    )
    check_folder(out, "retrieval run")
    found = retrieve_split(data, settings)
    write_retrieval(found, out)
    log.info("Wrote %s", out)
    summary = found.summary
    if json:
        print(jsonlib.dumps(summary.to_dict("records"), indent=2))
        return
    rows = [(r.group, r.n, f"{r.r_precision:.1f}", f"{r.ndcg:.1f}") for r in summary.itertuples()]
    print_rows(("Queries", "n", "R-precision", "nDCG@10"), rows, f"{encoder}, {query}")


def train_retriever(
    data: RetrievalData,
    out: Annotated[Path, typer.Option(help="Folder of the model to write, for sbert:FOLDER.")],
    encoder: Annotated[str, typer.Option(help="The model to begin with: sbert:…")],
    query: Annotated[
        Mode, choice("query", MODES, "What of a query is encoded, in training and in evaluation.")
    ] = "sentence",
    instruction_format: InstructionFormat = "auto",
    soft_negatives: Annotated[int, typer.Option(help="Documents of other PIEs (α_N).")] = 3,
    hard_negatives: Annotated[
        int, typer.Option(help="Documents of the PIE in its other sense (α_H).")
    ] = 3,
    positive_in_denominator: Annotated[
        bool,
        typer.Option(
            "--positive-in-denominator",
            help="The usual form of the loss; the paper's has only the negatives there.",
        ),
    ] = False,
    temperature: Annotated[float, typer.Option(help="Of the loss; 1 is the paper's.")] = 1.0,
    batch_size: Annotated[int, typer.Option(help="Queries in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW, at its highest.")] = 2e-5,
    epochs: Annotated[int, typer.Option(help="Epochs at most.")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs without a better nDCG@10 on val.")] = 3,
    seeds: Annotated[
        int, typer.Option(help="Models to train, with seeds from --seed; mean ± deviation.")
    ] = 1,
    device: EncoderDevice = "auto",
    precision: TrainingPrecision = "float32",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fine-tune a sentence encoder to retrieve the same meaning, and score it on test."""
    from admire.models.trainer import FitSettings
    from admire.tasks.retrieval.passages import read_split
    from admire.tasks.retrieval.training import RetrieverTraining, train_retrievers

    settings = RetrieverTraining(
        query=query,
        instruction_format=instruction_format,
        soft_negatives=soft_negatives,
        hard_negatives=hard_negatives,
        positive_in_denominator=positive_in_denominator,
        temperature=temperature,
        fit=FitSettings(
            batch_size=batch_size,
            learning_rate=learning_rate,
            epochs=epochs,
            patience=patience,
            precision=precision,
            seed=seed,
        ),
    )
    splits = {name: read_split(data, name) for name in SPLITS}
    found = train_retrievers(encoder, splits, settings, out, seeds=seeds, device=device)
    if json:
        print(found.to_json(orient="records", indent=2))
        return
    rows = [
        (
            r.model,
            r.group,
            f"{r.r_precision:.1f} ± {r.r_precision_deviation:.1f}",
            f"{r.ndcg:.1f} ± {r.ndcg_deviation:.1f}",
        )
        for r in found.itertuples()
    ]
    title = f"{encoder}, {query}, test, seeds {seed} to {seed + seeds - 1}"
    print_rows(("Model", "Queries", "R-precision", "nDCG@10"), rows, title)
