import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from commands import ended, hide, passed, run
from conftest import admire_row
from toys import PictureEncoder, draw, opener

from admire import PROFILES, SAMPLES, Settings, UserError, read_submission
from admire.data.settings import ItemFiles
from admire.rankers.settings import RequestOptions


def test_options_reach_the_run(capsys, monkeypatch, tmp_path, write_table):
    data = write_table(admire_row())
    ranked = Mock(side_effect=UserError("That is enough."))
    monkeypatch.setattr("admire.pipeline.run_blocks.rank_file", ranked)
    options = "--profile best --llm openai:one --llm gguf:two --encoder e5 --texts gloss,scene"
    options += " --standardise no --ranker embeddings --votes 3 --head my/head --budget 2"
    out = tmp_path / "run"
    assert run(capsys, "rank", data, "--out", out, *options.split())[0] == 2
    scoring = replace(PROFILES["best"].scoring, texts=("gloss", "scene"), standardise="no")
    models = {"llms": ("openai:one", "gguf:two"), "encoder": "e5", "caption_encoder": None}
    models |= {"rankers": ("embeddings",), "head": "my/head"}
    settings = replace(PROFILES["best"], scoring=scoring, votes=3, **models)
    told = {"asking": RequestOptions(budget=2.0), "workers": None}
    ranked.assert_called_once_with(data, out, settings, ItemFiles(), **told)
    run(capsys, "demo", "--all")  # is a run of the samples
    told = {"asking": RequestOptions(), "workers": None}
    ranked.assert_called_with(SAMPLES, Path("runs/demo"), Settings(), ItemFiles(), **told)


def test_the_embedded_profiles_encoder_needs_no_torch(capsys, monkeypatch, tmp_path, write_table):
    hide(monkeypatch, "torch", "open_clip", "transformers", "sentence_transformers", "PIL")
    data, out = write_table(admire_row()), tmp_path / "run"
    passed(capsys, "rank", data, "--query", "compound", "--out", out)
    record = json.loads((out / "run.json").read_text())
    assert record["models"]["encoders"].keys() == {"caption"}


@pytest.mark.usefixtures("words")
def test_a_program_reads_where_the_run_is_and_its_figures(capsys, tmp_path, write_table):
    data, out = write_table(admire_row(), admire_row("cold feet")), tmp_path / "my run"
    options = ("--query", "compound", "--json")
    printed, err = passed(capsys, "rank", data, "--out", out, *options)
    content = json.loads(printed)
    figures, ties = content.pop("figures"), content.pop("ties")
    assert [row["tied"] for row in ties] == [1] * len(ties)
    assert content == {
        "run": str(out),
        "items": 2,
        "scored": 2,
        "unsure": None,
        "tied": 2,
        "submissions": [str(out / "submission_en.tsv")],
        "report": None,
        "senses": None,
        "languages": json.loads((out / "run.json").read_text())["languages"],
    }
    assert {(row["group"], row["metric"]) for row in figures} >= {("all", "top1"), ("all", "dcg")}
    assert re.search(r"That took [\d.]+ s\.\n", err)
    assert err.endswith(f"Next: admire report '{out}'\n")
    assert "compare it with another" in run(capsys, "score", out)[2]
    options = ("--query", "compound", "--images", tmp_path)
    _, err = passed(
        capsys, "rank", write_table(admire_row(expected_order="")), *options, "--out", out
    )
    assert f"Next: admire report '{out}' --data {data}\nNo gold: judge the items" in err
    assert err.endswith(f"admire score '{out}' --judgements judgements.json\n")
    assert f"{out}: replaced a run that differed in data. Its replies are cached." in err
    _, err = passed(capsys, "rank", data, "--query", "sentence", "--out", out)
    assert "that differed in query." in err


@pytest.mark.usefixtures("wide")
def test_the_first_items_are_enough_for_a_first_try(
    capsys, monkeypatch, tmp_path, write_table, words
):
    rows = (admire_row("owl", sentence="At night."), admire_row(), admire_row(sentence=""))
    data, out = write_table(*rows), tmp_path / "run"
    assert run(capsys, "check", data)[0] == 2
    code, printed, err = run(capsys, "check", data, "--limit", 2)
    assert (code, "items: 2;" in printed) == (0, True)
    assert "row 1 ('owl'): the compound is not in its sentence" in err
    options = ("--limit", 2, "--query", "compound")
    code, _, err = run(capsys, "rank", data, *options, "--out", out, "--report")
    assert (code, "cannot be read" in err) == (0, False), err
    record = json.loads((out / "run.json").read_text())
    assert (record["items"], record["limit"]) == (2, 2)
    assert "2, the first of each file" in (out / "report.html").read_text()
    for command in (("submit", out), ("score", out, "--gold", data)):
        code, _, err = run(capsys, *command)
        reason = f"{out}: has 2 of 3 items, because it was ranked with a limit of 2."
        assert (code, reason in err) == (2, True), err
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    model = ("--llm", "openai:x", "--votes", 1, "--meanings", "gloss")
    _, printed, _ = run(capsys, "rank", data, "--dry-run", *model, "--limit", 2)
    assert re.search(r"openai:x │ (at most )?2 ", printed)
    assert "(--limit)" in ended(capsys, "check", data, "--limit", 0)


def test_one_item_is_ranked_on_the_command_line(capsys, tmp_path, monkeypatch):
    encoder = PictureEncoder()
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", opener(encoder))
    lamp, owl = tmp_path / "lamp.png", tmp_path / "owl.png"
    draw(lamp, "a lamp at a desk")
    draw(owl, "a night owl")
    asked = ("one", "night owl", "She is a night owl.")
    out, err = passed(capsys, *asked, lamp, owl, "--query", "compound")
    assert out.index("owl.png") < out.index("lamp.png")
    captions = ("--caption", "a lamp", "--caption", "a night owl", "--caption", "a bird")
    options = ("--query", "compound", "--lang", "de", "--json")
    out, err = passed(capsys, *asked, *captions, *options)
    row = json.loads(out)
    assert (row["language"], row["order"][0]) == ("de", "candidate2")
    reason = "“candidate2” is first because it is most like the words “night owl”."
    assert row["why"] == reason
    assert row["probability_idiomatic"] is row["confidence"] is None  # no model was asked
    code, out, err = run(capsys, *asked, *captions, *options[:-1], "--why")
    assert (code, reason in out) == (0, True), err
    assert "3 captions" in ended(capsys, *asked, lamp, owl, *captions, *options)
    code, out, err = run(capsys, *asked, lamp, owl, *captions[:2], "--caption", "", *options)
    assert [one.get("caption") for one in json.loads(out)["candidates"]] == ["a lamp", None]


@pytest.mark.usefixtures("words", "owls")
def test_a_dictionary_ranks_without_a_chat_model_but_tells_no_sense(
    capsys, monkeypatch, tmp_path, write_table
):
    hide(monkeypatch, "openai", "xllamacpp")
    data, out = write_table(admire_row(image5_caption="who stays up late")), tmp_path / "run"
    command = ["rank", data, "--llm", "dictionary", "--out", out, "--sense"]
    code, _, err = run(capsys, *command, "vote")
    assert (code, err[-11:]) == (2, " (--sense)\n")
    assert not out.exists()
    assert run(capsys, *command, "given")[0] == 0
    assert read_submission(out / "submission_en.tsv")[0].order[0] == "e.png"
    assert json.loads((out / "run.json").read_text())["asked"] == []


@pytest.mark.usefixtures("words")
def test_runs_are_fused_into_a_run(capsys, tmp_path, write_table):
    data = write_table(admire_row(), admire_row("cold feet"))
    folders = [tmp_path / query for query in ("compound", "sentence")]
    for folder in folders:
        assert run(capsys, "rank", data, "--query", folder.name, "--out", folder)[0] == 0
    fused = tmp_path / "fused"
    for weights in (["--weight", "1,0.5"], ["--weight", "1", "--weight", "0.5"]):
        out, err = passed(capsys, "fuse", *folders, "--out", fused, *weights, "--method", "rrf")
        record = json.loads((fused / "run.json").read_text())
        assert (record["fusion"], [of["weight"] for of in record["fused"]]) == ("rrf", [1, 0.5])
        assert "top1" in out
        assert f"Wrote {fused / 'submission_en.tsv'}" in err
    assert "(--weight)" in ended(capsys, "fuse", *folders, "--out", fused, "--weight", "1,x")
    assert "(--out)" in ended(capsys, "fuse", *folders, "--out", folders[0])
