"""M-CLIP on small towers: what it computes, what it refuses, where its files come from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from admire import UserError
from admire.models.encoders import open_encoder
from admire.models.encoders.mclip import IMAGE_TOWERS, MClipEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
open_clip = pytest.importorskip("open_clip", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

from clips import (  # noqa: E402
    COMMIT,
    CPU,
    LONG,
    TEXTS,
    complaint,
    encode,
    labse,
    opened,
    same,
    texts_of,
)
from safetensors.torch import save_file  # noqa: E402

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


@pytest.fixture(scope="module")
def mclip_weights(mclip_folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(mclip_folder / "pytorch_model.bin", weights_only=True)


def test_of_both_formats_safetensors_is_read(copied, mclip, mclip_weights):
    folder = copied("mclip")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    save_file(
        {k: v.clone() for k, v in mclip_weights.items() if "position_ids" not in k},
        folder / "model.safetensors",
    )
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


@pytest.mark.parametrize("says", [512, 40, int(1e30)], ids=["512", "40", "no limit"])
def test_mclip_reads_the_first_part_of_a_long_text(copied, says: int):
    # Positions for 66, of which XLM-R leaves two unused; the tokenizer's own limit may be lower.
    folder = copied("mclip")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": says}))
    words = min(says, 64) - 2
    encoder = MClipEncoder(str(folder), None, CPU)
    kept = LONG.split()[:words]
    texts = [LONG, " ".join(kept), " ".join(kept) + " the other end", " ".join(kept[:-1])]
    whole, beginning, another, shorter = texts_of(encoder, texts)
    assert same(whole, beginning)
    assert same(another, beginning)
    assert not same(shorter, beginning, 1e-4)


def test_mclip_on_another_base_model_has_all_its_positions(tmp_path, mclip_folder):
    # LaBSE is a BERT: no position is kept for the padding. Its tokenizer sets no limit.
    folder = labse(tmp_path / "labse", mclip_folder / "image")
    encoder = MClipEncoder(str(folder), None, CPU)
    words = LONG.split()
    full, cut, shorter = (" ".join(words[:n]) for n in (90, 38, 37))
    vectors = texts_of(encoder, [full, cut, shorter])
    assert same(vectors[0], vectors[1])
    assert not same(vectors[1], vectors[2], 1e-4)


@pytest.mark.parametrize("config", ["{", "[]", "{}"])
def test_a_config_without_a_base_model_is_refused(copied, config: str):
    path = copied("mclip") / "config.json"
    path.write_text(config)
    with pytest.raises(UserError) as caught:
        open_encoder(f"mclip:{path.parent}")
    assert f"{path}: is no config of an M-CLIP text tower (no modelBase)" in str(caught.value)


def test_weights_that_do_not_fit_are_refused(copied, mclip_weights):
    folder = copied("mclip")
    torch.save(mclip_weights | {"LinearTransformation.weight": torch.zeros(8, 32)},
               folder / "pytorch_model.bin")  # fmt: skip
    said = complaint(f"mclip:{folder}")
    assert said.startswith(f"mclip:{folder}: M-CLIP cannot load it (")
    assert "LinearTransformation" in said
    (folder / "pytorch_model.bin").unlink()
    missing = complaint(f"mclip:{folder}")
    assert missing == f"{folder}: holds no model.safetensors or pytorch_model.bin."


@pytest.mark.parametrize(
    ("width", "tower", "repository"),
    [
        (512, "ViT-B-32-quickgelu/openai", "timm/vit_base_patch32_clip_224.openai"),
        (768, "ViT-L-14-quickgelu/openai", "timm/vit_large_patch14_clip_224.openai"),
    ],
)
def test_mclip_belongs_to_openais_tower_of_its_width(hub, copied, width, tower, repository):
    folder = copied("mclip")
    shutil.rmtree(folder / "image")
    config = json.loads((folder / "config.json").read_text()) | {"numDims": width}
    (folder / "config.json").write_text(json.dumps(config))
    said = complaint(f"mclip:{folder}")
    assert f"'{repository}' is not here" in said
    hub.add(repository, {"open_clip_model.safetensors": b""})
    assert f"openclip:{tower}@{COMMIT}:" in open_encoder(f"mclip:{folder}").identity
    assert IMAGE_TOWERS[width] == tower
    model, tag = tower.split("/")
    assert open_clip.get_model_config(model)["quick_gelu"] is True
    assert open_clip.pretrained.get_pretrained_cfg(model, tag)["quick_gelu"] is True


def test_a_width_without_a_known_image_tower_is_refused(copied):
    folder = copied("mclip")
    shutil.rmtree(folder / "image")
    with pytest.raises(UserError, match=r"a space of 16 dimensions\. Put one into .*/image"):
        open_encoder(f"mclip:{folder}")


def test_what_is_not_in_the_cache_is_fetched_file_by_file(
    hub, labse_hub, tiny, monkeypatch, mclip_folder, pictures, tmp_path
):
    shutil.rmtree(hub.cache / "models--M-CLIP--LABSE-Vit-L-14")
    shutil.rmtree(hub.cache / "models--sentence-transformers--LaBSE")
    shutil.rmtree(labse_hub / "image")
    base = tmp_path / "base"
    base.mkdir()
    local = labse(tmp_path / "local", mclip_folder / "image")
    shutil.copy(local / "LaBSE" / "config.json", base)
    hub.online = {"M-CLIP/LABSE-Vit-L-14": labse_hub, "sentence-transformers/LaBSE": base}
    monkeypatch.setattr("admire.models.encoders.mclip.IMAGE_TOWERS", {16: "tiny/openai"})
    encoder = opened("mclip:LABSE-Vit-L-14@main")
    assert {name for _, name, _ in hub.asked} == {"config.json"}, "no weights before they are used"
    assert same(encoder.encode_texts(TEXTS, role="query"), encode(f"mclip:{local}"))
    fetched = [name for repository, name, _ in hub.asked if repository.startswith("M-CLIP")]
    assert fetched == [
        "config.json",
        "model.safetensors",  # which it has not
        "pytorch_model.bin",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    # of the base model, which is larger than M-CLIP itself, the config is enough
    assert ("sentence-transformers/LaBSE", "config.json", None) in hub.asked
    assert sum(repository.endswith("/LaBSE") for repository, _, _ in hub.asked) == 1
    hub.online.clear()
    asked = len(hub.asked)
    assert same(encode("mclip:LABSE-Vit-L-14", ["my owl"]), encode(f"mclip:{local}", ["my owl"]))
    assert len(hub.asked) == asked, "what was fetched is in the cache"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LABSE-Vit-L14@main", "Did you mean 'LABSE-Vit-L-14'?"),
        ("zzz", "no M-CLIP model. There are XLM-Roberta-Large-Vit-L-14, XLM-Roberta"),
    ],
)
def test_a_misspelt_mclip_is_told_the_names(hub, name: str, hint: str):
    with pytest.raises(UserError) as caught:
        open_encoder(f"mclip:{name}")
    assert hint in str(caught.value)
    assert f"'mclip:{name.partition('@')[0]}'" in str(caught.value)
    assert not hub.asked
