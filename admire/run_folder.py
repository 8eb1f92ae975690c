"""Run folders: what a run leaves on disk, and what an ablation reads of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from admire.errors import UserError
from admire.items import Item, data_file, read_table, read_text, write_submission
from admire.run import Ranking, Run
from admire.storage import write_whole


def write_run(run: Run, folder: str | Path, source: str | Path | None = None) -> list[Path]:
    """Write a run folder and return the submissions in it; ``source`` is where the items are from.

    ``submission_<language>.tsv`` for each language; ``scores.csv``, one row for each item, chat
    model and candidate with its cosines and scores; ``items.jsonl``, one object an item with
    senses, votes, glosses and order; ``run.json``, settings, model identities, prompt hashes,
    versions and timings.

    Raises:
        UserError: a file cannot be written.
    """
    folder = Path(folder)
    rows = [
        {"item": number, "compound": r.item.compound, "language": r.item.language, **part}
        for number, r in enumerate(run.rankings, start=1)
        for part in r.parts
    ]
    with write_whole(folder / "scores.csv") as file:
        pd.DataFrame(rows).to_csv(file, index=False)
    with write_whole(folder / "items.jsonl") as file:
        for ranking in run.rankings:
            file.write(json.dumps(_item_row(ranking), ensure_ascii=False) + "\n")
    with write_whole(folder / "run.json") as file:
        json.dump({"source": source and _fingerprint(Path(source)), **run.record}, file, indent=2)
    written = []
    for language in dict.fromkeys(r.item.language for r in run.rankings):
        written.append(folder / f"submission_{language}.tsv")
        chosen = zip(run.rankings, run.predictions(), strict=True)
        write_submission(written[-1], [p for r, p in chosen if r.item.language == language])
    return written


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


def _fingerprint(source: Path) -> dict[str, str]:
    digest = hashlib.sha256(data_file(source).read_bytes()).hexdigest()
    return {"path": str(source), "sha256": digest}


def read_run(folder: Path) -> tuple[list[Item], list[pd.DataFrame], int]:
    """A run folder's items, for each the rows that scores.csv has for it, and how many encoders
    made them.

    Raises:
        UserError: the folder is not a run of :func:`admire.rank` with chat models, or lacks gold.
    """
    rows = [json.loads(line) for line in read_text(folder / "items.jsonl").split("\n") if line]
    table = read_table(folder / "scores.csv", ("item", "candidate", "llm", "probability"))
    items = []
    for number, row in enumerate(rows, start=1):
        if not row["expected_order"]:
            raise UserError(f"{folder}: item {number} ('{row['compound']}') has no gold order.")
        items.append(
            Item(
                row["compound"],
                row["sentence"],
                row["language"],
                sentence_type=row["sentence_type"],
                expected_order=tuple(row["expected_order"]),
            )
        )
    parts = {int(number): part for number, part in table.groupby(table["item"].astype(int))}
    record = json.loads(read_text(folder / "run.json"))
    encoders = {one["identity"] for one in record["models"]["encoders"].values()}
    return items, [parts[number] for number in range(1, len(items) + 1)], len(encoders)
