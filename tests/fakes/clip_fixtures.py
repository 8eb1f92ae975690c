"""Fixtures of the encoders that run on torch: small checkpoints, pictures, no network, a hub."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from clips import MODELS, TAGS, XLM, Hub
from PIL import Image, ImageDraw
from towers import TINY, VISION, save_openclip, word_tokenizer, xlm_roberta


@pytest.fixture
def network(
    tried: list[tuple], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple]]:
    """Nothing of the user's hub cache is seen, and no test may try the network."""
    tried.clear()
    # The hub's package asks once in a process which programs call it.
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._fetch_registry", lambda: None)
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
    yield tried
    assert not tried


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small model of the table in clips.py, made once."""
    place = tmp_path_factory.mktemp("models")
    return cache(lambda kind: MODELS[kind].save(place / kind))


def _fixture(kind: str) -> Any:
    @pytest.fixture(scope="session")
    def folder(folder_of: Callable[[str], Path]) -> Path:
        return folder_of(kind)

    return folder


mclip_folder, openclip_folder = _fixture("mclip"), _fixture("openclip")
sbert_folder, seeing_folder = _fixture("sbert"), _fixture("seeing")


@pytest.fixture(scope="session")
def folders(folder_of: Callable[[str], Path]) -> dict[str, Path]:
    """One for each family."""
    return {family: folder_of(family) for family in ("mclip", "openclip", "sbert")}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five drawings of different shapes, colours and sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for k, colour in enumerate(["red", "blue", "green", "yellow", "black"]):
        picture = Image.new("RGB", (40 + 13 * k, 70 - 9 * k), "white")
        pen = ImageDraw.Draw(picture)
        draw = [pen.ellipse, pen.rectangle][k % 2]
        draw((5, 5 + k, 30 + 4 * k, 30), fill=colour)
        paths.append(folder / f"{colour}.png")
        picture.save(paths[-1])
    return paths


@pytest.fixture
def copied(tmp_path: Path, folders: Mapping[str, Path]) -> Callable[[str], Path]:
    """A copy of a family's folder, to be damaged."""

    def copy(family: str, name: str = "model") -> Path:
        return Path(shutil.copytree(folders[family], tmp_path / name))

    return copy


@pytest.fixture(scope="session")
def xlm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k, with the base's config beside."""
    import open_clip

    folder = tmp_path_factory.mktemp("towers") / "xlm"
    base = folder / "tiny-xlm-roberta"
    xlm_roberta().save_pretrained(base)
    word_tokenizer().save_pretrained(folder)
    torch.manual_seed(5)
    own = {"hf_model_name": str(base), "hf_model_pretrained": False}
    model = open_clip.CustomTextCLIP(16, VISION, XLM | own)
    return save_openclip(folder, TINY | {"text_cfg": XLM}, model)


@pytest.fixture
def hub(network: list[tuple], monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(Path(huggingface_hub.constants.HF_HUB_CACHE))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub.download)
    return hub


@pytest.fixture
def tiny(hub: Hub, openclip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model 'tiny' on open_clip's list, its weights in the hub's cache."""
    import open_clip

    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", TINY)
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", TAGS)
    weights = openclip_folder / "open_clip_model.safetensors"
    return hub.add("tests/tiny", {weights.name: weights}) / weights.name
