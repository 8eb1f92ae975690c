"""Readers of items and of run folders: a right file is read, any other ends in one message.

Each reader is tried on files that are nearly right, see damage.py: forty of each kind here,
and ten thousand where ``pytest -m slow`` is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import admire_row, sequence_row
from damage import Harm, harmed, harms
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from toys import OWL, PAPER, WordEncoder, explains

import admire
from admire import UserError
from admire.data.submission import Prediction, add_predictions
from admire.pipeline.past_runs import open_run, read_cosines, read_record, read_run
from admire.pipeline.scoring import compare_runs, summarise_run
from admire.senses.recorded import open_replies


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder: what writes a right one, and all that reads it.

    Attributes:
        write: writes it into an empty folder, and returns what the readers are given.
        harm: the files to harm.
    """

    write: Callable[[Path], Path]
    reads: tuple[Callable[[Path], Any], ...]
    harm: tuple[str, ...]


def single(name: str, rows: list[dict[str, Any]], read: Callable[[Path], Any]) -> Kind:
    """One file of rows: a table, or JSON Lines."""

    def write(folder: Path) -> Path:
        if name.endswith(".jsonl"):
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            separator = "\t" if name.endswith(".tsv") else ","
            pd.DataFrame(rows).fillna("").to_csv(folder / name, sep=separator, index=False)
        return folder / name

    return Kind(write, (read,), (name,))


ROWS = [admire_row(), admire_row("red tape", sentence_type="literal", language="pt-br")]
SEQUENCES = [sequence_row(), sequence_row("red tape")]
MANIFEST = [
    {
        "compound": "night owl",
        "sentence": "A night owl.",
        "candidates": [{"image": "a.png", "caption": "an owl"}, {"caption": "a lamp"}],
        "expected_order": ["candidate2", "a.png"],
        "sentence_type": "idiomatic",
    },
    {
        "compound": "cold fish",
        "candidates": [{"caption": "a fish"}, {"caption": "a man"}],
        "sequence": [{"caption": "a pond"}, {"caption": "ice"}],
        "expected_item": "candidate1",
    },
]
REPLIES: list[dict[str, Any]] = [
    {
        "compound": "night owl",
        "sentence": "A night owl.",
        "votes_idiomatic": 4,
        "votes_literal": 1,
        "order": ["a.png", "b.png"],
        "meaning": "a person who is awake late",
        "scene": "a lamp at night",
    },
    {"compound": "night owl", "sense": "literal", "meaning": "an owl"},
]


def submission(folder: Path) -> Path:
    path = folder / "submission_en.tsv"
    order = ("a.png", "b.png")
    rows = [Prediction(one, f"A {one}.", order, "idiomatic") for one in ("night owl", "cold\nfeet")]
    with path.open("w", encoding="utf-8", newline="") as file:
        add_predictions(file, rows)
    return path


def run_folder(folder: Path) -> Path:
    items = [OWL, replace(OWL, compound="cold fish", sentence="A cold fish.")]
    models = [explains("Idiomatic"), explains("Literal")]
    run = admire.rank(items, replace(PAPER, meanings="both"), llms=models, encoder=WordEncoder())
    admire.write_run(run, folder / "run")
    return folder / "run"


KINDS: dict[str, Kind] = {
    "AdMIRe's TSV": single("subtask_a_train.tsv", ROWS, admire.read_items),
    "Subtask B's TSV": single("subtask_b_dev.tsv", SEQUENCES, admire.read_items),
    "manifest.csv": single("manifest.csv", ROWS, admire.read_items),
    "manifest.jsonl": single("manifest.jsonl", MANIFEST, admire.read_items),
    "submission": Kind(submission, (admire.read_submission,), ("submission_en.tsv",)),
    "replies, CSV": single("said.csv", REPLIES, open_replies),
    "replies, JSONL": single("said.jsonl", REPLIES, open_replies),
    "run": Kind(
        run_folder,
        (
            read_run,
            read_record,
            summarise_run,
            read_cosines,
            lambda folder: open_run(str(folder)),
            lambda folder: compare_runs([folder]),
        ),
        ("items.jsonl", "scores.csv", "run.json"),
    ),
}


def refusal(read: Callable[[Path], Any], path: Path) -> str:
    try:
        read(path)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("examples", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_harmed_file_is_read_or_refused(tmp_path: Path, name: str, examples: int):
    kind = KINDS[name]
    path = kind.write(tmp_path)
    root = path if path.is_dir() else path.parent
    right = {root / file: (root / file).read_bytes() for file in kind.harm}
    for read in kind.reads:
        assert read(path) is not None

    # Harms are small already, and the smallest of a run folder would be looked for an hour.
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(st.tuples(st.just(file), harms(file.suffix)) for file in right))
    def reading(one: tuple[Path, list[Harm]]) -> None:
        file, done = one
        file.write_bytes(harmed(right[file], file.suffix, done))
        for read in kind.reads:
            message = refusal(read, path)  # it names the file, and nothing of Python
            assert not message or str(root) in message
            assert not re.search("Traceback|<_io| object at 0x", message)
        file.write_bytes(right[file])

    reading()
