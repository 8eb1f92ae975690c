"""``admire rank`` by blocks: the same files as all at once, also after a stop at any place."""

import csv
import json
import re
import unicodedata
from ast import literal_eval
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commands import passed
from conftest import admire_row, manifest_row
from strict_server import Body, StrictServer, prompt_of

from admire import Settings, UserError, rank, read_items, write_run
from admire.core.progress import progress_told_to
from admire.core.storage import cache_dir
from admire.pipeline.run_blocks import rank_file
from admire.pipeline.run_folder import read_run

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep", "hot air", "big fish", "owl")
TIMES = ("started", "finished", "seconds")


pytestmark = pytest.mark.usefixtures("words", "blocks_of_two")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Seven items in two languages, which come by turns."""
    rows = []
    for k, compound in enumerate(COMPOUNDS):
        row = manifest_row(compound, f"A {compound} again, no. {k}.")
        rows.append(row | {"language": "pt" if k % 3 == 2 else "en"})
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The fourth and the fifth compound have meanings of a kind that none before has."""
    rows = [
        {"compound": name, "sense": "idiomatic", "meaning": f"someone at a {name} desk"}
        for name in COMPOUNDS
    ]
    rows.append({"compound": "black sheep", "sense": "literal", "meaning": "a bird"})
    rows.append({"compound": "hot air", "sense": "idiomatic", "scene": 'a "lamp",\nat night'})
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return Settings(llms=(f"recorded:{path}",), sense="given")


def files(folder: Path) -> dict[str, object]:
    """The content of a run folder without its timings."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir()}
    record = json.loads((folder / "run.json").read_text())
    return found | {"run.json": {k: v for k, v in record.items() if k not in TIMES}}


def test_blocks_leave_the_files_of_a_whole_run(tmp_path, data, settings):
    write_run(rank(read_items(data), settings, source=data), tmp_path / "whole")
    written = rank_file(data, tmp_path / "run", settings)
    assert [path.name for path in written] == ["submission_en.tsv", "submission_pt.tsv"]
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    header = (tmp_path / "run" / "scores.csv").read_text().split("\n")[0]
    assert header.split(",")[-2:] == ["caption_literal", "caption_scene"]  # of later blocks alone


def test_a_submission_has_texts_and_names_as_the_data_has_them(tmp_path, write_table):
    name, sentence = unicodedata.normalize("NFD", "maçã.png"), "My\u00a0night owl\u200b sings."
    row = admire_row(sentence=sentence, image1_name=name, expected_order="")
    (file,) = rank_file(write_table(row), tmp_path / "run", Settings(query="sentence"))
    (prediction,) = csv.DictReader(file.open(encoding="utf-8"), delimiter="\t")
    assert prediction["sentence"] == sentence
    assert sorted(literal_eval(prediction["expected_order"])) == [
        *(f"{letter}.png" for letter in "bcde"),
        name,
    ]
    run = read_run(tmp_path / "run")
    assert "maçã.png" in run.rankings[0].order
    assert write_run(run, tmp_path / "again")[0].read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compound": ""}, "row 6"),
        ({"candidates": []}, "row 6 ('big fish') has no candidates"),
        ({"sentence_type": None}, "'big fish': sentence_type is missing"),
        ({"compound": "grey area"}, "has no replies about 'grey area'"),
    ],
)
def test_a_bad_row_of_a_later_block_is_told_before_the_first(
    tmp_path, data, settings, change, message
):
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[5] |= change
    data.write_text("\n".join(map(json.dumps, rows)))
    told: list[Any] = []
    with pytest.raises(UserError) as caught, progress_told_to(lambda *what: told.append(what)):
        rank_file(data, tmp_path / "run", settings)
    assert message in str(caught.value)
    assert told == []


ASKED = 7
"""For each item: five votes, and what each sense means. For a Portuguese one also its words in
English."""
SERVED = Settings(llms=("openai:gpt-4o",))


def test_answers_that_cannot_be_read_end_a_run_in_its_first_block_alone(
    tmp_path, data, served: StrictServer, caplog
):
    unread = "night owl", "cold feet"

    def answer(body: Body) -> str:
        prompt = prompt_of(body)
        if any(f"A {compound} again" in prompt for compound in unread):
            return "?"
        letters = re.findall(r"Candidate (\w), caption", prompt)
        return json.dumps({"sense": "idiomatic", "candidates": {}, "order": letters})

    served.answer = answer
    settings = replace(SERVED, rankers=("listwise",), shuffles=1)
    with pytest.raises(UserError, match="none of the 2 replies could be parsed"):
        rank_file(data, tmp_path / "run", settings)
    unread = "pipe dream", "black sheep"
    (cache_dir() / "replies.sqlite").unlink()
    rank_file(data, tmp_path / "run", settings)
    assert "no reply about 'pipe dream' could be parsed" in caplog.text


def test_the_command_prints_the_first_rankings_of_the_folder(capsys, tmp_path, data, settings):
    rows = data.read_text()
    data.write_text("\n".join(rows.replace("again", f"again {k} times") for k in range(4)))
    command = ("rank", data, "--llm", settings.llms[0], "--sense", "given")
    out, _ = passed(capsys, *command, "--out", tmp_path / "run")
    assert [t for t in ("… and 8 more", "top1") if t not in out] == []
    assert len(re.findall(r"^│ big fish ", out, re.MULTILINE)) == 3


def test_a_stop_leaves_caches_alone_and_the_same_command_asks_only_the_rest(
    tmp_path, data, served: StrictServer, caplog
):
    votes = count()

    def press(task: str, done: int, total: int) -> None:
        if task.startswith("Asking for the sense") and not done and next(votes) == 2:
            raise KeyboardInterrupt

    with progress_told_to(press), pytest.raises(KeyboardInterrupt):
        rank_file(data, tmp_path / "run", SERVED)
    assert "4 of 7 items are done." in caplog.text
    assert [path for path in tmp_path.iterdir() if "run" in path.name] == []
    assert len(served.requests) == 4 * ASKED + 1
    rank_file(data, tmp_path / "run", SERVED)
    assert len(served.requests) == 7 * ASKED + 2
    assert len(read_run(tmp_path / "run").rankings) == 7


def test_data_that_are_changed_meanwhile_leave_no_run(tmp_path, data, settings):
    change = progress_told_to(lambda *_: data.write_text(data.read_text() + "\n"))
    with change, pytest.raises(UserError, match="changed while it was being ranked"):
        rank_file(data, tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()
