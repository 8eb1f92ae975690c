"""Where a model's files come from: a folder, the hub's cache, or a hub that gives nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")

import huggingface_hub
from clips import COMMIT, OTHER_COMMIT, answer

from admire.core.errors import UserError
from admire.core.storage import MARKER, replace_folder
from admire.encoders.hub import Source, folder_digest, hub_file, load_cached_first, resolve_source

pytest_plugins = ("clip_fixtures",)


def test_a_folder_has_the_same_digest_with_and_without_admires_marker(tmp_path: Path):
    with replace_folder(tmp_path / "model", "model") as folder:
        (folder / "model.bin").write_bytes(b"weights")
    shutil.copytree(tmp_path / "model", tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))

    assert (tmp_path / "model" / MARKER).is_file()
    assert folder_digest(tmp_path / "model") == folder_digest(tmp_path / "copy")


def hub_errors() -> dict[str, tuple[Exception, str]]:
    errors = huggingface_hub.errors
    return {
        "unreachable": (errors.LocalEntryNotFoundError("no connection"), "cannot be reached"),
        "gated": (errors.GatedRepoError("403", response=answer(403)), "(GatedRepoError)"),
        "file": (
            errors.RemoteEntryNotFoundError("404", response=answer(404)),
            "gives no one.json or two.json",
        ),
        "disk": (OSError(28, "No space left on device"), "(OSError)"),
    }


@pytest.mark.parametrize("case", hub_errors())
def test_a_hub_that_gives_nothing_ends_with_what_to_run(hub, case: str):
    hub.error, reason = hub_errors()[case]
    with pytest.raises(UserError) as caught:
        hub_file("tests/any", "one.json", "two.json", revision="v9")
    assert reason in str(caught.value)
    assert "hf download tests/any." in str(caught.value)
    asked = [(repository, revision) for repository, _, revision in hub.asked]
    assert asked == [("tests/any", "v9")] * (2 if case == "file" else 1)


def test_a_repository_is_resolved_to_the_commit_of_the_first_file_that_it_has(hub):
    path = hub.add("tests/any", {"config.json": b"{}"}) / "config.json"
    found = resolve_source("tests/any", "modules.json", "config.json")
    assert found == Source("tests/any", COMMIT, f"tests/any@{COMMIT}")
    assert found.file("config.json") == path
    hub.add("tests/any", {"modules.json": b"[]"}, OTHER_COMMIT)
    hub.tag("tests/any", "v1", COMMIT)
    assert resolve_source("tests/any", "modules.json").revision == OTHER_COMMIT
    assert resolve_source("tests/any", revision="v1").revision == COMMIT
    assert not hub.asked


def test_what_is_in_the_cache_is_loaded_without_the_hub_and_the_rest_with_it(monkeypatch):
    constants = huggingface_hub.constants
    for offline in (False, True):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        seen = []

        def load(fails: int, seen: list[bool] = seen) -> str:
            seen.append(constants.HF_HUB_OFFLINE)
            if len(seen) <= fails:
                raise OSError("missing")
            return "loaded"

        assert load_cached_first(lambda: load(0), "tests/any") == "loaded"
        assert seen == [True]
        assert load_cached_first(lambda: load(2), "tests/any") == "loaded"
        assert seen == [True, True, offline]
        assert constants.HF_HUB_OFFLINE is offline


def test_the_hub_is_told_nothing_of_how_it_is_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
    code = (
        "import admire\n"
        "from huggingface_hub import constants\n"
        "print(constants.HF_HUB_DISABLE_TELEMETRY)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
