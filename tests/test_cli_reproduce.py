"""``admire reproduce``: recipes that come with admire, and a table of one's own, row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from commands import HEAVY, ended, loaded, run
from conftest import admire_row

from admire import UserError, reproduce_table
from admire.cli import recipe_rows
from admire.reproduce.recipe import read_recipe, recipe_names

RECIPE = """
paper = "Ours (2026)"
table = "Table 9"
title = "Queries"
command = "rank"
metrics = ["top1", "dcg"]
differs = ["It is made up."]
sets.EN = { files = ["subtask_a_train.tsv", "second.tsv"], settings = { lang = "en" } }
sets.PT = { files = ["subtask_a_train.tsv"], settings = { lang = "pt" } }
settings.encoder = "e5"
parts.compound = { query = "compound" }
parts.GPT = { llms = ["openai:gpt-4o"] }
rows = [
    { parts = ["compound"], published = { EN = [0.5, 3.0], PT = [0.25, 2.5] } },
    { parts = ["GPT"], settings = { sense = "given", llms = ["openai:gpt-4o"] } },
    { name = "theirs", run = false, why = "No weights.", published = { EN = [0.9, 3.5] } },
]
"""


@pytest.fixture
def recipe(tmp_path: Path, write_table) -> Path:
    write_table(admire_row(), admire_row("pipe dream"))
    write_table(admire_row("cold feet"), name="second.tsv")
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def table(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "table.csv").set_index(["row", "set", "metric"])


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_names_settings_that_are_there(name):
    recipe = read_recipe(name)
    for row in recipe.rows:
        for place in recipe.sets_of(row) if row.run else ():
            job = recipe_rows.prepare(recipe, row, place, None, name)
            assert job.lacking, "without data nothing can be here"


def test_rows_run_are_compared_and_are_not_run_twice(capsys, monkeypatch, tmp_path, recipe):
    out = tmp_path / "out"
    call = ("reproduce", recipe, "--data", tmp_path, "--out", out)
    code, _, err = run(capsys, *call)
    assert code == 0, err
    figures = table(out)
    row = figures.loc["compound", "EN", "top1"]
    assert (row["n"], row["published"]) == (3, 0.5)
    assert row["difference"] == pytest.approx(row["ours"] - 0.5)
    assert row["low"] <= row["ours"] <= row["high"]
    # The items of both files are scored together, as they are one by one.
    runs = [out / "compound" / "EN" / f"run-{number}" for number in (1, 2)]
    _, printed, _ = run(capsys, "score", runs[0], "--json")
    first = {r["metric"]: r for r in json.loads(printed)[str(runs[0])] if r["group"] == "all"}
    _, printed, _ = run(capsys, "score", runs[1], "--json")
    second = {r["metric"]: r for r in json.loads(printed)[str(runs[1])] if r["group"] == "all"}
    assert row["ours"] == pytest.approx((2 * first["top1"]["mean"] + second["top1"]["mean"]) / 3)
    # What cannot run says why; what others made is shown.
    assert "subtask_a_train.tsv in pt" in figures.loc["compound", "PT", "top1"]["note"]
    assert "OPENAI_API_KEY" in figures.loc["GPT", "EN", "dcg"]["note"]
    assert figures.loc["theirs", "EN", "dcg"][["published", "note"]].tolist() == [
        3.5,
        "No weights.",
    ]
    page = (out / "table.html").read_text(encoding="utf-8")
    assert "It is made up." in page
    assert "No weights." in page
    # A second call reads what came out.
    monkeypatch.setattr(recipe_rows, "rank", None)
    code, printed, err = run(capsys, *call, "--json")
    assert code == 0, err
    assert table(out)["ours"].equals(figures["ours"])
    assert json.loads(printed)["figures"][0]["ours"] == row["ours"]
    # Python gets the table that the command writes.
    again = reproduce_table(recipe, tmp_path, out)
    assert again.to_csv(index=False) == (out / "table.csv").read_text(encoding="utf-8")


def test_python_runs_the_rows_that_are_named_and_loads_nothing_heavy_before(tmp_path, recipe):
    figures = reproduce_table(recipe, None, tmp_path / "out", rows=["theirs", "2"])
    assert figures.drop_duplicates("row")["row"].tolist() == ["theirs", "GPT"]
    assert "OPENAI_API_KEY" in figures["note"].iloc[-1]
    with pytest.raises(UserError, match="compound"):
        reproduce_table(recipe, None, tmp_path / "out", rows=["compuond"])
    assert not loaded("from admire import reproduce_table") & HEAVY


@pytest.mark.parametrize("name", ["sbert:/nowhere", "sbert:a b", "sbert:../x", "dual:a/b/c"])
def test_a_model_that_cannot_be_is_lacking(capsys, tmp_path, recipe, name):
    recipe.write_text(RECIPE.replace('"e5"', f'"{name}"'))
    _, out, _ = run(capsys, "reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "o")
    assert name in out


@pytest.mark.parametrize("place", ["settings", "sets.EN.settings"])
def test_code_of_a_model_does_not_run_because_a_recipe_says_so(capsys, tmp_path, place):
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\nAn owl.,A bird.,4\n")
    recipe = tmp_path / "theirs.toml"
    recipe.write_text(
        'paper = "P"\ntable = "T"\ntitle = "t"\ncommand = "sts"\nmetrics = ["spearman"]\n'
        f'rows = [{{ name = "a", settings = {{ encoder = "sbert:{tmp_path}" }} }}]\n'
        f'sets.EN.files = ["pairs.csv"]\n{place}.trust_remote_code = true\n'
    )
    command = ["reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out", "--json"]
    for option, said in (
        ((), "needs --trust-remote-code"),
        (("--trust-remote-code",), "did not run"),
    ):
        notes = {row["note"] for row in json.loads(run(capsys, *command, *option)[1])["figures"]}
        assert all(said in note for note in notes)


def test_embedded_models_stand_in_and_are_marked(capsys, monkeypatch, tmp_path, recipe):
    ranked = []

    def noted(data, *, out, json, options):
        ranked.append(options)
        print("{}")
        raise recipe_rows.UserError("That is enough.")

    monkeypatch.setattr(recipe_rows, "rank", noted)
    out = tmp_path / "out"
    options = ("--data", tmp_path, "--out", out, "--rows", "GPT", "--stand-in")
    code, _, err = run(capsys, "reproduce", recipe, *options)
    assert (code, [options["llms"] for options in ranked]) == (0, [("embedded",)]), err
    row = table(out).loc["GPT", "EN", "dcg"]
    assert row["stand_in"]
    assert "That is enough." in row["note"]
    with pytest.raises(KeyError):
        table(out).loc["compound"]


def test_a_forecast_counts_what_rows_share_once(capsys, monkeypatch, tmp_path, recipe):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    text = RECIPE.replace(
        '{ name = "theirs"', '{ name = "again", parts = ["GPT"] },\n{ name = "theirs"'
    )
    recipe.write_text(text.replace('sense = "given", ', ""), encoding="utf-8")
    code, printed, err = run(capsys, "reproduce", recipe, "--data", tmp_path, "--dry-run", "--json")
    assert code == 0, err
    votes = [stage for stage in json.loads(printed) if stage["stage"] == "senses"]
    assert sum(stage["questions"] for stage in votes) == 3 * 5
    empty = tmp_path / "empty"
    empty.mkdir()
    code, printed, err = run(capsys, "reproduce", recipe, "--data", empty, "--dry-run", "--json")
    assert (code, json.loads(printed)) == (0, [])
    assert "second.tsv in en" in err


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('query = "compound"', 'querry = "compound"', ("querry", "query", "compound")),
        ('query = "compound"', 'query = "words"', ("query", "compound")),
        ('parts = ["GPT"]', 'parts = ["GTP"]', ("GTP", "GPT")),
        ("PT = [0.25, 2.5]", "PT = [0.25]", ("compound", "PT", "1", "2")),
        ("PT = [0.25, 2.5]", 'PT = [0.25, "high"]', ("rows[0].published.PT[1]", "high")),
        ("PT = [0.25, 2.5]", "DE = [0.25, 2.5]", ("compound", "DE")),
        ('name = "theirs"', 'name = "GPT"', ("GPT",)),
        ('command = "rank"', 'command = "rang"', ("command", "rang")),
        ("title =", "titel =", ("title",)),
        ("[0.5, 3.0]", "[0.5, 3.0", ("TOML",)),
        ("[0.5, 3.0]", "[" * 9000, ("TOML", "recursion")),
        ("title =", "title" + ".a" * 3000 + " =", ("TOML", "recursion")),
        ("title =", "title = 0x" + "f" * 9000 + " #", ("TOML", "digits")),
    ],
)
def test_a_bad_recipe_is_named_with_its_row_and_nothing_runs(
    capsys, tmp_path, recipe, before, after, named
):
    recipe.write_text(RECIPE.replace(before, after), encoding="utf-8")
    message = ended(capsys, "reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out")
    for word in ("mine.toml", *named):
        assert word in message
    assert not (tmp_path / "out").exists()


def test_what_is_not_there_is_named(capsys, tmp_path, recipe):
    assert "uor-ncl:2" in ended(capsys, "reproduce", "uor-ncl:22")
    assert "compound" in ended(capsys, "reproduce", recipe, "--rows", "compuond")


def test_the_list_says_what_recipes_need(capsys):
    code, printed, _ = run(capsys, "reproduce", "--json")
    rows = {row["recipe"]: row for row in json.loads(printed)}
    assert code == 0
    assert set(rows) == set(recipe_names())
    needs = " ".join(rows["uor-ncl:2"]["needs"])
    assert "openai:gpt-4o" in needs
    assert "mclip:LABSE-Vit-L-14" in needs
    assert rows["uor-ncl:2"]["ready"] == 0
