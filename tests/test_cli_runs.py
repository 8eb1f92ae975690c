import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from commands import ended, json_of, passed, run
from conftest import admire_row
from rich.console import Console
from toys import ScriptedChat, WordEncoder

from admire import Settings, rank, read_items, write_run
from admire.apps.cli.output import print_rankings, print_rows, show_run
from admire.pipeline.run_folder import read_run, read_settings
from admire.tasks.rank import run_settings
from admire.tasks.scorecard import Score


def test_a_score_that_rounds_to_nothing_has_no_minus_and_ties_are_marked(capsys, write_table):
    (item,) = read_items(write_table(admire_row()))
    names = tuple(candidate.name for candidate in item.candidates)
    shown = {"interpretations": [], "unsure": False, "order": names, "scores": [-0.001] * 5}
    print_rankings([SimpleNamespace(item=item, **shown, tied=names[:2], uncompared=())], 1)
    out = capsys.readouterr().out
    assert (out.count("+0.00"), out.count("(tied)")) == (5, 2)


def test_a_run_is_the_model_of_another(capsys, tmp_path, wavering):
    _, folder = wavering
    settings = run_settings({"like": folder})
    assert settings == replace(SETTINGS, llms=settings.llms, encoder=("words",))
    file = tmp_path / "run.toml"
    file.write_text(run(capsys, "config", "--like", folder)[1])
    assert run_settings({"config": file}) == settings
    assert run_settings({"like": folder, "votes": 3}) == replace(settings, votes=3)
    path = folder / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"saw": ["image", "caption"]}))  # what chat models saw
    assert read_settings(folder).track is None


COMPOUNDS = ("night owl", "cold feet", "black sheep")
SETTINGS = Settings(sense="vote", meanings="gloss", track="caption", abstain_below=0.7)
LAST = {"expected_order": "['e.png', 'b.png', 'c.png', 'd.png', 'a.png']"}


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
    chat = ScriptedChat(answer)
    ranked = rank(read_items(data), SETTINGS, llms=[chat], encoder=WordEncoder(), source=data)
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
        monkeypatch.setattr("admire.apps.cli.output._console", lambda errors=False, c=terminal: c)
        show_run(folder, [])
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= width
        assert out.count("a bird asleep") >= 3  # the gloss
        assert out.count("unsure") == 3  # two marks, and the count
        assert ("Candidates, best first" in out) == wide
        assert [name for name in "abcde" if f"{name}.png" not in out] == []
        told = "All names begin with “pictures/a_snake_in_tall_grass_”, which is omitted here."
        assert told in " ".join(out.split())


def test_a_table_that_does_not_fit_is_a_block_a_row_with_whole_figures(capsys, monkeypatch):
    figure = "0.500 [0.150, 0.850]"
    for width, fits in ((80, False), (140, True)):
        terminal = Console(width=width, file=sys.stdout)
        monkeypatch.setattr("admire.apps.cli.output._console", lambda errors=False, c=terminal: c)
        print_rows(("Items", *"abcd"), [("all", *[figure] * 3, "a longer note " * 4)], "Run")
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        assert sum(line.count(figure) for line in lines) == 3
        assert any("┃ Items" in line for line in lines) == fits


@pytest.mark.parametrize("columns", [None, "90"])
def test_tables_in_a_pipe_are_cut_as_on_a_terminal(capsys, monkeypatch, wavering, columns):
    _, folder = wavering
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    path = folder / "items.jsonl"
    text = path.read_text().replace("a lamp at night", "a lamp " * 300)
    path.write_text(text.replace("night owl", "night owl of that name").replace(".png", "_0.png"))
    scores = folder / "scores.csv"
    scores.write_text(scores.read_text().replace(".png", "_0.png"))
    show_run(folder, [])
    lines = capsys.readouterr().out.splitlines()
    assert 80 < max(map(len, lines)) <= int(columns or 120)
    assert {line[-1] for line in lines if line[:1] in ("┃", "│")} <= {"┃", "│"}


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


def test_a_run_is_scored_with_how_far_its_senses_can_be_trusted(capsys, wavering):
    data, folder = wavering
    submission = folder / "submission_en.tsv"
    out, err = passed(capsys, "score", submission, "--gold", data, "--json")
    assert "no calibration table" not in err
    content = json.loads(out)
    assert content.keys() == {str(submission), "reliability", "ties"}
    reliability = content["reliability"][str(submission)]
    assert [point["confidence"] for point in reliability["curve"]] == [0.8, 0.6, 0.5]
    assert "calibration_error" in {row["metric"] for row in reliability["figures"]}
    assert (reliability["unsure"]["below"], reliability["unsure"]["items"]) == (0.7, 2)
    assert {row["n"] for row in reliability["unsure"]["without"]} == {1}
    of_folder = json_of(capsys, "score", folder, "--gold", data, "--json")
    (ties,) = content["ties"].values()
    of_run = [content[str(submission)], {str(folder): reliability}, {str(folder): ties}]
    assert list(of_folder.values()) == of_run
    _, out, _ = run(capsys, "score", folder, "--gold", data)
    tied = "1 of 3 items have a tie at the top"
    for words in ("calibration_error", "Coverage", "2 of 3 items are unsure (below 0.7)", tied):
        assert words in out


@pytest.mark.usefixtures("wide")
def test_judgements_correct_the_gold_of_a_run(capsys, tmp_path, wavering):
    _, folder = wavering
    judgements = tmp_path / "judgements.json"
    said = {"compound": "night owl", "sentence": "A night owl.", "sense": "literal"}
    judgements.write_text(json.dumps({"judgements": [said]}))
    command = ["score", folder, "--judgements", judgements]
    out, err = passed(capsys, *command, "--json")
    corrected, plain = (json.loads(text) for text in (out, run(capsys, *command[:2], "--json")[1]))
    before = corrected["judgements"].pop("before")
    assert corrected["judgements"] == {"judged": 1, "senses": 1, "bests": 0}
    assert before == {str(folder): plain[str(folder)]}
    assert "literal" in {row["group"] for row in corrected[str(folder)]}
    _, out, err = run(capsys, *command)
    assert f"{folder}, by the original gold" in out
    assert "1 item is judged" in err
    ended(capsys, *command, "--published", "en-dev")
    ended(capsys, "score", folder / "submission_en.tsv", "--judgements", judgements)


def test_a_submission_that_is_not_a_runs_is_scored_as_it_is(capsys, tmp_path, wavering):
    data, folder = wavering
    submission = folder / "submission_en.tsv"

    def refused(submission: Path) -> str:
        out, err = passed(capsys, "score", submission, "--gold", data, "--json")
        assert json.loads(out).keys() == {str(submission)}
        return err.partition(f"{submission}: no calibration table, because ")[2]

    rows = submission.read_text().splitlines(keepends=True)
    rows[2] = rows[2].replace("idiomatic", "literal")
    submission.write_text("".join(rows))
    assert "its row 2 is not the run's" in refused(submission)
    (folder / "items.jsonl").write_text((folder / "items.jsonl").read_text()[:-9])
    assert "items.jsonl, row 3" in refused(submission)
    assert "its folder contains no run" in refused(submission.rename(tmp_path / "alone.tsv"))


@pytest.mark.usefixtures("wide")
def test_a_figure_is_placed_among_published_ones(capsys, write_table):
    rows = [admire_row(f"compound {k}", sentence=f"A {k}.") for k in range(15)]
    gold = write_table(*rows)
    mine = write_table(*rows[:11], *(row | LAST for row in rows[11:]), name="mine.tsv")
    command = ["score", mine, "--gold", gold, "--published"]
    (board,) = json_of(capsys, *command, "en-dev", "--json")["published"][str(mine)]
    assert (board["set"], board["subtask"], board["track"]) == ("en-dev", "a", "image+caption")
    assert [(place["place"], place["of"]) for place in board["places"]] == [(2, 31), (4, 31)]
    first = board["systems"][0]
    assert (first["system"], first["top1_within"]) == ("UoR-NCL CI GPT-3.5 XLM-32", True)
    _, out, _ = run(capsys, *command, "en-dev")
    assert "≈ 0.733 [0.480, 0.891]" in out
    assert re.search(r"│ 1 +│ UoR-NCL CI GPT-3.5 XLM-32 [^\n]*\n│ 1 to \d+ +│ → ", out)
    assert "(--published)" in ended(capsys, *command, "en-tets")


def test_submissions_show_their_paired_differences_from_the_first(capsys, write_table):
    rows = admire_row(), admire_row("cold feet")
    gold, good = write_table(*rows), write_table(*rows, name="good.tsv")
    bad = write_table(*(row | LAST for row in rows), name="bad.tsv")
    _, out, _ = run(capsys, "score", bad, good, "--gold", gold, "--json")
    difference = pd.DataFrame(json.loads(out)["second minus first"]).set_index(["group", "metric"])
    assert difference.loc[("all", "top1"), "mean"] == 1
    assert "second minus first" in run(capsys, "score", bad, good, "--gold", gold)[1]
    three = json_of(capsys, "score", bad, good, bad, "--gold", gold, "--json")
    for other, expected in ((good, 1), (bad, 0)):
        name = f"{other} minus {bad}"
        means = [row["mean"] for row in three[name] if (row["group"], row["metric"]) == TOP1]
        assert means == [expected]
        assert three["agreement"][name][0]["mean"] == 1 - expected
    result = Score().run([bad, good], {"gold": gold})
    top1 = {row["submission"]: row["mean"] for row in result.figures if row["metric"] == "top1"}
    assert top1 == {str(bad): 0, str(good): 1}
    assert result.record["gold"] == str(gold)


def test_runs_without_gold_are_scored_by_their_agreement(capsys, tmp_path, wavering):
    _, folder = wavering
    run_ = read_run(folder)
    no_gold = {"expected_order": None, "sentence_type": None}
    blind = tuple(ranking.model_copy(update=no_gold) for ranking in run_.rankings)
    write_run(replace(run_, rankings=blind), tmp_path / "blind")
    for pair in ([tmp_path / "blind", folder], [folder / "submission_en.tsv"] * 2):
        out, err = passed(capsys, "score", *pair, "--json")
        assert [row["metric"] for row in json.loads(out)["agreement"]] == list(AGREEMENT)
        assert "--gold" in err
        assert all(word in run(capsys, "score", *pair)[1] for word in ("Agreement", *AGREEMENT))
    assert "is not a run folder" in ended(capsys, "score", folder / "submission_en.tsv")


AGREEMENT = "same_first", "kendall_tau"
TOP1 = "all", "top1"


def test_tables_for_a_paper_have_an_interval_in_each_cell_and_say_how_it_was_made(
    capsys, monkeypatch, tmp_path, write_table
):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("tabulate", reason="needs the extra 'tables'")
    rows = [admire_row(f"compound {k}", sentence=f"A {k}.") for k in range(4)]
    gold = write_table(*rows)
    runs = [
        write_table(*rows[:k], *(row | LAST for row in rows[k:]), name=name).name
        for k, name in ((4, "all_right.tsv"), (3, "a|b.tsv"), (2, "50%.tsv"))
    ]
    call = ("score", *runs, "--gold", gold, "--seed", 7, "--format")
    tables = {form: passed(capsys, *call, form) for form in ("markdown", "latex", "csv")}
    figures = "0.750 [0.301, 0.954]"
    said = "intervals by bootstrap over the items"
    assert f"| a\\|b.tsv | all | 4 | {figures} |" in " ".join(tables["markdown"][0].split())
    differences = "Mean differences from all\\_right.tsv, item by item, on 4 items"
    assert differences in tables["markdown"][0]
    assert r"50\%.tsv & all & 4 & \begin{tabular}[t]{@{}l@{}}0.500\\" in tables["latex"][0]
    assert tables["latex"][0].count(r"\toprule") == 3, "figures, differences and agreement"
    assert f'a|b.tsv,all,4,"{figures}"' in tables["csv"][0]
    for printed, logged in tables.values():
        assert re.search(rf"{said}.*10,000 resamples, seed 7", printed + logged)
