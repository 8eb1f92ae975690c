import io
import logging
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from importlib import metadata
from inspect import cleandoc
from pathlib import Path

import pytest
from commands import HEAVY, TORCH, command_names, ended, loaded, passed, run
from rich.console import Console

from admire import PROFILES, Settings
from admire.apps.cli import options
from admire.apps.cli.app import app, load
from admire.core.errors import DISTRIBUTION
from admire.core.options import Option
from admire.rankers.settings import Scoring
from admire.tasks.rank import run_settings


def settings_of(command: str) -> dict[str, Option]:
    load(command.split())
    return options.SETTINGS[command]


@pytest.mark.parametrize("arguments", [["rank", "-h"], ["train", "classifier", "--help"]])
def test_help_loads_nothing_heavy_and_no_other_command(arguments):
    found = loaded(f"from admire.apps.cli import main; main({arguments})")
    assert "admire.apps.cli.app" in found
    assert not HEAVY & found
    files = Path(options.__file__).parent.glob("*.py")
    modules = {f"admire.apps.cli.{path.stem}" for path in files}
    shared = {"app", "options", "output", "parameters"}
    own = {"rank"} if arguments[0] == "rank" else {"senses", "config"}
    assert modules & found == {f"admire.apps.cli.{name}" for name in shared | own}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_lists_of_commands_import_no_command_and_make_no_settings_class(arguments):
    found = loaded(f"from admire.apps.cli import main; main({arguments})")
    assert "admire.apps.cli.app" in found
    assert not {"admire.apps.cli.options", "admire.core.schema", "admire.core.registry"} & found


@pytest.mark.parametrize("group", ["", "train"])
def test_lists_show_the_first_sentence_of_each_docstring(group):
    command = [sys.executable, "-m", "admire.apps.cli", *group.split(), "--help"]
    wide = dict(os.environ, COLUMNS="200")
    listed = subprocess.run(command, env=wide, capture_output=True, text=True, check=True).stdout
    (_, *names) = command_names(app[group] if group else app)
    for name in (name for name, *below in names if not below):
        function = (app[group] if group else app)[name].default_command
        line = " ".join(cleandoc(function.__doc__).partition("\n\n")[0].split()) if function else ""
        assert re.search(rf"│ {name} +{re.escape(line)}", listed)


def test_import_loads_nothing_heavy_and_the_library_no_torch():
    tasks = "admire.tasks.sts, admire.tasks.retrieval"
    commands = "admire.apps.cli.app, admire.apps.cli.sts, admire.apps.cli.retrieval"
    assert not HEAVY & loaded(f"import admire, {tasks}, {commands}")
    found = loaded("import admire; admire.rank, admire.PROFILES, admire.write_run")
    assert "admire.pipeline.run" in found
    assert not TORCH & found


def test_the_version_is_the_distributions(capsys):
    assert run(capsys, "--version") == (0, metadata.version(DISTRIBUTION) + "\n", "")


def test_a_command_gives_each_warning_once(capsys, monkeypatch):
    def warn(_):
        log = logging.getLogger("admire")
        for name in ("one", "two", "one"):
            log.warning("%s: is odd.", name)
            log.info("Wrote a file")

    monkeypatch.setattr("admire.apps.cli.app.load", warn)
    for _ in range(2):
        told = run(capsys, "--version")[2].splitlines()
        assert [told.count(line) for line in ("one: is odd.", "Wrote a file")] == [1, 3]


@pytest.mark.parametrize(
    "command",
    [
        *("sense x.tsv --out", "report run --out", "submit run --out", "audit x.tsv --out"),
        *("detect x.csv --out", "detect x.csv --table", "sts x.csv --out"),
        *("train detector x.csv --out", "augment captions x.tsv --out"),
        "index --out index --export",
    ],
)
def test_a_file_that_admire_did_not_write_is_replaced_by_force_alone(capsys, tmp_path, command):
    suffix = {"index": "parquet", "submit": "zip"}.get(command.split()[0], "txt")
    mine = tmp_path / f"mine.{suffix}"
    mine.write_text("Notes of a year\n")
    (tmp_path / f"folder.{suffix}").mkdir()
    arguments = [*command.split(), mine]
    refusal = ended(capsys, *arguments)
    assert refusal.startswith(f"admire: {mine}: admire did not write this file.")
    assert refusal.endswith(" (--force)")
    assert str(mine) not in ended(capsys, *arguments, "--force")  # but that the data are missing
    mine.write_text("")
    assert str(mine) not in ended(capsys, *arguments)
    message = ended(capsys, *arguments[:-1], tmp_path / f"folder.{suffix}")
    assert ": is a folder or device. Name the file" in message
    assert mine.read_text() == ""


def test_each_setting_of_a_run_is_an_option_of_rank():
    names = {field.name for field in (*fields(Settings), *fields(Scoring))} - {"scoring", "plugins"}
    settings = settings_of("rank")
    assert names <= settings.keys()
    flags = [settings[name].flag for name in ("llms", "dictionaries", "texts")]
    assert flags == ["--llm", "--dictionary", "--texts"]


def test_options_replace_what_the_profile_has():
    best = PROFILES["best"]
    assert run_settings({"profile": "best"}) == best
    changes = {"encoder": "e5", "contrast": 0.0, "llms": ("a", "b"), "seed": 0}
    own = run_settings({"profile": "best"} | changes)
    assert (own.encoder, own.caption_encoder, own.llms) == (("e5",), None, ("a", "b"))
    assert (own.scoring.contrast, own.scoring.gate) == (0.0, best.scoring.gate)
    changes = {"encoder": "e5", "caption_encoder": "sight", "head": "my/head"}
    both = run_settings({"profile": "best"} | changes)
    assert (both.caption_encoder, both.head) == ("sight", ("my/head",))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_printed_settings_are_a_file_that_makes_them(capsys, tmp_path, profile):
    file = tmp_path / "run.toml"
    file.write_text(run(capsys, "config", "--profile", profile)[1])
    assert run_settings({"config": file}) == PROFILES[profile]
    assert run(capsys, "config", "--config", file)[1] == file.read_text()


def test_the_printed_settings_say_what_each_is_and_takes(capsys):
    code, out, err = run(capsys, "config", "--profile", "paper")
    assert (code, err) == (0, "")
    entries = dict(reversed(entry.rsplit("\n", 1)) for entry in out.strip().split("\n\n"))
    assert len(entries) == len(fields(Settings)) - 2 + len(fields(Scoring))
    track = entries['track = "image"']
    assert "One of: image, caption, image+caption. Default: not set." in track.replace("\n# ", " ")
    assert "Seed for sampled replies." in entries["seed = 0"]
    assert "# caption_encoder =" in entries
    assert run(capsys, "config", "rank", "--profile", "paper")[1] == out


def test_options_win_over_the_file_and_the_file_over_the_profile(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('profile = "best"\ncontrast = 0\nvotes = 3\nllms = ["a"]\nseed = 7\n')
    made = run_settings({"config": file, "votes": 4})
    assert (made.llms, made.votes, made.seed, made.scoring.contrast) == (("a",), 4, 7, 0)
    assert made.caption_encoder == PROFILES["best"].caption_encoder
    other = run_settings({"config": file, "profile": "paper"})
    assert (other.encoder, other.llms) == (PROFILES["paper"].encoder, ("a",))


@pytest.mark.parametrize(
    ("command", "text", "complaint"),
    [
        (
            "rank",
            "llm = ['e']",
            ": 'llm' is not a setting. Did you mean 'llms'? admire config rank lists all.",
        ),
        ("rank", "[scoring]\ncontrast = 1", ": 'scoring' "),
        ("rank", "texts = ['glos']", ", texts[0]: cannot be 'glos'. Did you mean 'gloss'?"),
        ("rank", "query = 'compound'\nabstain_below = 0.8", ": The query compound"),
        ("rank", "votes 5", ": is not TOML (Expected '=' after a key"),
        ("train sentences", "trust_remote_code = true", ": trust_remote_code lets a model's code"),
        ("sweep", "out = 'x'", ": 'out' "),
        ("sweep", "epochs = 1979-05-27", ", epochs: "),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_key(
    capsys, tmp_path, command, text, complaint
):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    options = ("data.tsv", "--config", file, "--out", tmp_path / "out")
    error = ended(capsys, *command.split(), *options)
    assert error.startswith(f"admire: {file}{complaint}")


@pytest.mark.parametrize(
    "command",
    [
        "sweep",
        *("train " + name for name in ("head", "detector", "classifier", "sentences", "retriever")),
    ],
)
def test_the_printed_options_of_a_training_are_a_file_that_sets_them(capsys, tmp_path, command):
    file = tmp_path / "training.toml"
    _, out, err = run(capsys, "config", *command.split())
    assert not err
    names = {name for name, option in settings_of(command).items() if option.in_file}
    assert set(re.findall(r"^(?:# )?(\w+) =", out, re.MULTILINE)) == names
    file.write_text(out.replace("\nseed = ", "\nseed = 1"))
    _, again, err = run(capsys, "config", *command.split(), "--config", file)
    assert not err
    assert re.sub(r" Default: \d+\.", "", again) == file.read_text()


@pytest.mark.parametrize("command", ["rank", "train sentences"])
def test_the_help_shows_a_days_options_and_help_all_the_others(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "120")

    def listed(option: str) -> list[str]:
        out, _ = passed(capsys, *command.split(), option)
        return re.findall(r"^│ [ *]*(--[a-z0-9-]+)", out, re.MULTILINE)

    settings = settings_of(command).values()
    everyday = {setting.flag for setting in settings if setting.daily}
    all_flags = {setting.flag for setting in settings}
    assert everyday
    assert {*listed("--help")} & all_flags == everyday
    assert {*listed("--help-all")} > all_flags
    assert len(listed("--help-all")) == len({*listed("--help-all")})
    assert {*listed("--help")} & all_flags == everyday


@pytest.mark.parametrize("names", [*command_names()], ids=" ".join)
def test_each_help_has_even_lines_and_ends_with_examples_that_are_taken(names):
    load(names)

    def printed(width: int) -> str:
        console = Console(file=io.StringIO(), width=width)
        app.help_print([*names], console=console)
        return console.file.getvalue()

    narrow = printed(80)
    assert max(map(len, narrow.splitlines())) <= 80
    _, _, examples = narrow.partition("\n\nExamples:\n")
    assert 1 <= len(examples.splitlines()) <= 2
    for example in examples.splitlines():
        assert example.startswith(" ".join(["    admire", *names]))
        words = shlex.split(example.partition(" > ")[0])
        app.parse_args(words[1:], print_error=False, exit_on_error=False)
    extras = re.findall(r"extras? (\w+)", narrow)
    assert {*extras} <= {*metadata.metadata(DISTRIBUTION).get_all("Provides-Extra")}
    assert not re.search(r"^│ {9,}|\S\n\w", printed(2000), re.MULTILINE)  # no line is broken


@pytest.mark.parametrize(
    ("begun", "end"),
    [
        ("rank --llm op", {"openai:"}),
        ("rank --encoder e", {"e5"}),
        ("models pull s", {"sight", "sbert:"}),
    ],
)
def test_a_shell_completes_names_of_models(capsys, begun, end):
    _, out, _ = run(capsys, "__complete", *begun.split())
    assert end <= {line.split("\t")[0] for line in out.splitlines()}
