"""The command line as a whole: what it loads, lists and says of itself."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module, metadata
from pathlib import Path

import pytest
import typer
from commands import HEAVY, TORCH, loaded, run

from admire import PROFILES, Settings
from admire.base.errors import DISTRIBUTION
from admire.cli.app import app
from admire.cli.options import FIELDS, profile_settings
from admire.rankers.scorer import Scoring


@pytest.mark.parametrize(
    "arguments", [["--help"], ["rank", "-h"], ["train", "-h"], ["train", "classifier", "--help"]]
)
def test_help_loads_nothing_heavy(arguments):
    found = loaded(f"from admire.cli import main; main({arguments})")
    assert "admire.cli.app" in found
    assert not HEAVY & found


def test_import_loads_nothing_heavy_and_the_library_no_torch():
    assert not HEAVY & loaded("import admire, admire.cli.app")
    found = loaded("import admire; admire.rank, admire.PROFILES, admire.write_run")
    assert "admire.runs.run" in found
    assert not TORCH & found


def test_the_version_is_the_distributions(capsys):
    assert run(capsys, "--version") == (0, metadata.version(DISTRIBUTION) + "\n", "")


def test_help_groups_commands_by_what_people_come_for(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    panels = ("Rank and see", "Texts", "Learn", "Models")
    places = [out.index(f" {panel} ─") for panel in panels]
    assert places == sorted(places)
    found = [
        re.findall(r"│ ([a-z]+) ", out[start:end])
        for start, end in zip(places, [*places[1:], None], strict=True)
    ]
    assert found == [
        [
            *("demo", "check", "rank", "batch", "score", "submit", "fuse", "audit", "report"),
            *("sense", "serve"),
        ],
        ["search", "index", "retrieve", "benchmark", "sts", "detect"],
        ["tune", "sweep", "train", "augment"],
        ["models"],
    ]


def test_training_is_one_verb(capsys):
    _, out, _ = run(capsys, "train", "--help")
    names = re.findall(r"│ ([a-z]+) ", out)
    assert names == ["head", "detector", "classifier", "sentences", "retriever"]


def test_a_shell_can_complete(capsys):
    assert "--install-completion" in run(capsys, "--help")[1]


# ------------------------------------------------------------------------- options and settings


def parameters(command: str) -> dict[str, typer.core.TyperOption]:
    """The arguments and options of a command by name."""
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    return {parameter.name: parameter for parameter in found.params}


LOOKED = {"dictionaries"}
"""``None`` on the command line, as the other options that may be repeated."""

FIT = {"weight_decay", "warmup", "batch_size"}
"""Settings of the trainer that have no option, or whose default goes by another setting."""


@pytest.mark.parametrize(
    ("command", "kind", "other"),
    [
        ("train head", "models.head_settings.HeadTraining", set()),
        ("train detector", "senses.light.DetectorTraining", set()),
        ("train classifier", "senses.classifier.ClassifierTraining", {"fit", "setting"}),
        ("train classifier", "models.head_settings.FitSettings", FIT | {"patience", "seed"}),
        ("train sentences", "tasks.sts.training.SentenceTraining", {"fit"}),
        ("train sentences", "models.head_settings.FitSettings", FIT),
        ("train retriever", "tasks.retrieval.training.RetrieverTraining", {"fit"}),
        ("train retriever", "models.head_settings.FitSettings", FIT - {"batch_size"}),
        (
            "retrieve",
            "tasks.retrieval.retrieve.RetrieveSettings",
            {"contrast", "usage", "dictionaries"},
        ),
        ("search", "tasks.collections.search.SearchSettings", {"dictionaries"}),
        ("sts", "tasks.sts.similarity.SimilaritySettings", set()),
    ],
)
def test_each_setting_has_an_option_of_its_name_and_default(command, kind, other):
    if "training" in kind or "classifier" in kind:
        pytest.importorskip("sentence_transformers", reason="needs the extra 'finetune'")
    module, _, name = f"admire.{kind}".rpartition(".")
    settings = fields(getattr(import_module(module), name))
    assert other - {"weight_decay", "warmup", "fit", "patience"} <= {
        FIELDS.get(name, name) for name in parameters(command)
    }
    for field in settings:
        if field.name not in other:
            assert parameters(command)[field.name].default == field.default, field.name


def test_each_setting_of_a_run_has_an_option_of_rank():
    options = {FIELDS.get(name, name): one for name, one in parameters("rank").items()}
    for field in (*fields(Settings), *fields(Scoring)):
        if field.name != "scoring":
            assert options[field.name].default in (None, 0)  # else the profile's would not count


def test_options_replace_what_the_profile_has():
    best = PROFILES["best"]
    assert profile_settings("best", {"llm": None, "data": "x", "seed": 0}) == best
    own = profile_settings("best", {"encoder": "e5", "contrast": 0.0, "llm": ["a", "b"]})
    assert (own.encoder, own.caption_encoder, own.llms) == ("e5", None, ("a", "b"))
    assert (own.scoring.contrast, own.scoring.gate) == (0.0, best.scoring.gate)
    both = {"encoder": "e5", "caption_encoder": "sight", "head": Path("my/head")}
    both_own = profile_settings("best", both)
    assert (both_own.caption_encoder, both_own.head) == ("sight", str(Path("my/head")))
