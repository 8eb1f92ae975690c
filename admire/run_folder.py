"""Run folders: what a run leaves on disk, and what an ablation reads of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from admire.errors import UserError
from admire.evaluation import score_items, summarise
from admire.files import read_table, read_text
from admire.items import Item
from admire.run import Ranking, Run
from admire.storage import replace_folder, write_whole
from admire.submission import Prediction, write_submission


def write_run(run: Run, folder: str | Path) -> list[Path]:
    """Write a run folder, which appears when it is complete, and return the submissions in it.

    ``submission_<language>.tsv`` for each language; ``scores.csv``, one row for each item, chat
    model and candidate with its cosines and scores; ``items.jsonl``, one object an item with
    senses, votes, every wording and order; ``run.json``, source, settings, model identities, prompt
    hashes, versions, timings, and what the chat models were asked and took.

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
        for language in dict.fromkeys(r.item.language for r in run.rankings):
            names.append(f"submission_{language}.tsv")
            chosen = zip(run.rankings, run.predictions(), strict=True)
            write_submission(
                part / names[-1], [p for r, p in chosen if r.item.language == language]
            )
    return [folder / name for name in names]


def _item_row(ranking: Ranking) -> dict[str, Any]:
    item = ranking.item
    return {
        "compound": item.compound,
        "sentence": item.sentence,
        "language": item.language,
        "sentence_type": item.sentence_type,
        "expected_order": item.expected_order,
        "order": ranking.order,
        "interpretations": [asdict(i) for i in ranking.interpretations],
    }


def read_run(folder: Path) -> tuple[list[Item], list[pd.DataFrame], int]:
    """A run folder's items, for each the rows that scores.csv has for it, and how many encoders
    made them.

    Raises:
        UserError: the folder is not a run of :func:`admire.rank` with chat models, or lacks gold.
    """
    items, _ = _read_items(folder)
    table = read_table(folder / "scores.csv", ("item", "candidate", "llm", "probability"))
    parts = {int(number): part for number, part in table.groupby(table["item"].astype(int))}
    record = _read_json(folder / "run.json")
    encoders = {one["identity"] for one in record["models"]["encoders"].values()}
    return items, [parts[number] for number in range(1, len(items) + 1)], len(encoders)


def compare_runs(folders: Sequence[str | Path]) -> pd.DataFrame:
    """How runs differ and how they score, as a tidy table to pivot, plot and filter.

    For each run and language the rows of :func:`admire.evaluation.summarise` (``group``, ``n``,
    ``metric``, ``mean``, ``low``, ``high``), each with ``run`` (the folder), ``language``,
    ``method``, ``llm``, ``encoder`` and every setting of the run (``sense``, ``head``,
    ``scoring.gate``, …). ``method`` is the paper's name: CI for images, CIC for images and
    captions, and so CC for captions alone, with -F in a head's space; the baselines are
    ``compound`` and ``sentence``.

    Raises:
        UserError: a folder is not a run, or an item of it has no gold order.
    """
    tables = []
    for folder in map(Path, folders):
        record = _read_json(folder / "run.json")
        settings = record["settings"]
        items, orders = _read_items(folder)
        what = {
            "method": _method(settings),
            "llm": " + ".join(settings["llms"]) if settings["query"] == "meaning" else "–",
            "encoder": " + ".join(
                dict.fromkeys(one["name"] for one in record["models"]["encoders"].values())
            ),
        }
        scoring = {f"scoring.{name}": value for name, value in settings["scoring"].items()}
        scoring["scoring.texts"] = ",".join(scoring.get("scoring.texts", ()))
        flat = settings | scoring
        flat = {name: value for name, value in flat.items() if name not in ("llms", "scoring")}
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


def _method(settings: dict[str, Any]) -> str:
    if settings["query"] != "meaning":
        return str(settings["query"])
    name = {"image": "CI", "caption": "CC", "image+caption": "CIC"}[settings["track"]]
    return name + "-F" * bool(settings["head"])


def _read_items(folder: Path) -> tuple[list[Item], list[Prediction]]:
    """The items of a run folder, and their orders."""
    path = folder / "items.jsonl"
    items, orders = [], []
    for number, line in enumerate(filter(None, read_text(path).split("\n")), start=1):
        row = _parsed(line, path)
        if not row["expected_order"]:
            raise UserError(f"{folder}: item {number} ('{row['compound']}') has no gold order.")
        item = Item(
            row["compound"],
            row["sentence"],
            row["language"],
            sentence_type=row["sentence_type"],
            expected_order=tuple(row["expected_order"]),
        )
        items.append(item)
        orders.append(Prediction(item.compound, item.sentence, tuple(row["order"])))
    return items, orders


def _read_json(path: Path) -> Any:
    return _parsed(read_text(path), path)


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise UserError(f"{path}: is damaged. Run admire rank again.") from None
