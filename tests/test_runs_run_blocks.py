"""``admire rank`` by blocks: the same files as all at once, also after a stop at any place."""

from __future__ import annotations

import json
import os
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import run
from conftest import manifest_row
from strict_server import Body, StrictServer, prompt_of
from toys import WordEncoder

from admire import (
    Item,
    Settings,
    UserError,
    compare_runs,
    rank,
    read_items,
    write_run,
)
from admire.base.storage import cache_dir
from admire.rankers.settings import Asking
from admire.runs import run_blocks
from admire.runs.past_runs import read_run
from admire.runs.run import Ranking
from admire.runs.run_blocks import rank_file

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep", "hot air", "big fish", "owl")
TIMES = ("started", "finished", "seconds")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.runs.run_folder.BLOCK", 2)
    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", lambda *_, **__: WordEncoder())


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
def replies(tmp_path: Path) -> Path:
    """The fourth and the fifth compound have meanings of a kind that none before has."""
    rows = [
        {"compound": name, "sense": "idiomatic", "meaning": f"someone at a {name} desk"}
        for name in COMPOUNDS
    ]
    rows.append({"compound": "black sheep", "sense": "literal", "meaning": "a bird"})
    rows.append({"compound": "hot air", "sense": "idiomatic", "scene": 'a "lamp",\nat night'})
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def settings(replies: Path) -> Settings:
    return Settings(llms=(f"recorded:{replies}",), sense="given")


def files(folder: Path) -> dict[str, object]:
    """The content of a run folder without its timings."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir()}
    record = json.loads((folder / "run.json").read_text())
    return found | {"run.json": {k: v for k, v in record.items() if k not in TIMES}}


@pytest.fixture
def whole(data: Path, settings: Settings, tmp_path: Path) -> dict[str, object]:
    """What a run of all items at once leaves."""
    ranked = rank(read_items(data), settings, encoder=WordEncoder(), source=data)
    write_run(ranked, tmp_path / "whole")
    return files(tmp_path / "whole")


class Killed(BaseException):
    pass


def dying(function: Callable[..., Any], turn: int) -> Callable[..., Any]:
    """The function, of which the process dies when it is called that often."""
    calls = [0]

    def instead(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == turn:
            raise Killed
        return function(*arguments, **named)

    return instead


def test_blocks_leave_the_files_of_a_whole_run(tmp_path, data, settings, whole):
    written = rank_file(data, tmp_path / "run", settings)
    assert [path.name for path in written] == ["submission_en.tsv", "submission_pt.tsv"]
    assert files(tmp_path / "run") == whole
    assert not (tmp_path / "run.unfinished").exists()
    header = (tmp_path / "run" / "scores.csv").read_text().split("\n")[0]
    assert header.split(",")[-2:] == ["caption_literal", "caption_scene"]  # of later blocks alone


def test_blocks_mark_the_same_items_as_unsure(tmp_path, data, replies):
    with replies.open("a") as file:
        for k, compound in enumerate(COMPOUNDS):
            sentence = f"A {compound} again, no. {k}."
            votes = {"votes_idiomatic": k % 6, "votes_literal": 5 - k % 6}
            file.write("\n" + json.dumps({"compound": compound, "sentence": sentence} | votes))
    settings = Settings(llms=(f"recorded:{replies}",), sense="vote", abstain_below=0.8)
    write_run(
        rank(read_items(data), settings, encoder=WordEncoder(), source=data), tmp_path / "whole"
    )
    rank_file(data, tmp_path / "run", settings)
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    rankings = read_run(tmp_path / "run").rankings
    assert [one.unsure for one in rankings] == [k % 6 in (2, 3) for k in range(7)]
    lines = (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    assert sum("unsure" in json.loads(line) for line in lines) == 2


STEPS = [
    *(("admire.runs.run_blocks.rank_block", turn, 2 * turn - 2) for turn in (1, 2, 4)),
    *(("admire.runs.run_blocks.add_block", turn, 2 * turn - 2) for turn in (1, 4)),
    *(("admire.runs.run_folder.write_record", turn, 2 * turn - 2) for turn in (1, 2, 3, 4)),
    ("wider", 1, 4),
    ("wider", 2, 6),
    ("admire.runs.run_blocks.take_place", 1, 7),
]
"""Where the process dies, at which call, and how many items are done by then."""


@pytest.mark.parametrize(("step", "turn", "done"), STEPS)
def test_a_run_that_dies_goes_on_and_leaves_the_same_files(
    tmp_path, monkeypatch, data, settings, whole, step: str, turn: int, done: int
):
    part, out = tmp_path / "run.unfinished", tmp_path / "run"
    with monkeypatch.context() as patch:
        if step == "wider":  # where scores.csv with more columns takes the place of the other
            swap, real = dying(os.replace, turn), os.replace
            patch.setattr(os, "replace", lambda a, b: (swap if a.suffix == ".wide" else real)(a, b))
        else:
            patch.setattr(step, dying(pkgutil.resolve_name(step), turn))
        with pytest.raises(Killed):
            rank_file(data, out, settings)
    assert not out.exists()
    (part / ".run.json.1.part").write_text("{") if done else None
    if 0 < done < len(COMPOUNDS) and step != "wider":
        for name in ("scores.csv", "items.jsonl", "submission_en.tsv"):
            with (part / name).open("a") as file:
                file.write('7,"half')
        (part / "submission_xx.tsv").write_text("compound")
        assert len(read_run(part).rankings) == done
        assert compare_runs([part])["n"].max() == done - done // 3
    ranked: list[int] = []
    real = run_blocks.rank_block

    def counted(items: list[Item], *arguments: Any, **named: Any) -> list[Ranking]:
        ranked.append(len(items))
        return real(items, *arguments, **named)

    monkeypatch.setattr(run_blocks, "rank_block", counted)
    rank_file(data, out, settings)
    assert sum(ranked) == len(COMPOUNDS) - done
    assert files(out) == whole
    assert not part.exists()


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("half")])
@pytest.mark.parametrize("name", ["scores.csv", "items.jsonl"])
def test_a_run_that_has_lost_what_was_written_starts_anew(
    tmp_path, monkeypatch, data, settings, whole, caplog, name: str, harm: Callable[[Path], object]
):
    caplog.set_level("INFO", "admire")
    with monkeypatch.context() as patch:
        patch.setattr(run_blocks, "rank_block", dying(run_blocks.rank_block, 2))
        with pytest.raises(Killed):
            rank_file(data, tmp_path / "run", settings)
    harm(tmp_path / "run.unfinished" / name)
    rank_file(data, tmp_path / "run", settings)
    assert "lacks something that was written, so the run starts anew" in caplog.text
    assert files(tmp_path / "run") == whole


def test_another_run_starts_anew_and_nobodys_folder_is_lost(
    tmp_path, monkeypatch, data, settings, caplog
):
    caplog.set_level("INFO", "admire")
    out, part = tmp_path / "run", tmp_path / "run.unfinished"

    def stopped(settings: Settings, **more: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(run_blocks, "rank_block", dying(run_blocks.rank_block, 2))
            with pytest.raises(Killed):
                rank_file(data, out, settings, **more)

    stopped(settings)
    for change in ("settings", "language", "data"):
        if change == "settings":
            settings = replace(settings, seed=1)
        if change == "data":
            data.write_text(data.read_text().replace("no. 6", "no. 7"))
        caplog.clear()
        stopped(settings, language=None if change == "settings" else "de")
        assert "starts anew" in caplog.text
    caplog.clear()
    stopped(settings, language="de")
    assert "goes on after 2 of 7 items" in caplog.text
    (part / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="thesis"):
        rank_file(data, out, settings)
    assert (part / "thesis.txt").exists()


# ------------------------------------------------------------------ before anything is asked


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compound": ""}, "row 6"),
        ({"candidates": []}, "row 6 ('big fish') has no candidates"),
        ({"sentence_type": None}, "'big fish': no sentence_type is given"),
        ({"compound": "grey area"}, "says nothing of 'grey area'"),
    ],
)
def test_a_bad_row_of_a_later_block_is_told_before_the_first(
    tmp_path, monkeypatch, data, settings, change, message
):
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[5] |= change
    data.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(run_blocks, "rank_block", dying(run_blocks.rank_block, 1))
    with pytest.raises(UserError) as caught:
        rank_file(data, tmp_path / "run", settings)
    assert message in str(caught.value)


# --------------------------------------------------------------------------- chat models

ASKED = 7 * len(COMPOUNDS)
"""Five votes on each item, and what each sense means."""
SERVED = Settings(llms=("openai:gpt-4o",))


def asked(folder: Path) -> list[Any]:
    record = json.loads((folder / "run.json").read_text())
    return [(one["stage"], one["calls"], one["price_usd"]) for one in record["asked"]]


def test_a_budget_ends_a_run_between_blocks_and_the_account_is_of_all(
    tmp_path, data, served: StrictServer
):
    rank_file(data, tmp_path / "one", SERVED)
    whole = asked(tmp_path / "one")
    assert [calls for _, calls, _ in whole] == [35, 14]
    (cache_dir() / "replies.sqlite").unlink()
    served.requests.clear()
    budget = 0.6 * sum(price for _, _, price in whole)
    with pytest.raises(
        UserError, match=r"budget .* ends here.* [24] of 7 items are ranked and kept"
    ):
        rank_file(data, tmp_path / "two", SERVED, asking=Asking(budget=budget))
    rank_file(data, tmp_path / "two", SERVED)
    assert len(served.requests) == ASKED
    assert asked(tmp_path / "two") == [
        (stage, calls, pytest.approx(price, abs=2e-6)) for stage, calls, price in whole
    ]


def test_answers_that_cannot_be_read_end_a_run_in_its_first_block_alone(
    tmp_path, data, served: StrictServer, caplog
):
    unread = "night owl", "cold feet"

    def answer(body: Body) -> str:
        prompt = prompt_of(body)
        letters = re.findall(r"Candidate (\w), caption", prompt)
        if any(f"A {compound} again" in prompt for compound in unread):
            return "?"
        said = {"sense": "idiomatic", "meaning": "z", "candidates": {}, "order": letters}
        return json.dumps(said)

    served.answer = answer
    settings = replace(SERVED, rankers=("listwise",), shuffles=1)
    with pytest.raises(UserError, match="none of its 2 answers could be read"):
        rank_file(data, tmp_path / "run", settings)
    unread = "pipe dream", "black sheep"
    (cache_dir() / "replies.sqlite").unlink()
    rank_file(data, tmp_path / "run", settings)
    assert "no answer on 'pipe dream' could be read" in caplog.text


# ------------------------------------------------------------------------------ the command


def test_the_command_prints_what_a_whole_run_prints(capsys, tmp_path, monkeypatch, data, settings):
    monkeypatch.setattr("admire.cli.output.SHOWN", 3)
    command = ["rank", data, "--llm", settings.llms[0], "--sense", "given", "--out"]
    printed = []
    for size in (2, 512):
        monkeypatch.setattr("admire.runs.run_folder.BLOCK", size)
        code, out, err = run(capsys, *command, tmp_path / "run")
        assert code == 0, err
        printed.append(out)
    assert printed[0] == printed[1]
    assert "… and 4 more" in printed[0]
    assert "top1" in printed[0]
    assert "pipe dream" in printed[0]
    assert "black sheep" not in printed[0]


def test_ctrl_c_tells_how_far_a_run_has_come(tmp_path, monkeypatch, data, settings, caplog):
    def pressed(items: list[Item], *arguments: Any, **named: Any) -> list[Ranking]:
        if items[0].compound == "pipe dream":
            raise KeyboardInterrupt
        return real(items, *arguments, **named)

    real = run_blocks.rank_block
    monkeypatch.setattr(run_blocks, "rank_block", pressed)
    with pytest.raises(KeyboardInterrupt):
        rank_file(data, tmp_path / "run", settings)
    assert "2 of 7 items are ranked and kept in" in caplog.text
