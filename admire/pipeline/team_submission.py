"""Submission ZIPs: a run's submissions, checked against the blind files."""

from __future__ import annotations

import io
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import filterfalse, zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from admire.core.errors import UserError
from admire.core.storage import note_addition, write_whole
from admire.data.languages import ADMIRE_1, ADMIRE_2, task_code
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.data.submission import COMPLETED, HANDED_IN, Prediction, add_predictions
from admire.pipeline.ranking import Row, blocks
from admire.pipeline.record import is_source, refuse_limited
from admire.pipeline.run_folder import read_record, read_rows

log = logging.getLogger("admire")


def write_submission_zip(
    run: str | Path, out: str | Path, *, data: str | Path | None = None, sense: bool = True
) -> list[str]:
    """Write the ZIP for a submission, and return the names of the files in it.

    It is flat and contains ``submission_<CODE>.tsv`` for each language of the run, with the codes
    of AdMIRe 2 or of AdMIRe 1. Logs which languages of AdMIRe 2 are missing.

    Args:
        data: the blind files that the run ranked (default: those in run.json, if they have not
            changed).
        sense: whether to write the column ``sentence_type``.

    Raises:
        UserError: the rows differ from those of the blind files, an order does not have five names,
            the languages are not those of one task, ``sense`` is False in Subtask B, or the ZIP
            cannot be written.
    """
    run, out = Path(run), Path(out)
    if out.suffix != ".zip":
        raise UserError(f"{out}: the name of a ZIP file ends in .zip.", "out")
    record = read_record(run)
    rows = _checked_rows(run, record, data)
    texts: dict[str, io.StringIO] = {}
    tags: dict[str, str] = {}
    columns: Sequence[str] = HANDED_IN if sense else HANDED_IN[:-1]
    count = unknown = 0
    for block in blocks(rows):
        if block[0].item.context == "sequence":
            if not sense:
                raise UserError("Subtask B also scores the sense.", "without_sense")
            columns = COMPLETED
        for code, predictions in _by_code(run, block, tags).items():
            header = code not in texts
            text = texts.setdefault(code, io.StringIO(newline=""))
            add_predictions(text, predictions, header=header, columns=columns)
        count += len(block)
        unknown += sum(row.predicted_type is None for row in block)
    if not (tags.keys() <= {*ADMIRE_1} or tags.keys() <= {*ADMIRE_2}):
        raise UserError(
            f"{run}: its languages ({', '.join(tags.values())}) are not all of AdMIRe 1 "
            f"({', '.join(ADMIRE_1)}) or all of AdMIRe 2 ({', '.join(ADMIRE_2)}). Rank the files "
            "of one task. A language is read from the file's name or from --lang."
        )
    if sense and unknown:
        log.warning("%s: %d of %d rows have no sense.", run, unknown, count)
    note_addition(out)
    with write_whole(out, "wb") as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for code, text in texts.items():
            archive.writestr(f"submission_{code}.tsv", text.getvalue())
    missing = list(filterfalse(texts.__contains__, ADMIRE_2))
    if missing and not texts.keys() <= {*ADMIRE_1}:
        log.warning("%s: has no file for %s.", out, ", ".join(missing))
    return [f"submission_{code}.tsv" for code in texts]


def _named_data(run: Path, record: Mapping[str, Any]) -> Path:
    """Return the data of a run, if they have not changed."""
    source = record["source"] or {"path": "unknown", "sha256": ""}
    with suppress(UserError):  # they cannot be read
        if is_source(path := Path(source["path"]), source):
            return path
    raise UserError(
        f"{run}: its data ({source['path']}) have moved or changed since it was made. Give the "
        "path of the blind files, or rank again.",
        "data",
    )


def _checked_rows(run: Path, record: Mapping[str, Any], data: str | Path | None) -> Iterator[Row]:
    """Yield the run's rows; refuse them if they are not those of the blind files."""
    source = Path(data) if data else _named_data(run, record)
    rows, items = read_rows(run), iter_items(source, rows=RowReader(whole=False))
    for number, (row, item) in enumerate(zip_longest(rows, items), start=1):
        of_run, of_file = (
            thing and (thing.compound, thing.sentence, sorted(thing.names), len(thing.sequence))
            for thing in (row and row.item, item)
        )
        if row is None or item is None or of_run != of_file:
            count = number - (row is None) + sum(1 for _ in rows)
            refuse_limited(run, record, count, number - (item is None) + sum(1 for _ in items))
            own, other = (f"'{thing.compound}'" if thing else "missing" for thing in (row, item))
            raise UserError(
                f"{run}: item {number} ({own}) is not that of {source} ({other}). Rank again.",
                "data",
            )
        if row.item.context != "sequence" and len(row.order) != 5:
            raise UserError(
                f"{run}: item {number} ('{row.compound}') has {len(row.order)} candidates, not 5."
            )
        yield row


def _by_code(run: Path, rows: Sequence[Row], tags: dict[str, str]) -> dict[str, list[Prediction]]:
    """Return the predictions of each language, by the code of the task, whose tag is added."""
    predictions = defaultdict(list)
    for row in rows:
        code = task_code(row.language)
        if tags.setdefault(code, row.language) != row.language:
            raise UserError(
                f"{run}: has two files of one language, {tags[code]} and {row.language}, and "
                f"both would be submission_{code}.tsv. Rank one of them."
            )
        predictions[code].append(row.prediction)
    return predictions
