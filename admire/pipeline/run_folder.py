"""Run folders, written and read back."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from admire.core.choices import TEXTS, TRACKS, Fusion
from admire.core.errors import UserError
from admire.core.files import (
    ROWS,
    add_table,
    check_columns,
    open_text,
    path_inside,
    read_table,
    read_text,
    table_parts,
)
from admire.core.registry import register
from admire.core.schema import read_as
from admire.core.storage import replace_folder
from admire.data.items import Item
from admire.data.sources import split_name
from admire.data.submission import add_orders, add_predictions
from admire.pipeline.ranking import Ranking, Row, Run, blocks
from admire.pipeline.record import VERSION
from admire.rankers.scorer import tied_names
from admire.rankers.settings import Settings

if TYPE_CHECKING:
    from admire.senses.recorded_replies import Recorded

log = logging.getLogger("admire")

SCORES, ITEMS, RECORD = "scores.csv", "items.jsonl", "run.json"
OF_ITEM = ("item", "compound", "language")
"""Columns of scores.csv that are the same for all rows of an item."""


_create = partial(open, mode="w", encoding="utf-8", newline="")


def write_run(run: Run, folder: str | Path) -> list[Path]:
    """Write a run folder, which appears when it is complete, and return the submissions in it.

    The files are: ``submission_<language>.tsv`` for each language, or the name of the ranked file
    if that is a submission to fill in, or for V-WSD ``prediction.<language>.txt``; ``scores.csv``
    with one row for each item, ranker, chat model and candidate; ``items.jsonl`` with one object
    per item: senses, meanings, orders, and all answers; ``run.json`` with source, settings,
    models, prompts' hashes, versions, timings, and the account of chat models.

    Raises:
        UserError: the folder cannot be written, or contains something other than a run; see
            :func:`admire.core.storage.check_folder`.
    """
    names = submission_names(run.record, [ranking.language for ranking in run.rankings])
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

    ``record`` is called after the last block; its ``items`` are those that came. A warning says
    what differed in a run that is replaced.
    """
    before = dict[str, Any]()
    with suppress(UserError):  # there is no run
        before = read_record(folder)
    columns: list[str] = []
    widths: set[int] = set()
    done = 0
    for name in submissions.values():  # contains a language, which is untrusted input
        path_inside(folder, name, follow_links=True)
    with replace_folder(folder, "run") as part:
        with ExitStack() as stack:
            names = (SCORES, ITEMS, *submissions.values())
            files = {name: stack.enter_context(_create(part / name)) for name in names}
            for block in rankings:
                rows: list[dict[str, Any]] = []
                predictions = defaultdict(list)
                for number, ranking in enumerate(block, start=done + 1):
                    values = number, ranking.compound, ranking.language
                    own = dict(zip(OF_ITEM, values, strict=True))
                    rows += [own | row for row in ranking.parts]
                    line = json.dumps(ranking.model_dump(mode="json"), ensure_ascii=False)
                    files[ITEMS].write(f"{line}\n")
                    predictions[submissions[ranking.language]].append(ranking.prediction)
                done += len(block)
                table = pd.DataFrame(rows)
                columns += [str(name) for name in table if name not in columns]
                add_table(files[SCORES], table.reindex(columns=columns), header=not widths)
                widths.add(len(columns))
                for name, chosen in predictions.items():
                    if name.endswith(".txt"):
                        add_orders(files[name], chosen)
                    else:
                        add_predictions(files[name], chosen, header=not files[name].tell())
        if len(widths) > 1:
            _widen(part / SCORES, columns)
        with _create(part / RECORD) as file:
            json.dump(after := {**record(), "items": done}, file, indent=2)
    if before and (differ := _differences(before, after)):
        cached = " Its replies are cached." * ("fused" not in before)
        log.warning("%s: replaced a run that differed in %s.%s", folder, ", ".join(differ), cached)
    return [folder / name for name in submissions.values()]


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of what differs in the data, settings and models of two records."""
    if ("fused" in before) != ("fused" in after):
        return ["kind (fused or ranked)"]
    runs = []
    for record in json.loads(json.dumps([before, after])):  # as they are in files
        settings = record.get("settings", {})
        own = {"data": (record["source"] or {}).get("sha256"), "limit": record.get("limit")}
        own |= settings.pop("scoring", {}) | settings | {"fusion": record.get("fusion")}
        own["runs"] = [(fused["sha256"], fused["weight"]) for fused in record.get("fused", ())]
        own["models"] = record.get("models"), record.get("prompts")
        runs.append(own)
    differ = [name for name in runs[0] if runs[0][name] != runs[1].get(name)]
    if {*differ} - {"data", "limit", "models"}:  # other settings name other models
        differ = [name for name in differ if name != "models"]
    return differ


def _widen(path: Path, columns: Sequence[str]) -> None:
    """Rewrite scores.csv with all columns in its header, because later blocks had more of them."""
    narrow = path.rename(path.with_suffix(".narrow"))
    how: dict[str, Any] = {"names": columns, "skiprows": 1, "dtype": str, "na_filter": False}
    with narrow.open(encoding="utf-8", newline="") as source, _create(path) as file:
        for number, rows in enumerate(pd.read_csv(source, chunksize=ROWS, **how)):
            add_table(file, rows.fillna(""), header=not number)
    narrow.unlink()


def read_rows(folder: Path) -> Iterator[Row]:
    """Read the rows of a run folder's items.jsonl, which must be as many as run.json says."""
    path, items, number = folder / ITEMS, read_record(folder)["items"], 0
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            yield read_as(Row, line, f"{path}, row {number}")
    if number != items:
        raise _damaged(path, f"it has {number} of the {items} items that {RECORD} counts")


class Source(BaseModel, strict=True):
    """The data of a run."""

    path: str
    sha256: str


class Made(BaseModel, strict=True):
    """What is checked of the run.json of a run that is not fused."""

    source: Source | None
    items: int
    settings: Settings
    models: dict[str, Any]
    saw: list[str]


class Fused(BaseModel, strict=True):
    """What is checked of the run.json of a fused run."""

    source: Source | None
    items: int
    fusion: Fusion
    fused: list[dict[str, Any]]


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a run folder: its run.json."""
    path = folder / RECORD
    text = read_text(path)
    record = read_as(dict[str, Any], text, path)
    if record.get("version") != VERSION:
        raise UserError(
            f"{path}: has format {record.get('version')}, but this version of admire reads "
            f"{VERSION}. Run admire rank again."
        )
    try:
        read_as(Fused if "fused" in record else Made, text, path)
    except UserError as error:  # such as a setting that older versions had
        raise UserError(f"{error} Run admire rank again.") from None
    return record


def read_settings(folder: Path) -> Settings:
    """Read the settings of a run, which rank the same items in the same way."""
    record = read_record(folder)
    if "fused" in record:
        raise UserError(f"{folder}: is a fused run. Use one of the runs that it was fused from.")
    path = folder / RECORD
    settings = read_as(Settings, json.dumps(record["settings"]), path)
    if settings.track and not set(record["saw"]) <= set(settings.track.split("+")):
        # The encoders compared less than chat models saw, so no track was requested.
        return replace(settings, track=None)
    return settings


def read_run(folder: str | Path) -> Run:
    """Read the output of :func:`admire.write_run` or ``admire rank``; it has no images.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    folder = Path(folder)
    record = read_record(folder)
    return Run(tuple(read_rankings(folder, record)), record)


def read_rankings(folder: Path, record: Mapping[str, Any]) -> Iterator[Ranking]:
    """Read the rankings of a run folder with this record one by one; see :func:`read_run`."""
    runs = len(record.get("fused", ()))
    columns = [f"score{number}" for number in range(1, runs + 1)]
    rankings = with_scores(folder, read_rows(folder), columns)
    for number, ranking in enumerate(rankings, start=1):
        if len(ranking.fused) != runs or any({*columns} - part.keys() for part in ranking.parts):
            raise _damaged(folder / ITEMS, f"item {number} is not fused of {runs} runs")
        yield ranking


WORDS = (
    *("compound", "language", "candidate", "ranker", "encoder", "llm"),
    *("predicted_type", "by", "gloss"),
)
"""Columns of scores.csv that contain texts."""


def _numbers(folder: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of scores.csv with its numbers; NaN where a cell is empty."""
    numbers = table.columns.difference([*WORDS])
    try:
        return table.assign(**table[numbers].apply(pd.to_numeric))
    except (ValueError, TypeError):
        raise _damaged(folder / SCORES, "a number is invalid") from None


def with_scores(
    folder: Path, rows: Iterable[Row], columns: Iterable[str] = ()
) -> Iterator[Ranking]:
    """Yield rows with those of scores.csv, if these are in the same order of the same candidates.

    It must also have the further ``columns``.
    """
    tables = table_parts(folder / SCORES, ("item", "candidate", "score", *columns))
    records = (_numbers(folder, table).to_dict("records") for table in tables)
    cells: Iterator[dict[Any, Any]] = chain.from_iterable(records)
    by_item = groupby(cells, itemgetter("item"))
    for number, row in enumerate(rows, start=1):
        item, cells_of_item = next(by_item, (None, ()))
        parts, scores, names = [], {}, row.item.names
        counts = Counter[Any]()
        for part in cells_of_item:
            filled = {k: v for k, v in part.items() if k not in OF_ITEM and v != "" and v == v}
            scores[filled.get("candidate")] = filled.get("score")
            counts[filled.get("candidate")] += 1
            parts.append(filled)
        whole = len(set(counts.values())) <= 1 and None not in scores.values()
        if item != number or set(scores) != set(names) or not whole:
            raise _damaged(folder / SCORES, f"the rows of item {number} are not of its candidates")
        values = np.array([scores[name] for name in names])
        fields = dict(row) | {"tied": tied_names(names, values, row.uncompared)}
        yield Ranking(**fields, scores=values, parts=tuple(parts))


def _damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path}: is damaged ({why}). Run admire rank again.")


def read_cosines(folder: Path) -> tuple[list[Item], list[pd.DataFrame], int]:
    """Read a run's items, each one's cosines in scores.csv, and the encoders of a candidate."""
    record = read_record(folder)
    if "fused" in record:
        raise UserError(f"{folder}: is a fused run. Tune the runs that it was fused from.")
    rows = enumerate(read_rows(folder), start=1)
    items = [with_gold(row.item, folder, number) for number, row in rows]
    required = ("item", "candidate", "llm", "probability_idiomatic", "ranker")
    table = _numbers(folder, read_table(folder / SCORES, ()))
    check_columns(folder / SCORES, table, required)
    rankers = dict.fromkeys(table["ranker"])
    cosines = [f"{track}_{role}" for track in TRACKS for role in TEXTS]
    compared = table.reindex(columns=cosines).notna().any(axis=1)
    table = table[table["ranker"].isin(table["ranker"][compared])]
    if table.empty:
        raise UserError(
            f"{folder}: has no cosines, only scores of {' and '.join(rankers)}. Add embeddings.",
            "rankers",
        )
    parts = dict(iter(table.groupby("item")))
    numbers = range(1, len(items) + 1)
    rows_of = table.groupby(["item", "candidate"]).size().groupby("item")
    sizes = [len(item.candidates) for item in items]
    if set(parts) != set(numbers) or rows_of.size().tolist() != sizes or any(rows_of.nunique() > 1):
        raise _damaged(folder / SCORES, "its rows are not those of the candidates in items.jsonl")
    encoders = record["models"]["encoders"].values()
    first = {of_track[0]["identity"] for of_track in encoders}
    apart = all(len(of_track) == 1 for of_track in encoders) and len(first) > 1
    return items, [parts[number] for number in numbers], 1 + apart


def with_gold(item: Item, folder: Path | str, number: int) -> Item:
    """Return the item; raise a UserError if it has no gold."""
    if item.best is None:
        raise UserError(f"{folder}: item {number} ('{item.compound}') has no gold order.")
    return item


@register("chat", "run", takes="FOLDER")
def open_run(name: str) -> list[Recorded]:
    """Replies of the chat models of an earlier run."""
    from admire.senses.recorded_replies import Recorded, RecordedReply, key_of

    folder = Path(name).expanduser()
    rows = list(read_rows(folder))
    digest = hashlib.sha256((folder / ITEMS).read_bytes()).hexdigest()
    readings = list(zip(*(row.interpretations for row in rows), strict=False))
    if not readings:
        raise UserError(f"{folder}: no chat model was asked in this run.", "llms")
    recorded = []
    for number, interpretations in enumerate(readings, start=1):
        name = f"run:{folder}" + f"#{number}" * (len(readings) > 1)
        recording = Recorded(name, f"run:{digest}:{number}:{interpretations[0].llm}", {})
        for place, (row, reading) in enumerate(zip(rows, interpretations, strict=True), start=1):
            reply = recording.replies.setdefault(
                key_of(row.compound, row.sentence), RecordedReply()
            )
            reply.sense = reading.sense
            reply.meanings = {"idiomatic": reading.idiomatic, "literal": reading.literal}
            reply.orders[frozenset(row.order)] = row.order, f"{folder / ITEMS}, row {place}"
        recorded.append(recording)
    return recorded
