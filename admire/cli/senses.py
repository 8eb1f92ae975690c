"""Commands that decide between the senses, score that, and train detectors."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated, Literal

from admire.base.choices import SenseMethod
from admire.base.errors import UserError
from admire.cli import options as opt
from admire.cli.config import TrainingFile
from admire.cli.output import print_figures, print_json, print_rows

log = logging.getLogger("admire")

TaskSetting = Literal["zero_shot", "one_shot"]
"""As :data:`admire.senses.Setting`, which is not imported here because that takes pandas."""


def sense(
    data: Annotated[Path, opt.argument("As for rank; candidates are not needed.")],
    out: Annotated[Path, opt.option("TSV to write.")] = Path("senses.tsv"),
    llm: Annotated[str, opt.option("Chat model, as for rank.")] = "embedded",
    llm_url: opt.LlmUrl = None,
    lang: opt.Lang = None,
    sense: Annotated[SenseMethod, opt.SENSE_OPTION] = "auto",
    votes: Annotated[int, opt.VOTES_OPTION] = 5,
    dictionary: opt.Dictionaries = None,
    prompts: opt.PromptFolder = None,
    detector: opt.DetectorFile = None,
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Classify each compound as idiomatic or literal, and score that where the type is known."""
    from admire.data.reader import read_items
    from admire.prompts import Prompts
    from admire.runs.sources import open_source
    from admire.scores.figures import summarise
    from admire.scores.leakage import warn_if_seen
    from admire.scores.metrics import calibration_error
    from admire.senses import known_senses, open_detector, write_senses
    from admire.senses.dictionaries import open_dictionaries
    from admire.senses.interpretation import interpret, sense_method

    if data.suffix == ".txt":
        raise UserError(f"{data}: is a file of V-WSD, where there is no sense to decide.")
    items = read_items(data, lang)
    opened = open_source(llm, url=llm_url, dictionaries=opt.looked_up(dictionary))
    asked = sense_method(sense, opened) == "detector"
    used = open_detector(detector) if detector or asked else None
    (readings,) = interpret(
        items,
        [opened],
        Prompts(prompts),
        sense=sense,
        votes=votes,
        seed=seed,
        detector=used,
        glosses="none",
        dictionaries=open_dictionaries(opt.looked_up(dictionary)),
    )
    table = write_senses(out, items, [reading.sense for reading in readings])
    log.info("Wrote %s", out)
    known = known_senses(table)
    summary = summarise(known, columns=["accuracy"], seed=seed)
    if json:
        print_json({"figures": summary, "senses": table})
    elif not known.empty:
        print_figures(summary, f"Sense, {llm}")
    if not known.empty:
        error = calibration_error(
            [readings[k].sense.probability for k in known.index],
            known["sentence_type"] == "idiomatic",
        )
        log.info("The probabilities' expected calibration error: %.3f", error)
        if asked:
            warn_if_seen([items[k] for k in known.index], used, known, ["accuracy"], str(data))


def detect(
    data: Annotated[Path, opt.argument("CSV of SemEval-2022 Task 2A.")],
    gold: Annotated[
        Path | None, opt.option("CSV with ID and Label, where the data has no labels.")
    ] = None,
    detector: Annotated[
        Path | None,
        opt.option(
            "File of admire train detector, or folder of admire train classifier; else the "
            "built-in one."
        ),
    ] = None,
    out: Annotated[
        Path | None, opt.option("Submission to write: ID, Language, Setting, Label.")
    ] = None,
    setting: Annotated[
        TaskSetting | None,
        opt.choice(
            "setting",
            TaskSetting,
            "What the submission says; else the detector's own, or zero_shot.",
        ),
    ] = None,
    table: Annotated[
        Path | None, opt.option("TSV to write, as that of admire sense: votes and probabilities.")
    ] = None,
    json: opt.Json = False,
) -> None:
    """Decide which sentences of a Task 2A file are idiomatic, and score that where it is known."""
    from admire.senses import detect_uses, open_detector

    scores = detect_uses(
        data, open_detector(detector), gold=gold, out=out, setting=setting, table=table
    )
    if scores is None:
        return
    if json:
        print(scores.to_json(orient="records", indent=2, double_precision=15))
        return
    rows = [
        (s.language, s.n, f"{s.macro_f1:.4f}", f"{s.accuracy:.4f}") for s in scores.itertuples()
    ]
    print_rows(("Language", "n", "Macro F1", "Accuracy"), rows, str(data))


def train_detector(
    data: Annotated[
        list[Path],
        opt.argument("CSVs of SemEval-2022 Task 2A, or files as for rank with the sense given."),
    ],
    out: Annotated[Path, opt.option("Detector to write.")] = Path("detector.json"),
    leave_out: Annotated[
        list[Path] | None,
        opt.option(
            "Files, as for rank or of Task 2A, whose compounds are kept unseen; or a .txt "
            "with one a line."
        ),
    ] = None,
    per_compound: Annotated[int, opt.option("Sentences for each compound and sense, at most.")] = 4,
    neutral: Annotated[
        bool,
        opt.option(
            "Score what a sentence adds to neutral ones; without it, what is known of "
            "the compound counts too, as suits Task 2A."
        ),
    ] = True,
    strength: Annotated[
        float, opt.option("Inverse of the regularisation, scikit-learn's C.")
    ] = 1e-3,
    encoder: Annotated[
        str, opt.option("Encoder of words in their context: embedded-state or sbert:….")
    ] = "embedded-state",
    seed: opt.Seed = 0,
    config: TrainingFile = None,
) -> None:
    """Train a light detector of idiomatic use, like the one that comes with admire."""
    from admire.scores.leakage import summarise_card
    from admire.senses import open_context_encoder, read_compounds, read_idiomaticity
    from admire.training import DetectorTraining, train_detector

    settings = opt.call_with(DetectorTraining, locals())
    unseen = [compound for path in leave_out or [] for compound in read_compounds(path)]
    items = [item for path in data for item in read_idiomaticity(path)]
    trained = train_detector(items, open_context_encoder(encoder), settings, leave_out=unseen)
    trained.save(out)
    print(jsonlib.dumps(summarise_card(trained.card), indent=2))
    log.info("Wrote %s", out)


def train_classifier(
    data: Annotated[
        list[Path], opt.argument("Training CSVs of SemEval-2022 Task 2A; for one_shot both.")
    ],
    encoder: Annotated[
        str,
        opt.option(
            "Encoder to begin with, of transformers or sentence-transformers: a folder or a "
            "repository (xlm-roberta-base)."
        ),
    ],
    out: Annotated[Path, opt.option("Folder of the detector to write.")],
    setting: Annotated[
        TaskSetting,
        opt.choice(
            "setting",
            TaskSetting,
            "What is read: the sentence with its context, in all hidden layers; or the sentence "
            "and the MWE, in the last.",
        ),
    ],
    validation: Annotated[
        Path | None, opt.option("CSV to choose the epoch on; else a tenth of the MWEs.")
    ] = None,
    validation_gold: Annotated[
        Path | None, opt.option("CSV with its ID and Label, where it has no labels.")
    ] = None,
    batch_size: Annotated[
        int | None, opt.option("Sentences in a batch; else 32, or 4 for one_shot.")
    ] = None,
    learning_rate: opt.AdamRate = 2e-5,
    epochs: Annotated[int, opt.option("Epochs; the best is kept.")] = 10,
    max_length: Annotated[int, opt.option("Tokens that are read.")] = 128,
    seed: Annotated[int, opt.option("Of all that is drawn; 4 is the paper's.")] = 4,
    device: opt.EncoderDevice = "auto",
    precision: opt.TrainingPrecision = "float32",
    config: TrainingFile = None,
    json: opt.Json = False,
) -> None:
    """Fine-tune an encoder to detect idiomatic use, for --detector."""
    options = locals()
    from admire.models.training_settings import FitSettings
    from admire.senses import context_columns, read_uses
    from admire.training import ClassifierTraining, paper_fit, train_classifier

    if validation_gold and not validation:
        raise UserError("The gold labels of a validation file need that file.", "validation")
    usual = paper_fit(setting)
    fit = opt.call_with(
        FitSettings,
        options,
        batch_size=usual.batch_size if batch_size is None else batch_size,
        warmup=usual.warmup,
        patience=max(1, epochs),  # all epochs are trained
    )
    settings = ClassifierTraining(setting, max_length, fit)
    columns = context_columns(setting)
    uses = [use for path in data for use in read_uses(path, required=(*columns, "Label"))]
    held = None
    if validation:
        label = () if validation_gold else ("Label",)
        held = read_uses(validation, validation_gold, required=(*columns, *label))
    before, *after = train_classifier(encoder, uses, held, settings, out, device=device)
    log.info("Wrote %s", out)
    if json:
        print(jsonlib.dumps({"before": before, "epochs": after, "after": max(after)}, indent=2))
        return
    rows = [("before", f"{before:.4f}"), ("after", f"{max(after):.4f}")]
    print_rows(("Model", "Macro F1"), rows, f"{encoder}, {setting}, validation")
