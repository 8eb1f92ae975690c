"""``admire rank`` by blocks: the same files as all at once, also after a stop at any place."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import passed
from conftest import manifest_row
from strict_server import Body, StrictServer, prompt_of
from toys import open_words

from admire import Settings, UserError, rank, read_items, write_run
from admire.core.storage import cache_dir
from admire.pipeline.run import RankingPipeline
from admire.pipeline.run_blocks import rank_file
from admire.pipeline.run_folder import read_run

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep", "hot air", "big fish", "owl")
TIMES = ("started", "finished", "seconds")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.pipeline.ranking.BLOCK", 2)
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_words)


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
    tmp_path, monkeypatch, data, settings, change, message
):
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[5] |= change
    data.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(RankingPipeline, "rank_block", None)
    with pytest.raises(UserError) as caught:
        rank_file(data, tmp_path / "run", settings)
    assert message in str(caught.value)


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


def test_the_command_prints_what_a_whole_run_prints(capsys, tmp_path, monkeypatch, data, settings):
    monkeypatch.setattr("admire.apps.cli.output.SHOWN", 3)
    # Else a scale would be measured on the first block.
    command = ["rank", data, "--llm", settings.llms[0], "--sense", "given", "--standardise", "item"]
    printed = []
    for size in (2, 512):
        monkeypatch.setattr("admire.pipeline.ranking.BLOCK", size)
        out, _ = passed(capsys, *command, "--out", tmp_path / "run")
        printed.append(out)
    assert printed[0] == printed[1]
    assert [t for t in ("… and 4 more", "top1", "pipe dream") if t not in printed[0]] == []
    assert "black sheep" not in printed[0]


def test_a_stop_leaves_caches_alone_and_the_same_command_asks_only_the_rest(
    tmp_path, monkeypatch, data, served: StrictServer, caplog
):
    def pressed(run: RankingPipeline, items: list[Any], **named: Any) -> Any:
        if items[0].compound == "hot air":
            raise KeyboardInterrupt
        return rank_block(run, items, **named)

    rank_block = RankingPipeline.rank_block
    with monkeypatch.context() as patch:
        patch.setattr(RankingPipeline, "rank_block", pressed)
        with pytest.raises(KeyboardInterrupt):
            rank_file(data, tmp_path / "run", SERVED)
    assert "4 of 7 items are done." in caplog.text
    assert [path for path in tmp_path.iterdir() if "run" in path.name] == []
    assert len(served.requests) == 4 * ASKED + 1
    rank_file(data, tmp_path / "run", SERVED)
    assert len(served.requests) == 7 * ASKED + 2
    assert len(read_run(tmp_path / "run").rankings) == 7


def test_data_that_are_changed_meanwhile_leave_no_run(tmp_path, monkeypatch, data, settings):
    def changing(*arguments: Any, **named: Any) -> Any:
        data.write_text(data.read_text() + "\n")
        return rank_block(*arguments, **named)

    rank_block = RankingPipeline.rank_block
    monkeypatch.setattr(RankingPipeline, "rank_block", changing)
    with pytest.raises(UserError, match="changed while it was being ranked"):
        rank_file(data, tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()
