"""A distribution of a stranger is installed, and used by name everywhere."""

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import passed, run
from pydantic import BaseModel

import admire
from admire.apps.cli import options
from admire.core import registry
from admire.llm import ChatModel, Question, Reply

SOURCES = Path(__file__).parent / "plugins"
CHOSEN = (
    *("--llm", "parrot:a person", "--encoder", "letters"),
    *("--ranker", "overlap", "--ranker", "embeddings"),
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution, as pip installs it, which takes seconds."""
    project = tomllib.loads((SOURCES / "pyproject.toml").read_text())["project"]
    target = tmp_path_factory.mktemp("site")
    shutil.copytree(SOURCES / "admire_flat", target / "admire_flat")
    told = target / f"admire_flat-{project['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(f"{k} = {v}\n" for k, v in project["entry-points"]["admire"].items())
    (told / "entry_points.txt").write_text(f"[admire]\n{points}")
    return target


@pytest.fixture(autouse=True)
def _found(installed: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed)
    registry._announced.cache_clear()
    yield
    monkeypatch.undo()
    registry._announced.cache_clear()
    for name in [name for name in sys.modules if name.startswith("admire_flat")]:
        del sys.modules[name]


def ranked(capsys, out: Path, data: object, *others: str) -> dict:
    passed(capsys, "rank", data, "--limit", "2", "--out", out, *CHOSEN, *others)
    return json.loads((out / "run.json").read_text(encoding="utf-8"))


def test_a_run_by_names_is_recorded_scored_reported_fused_and_submitted(capsys, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    record = ranked(capsys, first, admire.SAMPLES, "--overlap-yes", "2")
    assert record["settings"]["rankers"] == ["overlap", "embeddings"]
    assert record["settings"]["plugins"] == {"overlap": {"yes": 2.0}}
    (llm,) = record["models"]["llms"]
    llm.pop("meanings", None)
    identity = "parrot:a person:admire-flat-1.2"
    assert llm == {"name": "parrot:a person", "identity": identity, "sense": "vote"}
    assert record["models"]["encoders"]["caption"][0]["identity"] == "letters:admire-flat-1.2"
    asked = {row["stage"]: row for row in record["asked"]}
    assert asked["ranking"]["calls"] > asked["ranking"]["from_cache"]
    # What was asked is cached by the plug-in's name and version.
    again = ranked(capsys, second, admire.SAMPLES, "--like", str(first))
    assert {row["calls"] - row["from_cache"] for row in again["asked"]} == {0}
    for command in (
        ("score", first, "--json"),
        ("report", first, "--out", tmp_path / "report.html"),
        ("fuse", first, second, "--out", tmp_path / "fused"),
        ("score", tmp_path / "fused", "--metric", "hit-at-2"),
    ):
        passed(capsys, *command)
    assert "overlap" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_file_of_settings_and_a_dry_run_take_the_names(capsys, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'llms = ["parrot:a person"]\nencoder = "letters"\n'
        'rankers = ["overlap"]\noverlap_yes = 3.0\n'
    )
    call = ("rank", admire.SAMPLES, "--config", config, "--limit", "2")
    out, _ = passed(capsys, *call, "--dry-run", "--json")
    stages = {row["stage"]: row["questions"] for row in json.loads(out)}
    assert stages["ranking"] == 5  # both items have the same captions and meaning
    _, err = passed(capsys, *call, "--out", tmp_path / "run")
    scores = admire.read_run(tmp_path / "run").rankings[0].judgements[0].scores
    assert set(scores) <= {0.0, 3.0}
    code, _, err = run(capsys, *call, "--overlap-yes", "0", "--out", tmp_path / "run")
    told = "admire: overlap_yes cannot be 0.0: it should be greater than 0. (--overlap-yes)"
    assert (code, err.splitlines()[-1]) == (2, told)


def test_every_command_that_asks_passes_on_how_and_the_settings_of_plugins(capsys, tmp_path):
    opened: list[tuple[Any, ...]] = []

    class OwnSettings(BaseModel):
        word: str = "Idiomatic"

    @registry.register("chat", "own", settings=OwnSettings)
    class Own(ChatModel):
        name = identity = "own"
        free = True

        def __init__(self, settings: OwnSettings, timeout: float | None, parallel: int | None):
            opened.append((settings.word, timeout, parallel))

        def ask(self, question: Question) -> Reply:
            return Reply(opened[-1][0])

    for words in ("rank", "one", "sense", "search", "retrieve", "sts", "serve", "train head"):
        run(capsys, *words.split(), "--help")
    asking = {name for name, known in options.SETTINGS.items() if {"llm", "llms"} & {*known}}
    assert {"rank", "one", "sense", "search", "retrieve", "sts", "serve", "train head"} <= asking
    assert asking <= {name for name, known in options.SETTINGS.items() if "parallel" in known}
    call = ("sense", admire.SAMPLES, "--llm", "own", "--out", tmp_path / "senses.tsv", "--json")
    out, _ = passed(capsys, *call, "--own-word", "Literal", "--timeout", "5", "--parallel", "2")
    assert {row["predicted_type"] for row in json.loads(out)["senses"]} == {"literal"}
    assert opened == [("Literal", 5.0, 2)]
