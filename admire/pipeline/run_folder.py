"""Writes run folders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pandas as pd

from admire.core.files import ROWS, add_table, path_inside
from admire.core.storage import replace_folder
from admire.data.reader import split_name
from admire.data.submission import add_orders, add_predictions
from admire.pipeline.ranking import Ranking, Run, blocks

SCORES, ITEMS, RECORD = "scores.csv", "items.jsonl", "run.json"
OF_ITEM = ("item", "compound", "language")
"""Columns of scores.csv that are the same for all rows of an item."""


def write_run(run: Run, folder: str | Path) -> list[Path]:
    """Write a run folder, which appears when it is complete, and return the submissions in it.

    The files are: ``submission_<language>.tsv`` for each language, or the name of the ranked file
    if that is a submission to fill in, such as AdMIRe 2's ``submission_Turkish.tsv``, or for V-WSD
    ``prediction.<language>.txt`` with the names of the images, best first; ``scores.csv`` with one
    row for each item, ranker, chat model and candidate, its cosines and scores; ``items.jsonl``
    with one object per item: senses, votes, meanings, orders, and all answers of rankers;
    ``run.json`` with source, settings, model identities, prompt hashes, versions, timings, and the
    account of chat models.

    Raises:
        UserError: the folder cannot be written, or contains something other than a run; see
            :func:`admire.core.storage.check_folder`.
    """
    names = submission_names(run.record, [r.item.language for r in run.rankings])
    return write_blocks(blocks(run.rankings), Path(folder), names, lambda: run.record)


def submission_names(record: Mapping[str, Any], languages: Iterable[str]) -> dict[str, str]:
    """Return the file name of each language's submission."""
    distinct = list(dict.fromkeys(languages))
    reader, path = split_name((record["source"] or {"path": ""})["path"])
    source = Path(path).name
    if re.fullmatch(r"submission_.+\.tsv", source) and len(distinct) == 1:
        return {distinct[0]: source}
    if reader == "vwsd" or (not reader and source.lower().endswith(".txt")):
        return {language: f"prediction.{language}.txt" for language in distinct}
    return {language: f"submission_{language}.tsv" for language in distinct}


def write_blocks(
    rankings: Iterable[Sequence[Ranking]],
    folder: Path,
    submissions: Mapping[str, str],
    record: Callable[[], Mapping[str, Any]],
) -> list[Path]:
    """Write a run folder like :func:`write_run`, from rankings that come block by block.

    ``record`` is called after the last block.
    """
    columns: list[str] = []
    widths: set[int] = set()
    started: set[str] = set()
    count = 0
    for name in submissions.values():  # contains a language, which is untrusted input
        path_inside(folder, name, follow_links=True)
    with replace_folder(folder, "run") as part:
        with ExitStack() as stack:
            names = (SCORES, ITEMS, *submissions.values())
            files = {name: stack.enter_context(_create(part / name)) for name in names}
            for block in rankings:
                rows = [
                    {"item": k, "compound": r.compound, "language": r.language, **part}
                    for k, r in enumerate(block, start=count + 1)
                    for part in r.parts
                ]
                table = pd.DataFrame(rows)
                count += len(block)
                columns += [str(name) for name in table if name not in columns]
                add_table(files[SCORES], table.reindex(columns=columns), header=not widths)
                widths.add(len(columns))
                for ranking in block:
                    row = json.dumps(ranking.model_dump(mode="json"), ensure_ascii=False)
                    files[ITEMS].write(f"{row}\n")
                for language, name in submissions.items():
                    chosen = [r.prediction for r in block if r.item.language == language]
                    if name.endswith(".txt"):
                        add_orders(files[name], chosen)
                    elif chosen:
                        add_predictions(files[name], chosen, header=name not in started)
                        started.add(name)
        if len(widths) > 1:
            _widen(part / SCORES, columns)
        with _create(part / RECORD) as file:
            json.dump(record(), file, indent=2)
    return [folder / name for name in submissions.values()]


def _create(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", newline="")


def _widen(path: Path, columns: Sequence[str]) -> None:
    """Rewrite scores.csv with all columns in its header, because later blocks had more of them."""
    narrow = path.rename(path.with_suffix(".narrow"))
    how: dict[str, Any] = {"names": columns, "skiprows": 1, "dtype": str, "na_filter": False}
    with narrow.open(encoding="utf-8", newline="") as source, _create(path) as file:
        for number, rows in enumerate(pd.read_csv(source, chunksize=ROWS, **how)):
            add_table(file, rows.fillna(""), header=not number)
    narrow.unlink()
