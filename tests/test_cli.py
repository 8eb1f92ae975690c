"""The command line as a whole: what it loads, lists and says of itself."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from commands import HEAVY, TORCH, loaded, run

from admire.base.errors import DISTRIBUTION


@pytest.mark.parametrize("arguments", [["--help"], ["rank", "--help"], ["models", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    found = loaded(f"from admire.cli import main; main({arguments})")
    assert "admire.cli" in found
    assert not HEAVY & found


def test_import_loads_nothing_heavy_and_the_library_no_torch():
    assert not HEAVY & loaded("import admire, admire.cli")
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
        ["demo", "rank", "batch", "score", "fuse", "audit", "report", "sense", "serve"],
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


def test_models_are_listed_and_the_embedded_one_is_pulled_by_name(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert all(name in out for name in ("embedded", "openai:MODEL", "gguf:PATH", "e5"))
    code, _, err = run(capsys, "models", "pull", "embeded")
    assert code == 2
    assert "Did you mean 'embedded'?" in err
