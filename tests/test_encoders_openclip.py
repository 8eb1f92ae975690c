"""open_clip on small towers: folders, tags of its list, text towers of transformers."""

import json

import numpy as np
import pytest
from clips import (
    CPU,
    TAGS,
    TEXTS,
    distinct,
    images_of,
    opened,
    plain_images,
    plain_texts,
    same,
    texts_of,
)

from admire.encoders.openclip import OpenClipEncoder

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


def test_a_folders_own_preprocessing_and_activation_are_used(copied, openclip_folder, pictures):
    folder = copied("openclip")
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["preprocess_cfg"] |= {"mean": [0.1, 0.2, 0.3], "std": [0.5] * 3, "resize_mode": "squash"}
    path.write_text(json.dumps(config))
    vectors = images_of(OpenClipEncoder(str(folder), None, CPU), pictures)
    assert same(vectors, plain_images(f"local-dir:{folder}", pictures))
    plain = OpenClipEncoder(str(openclip_folder), None, CPU)
    assert not same(vectors, images_of(plain, pictures), 1e-4)

    config["model_cfg"]["quick_gelu"] = True
    path.write_text(json.dumps(config))
    quick = images_of(OpenClipEncoder(str(folder), None, CPU), pictures)
    assert same(quick, plain_images(f"local-dir:{folder}", pictures))
    assert not same(quick, vectors, 1e-4)


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
