"""Run folders: what a run leaves on disk."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import pandas as pd

from admire.base.errors import UserError
from admire.base.files import (
    add_table,
    guarded,
)
from admire.data.items import Candidate
from admire.runs.run import Ranking, Run
from admire.base.storage import replace_folder, unwritable, write_whole
from admire.data.submission import add_predictions

log = logging.getLogger("admire")


def write_run(run: Run, folder: str | Path) -> list[Path]:
    """Write a run folder, which appears when it is complete, and return the submissions in it.

    ``submission_<language>.tsv`` for each language, or the name of the file that was ranked where
    that is a submission to fill in, as AdMIRe 2's ``submission_Turkish.tsv``; ``scores.csv``, one
    row for each item, ranker, chat model and candidate with its cosines and scores, whose texts a
    spreadsheet does not take for formulas, see :func:`admire.base.files.guarded`; ``items.jsonl``, one
    object an item with senses, votes, every wording and order, and all that rankers answered;
    ``run.json``, source, settings, model identities, prompt hashes, versions, timings, and what the
    chat models were asked and took.

    Raises:
        UserError: the folder cannot be written, or holds something other than a run; see
            :func:`admire.base.storage.check_folder`.
    """
    folder = Path(folder)
    names = submission_names(run.record, [r.item.language for r in run.rankings])
    written = Written()
    with replace_folder(folder, "run") as part:
        for block in blocks(run.rankings) if run.rankings else [[]]:
            add_block(part, written, block, names)
        write_record(part, run.record)
    return [folder / name for name in names.values()]


BLOCK = 512
"""How many items are ranked and written together."""

Thing = TypeVar("Thing")


def blocks(things: Iterable[Thing], size: int | None = None) -> Iterator[list[Thing]]:
    """Lists of so many things, in their order; of :data:`BLOCK` unless it is said."""
    rest = iter(things)
    while block := list(islice(rest, size or BLOCK)):
        yield block


@dataclass
class Written:
    """What a run folder holds that is written block by block.

    Attributes:
        items: how many are written.
        columns: of scores.csv.
        lengths: of the files that grow, in bytes.
    """

    items: int = 0
    columns: list[str] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)


def submission_names(record: Mapping[str, Any], languages: Iterable[str]) -> dict[str, str]:
    """What the submission of each language is called."""
    distinct = list(dict.fromkeys(languages))
    source = Path((record["source"] or {"path": ""})["path"]).name
    if re.fullmatch(r"submission_.+\.tsv", source) and len(distinct) == 1:
        return {distinct[0]: source}
    return {language: f"submission_{language}.tsv" for language in distinct}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write a run folder's run.json, whole or not at all."""
    with write_whole(folder / RECORD) as file:
        json.dump(record, file, indent=2)


def add_block(
    folder: Path,
    written: Written,
    rankings: Sequence[Ranking],
    submissions: Mapping[str, str],
    record: Mapping[str, Any] | None = None,
) -> None:
    """Add the rankings of some items to the files of a run folder.

    Args:
        written: what the folder holds; it is brought up to date.
        submissions: see :func:`submission_names`.
        record: what run.json says meanwhile, with ``written`` under :data:`UNFINISHED`. Once it is
            there, the items are; see :func:`cut_back`. None leaves run.json alone.

    Raises:
        UserError: the folder cannot be written.
    """
    rows = [
        {
            name: guarded(value) if isinstance(value, str) else value
            for name, value in {**of_item, **part}.items()
        }
        for number, r in enumerate(rankings, start=written.items + 1)
        for of_item in [dict(zip(OF_ITEM, (number, r.item.compound, r.item.language), strict=True))]
        for part in r.parts
    ]
    table = pd.DataFrame(rows)
    new = [str(column) for column in table if column not in written.columns]
    header = not written.columns
    written.columns = written.columns + new
    wide = bool(new) and not header
    if wide:
        _widen(folder, new)
    with _adding(folder, SCORES, written, to=WIDE if wide else None) as file:
        add_table(file, table.reindex(columns=written.columns), header=header)
    with _adding(folder, ITEMS, written) as file:
        for ranking in rankings:
            file.write(json.dumps(_item_row(ranking), ensure_ascii=False) + "\n")
    for language, name in submissions.items():
        chosen = [r.prediction for r in rankings if r.item.language == language]
        if chosen:
            header = name not in written.lengths
            with _adding(folder, name, written) as file:
                add_predictions(file, chosen, header=header)
    written.items += len(rankings)
    if record is not None:
        more = record.get(UNFINISHED, {})
        write_record(folder, {**record, UNFINISHED: {**asdict(written), **more}})
    if wide:
        os.replace(folder / WIDE, folder / SCORES)


SCORES, ITEMS, RECORD = "scores.csv", "items.jsonl", "run.json"
OF_ITEM = ("item", "compound", "language")
"""Columns of scores.csv that are the same for all rows of an item."""
WIDE = ".scores.csv.wide"
"""Takes the place of scores.csv when a block has brought new columns."""
SEEN = "seen"
"""Where a row of items.jsonl says what of the item the head or the detector saw in training."""
UNFINISHED = "unfinished"
"""Where run.json says how far a run has come that is under way."""


@contextmanager
def _adding(folder: Path, name: str, written: Written, to: str | None = None) -> Iterator[IO[str]]:
    """What is written is added to a file of a run folder, of which the length is noted.

    Args:
        to: the file that is to become it, where that is another one.

    Raises:
        UserError: the file cannot be written, or another process writes to it.
    """
    path = folder / (to or name)
    text = io.StringIO(newline="")
    yield text
    content = text.getvalue().encode()
    try:
        with path.open("ab") as file:
            before = file.tell()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        length = path.stat().st_size
    except OSError as error:
        raise unwritable(path, error) from error
    noted = before if to else written.lengths.get(name, 0)
    if (before, length) != (noted, noted + len(content)):
        raise _changed(path)
    written.lengths[name] = length


def check_whole(folder: Path, written: Written) -> None:
    """Refuse a run folder that is not as this process has written it.

    Raises:
        UserError: another process has changed it.
    """
    for name, length in written.lengths.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != length:
            raise _changed(path)


def _changed(path: Path) -> UserError:
    return UserError(
        f"{path}: was changed by another process while it was written. Give each run a place of "
        "its own.",
        "out",
    )


def _widen(folder: Path, new: Sequence[str]) -> None:
    """Write scores.csv anew with more columns, which are empty in all of its rows."""
    try:
        with (
            (folder / SCORES).open(encoding="utf-8", newline="\n") as source,
            (folder / WIDE).open("w", encoding="utf-8", newline="") as file,
        ):
            more, quotes = "," + ",".join(new), 0
            for line in source:
                quotes += line.count('"')
                whole = quotes % 2 == 0  # else the line break stands in a cell
                file.write(f"{line[:-1]}{more}\n" if whole else line)
                more = "," * len(new) if whole else more
    except OSError as error:
        raise unwritable(folder / WIDE, error) from error


def cut_back(folder: Path, written: Written) -> bool:
    """Take out of a run folder what came after the last whole block; see :func:`add_block`.

    Returns:
        Whether all of these blocks is there.

    Raises:
        UserError: the folder cannot be written.
    """
    wide, scores = folder / WIDE, folder / SCORES
    try:
        if wide.exists():
            with wide.open(encoding="utf-8") as file:
                header = file.readline().rstrip("\n")
            if header == ",".join(written.columns):
                os.replace(wide, scores)
        for name, length in written.lengths.items():
            if not (folder / name).is_file() or (folder / name).stat().st_size < length:
                return False
            os.truncate(folder / name, length)
        for path in folder.glob("submission_*.tsv"):
            if path.name not in written.lengths:
                path.unlink()
        drop_parts(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    return True


def drop_parts(folder: Path) -> None:
    """Remove what a process that died left of files that it was writing."""
    for path in (folder / WIDE, *folder.glob(".*.part")):
        path.unlink(missing_ok=True)


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
    more = {"fused": ranking.fused, SEEN: ranking.seen, "unsure": ranking.unsure}
    return row | {name: told for name, told in more.items() if told}


def _thing_row(one: Candidate) -> dict[str, str]:
    return {"name": one.name} | ({"caption": one.caption} if one.caption else {})
