"""Commands for idiomaticity detection on SemEval-2022 Task 2A, and its fine-tuning."""

from __future__ import annotations

import json as jsonlib
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from admire.choices import SenseMethod
from admire.cli.options import (
    SENSE_OPTION,
    VOTES_OPTION,
    DetectorFile,
    EncoderDevice,
    Json,
    Lang,
    LlmUrl,
    PromptFolder,
    Seed,
    TrainingPrecision,
)
from admire.cli.output import print_rows, print_summary
from admire.errors import UserError

log = logging.getLogger("admire")


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

    from admire.evaluation import summarise
    from admire.interpretation import interpret
    from admire.items import read_items
    from admire.llm import open_llm
    from admire.prompts import Prompts
    from admire.senses import open_detector
    from admire.storage import write_whole

    items = read_items(data, lang)
    (readings,) = interpret(
        items,
        [open_llm(llm, url=llm_url)],
        Prompts(prompts),
        sense=sense,
        votes=votes,
        seed=seed,
        detector=open_detector(detector) if detector else None,
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
    print_summary(summarise(known, columns=["accuracy"], seed=seed), f"Sense, {llm}", json)


def detect(
    data: Annotated[Path, typer.Argument(help="CSV of SemEval-2022 Task 2A.")],
    gold: Annotated[
        Path | None, typer.Option(help="CSV with ID and Label, where the data has no labels.")
    ] = None,
    detector: Annotated[
        Path | None,
        typer.Option(
            help="File that admire detector wrote, or folder that admire finetune detector wrote; "
            "else the built-in one."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Submission to write: ID, Language, Setting, Label.")
    ] = None,
    setting: Annotated[
        Literal["zero_shot", "one_shot"] | None,
        typer.Option(help="What the submission says; else the detector's own, or zero_shot."),
    ] = None,
    json: Json = False,
) -> None:
    """Decide which sentences of a Task 2A file are idiomatic, and score that where it is known."""
    from admire.senses import BUILT_IN, Detector, load_detector
    from admire.senses.task2a import read_uses, score_senses, write_predictions

    opened = load_detector(detector or BUILT_IN)
    columns = () if isinstance(opened, Detector) else opened.columns
    uses = read_uses(data, gold, required=(*columns, *(["ID"] if out else [])))
    items = [use.item for use in uses]
    labelled = items[0].sentence_type is not None  # then all are
    if not (labelled or out):
        raise UserError(f"{data}: has no labels to compare with. Give --gold, or --out.")
    if isinstance(opened, Detector):
        senses, own = opened.senses(items), None
    else:
        senses, own = opened.classify(uses), opened.setting
    if out:
        write_predictions(out, uses, senses, setting or own or "zero_shot")
        log.info("Wrote %s", out)
    if not labelled:
        return
    scores = score_senses(items, senses)
    if json:
        print(jsonlib.dumps([asdict(score) for score in scores], indent=2))
        return
    rows = [(s.language, s.n, f"{s.macro_f1:.4f}", f"{s.accuracy:.4f}") for s in scores]
    print_rows(("Language", "n", "Macro F1", "Accuracy"), rows, str(data))


def train_detector(
    data: Annotated[list[Path], typer.Argument(help="Training CSVs of SemEval-2022 Task 2A.")],
    out: Annotated[Path, typer.Option(help="Detector to write.")] = Path("detector.json"),
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(help="Files, as for rank or of Task 2A, whose compounds are kept unseen."),
    ] = None,
    per_compound: Annotated[
        int, typer.Option(min=1, help="Sentences for each compound and sense, at most.")
    ] = 4,
    encoder: Annotated[str, typer.Option(help="Encoder of the sentences.")] = "embedded-state",
    seed: Seed = 0,
) -> None:
    """Fit a detector of idiomatic use, like the one that ships with admire."""
    from admire.encoders import open_encoder
    from admire.files import read_table
    from admire.items import read_items
    from admire.senses.light import fit, sample
    from admire.senses.task2a import read_idiomaticity, read_uses

    unseen: list[str] = []
    for path in leave_out or []:
        if path.suffix == ".csv" and "MWE" in read_table(path, ()):
            unseen += [use.item.compound for use in read_uses(path)]
        else:
            unseen += [item.compound for item in read_items(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    fitted = fit(sample(items, per_compound, unseen, seed), open_encoder(encoder), seed=seed)
    fitted.save(out)
    print(jsonlib.dumps(fitted.card, indent=2))
    log.info("Wrote %s", out)


def train_classifier(
    data: Annotated[
        list[Path],
        typer.Argument(help="Training CSVs of SemEval-2022 Task 2A; for one_shot both."),
    ],
    encoder: Annotated[
        str,
        typer.Option(
            help="Encoder to begin with, of transformers or sentence-transformers: a folder or a "
            "repository (xlm-roberta-base)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the detector to write.")],
    setting: Annotated[
        Literal["zero_shot", "one_shot"],
        typer.Option(
            help="What is read: the sentence with its context, in all hidden layers; or the "
            "sentence and the MWE, in the last."
        ),
    ],
    validation: Annotated[
        Path | None, typer.Option(help="CSV to choose the epoch on; else a tenth of the MWEs.")
    ] = None,
    validation_gold: Annotated[
        Path | None, typer.Option(help="CSV with its ID and Label, where it has no labels.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Sentences in a batch; else 32, or 4 for one_shot.")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW, at its highest.")] = 2e-5,
    epochs: Annotated[int, typer.Option(help="Epochs; the best is kept.")] = 10,
    max_length: Annotated[int, typer.Option(help="Tokens that are read.")] = 128,
    seed: Annotated[int, typer.Option(help="Of all that is drawn; 4 is the paper's.")] = 4,
    device: EncoderDevice = "auto",
    precision: TrainingPrecision = "float32",
    json: Json = False,
) -> None:
    """Fine-tune an encoder to detect idiomatic use, for --detector."""
    from admire.senses.classifier import CONTEXT, ClassifierTraining, finetune_classifier, hold_out
    from admire.senses.task2a import read_uses

    if validation_gold and not validation:
        raise UserError("--validation-gold goes with --validation.")
    settings = ClassifierTraining(
        setting,
        batch_size=batch_size,
        learning_rate=learning_rate,
        epochs=epochs,
        max_length=max_length,
        precision=precision,
        seed=seed,
    )
    columns = CONTEXT if settings.setting == "zero_shot" else ()
    uses = [use for path in data for use in read_uses(path, required=(*columns, "Label"))]
    if validation:
        train = uses
        label = () if validation_gold else ("Label",)
        held = read_uses(validation, validation_gold, required=(*columns, *label))
    else:
        train, held = hold_out(uses, seed)
    log.info("%d sentences to train and %d to validate on", len(train), len(held))
    # The name may be written as for the other commands.
    base = encoder.removeprefix("sbert:")
    before, *after = finetune_classifier(base, train, held, settings, out, device=device)
    log.info("Wrote %s", out)
    if json:
        print(jsonlib.dumps({"before": before, "epochs": after, "after": max(after)}, indent=2))
        return
    rows = [("before", f"{before:.4f}"), ("after", f"{max(after):.4f}")]
    print_rows(("Model", "Macro F1"), rows, f"{encoder}, {setting}, validation")
