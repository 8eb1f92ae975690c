"""Run folders: what a run leaves on disk, and what an ablation reads of it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from admire.errors import UserError
from admire.evaluation import score_items, summarise
from admire.files import read_table, read_text
from admire.interpretation import Interpretation
from admire.items import Candidate, Item
from admire.meaning import Meaning
from admire.rankers import Answer, Judgement
from admire.recorded import Recorded, Said, key_of
from admire.run import Ranking, Run
from admire.senses.sense import Sense
from admire.storage import replace_folder, write_whole
from admire.submission import Prediction, write_submission


def write_run(run: Run, folder: str | Path) -> list[Path]:
    """Write a run folder, which appears when it is complete, and return the submissions in it.

    ``submission_<language>.tsv`` for each language, or the name of the file that was ranked where
    that is a submission to fill in, as AdMIRe 2's ``submission_Turkish.tsv``; ``scores.csv``, one
    row for each item, ranker, chat model and candidate with its cosines and scores;
    ``items.jsonl``, one object an item with senses, votes, every wording and order, and all that
    rankers answered; ``run.json``, source, settings, model identities, prompt hashes, versions,
    timings, and what the chat models were asked and took.

    Raises:
        UserError: the folder cannot be written, or holds something other than a run; see
            :func:`admire.storage.check_folder`.
    """
    folder = Path(folder)
    rows = [
        {"item": number, "compound": r.item.compound, "language": r.item.language, **part}
        for number, r in enumerate(run.rankings, start=1)
        for part in r.parts
    ]
    names = []
    with replace_folder(folder, "run") as part:
        with write_whole(part / "scores.csv") as file:
            pd.DataFrame(rows).to_csv(file, index=False)
        with write_whole(part / "items.jsonl") as file:
            for ranking in run.rankings:
                file.write(json.dumps(_item_row(ranking), ensure_ascii=False) + "\n")
        with write_whole(part / "run.json") as file:
            json.dump(run.record, file, indent=2)
        languages = list(dict.fromkeys(r.item.language for r in run.rankings))
        source = Path((run.record["source"] or {"path": ""})["path"]).name
        own = re.fullmatch(r"submission_.+\.tsv", source) and len(languages) == 1
        for language in languages:
            names.append(source if own else f"submission_{language}.tsv")
            chosen = zip(run.rankings, run.predictions(), strict=True)
            write_submission(
                part / names[-1], [p for r, p in chosen if r.item.language == language]
            )
    return [folder / name for name in names]


def _item_row(ranking: Ranking) -> dict[str, Any]:
    item = ranking.item
    row = {
        "compound": item.compound,
        "sentence": item.sentence,
        "language": item.language,
        "candidates": [_thing_row(one) for one in item.candidates],
        "sequence": [_thing_row(one) for one in item.sequence],
        "sentence_type": item.sentence_type,
        "expected_order": item.expected_order,
        "expected_item": item.expected_item,
        "predicted_type": ranking.predicted_type,
        "order": ranking.order,
        "interpretations": [asdict(i) for i in ranking.interpretations],
        "judgements": [judgement.row() for judgement in ranking.judgements],
    }
    return row | ({"fused": ranking.fused} if ranking.fused else {})


def _thing_row(one: Candidate) -> dict[str, str]:
    return {"name": one.name} | ({"caption": one.caption} if one.caption else {})


def read_cosines(folder: Path) -> tuple[list[Item], list[pd.DataFrame], int]:
    """A run folder's items, for each the rows of cosines that scores.csv has for it, and how many
    encoders made them.

    Raises:
        UserError: the folder is not a run of :func:`admire.rank` with chat models, lacks gold, or
            was ranked without embeddings.
    """
    record = read_record(folder)
    if "fused" in record:
        raise UserError(f"{folder}: is fused. Tune the runs that it is made of.")
    items, _ = _read_items(folder)
    table = read_table(folder / "scores.csv", ("item", "candidate", "llm", "probability"))
    if "ranker" in table:
        rankers = dict.fromkeys(table["ranker"])
        table = table[table["ranker"] == "embeddings"]
        if table.empty:
            raise UserError(
                f"{folder}: was ranked by {' and '.join(rankers)} alone, so it has no cosines. "
                "Add the ranker embeddings.",
                "rankers",
            )
    parts = {int(number): part for number, part in table.groupby(table["item"].astype(int))}
    encoders = {one["identity"] for one in record["models"]["encoders"].values()}
    return items, [parts[number] for number in range(1, len(items) + 1)], len(encoders)


def compare_runs(folders: Sequence[str | Path]) -> pd.DataFrame:
    """How runs differ and how they score, as a tidy table to pivot, plot and filter.

    For each run and language the rows of :func:`admire.evaluation.summarise` (``group``, ``n``,
    ``metric``, ``mean``, ``low``, ``high``), each with ``run`` (the folder), ``language``,
    ``method``, ``llm``, ``encoder`` and every setting of the run (``sense``, ``head``,
    ``scoring.gate``, …). ``method`` is the paper's name: CI for images, CIC for images and
    captions, and so CC for captions alone, with -F in a head's space; the baselines are
    ``compound`` and ``sentence``. Other rankers are called by their names. What was fused is joined
    by ``&``, and has ``fusion`` and ``weights`` in place of settings.

    Raises:
        UserError: a folder is not a run, or an item of it has no gold order.
    """
    tables = []
    for folder in map(Path, folders):
        record = read_record(folder)
        items, orders = _read_items(folder)
        what, flat = _fused(record) if "fused" in record else _ranked(record)
        for language in dict.fromkeys(item.language for item in items):
            chosen = [k for k, item in enumerate(items) if item.language == language]
            scored = score_items(
                [items[k] for k in chosen], [orders[k] for k in chosen], str(folder)
            )
            names = {"run": str(folder), "language": language, **what}
            tables.append(summarise(scored).assign(**flat | names))
    table = pd.concat(tables, ignore_index=True)
    first = ["run", "language", "method", "llm", "encoder", "group", "n", "metric"]
    return table[[*first, *table.columns.difference(first, sort=False)]]


def _ranked(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """What a run is called by its method and models, and its settings."""
    settings = record["settings"]
    encoders = [one["name"] for one in record["models"]["encoders"].values()]
    what = {
        "method": _method(settings),
        "llm": " + ".join(settings["llms"]) if record["models"]["llms"] else "–",
        "encoder": " + ".join(dict.fromkeys(encoders)) or "–",
    }
    scoring = {f"scoring.{name}": value for name, value in settings["scoring"].items()}
    scoring["scoring.texts"] = ",".join(scoring.get("scoring.texts", ()))
    flat = settings | scoring
    left_out = ("llms", "rankers", "scoring")
    return what, {name: value for name, value in flat.items() if name not in left_out}


def _fused(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """As :func:`_ranked`, of a run of :func:`admire.fusion.fuse`."""
    runs = [one["record"] for one in record["fused"]]
    named = [(_fused(one) if "fused" in one else _ranked(one))[0] for one in runs]
    what = {name: " & ".join(dict.fromkeys(one[name] for one in named)) for name in named[0]}
    weights = ",".join(f"{one['weight']:g}" for one in record["fused"])
    return what, {"fusion": record["fusion"], "weights": weights}


def _method(settings: dict[str, Any]) -> str:
    names = list(settings.get("rankers", ["embeddings"]))  # older runs have no others
    if "embeddings" in names:
        names[names.index("embeddings")] = _compared(settings)
    return " + ".join(names)


def _compared(settings: dict[str, Any]) -> str:
    if settings["query"] != "meaning":
        return str(settings["query"])
    name = {"image": "CI", "caption": "CC", "image+caption": "CIC"}[settings["track"]]
    return name + "-F" * bool(settings["head"])


def read_run(folder: Path) -> Run:
    """The run that :func:`write_run` wrote, without its images.

    Runs of older versions have no captions.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    table = read_table(folder / "scores.csv", ("item", "candidate", "score"))
    rows = _read_rows(folder)
    try:
        parts = {
            int(number): [_part(row) for row in part.to_dict("records")]
            for number, part in table.groupby(table["item"].astype(int))
        }
        rankings = tuple(_ranking(row, parts[number]) for number, row in enumerate(rows, start=1))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{folder}: is damaged. Run admire rank again.") from None
    return Run(rankings, read_record(folder))


WORDS = ("candidate", "ranker", "llm", "predicted_type", "gloss")
"""Columns of scores.csv that hold texts."""
OF_ITEM = ("item", "compound", "language")


def _part(row: Mapping[Any, str]) -> dict[str, Any]:
    """A row of scores.csv as :attr:`admire.run.Ranking.parts` has it; empty cells are left out."""
    return {
        name: cell if name in WORDS else _number(cell)
        for name, cell in row.items()
        if cell and name not in OF_ITEM
    }


def _number(cell: str) -> float:
    if not math.isfinite(number := float(cell)):
        raise ValueError("no run has such a number")
    return number


def open_run_replies(folder: Path) -> list[Recorded]:
    """What each chat model of a run said of its items, and the run's orders.

    Raises:
        UserError: the folder is not a run, or the run asked no chat model.
    """
    rankings = read_run(folder).rankings
    digest = hashlib.sha256((folder / "items.jsonl").read_bytes()).hexdigest()
    readings = list(zip(*(ranking.interpretations for ranking in rankings), strict=False))
    if not readings:
        raise UserError(f"{folder}: no chat model was asked in this run.", "llms")
    found = []
    for number, of_model in enumerate(readings, start=1):
        name = f"run:{folder}" + f"#{number}" * (len(readings) > 1)
        one = Recorded(name, f"run:{digest}:{number}:{of_model[0].llm}", {})
        for row, (ranking, reading) in enumerate(zip(rankings, of_model, strict=True), start=1):
            said = one.said.setdefault(key_of(ranking.item.compound, ranking.item.sentence), Said())
            said.sense = reading.sense
            said.meanings = {"idiomatic": reading.idiomatic, "literal": reading.literal}
            where = f"{folder / 'items.jsonl'}, row {row}"
            said.orders[frozenset(ranking.order)] = ranking.order, where
        found.append(one)
    return found


def _ranking(row: dict[str, Any], parts: list[dict[str, Any]]) -> Ranking:
    scores = {part["candidate"]: part["score"] for part in parts}
    order = tuple(row["order"])
    if sorted(order) != sorted(scores):
        raise ValueError("the order is not one of the candidates")
    captions = {one["name"]: one.get("caption") for one in row.get("candidates", ())}
    candidates = tuple(Candidate(name, caption=captions.get(name)) for name in scores)
    interpretations = tuple(
        Interpretation(
            one["llm"], Sense(**one["sense"]), _meaning(one["idiomatic"]), _meaning(one["literal"])
        )
        for one in row["interpretations"]
    )
    return Ranking(
        replace(_item(row), candidates=candidates),
        interpretations,
        np.array([*scores.values()]),
        order,
        tuple(parts),
        tuple(map(_judgement, row.get("judgements", ()))),
        tuple(row.get("fused", ())),
    )


def _judgement(row: dict[str, Any]) -> Judgement:
    answers = tuple(
        Answer(**one | {"shown": tuple(one["shown"]), "order": tuple(one["order"])})
        for one in row["answers"]
    )
    scores = np.array(row["scores"], dtype=float)
    return Judgement(row["ranker"], row["llm"], scores, answers, row["agreement"])


def _meaning(said: dict[str, Any]) -> Meaning:
    return Meaning(tuple(said["definitions"]), said["scene"])


def _read_items(folder: Path) -> tuple[list[Item], list[Prediction]]:
    """The items of a run folder, and what was predicted of them."""
    items, orders = [], []
    for number, row in enumerate(_read_rows(folder), start=1):
        item = _item(row)
        if item.best is None:
            raise UserError(f"{folder}: item {number} ('{item.compound}') has no gold order.")
        items.append(item)
        order = tuple(row["order"])
        completes = order[0] if item.expected_item else None
        orders.append(
            Prediction(item.compound, item.sentence, order, row.get("predicted_type"), completes)
        )
    return items, orders


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / "items.jsonl"
    return [_parsed(line, path) for line in filter(None, read_text(path).split("\n"))]


def _item(row: dict[str, Any]) -> Item:
    """An item without its candidates."""
    expected = row["expected_order"]
    return Item(
        row["compound"],
        row["sentence"],
        row["language"],
        sentence_type=row["sentence_type"],
        expected_order=tuple(expected) if expected else None,
        sequence=tuple(map(_thing, row.get("sequence", ()))),
        expected_item=row.get("expected_item"),
    )


def _thing(said: str | dict[str, str]) -> Candidate:
    """A thing of a sequence; runs of older versions have its caption or name alone."""
    if isinstance(said, str):
        return Candidate(said, caption=said)
    return Candidate(said["name"], caption=said.get("caption"))


def read_record(folder: Path) -> dict[str, Any]:
    """What run.json says of how a run was made.

    Raises:
        UserError: it is missing or damaged.
    """
    path = folder / "run.json"
    record: dict[str, Any] = _parsed(read_text(path), path)
    return record


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise UserError(f"{path}: is damaged. Run admire rank again.") from None
