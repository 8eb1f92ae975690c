"""Commands for texts: retrieval of the same meaning, its benchmark, and search."""

from __future__ import annotations

import json as jsonlib
import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from admire.choices import SenseMethod
from admire.cli.options import (
    SENSE_OPTION,
    EncoderDevice,
    Json,
    LlmUrl,
    PromptFolder,
    Seed,
    TrainingPrecision,
)
from admire.cli.output import print_rows
from admire.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from admire.encoders import TextEncoder
    from admire.interpretation import Interpretation
    from admire.retrieval.passages import Passage, Split
    from admire.retrieval.retrievers import Format, Mode

log = logging.getLogger("admire")

RetrievalData = Annotated[
    str,
    typer.Argument(
        help="Benchmark: a folder with train, val and test, or a dataset on the hub "
        "(Intellexus/IdioLink)."
    ),
]
InstructionFormat = Annotated[
    Literal["auto", "instruct", "prompt", "plain"],
    typer.Option(
        help="How an instruction is given: 'Instruct: … Query: …', the prompt argument of "
        "sentence-transformers, or plainly before the query; auto goes by the model's name."
    ),
]
ChatLlm = Annotated[str, typer.Option(help="Chat model for senses and glosses, as for rank.")]
QueryLanguage = Annotated[str, typer.Option(help="Language of queries, for the prompts.")]


def benchmark(
    data: Annotated[Path, typer.Argument(help="SemEval-2022 Task 2: subtask_a and subtask_b.")],
    out: Annotated[Path, typer.Option(help="Benchmark folder to write.")],
    lang: Annotated[str, typer.Option(help="Language of the sentences: en or pt.")] = "en",
    queries: Annotated[int, typer.Option(min=1, help="Of each MWE and sense, at most.")] = 3,
    seed: Seed = 0,
) -> None:
    """Build a retrieval benchmark in IdioLink's shape from SemEval-2022 Task 2."""
    from admire.retrieval.benchmark import build
    from admire.retrieval.passages import write_split

    usages = ("literal", "idiomatic", "simplification", "distractor")
    rows = []
    for split, content in build(data, lang, queries=queries, seed=seed).items():
        write_split(out, split, content)
        found = Counter(document.usage for document in content.documents)
        mwes = len({query.idiom for query in content.queries})
        rows.append((split, mwes, len(content.queries), *(found[usage] for usage in usages)))
    print_rows(("split", "MWEs", "queries", *usages), rows, str(out))


def retrieve(
    data: RetrievalData,
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/retrieve"),
    encoder: Annotated[
        str, typer.Option(help="bm25, or an encoder of texts: e5, sbert:REPOSITORY, sbert:FOLDER.")
    ] = "e5",
    query: Annotated[
        Literal["sentence", "span", "instruction+sentence", "instruction+span", "meaning"],
        typer.Option(
            help="What of a query is compared with the documents; meaning is by sense and gloss, "
            "as in rank."
        ),
    ] = "sentence",
    split: Annotated[Literal["train", "val", "test"], typer.Option(help="What to score.")] = "test",
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
        float, typer.Option(help="Weight of the PIE against documents, of --query meaning.")
    ] = 0.0,
    lang: QueryLanguage = "en",
    prompts: PromptFolder = None,
    device: EncoderDevice = "auto",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Retrieve what means the same as a query's span, and score that: R-precision, nDCG@10."""
    from admire.retrieval import evaluation, retrievers
    from admire.retrieval.passages import read_split
    from admire.scorer import Scoring
    from admire.storage import write_whole

    content = read_split(data, split, usage or (), gold=gold)
    record: dict[str, Any] = {
        "data": data,
        "split": split,
        "usage": usage,
        "gold": gold,
        "encoder": encoder,
        "query": query,
    }
    if encoder == "bm25":
        if query not in ("sentence", "span"):
            raise UserError(f"BM25 takes no --query {query}. Use sentence or span.")
        of: Literal["sentence", "span"] = query
        if (k1 is None) != (b is None):
            raise UserError("Give both --k1 and --b, or neither to tune them on val.")
        if k1 is None or b is None:
            k1, b = retrievers.tune_bm25(read_split(data, "val", usage or ()), of)
            log.info("The best on val is k1 = %g, b = %g", k1, b)
        similarities = retrievers.bm25(content, of, k1=k1, b=b)
        record |= {"k1": k1, "b": b}
    else:
        from admire.encoders import open_encoder

        opened = open_encoder(encoder, device=device)
        record |= {"identity": opened.identity}
        if query == "meaning":
            readings = _read(content.queries, llm, llm_url, sense, lang, prompts, seed)
            scoring = Scoring(gate="soft", contrast=contrast, standardise=True)
            similarities = retrievers.by_meaning(content, opened, readings, scoring)
            record |= {"llm": llm, "sense": sense, "contrast": contrast}
        else:
            similarities = retrievers.dense(content, opened, query, instruction_format)
            record |= {"instruction_format": instruction_format}
    scored = evaluation.evaluate(content, similarities)
    evaluation.write_trec(out, content, similarities, f"{encoder.rpartition('/')[2]}-{query}")
    with write_whole(out / "queries.csv") as file:
        scored.to_csv(file, index=False)
    with write_whole(out / "run.json") as file:
        jsonlib.dump(record, file, indent=2)
    summary = evaluation.summarise_queries(scored)
    log.info("Wrote %s", out)
    if json:
        print(jsonlib.dumps(summary.to_dict("records"), indent=2))
        return
    rows = [(r.group, r.n, f"{r.r_precision:.1f}", f"{r.ndcg:.1f}") for r in summary.itertuples()]
    print_rows(("Queries", "n", "R-precision", "nDCG@10"), rows, f"{encoder}, {query}")


def _read(
    queries: tuple[Passage, ...],
    llm: str,
    llm_url: str | None,
    sense: SenseMethod,
    lang: str,
    prompts: Path | None,
    seed: int,
) -> list[Interpretation]:
    from admire.interpretation import interpret
    from admire.items import Item
    from admire.llm import open_llm
    from admire.prompts import Prompts

    items = [
        Item(
            query.idiom,
            query.sentence,
            lang,
            sentence_type=query.usage,  # type: ignore[arg-type]
        )
        for query in queries
    ]
    chat = open_llm(llm, url=llm_url)
    (found,) = interpret(items, [chat], Prompts(prompts), sense=sense, seed=seed, glosses="all")
    return found


def search(
    text: Annotated[str, typer.Argument(help="A text that uses the compound.")],
    span: Annotated[str, typer.Option(help="The compound, as it stands in the text.")],
    index: Annotated[
        Path,
        typer.Option(
            help="Texts to search: .txt (a line each), .jsonl or .csv (column text), or a folder "
            "that admire index wrote."
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many texts to show.")] = 10,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of texts, e5 or sbert:…; else e5 or the index's.")
    ] = None,
    query: Annotated[
        Literal["meaning", "compound", "sentence"],
        typer.Option(help="What texts are compared with; the last two are plain cosine."),
    ] = "meaning",
    llm: ChatLlm = "embedded",
    llm_url: LlmUrl = None,
    sense: Annotated[SenseMethod, SENSE_OPTION] = "auto",
    contrast: Annotated[
        float, typer.Option(help="Weight of the compound against texts in the idiomatic sense.")
    ] = 0.0,
    lang: QueryLanguage = "en",
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Find the texts that mean what the compound means here."""
    from admire.encoders import open_encoder
    from admire.interpretation import interpret
    from admire.items import Item
    from admire.llm import open_llm
    from admire.prompts import Prompts
    from admire.retrieval.index import index_texts, open_index, read_texts
    from admire.retrieval.passages import locate
    from admire.scorer import Scoring, query_weights

    try:
        locate(text, span)
    except ValueError as error:
        raise UserError(f"--span: {error}: “{text}”.") from None
    built = open_index(index) if index.is_dir() else None
    opened = open_encoder(encoder or (built.encoder["name"] if built else "e5"), device=device)
    if built and built.encoder["identity"] != opened.identity:
        raise UserError(
            f"{index}: was made with the encoder '{built.encoder['name']}' "
            f"({built.encoder['identity']}), not with '{opened.name}' ({opened.identity})."
        )
    found = built or index_texts(read_texts(index), opened)
    asked: dict[str, str] = {query: text if query == "sentence" else span}
    weights: dict[str, float] = {query: 1.0}
    understood: dict[str, Any] = {"query": query}
    if query == "meaning":
        ((reading,),) = interpret(
            [Item(span, text, lang)],
            [open_llm(llm, url=llm_url)],
            Prompts(prompts),
            sense=sense,
            seed=seed,
            glosses="all",
        )
        asked = {"compound": span} | ({"gloss": reading.gloss} if reading.gloss else {})
        scoring = Scoring(gate="soft", contrast=contrast, standardise=True)
        weights = query_weights(scoring, reading.sense, reading.gloss is not None)
        understood = {
            "sense": reading.sense.label,
            "probability": reading.sense.probability,
            "gloss": reading.gloss,
        }
    vectors = opened.encode_texts(list(asked.values()), role="query")
    hits = found.search(dict(zip(asked, vectors, strict=True)), weights, min(top, found.size))
    if json:
        texts = [{"id": t.name, "score": score, "text": t.caption} for t, score in hits]
        print(jsonlib.dumps(understood | {"texts": texts}, indent=2, ensure_ascii=False))
        return
    rows = [(f"{score:+.2f}", one.name, one.caption) for one, score in hits]
    title = f"{understood['sense']}: {understood['gloss'] or '–'}" if query == "meaning" else query
    print_rows(("Score", "Id", "Text"), rows, f"{span}, {title}")


def index(
    texts: Annotated[Path, typer.Argument(help="Texts, as for search.")],
    out: Annotated[Path, typer.Option(help="Index folder to write, for search --index.")],
    encoder: Annotated[str, typer.Option(help="Encoder of texts: e5 or sbert:…")] = "e5",
    engine: Annotated[
        Literal["exact", "lance"],
        typer.Option(
            help="What searches: every vector, from disk; or LanceDB, nearly exact and faster."
        ),
    ] = "exact",
    device: EncoderDevice = "auto",
) -> None:
    """Encode texts once, to search them often."""
    from admire.encoders import open_encoder
    from admire.retrieval.index import read_texts, write_index

    found = read_texts(texts)
    write_index(found, open_encoder(encoder, device=device), out, lance=engine == "lance")
    log.info("Wrote %s, %d texts", out, len(found))


def train_retriever(
    data: RetrievalData,
    out: Annotated[Path, typer.Option(help="Folder of the model to write, for sbert:FOLDER.")],
    encoder: Annotated[str, typer.Option(help="The model to begin with: sbert:…")],
    query: Annotated[
        Literal["sentence", "span", "instruction+sentence", "instruction+span"],
        typer.Option(help="What of a query is encoded, in training as in evaluation."),
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
            help="The usual form of the loss; the paper's has the negatives alone there.",
        ),
    ] = False,
    temperature: Annotated[float, typer.Option(help="Of the loss; 1 is the paper's.")] = 1.0,
    batch_size: Annotated[int, typer.Option(help="Queries in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW, at its highest.")] = 2e-5,
    epochs: Annotated[int, typer.Option(help="Epochs at most.")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs without a better nDCG@10 on val.")] = 3,
    seeds: Annotated[
        int, typer.Option(min=1, help="Models to train, with seeds from --seed; mean ± deviation.")
    ] = 1,
    device: EncoderDevice = "auto",
    precision: TrainingPrecision = "float32",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fine-tune a sentence encoder to retrieve the same meaning, and score it on test."""
    import pandas as pd

    from admire.encoders.sentence import open_trainable
    from admire.retrieval.passages import read_split
    from admire.retrieval.training import RetrievalTraining
    from admire.retrieval.training import finetune_retrieval as train
    from admire.trainer import FitSettings

    splits = {name: read_split(data, name) for name in ("train", "val", "test")}
    tables: list[pd.DataFrame] = []
    for one in range(seed, seed + seeds):
        opened = open_trainable(encoder, device=device)
        settings = RetrievalTraining(
            query,
            instruction_format,
            soft_negatives,
            hard_negatives,
            positive_in_denominator,
            temperature,
            FitSettings(
                batch_size=batch_size,
                learning_rate=learning_rate,
                epochs=epochs,
                patience=patience,
                precision=precision,
                seed=one,
            ),
        )
        folder = out / f"seed-{one}" if seeds > 1 else out
        if not tables:
            tables.append(_scored(splits["test"], opened, query, instruction_format, "before"))
        train(opened, splits["train"], splits["val"], settings, folder)
        log.info("Wrote %s", folder)
        tables.append(_scored(splits["test"], opened, query, instruction_format, "after"))
    figures = pd.concat(tables)
    names = ["r_precision", "ndcg"]
    grouped = figures.groupby(["model", "group"], sort=False)[names]
    deviations = grouped.std(ddof=0).add_suffix("_deviation")
    found = pd.concat([grouped.mean(), deviations], axis=1).reset_index()
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


def _scored(
    content: Split, encoder: TextEncoder, query: Mode, style: Format, model: str
) -> pd.DataFrame:
    from admire.retrieval import evaluation, retrievers

    scored = evaluation.evaluate(content, retrievers.dense(content, encoder, query, style))
    return evaluation.summarise_queries(scored).assign(model=model)
