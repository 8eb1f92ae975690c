import json
import re
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from benchmarks import OWLS, write_split
from commands import HEAVY, ended, json_of, loaded, passed, run
from conftest import admire_row
from sentences import TABLE_6

from admire import UserError, reproduce_table
from admire.apps.reproduce import rows
from admire.apps.reproduce.recipe import RECIPES, read_recipe, recipe_names
from admire.tasks.rank import Rank

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

SENSES = """
paper = "Ours (2026)"
table = "Table 10"
title = "Senses"
command = "sense"
metrics = ["accuracy"]
sets.EN = { files = ["subtask_a_train.tsv"], train = ["second.tsv"], settings = { lang = "en" } }
settings.llm = "openai:gpt-6"
rows = [
    { name = "votes", settings = { votes = 2 } },
    { name = "head", command = "train head" },
    { name = "queries", command = "retrieve", settings = { query = "meaning" } },
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
            job = rows.prepare(recipe, row, place, None, name)
            assert job.lacking, "without data nothing can be here"


ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("paper", ["uor-ncl", "idiolink", "he", "chengyusts", "ynu-hpcc"])
def test_the_page_of_components_has_each_difference_that_a_recipe_admits_and_no_other(paper):
    differences: dict[str, list[str]] = {}
    for name in recipe_names():
        if name.startswith(f"{paper}:"):
            for sentence in read_recipe(name).differs:
                differences.setdefault(sentence, []).append(f"`{name}`")
    said = [f"- {sentence} ({', '.join(names)})" for sentence, names in differences.items()]
    page = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
    sections = [part for part in page.split("\n## ") if f"`{paper}:" in part]
    listed = [line for line in "".join(sections).split("\n") if line.startswith("- ")]
    assert listed == said, "\n".join(["The list should be:", *said])


def test_recipes_name_only_recipes_that_there_are():
    papers = {name.partition(":")[0] for name in recipe_names()}
    for name in recipe_names():
        path = RECIPES / f"{name.replace(':', '/')}.toml"
        words = rf"\b(?:{'|'.join(papers)})[:-][\w-]+"
        assert set(re.findall(words, path.read_text(encoding="utf-8"))) <= set(recipe_names()), name


def test_rows_run_are_compared_and_are_not_run_twice(capsys, monkeypatch, tmp_path, recipe):
    out = tmp_path / "out"
    call = ("reproduce", recipe, "--data", tmp_path, "--out", out)
    passed(capsys, *call)
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
    theirs = figures.loc["theirs", "EN", "dcg"]
    assert (theirs["published"], theirs["note"]) == (3.5, "No weights.")
    page = (out / "table.html").read_text(encoding="utf-8")
    assert "It is made up." in page
    assert "No weights." in page
    # A second call reads what came out.
    monkeypatch.setattr(Rank, "run", None)
    printed, _ = passed(capsys, *call, "--json")
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
    modules = loaded("from admire import reproduce_table")
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith("admire.apps.cli")}


def test_rows_differ_item_by_item_from_the_first_that_ran(capsys, tmp_path, recipe):
    rows = """rows = [
    { name = "not here", settings = { llms = ["openai:gpt-4o"] } },
    { parts = ["compound"], published = { EN = [0.5, 3.0] } },
    { name = "sentence", settings = { query = "sentence" } },
]"""
    recipe.write_text(RECIPE.partition("rows = ")[0] + rows)
    for again in (False, True):  # what came out before is compared too
        figures = reproduce_table(recipe, tmp_path, tmp_path / "out")
        figures = figures[figures["set"] == "EN"].set_index(["row", "metric"])
        assert figures.loc["compound", "minus_first"].isna().all(), again
        for metric in ("top1", "dcg"):
            row = figures.loc["sentence", metric]
            difference = row["ours"] - figures.loc[("compound", metric), "ours"]
            assert row["minus_first"] == pytest.approx(difference)
    assert "minus first" in (tmp_path / "out" / "table.html").read_text(encoding="utf-8")
    call = ("reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out", "--format", "latex")
    latex, _ = passed(capsys, *call)
    caption, _, cells = latex.partition("\\toprule\nRow & Set & n & top-1 & DCG")
    for said in ("10,000 resamples, seed 0).", "Minus first: the mean", "sentence, PT: needs sub"):
        assert said in caption
    assert r"\\{\scriptsize minus first" in cells


@pytest.mark.ci  # the detector reads states of the embedded chat model
def test_rows_that_decide_senses_differ_item_by_item_too(tmp_path, recipe):
    rows = ('{ name = "given", settings = { sense = "given" } }', '{ name = "detector" }')
    text = SENSES.partition("settings.llm")[0] + 'settings.sense = "detector"\n'
    recipe.write_text(f"{text}rows = [{', '.join(rows)}]", encoding="utf-8")
    for _ in range(2):  # what came out before is compared too
        table = reproduce_table(recipe, tmp_path, tmp_path / "out").set_index("row")
        given, detector = table["ours"]
        assert given == 1
        assert table.loc["detector", "minus_first"] == pytest.approx(detector - given)


def test_figures_of_several_languages_have_their_mean_over_languages(tmp_path, write_table):
    for tag, count in (("en", 1), ("pt", 3)):
        rows = (admire_row(f"compound {k}") for k in range(count))
        write_table(*rows, name=f"subtask_a_{tag}.tsv")
    recipe = tmp_path / "mine.toml"
    files = 'files = ["subtask_a_en.tsv", "subtask_a_pt.tsv"]'
    head = RECIPE.replace('["top1", "dcg"]', '["macro:top1", "en:top1", "pt:top1", "top1"]')
    head = head.partition("sets.EN")[0] + f"sets.both.{files}\n"
    recipe.write_text(
        f'{head}settings.encoder = "e5"\n'
        'rows = [{ name = "sentence", settings = { query = "sentence" } }]'
    )
    table = reproduce_table(recipe, tmp_path, tmp_path / "out").set_index("metric")
    macro, en, pt, whole = table["ours"]
    assert macro == pytest.approx((en + pt) / 2)
    assert whole == pytest.approx((en + 3 * pt) / 4)


@pytest.mark.parametrize("name", ["sbert:/nowhere", "sbert:a b", "sbert:../x", "sbert:a/b/c"])
def test_a_model_that_cannot_be_is_lacking(capsys, tmp_path, recipe, name):
    recipe.write_text(RECIPE.replace('"e5"', f'"{name}"'))
    _, out, _ = run(capsys, "reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "o")
    assert name.removeprefix("sbert:") in out


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


def told(ranked: Mock, setting: str) -> list[object]:
    return [call.args[1][setting] for call in ranked.call_args_list]


def test_embedded_models_stand_in_and_are_marked(capsys, monkeypatch, tmp_path, recipe):
    monkeypatch.setattr(Rank, "run", ranked := Mock(side_effect=UserError("That is enough.")))
    out = tmp_path / "out"
    options = ("--data", tmp_path, "--out", out, "--rows", "GPT", "--stand-in")
    code, _, err = run(capsys, "reproduce", recipe, *options)
    assert (code, told(ranked, "llms")) == (2, [("embedded",)]), err
    row = table(out).loc["GPT", "EN", "dcg"]
    assert row["stand_in"]
    assert "That is enough." in row["note"]
    with pytest.raises(KeyError):
        table(out).loc["compound"]


KINDS = ("senses", "meanings")


def test_a_forecast_counts_what_rows_share_once(capsys, monkeypatch, tmp_path, recipe):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    again = '{ name = "again", parts = ["GPT"], settings = { contrast = 0.0 } }'
    text = RECIPE.replace('{ name = "theirs"', f'{again},\n{{ name = "theirs"')
    recipe.write_text(text.replace('sense = "given", ', ""), encoding="utf-8")
    printed, err = passed(capsys, "reproduce", recipe, "--data", tmp_path, "--dry-run", "--json")
    stages = json.loads(printed)
    asked = {kind: sum(s["questions"] for s in stages if s["stage"] == kind) for kind in KINDS}
    assert asked == {"senses": 3 * 5, "meanings": 3 * 2}
    reason = "data are missing (subtask_a_train.tsv in pt)."
    assert f"2 of 4 runs that ask a chat model are not counted: {reason}" in err


@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_a_forecast_says_when_nothing_can_be_counted_or_nothing_is_asked(
    capsys, tmp_path, recipe, json_too
):
    empty = tmp_path / "empty"
    empty.mkdir()
    call = ("reproduce", recipe, "--dry-run", *json_too, "--data")
    missing = "subtask_a_train.tsv in en, second.tsv in en"
    message = ended(capsys, *call, empty)
    assert message == f"admire: No row can be counted: data are missing ({missing})."
    message = ended(capsys, *call, tmp_path, "--rows", "theirs")
    assert message == "admire: No row can be counted: admire runs none of them."
    code, printed, _ = run(capsys, *call, tmp_path, "--rows", "compound")
    assert (code, printed) == (0, "[]\n" if json_too else "This run asks no chat model.\n")


def test_a_forecast_counts_the_questions_of_senses_heads_and_retrieval(
    capsys, monkeypatch, tmp_path, recipe
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_split(tmp_path, "test", OWLS)
    recipe.write_text(SENSES, encoding="utf-8")
    stages = json_of(capsys, "reproduce", recipe, "--data", tmp_path, "--dry-run", "--json")
    asked = [(stage["stage"], stage["questions"]) for stage in stages]
    # Two votes on each of two items; a gloss of the one that the head learns from; with the paper's
    # profile, by which the head is measured, three more votes and a gloss of each of the two; and
    # five votes and a gloss of each of the two queries.
    assert asked == [("senses", 4 + 6 + 10), ("meanings", 1 + 2 + 2)]


def test_a_forecast_needs_no_key_and_no_pictures_and_counts_the_ratings_of_pairs(
    capsys, monkeypatch, tmp_path, recipe, write_table
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    others = 'settings = { images = "augmented" }, published = { EN = [0] }'
    text = SENSES.replace('"train head" }', f'"train head", {others} }}')
    text = text.replace('command = "retrieve", settings = { query = "meaning" }', 'command = "sts"')
    pairs = [("An owl.", "A bird.", 4), ("An owl.", "A man.", 1), ("An owl.", "A bird.", 4)]
    lines = [f"dev,{first},{second},{score}" for first, second, score in pairs]
    (tmp_path / "pairs.csv").write_text("\n".join(["split,sentence1,sentence2,score", *lines]))
    text = text.replace("settings.llm", 'sets.pairs.files = ["pairs.csv"]\nsettings.llm')
    recipe.write_text(
        text.replace('name = "queries"', 'name = "pairs", published = { pairs = [0] }')
    )
    call = ("reproduce", recipe, "--data", tmp_path, "--dry-run", "--json")
    stages = json_of(capsys, *call, "--rows", "head", "--rows", "pairs")
    asked = [(stage["stage"], stage["questions"]) for stage in stages]
    assert asked[-1] == ("similarities", 2), "what is asked twice is cached"
    assert [stage for stage, _ in asked[:-1]] == ["meanings", "senses"]


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_exit_code_2_says_that_no_row_could_run(capsys, tmp_path, recipe, json_too):
    call = ("reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out", *json_too)
    code, out, err = run(capsys, *call, "--rows", "GPT", "--rows", "theirs")
    assert code == 2
    assert "No weights." in out, "the table is printed all the same"
    assert "needs openai:gpt-4o (set OPENAI_" in out
    assert err.splitlines()[-1].startswith("admire: No row could run.")


def test_a_row_without_gold_runs_and_has_no_figures(capsys, tmp_path, recipe, write_table):
    write_table(admire_row() | {"expected_order": "", "sentence_type": ""}, name="second.tsv")
    call = ("reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out", "--rows", "1")
    passed(capsys, *call)
    row = table(tmp_path / "out").loc["compound", "EN", "top1"]
    assert (row["note"], pd.isna(row["ours"])) == ("no gold, so no figures", True)


def meanings(path: Path, *senses: str) -> str:
    """Record a meaning of each compound in each sense, and the senses of night owls."""
    lines = ["compound,sentence,sense,meaning"]
    for compound in ("night owl", "pipe dream", "cold feet"):
        lines += [f"{compound},,idiomatic,something odd", f"{compound},,literal,something plain"]
    lines += [f'night owl,"{admire_row()["sentence"]}",{sense},' for sense in senses]
    path.write_text("\n".join(lines), encoding="utf-8")
    return f"recorded:{path}"


def test_other_chat_models_are_put_in_place_of_a_rows_own_and_marked(
    capsys, monkeypatch, tmp_path, recipe
):
    file, out = tmp_path / "meanings.csv", tmp_path / "out"
    llm = meanings(file)
    passed(capsys, "reproduce", recipe, "--data", tmp_path, "--out", out, "--llm", llm)
    rows = table(out)
    row = rows.loc["GPT", "EN", "top1"]
    assert (row["n"], row["stand_in"]) == (3, True)
    assert row["note"] == f"stand-in: {llm} for openai:gpt-4o"
    assert not rows.loc["compound", "EN", "top1"]["stand_in"], "this row asks no chat model"
    # Python gets the same, and reads what came out until the recording is another.
    monkeypatch.setattr(Rank, "run", ranked := Mock(side_effect=UserError("That is enough.")))
    figures = reproduce_table(recipe, tmp_path, out, llms=[llm])
    assert figures.to_csv(index=False) == (out / "table.csv").read_text(encoding="utf-8")
    assert not ranked.called
    meanings(file, "idiomatic")
    reproduce_table(recipe, tmp_path, out, llms=[llm])
    assert told(ranked, "llms") == [(llm,)]


@pytest.mark.parametrize("senses", [(), ("idiomatic",)])
def test_the_detector_decides_in_place_of_votes_that_a_recording_lacks(
    monkeypatch, tmp_path, recipe, senses
):
    recipe.write_text(RECIPE.replace('sense = "given"', 'sense = "vote"'), encoding="utf-8")
    llm = meanings(tmp_path / "meanings.csv", *senses)
    monkeypatch.setattr(Rank, "run", ranked := Mock(side_effect=UserError("That is enough.")))
    reproduce_table(recipe, tmp_path, tmp_path / "out", rows=["GPT"], llms=[llm])
    assert told(ranked, "sense") == ["vote" if senses else "detector"]


def test_wrong_names_end_the_command(capsys, tmp_path, recipe):
    call = ("reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out", "--llm")
    assert "uor-ncl:2" in ended(capsys, "reproduce", "uor-ncl:22")
    assert "Unknown chat model 'gpt'." in ended(capsys, *call, "gpt")
    assert "nowhere.csv: cannot be read" in ended(capsys, *call, "recorded:nowhere.csv")
    recipe.write_text(SENSES, encoding="utf-8")
    message = ended(capsys, *call, "embedded", "--llm", "openai:gpt-6")
    assert message.endswith("`admire sense` takes only one. (--llm, --rows)")


def test_pairs_are_counted_and_those_of_several_files_together(capsys, tmp_path, write_table):
    for split, kept in (("train", TABLE_6), ("dev", TABLE_6[:2]), ("test", TABLE_6[1:])):
        write_table(*kept, name=f"{split}.csv")
    call = ("reproduce", "chengyusts:5", "--data", tmp_path, "--out", tmp_path / "out")
    printed, _ = passed(capsys, *call)
    counts = table(tmp_path / "out").loc["ChengyuSTS"]["ours"].unstack()
    assert counts.loc["all"].astype(int).to_dict() == {
        "idioms": 2, "homogeneous": 3, "sts:homogeneous": 0, "adversarial": 4,
        "sts:adversarial": 2, "total": 7, "sts:total": 2,
    }  # fmt: skip
    assert counts.loc["train", "total"] == 3
    assert "paper 25753 (-25746)" in printed


def test_intervals_of_similarity_are_in_the_table(capsys, tmp_path):
    lines = [f"dev,An owl sees {k} mice.,A bird sees {k * k} mice.,{k % 6}" for k in range(12)]
    (tmp_path / "pairs.csv").write_text("split,sentence1,sentence2,score\n" + "\n".join(lines))
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'paper = "P"\ntable = "T"\ntitle = "t"\ncommand = "sts"\nmetrics = ["spearman"]\n'
        'rows = [{ name = "a" }]\nsets.EN.files = ["pairs.csv"]\n'
    )
    passed(capsys, "reproduce", recipe, "--data", tmp_path, "--out", tmp_path / "out")
    row = table(tmp_path / "out").loc["a", "EN", "spearman"]
    assert row["low"] < row["ours"] < row["high"]


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


def test_the_list_says_what_recipes_need(capsys, monkeypatch, tmp_path, write_table):
    # A row is ready if each file that it reads is there: splits of a benchmark, and pictures.
    write_split(tmp_path, "train", OWLS)
    write_table(admire_row(), name="subtask_a_dev.tsv")
    monkeypatch.setenv("OPENAI_API_KEY", "key")  # which does not go where a recipe says
    rows = {r["recipe"]: r for r in json_of(capsys, "reproduce", "--data", tmp_path, "--json")}
    assert rows["idiolink:types"]["ready"] == 0
    assert {"test/queries.json", "test/indexes.json"} <= {*rows["idiolink:types"]["needs"]}
    assert {"val/queries.json", "test/indexes.json"} <= {*rows["idiolink:5"]["needs"]}
    assert "train/queries.json" not in rows["idiolink:5"]["needs"]
    (picture,) = [need for need in rows["uor-ncl:4"]["needs"] if "a.png" in need]
    assert "subtask_a_dev.tsv, row 1" in picture
    assert "your key (OPENAI_API_KEY) would be sent there" in str(rows["chengyusts:8"]["needs"])
    monkeypatch.delenv("OPENAI_API_KEY")
    code, printed, _ = run(capsys, "reproduce", "--json")
    rows = {row["recipe"]: row for row in json.loads(printed)}
    assert code == 0
    assert set(rows) == set(recipe_names())
    needs = " ".join(rows["uor-ncl:2"]["needs"])
    assert "openai:gpt-4o" in needs
    assert "mclip:LABSE-Vit-L-14" in needs
    assert rows["uor-ncl:2"]["ready"] == 0
