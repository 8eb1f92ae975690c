"""M-CLIP on small towers: what it computes, what it refuses, where its files come from."""

import json
import shutil

import pytest
from clips import COMMIT, CPU, LONG, TEXTS, complaint, encode, labse, opened, same, texts_of
from commands import run

from admire.encoders import open_encoder
from admire.encoders.mclip import IMAGE_TOWERS, MClipEncoder
from admire.encoders.torch_models import LOADED

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


def test_mclip_keeps_to_the_tokenizers_limit_where_it_is_lower(copied):
    folder = copied("mclip")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 40}))
    encoder = MClipEncoder(str(folder), None, CPU)
    kept = LONG.split()[:38]
    texts = [LONG, " ".join(kept), " ".join(kept[:-1])]
    whole, beginning, shorter = texts_of(encoder, texts)
    assert same(whole, beginning)
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


@pytest.mark.parametrize(
    ("width", "tower", "repository"),
    [
        (512, "ViT-B-32-quickgelu/openai", "timm/vit_base_patch32_clip_224.openai"),
        (768, "ViT-L-14-quickgelu/openai", "timm/vit_large_patch14_clip_224.openai"),
    ],
)
def test_mclip_belongs_to_openais_tower_of_its_width(hub, copied, width, tower, repository):
    import open_clip

    folder = copied("mclip")
    shutil.rmtree(folder / "image")
    config = json.loads((folder / "config.json").read_text()) | {"numDims": width}
    (folder / "config.json").write_text(json.dumps(config))
    assert repository in complaint(f"mclip:{folder}")
    hub.add(repository, {"open_clip_model.safetensors": b""})
    assert f"openclip:{tower}@{COMMIT}:" in open_encoder(f"mclip:{folder}").identity
    assert IMAGE_TOWERS[width] == tower
    model, tag = tower.split("/")
    assert open_clip.get_model_config(model)["quick_gelu"] is True
    assert open_clip.pretrained.get_pretrained_cfg(model, tag)["quick_gelu"] is True


def test_what_is_not_cached_is_fetched_file_by_file(
    hub, tiny, monkeypatch, mclip_folder, tmp_path, capsys
):
    local, remote = (labse(tmp_path / name, mclip_folder / "image") for name in ("here", "there"))
    base = (remote / "LaBSE").rename(tmp_path / "base")
    shutil.rmtree(remote / "image")
    hub.online = {"M-CLIP/LABSE-Vit-L-14": remote, "sentence-transformers/LaBSE": base}
    monkeypatch.setattr("admire.encoders.mclip.IMAGE_TOWERS", {16: "tiny/openai"})
    encoder = opened("mclip:LABSE-Vit-L-14@main")
    assert {name for _, name, _ in hub.asked} == {"config.json"}, "no weights before they are used"
    assert same(encoder.encode_texts(TEXTS, role="query"), encode(f"mclip:{local}"))
    # Of the base model, which is larger than M-CLIP itself, the config is enough.
    assert [name for place, name, _ in hub.asked if place.endswith("/LaBSE")] == ["config.json"]
    for _ in range(2):  # at the second time the vector is known; the weights may not be here
        LOADED.clear()
        shutil.rmtree(hub.cache / "models--M-CLIP--LABSE-Vit-L-14")
        hub.asked.clear()
        pulled = run(capsys, "models", "pull", "mclip:LABSE-Vit-L-14")[:2]
        assert pulled == (0, f"{hub.cache}\n")
        assert "pytorch_model.bin" in {name for _, name, _ in hub.asked}
    hub.online.clear()
    asked = len(hub.asked)
    assert same(encode("mclip:LABSE-Vit-L-14", ["my owl"]), encode(f"mclip:{local}", ["my owl"]))
    assert len(hub.asked) == asked, "what was fetched is in the cache"
