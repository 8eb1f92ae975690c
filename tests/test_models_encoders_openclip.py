"""open_clip on small towers: folders, tags of its list, text towers of transformers."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from admire.models.encoders.openclip import OpenClipEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
open_clip = pytest.importorskip("open_clip", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

from clips import (  # noqa: E402
    COMMIT,
    CPU,
    OTHER_COMMIT,
    TAGS,
    TEXTS,
    answer,
    complaint,
    distinct,
    encode,
    images_of,
    opened,
    plain_images,
    plain_texts,
    same,
    texts_of,
)
from safetensors.torch import load_file, save_file  # noqa: E402

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


def test_a_folders_own_preprocessing_and_activation_are_used(copied, openclip, pictures):
    folder = copied("openclip")
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["preprocess_cfg"] |= {"mean": [0.1, 0.2, 0.3], "std": [0.5] * 3, "resize_mode": "squash"}
    path.write_text(json.dumps(config))
    vectors = images_of(OpenClipEncoder(str(folder), None, CPU), pictures)
    assert same(vectors, plain_images(f"local-dir:{folder}", pictures))
    assert not same(vectors, images_of(openclip, pictures), 1e-4)

    config["model_cfg"]["quick_gelu"] = True
    path.write_text(json.dumps(config))
    quick = images_of(OpenClipEncoder(str(folder), None, CPU), pictures)
    assert same(quick, plain_images(f"local-dir:{folder}", pictures))
    assert not same(quick, vectors, 1e-4)


@pytest.mark.parametrize("content", ["{", "{}", '{"model_cfg": []}'])
def test_a_damaged_open_clip_config_is_refused(copied, content: str):
    path = copied("openclip") / "open_clip_config.json"
    path.write_text(content)
    said = complaint(f"openclip:{path.parent}")
    assert said == f"{path}: is no config of an open_clip model."


def test_an_open_clip_text_tower_of_transformers_needs_no_hub(xlm_folder, pictures, monkeypatch):
    assert not (xlm_folder / "tiny-xlm-roberta" / "model.safetensors").exists()
    encoder = OpenClipEncoder(str(xlm_folder), None, CPU)
    texts, images = texts_of(encoder, TEXTS), images_of(encoder, pictures)
    alone = np.concatenate([texts_of(encoder, [text]) for text in TEXTS])
    monkeypatch.chdir(xlm_folder)  # open_clip finds its base model's config there only
    assert same(texts, plain_texts(f"local-dir:{xlm_folder}", TEXTS))
    assert same(images, plain_images(f"local-dir:{xlm_folder}", pictures))
    assert same(alone, texts)
    assert distinct(texts)


def test_a_tag_of_openai_is_computed_with_its_activation(tiny, hub, pictures):
    encoder = opened("openclip:tiny/openai")
    tag = TAGS["openai"]
    options = {
        "pretrained": str(tiny),
        "image_mean": tag["mean"],
        "image_std": tag["std"],
        "image_interpolation": tag["interpolation"],
        "image_resize_mode": tag["resize_mode"],
    }
    texts = encoder.encode_texts(TEXTS, role="query")
    images = encoder.encode_images(pictures)
    assert same(texts, plain_texts("tiny", TEXTS, force_quick_gelu=True, **options))
    assert same(images, plain_images("tiny", pictures, force_quick_gelu=True, **options))
    assert not same(texts, plain_texts("tiny", TEXTS, **options), 1e-4)
    assert not same(images, plain_images("tiny", pictures, **options), 1e-4)
    for left_out in ("image_mean", "image_std", "image_interpolation", "image_resize_mode"):
        others = {name: value for name, value in options.items() if name != left_out}
        plain = plain_images("tiny", pictures, force_quick_gelu=True, **others)
        assert not same(images, plain, 1e-4), f"the tag's {left_out} makes no difference here"
    assert not hub.asked


def test_a_tag_whose_weights_have_a_name_of_their_own(tiny, hub):
    hub.error = huggingface_hub.errors.RemoteEntryNotFoundError("404", response=answer(404))
    assert "has no some_weights.bin." in complaint("openclip:tiny/named")
    weights = {"state_dict": load_file(tiny)}
    path = tiny.with_name("some_weights.bin")
    torch.save(weights, path)
    assert same(encode("openclip:tiny/named"), encode("openclip:tiny/laion"))


def test_a_pinned_revision_of_a_tag_is_another_encoder(tiny, hub, openclip_folder):
    weights = load_file(openclip_folder / "open_clip_model.safetensors")
    torch.manual_seed(6)
    other = {name: value + 0.1 * torch.randn_like(value) for name, value in weights.items()}
    path = tiny.parents[5] / "other.safetensors"
    save_file(other, path)
    hub.add("tests/tiny", {"open_clip_model.safetensors": path}, OTHER_COMMIT)
    hub.tag("tests/tiny", "v1", COMMIT)
    new, old = opened("openclip:tiny/laion"), opened("openclip:tiny/laion@v1")
    assert f"@{OTHER_COMMIT}" in new.identity
    assert f"@{COMMIT}" in old.identity
    assert old.identity == opened(f"openclip:tiny/laion@{COMMIT}").identity
    for encoder, file in ((new, path), (old, tiny)):
        vectors = encoder.encode_texts(TEXTS, role="query")
        assert same(vectors, plain_texts("tiny", TEXTS, pretrained=str(file)))
    assert not hub.asked


def test_weights_without_quick_gelu_are_not_run_with_it(tiny):
    said = complaint("openclip:tiny-quickgelu/laion")
    assert "trained without QuickGELU. Use openclip:tiny/laion" in said


def test_a_tag_with_a_text_tower_of_transformers_comes_from_the_cache(tiny, hub, xlm_folder):
    weights = xlm_folder / "open_clip_model.safetensors"
    hub.add("tests/tiny-xlm", {weights.name: weights})
    assert "'tests/xlm' is not here" in complaint("openclip:tiny-xlm/laion")
    files = {name: xlm_folder / name for name in ("tokenizer.json", "tokenizer_config.json")}
    config = xlm_folder / "tiny-xlm-roberta" / "config.json"
    hub.add("tests/xlm", {"config.json": config})
    said = complaint("openclip:tiny-xlm/laion")
    assert "'tests/xlm' is not here" in said
    shutil.rmtree(hub.cache / "models--tests--xlm")
    hub.add("tests/xlm", files | {"config.json": config})
    hub.asked.clear()
    assert same(encode("openclip:tiny-xlm/laion"), encode(f"openclip:{xlm_folder}"))
    assert not hub.asked


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tiny/openia", "Did you mean 'tiny/openai'?"),
        ("ViT-B-32/laion2b_s34b_b97k", "Did you mean 'ViT-B-32/laion2b_s34b_b79k'?"),
        ("ViT-B-32", "is no model and tag of open_clip, and no folder."),
        ("tiny/elsewhere", "is not on the hub"),
    ],
)
def test_an_unknown_tag_is_told_a_close_one(tiny, hub, name: str, hint: str):
    said = complaint(f"openclip:{name}")
    assert f"'openclip:{name}'" in said
    assert hint in said
    assert not hub.asked
