"""Dual encoders of transformers on small models of each type: vectors, texts, files, the hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from admire.models.encoders import open_encoder
from admire.models.encoders.dual import DualEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
transformers = pytest.importorskip("transformers", reason="needs the extra 'clip'")
pytest.importorskip("open_clip", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

from clips import (  # noqa: E402
    COMMIT,
    CPU,
    DAMAGE,
    LONG,
    OTHER_COMMIT,
    TEXTS,
    complaint,
    distinct,
    images_of,
    opened,
    same,
    texts_of,
    unit,
)
from duals import CONTEXT, KINDS, save_dual  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


@pytest.fixture(scope="module", params=KINDS)
def model(request, tmp_path_factory) -> tuple[str, Path]:
    return request.param, save_dual(tmp_path_factory.mktemp("duals") / request.param, request.param)


def test_vectors_are_those_of_transformers(model, pictures):
    kind, folder = model
    plain = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    padding = "max_length" if kind.startswith("siglip") else True
    reading = {"padding": padding, "truncation": True, "max_length": CONTEXT}
    shown = [Image.open(path).convert("RGB") for path in pictures]
    with torch.inference_mode():
        ready = processor(text=TEXTS, return_tensors="pt", **reading)
        texts = unit(plain.get_text_features(**ready).pooler_output)
        ready = processor(images=shown, return_tensors="pt")
        images = unit(plain.get_image_features(**ready).pooler_output)
    assert distinct(texts)
    assert distinct(images)
    encoder = DualEncoder(str(folder), None, CPU)
    for role in ("query", "document"):
        assert same(texts_of(encoder, TEXTS, role), texts)
    assert same(images_of(encoder, pictures), images)
    assert same(np.concatenate([texts_of(encoder, [text]) for text in TEXTS]), texts)
    assert same(np.concatenate([images_of(encoder, [path]) for path in pictures]), images)


def test_siglip_reads_lower_case_as_it_was_trained(model):
    kind, folder = model
    encoder = DualEncoder(str(folder), None, CPU)
    cased = [text.upper() for text in TEXTS]
    alike = same(texts_of(encoder, cased), texts_of(encoder, TEXTS), 1e-4)
    assert alike == kind.startswith("siglip")


def test_the_first_part_of_a_long_text_is_read(model):
    kind, folder = model
    encoder = DualEncoder(str(folder), None, CPU)
    words = LONG.split()
    if kind == "siglip2":  # its tokens are characters here, without marks at the ends
        fits, shorter = LONG[:CONTEXT], LONG[: CONTEXT - 1]
    else:
        fits, shorter = " ".join(words[: CONTEXT - 2]), " ".join(words[: CONTEXT - 3])
    whole, beginning, less = texts_of(encoder, [LONG, fits, shorter])
    assert same(whole, beginning)
    assert not same(less, beginning, 1e-4)


def test_a_model_that_gives_plain_tensors_is_read_too(dual_folder, monkeypatch):
    encoder = DualEncoder(str(dual_folder), None, CPU)
    wanted = texts_of(encoder, TEXTS)
    model, *_ = encoder._loaded
    whole = model.get_text_features
    monkeypatch.setattr(model, "get_text_features", lambda **ready: whole(**ready).pooler_output)
    assert same(texts_of(encoder, TEXTS), wanted)


def test_a_repository_and_its_revisions(hub, dual_folder, tmp_path, pictures):
    newer = Path(shutil.copytree(dual_folder, tmp_path / "newer"))
    weights = load_file(newer / "model.safetensors")
    weights = {name: value + 0.1 for name, value in weights.items()}
    save_file(weights, newer / "model.safetensors", {"format": "pt"})
    hub.add("tests/dual", dual_folder)
    hub.add("tests/dual", newer, OTHER_COMMIT)
    hub.tag("tests/dual", "v1", COMMIT)
    new, old = opened("dual:tests/dual"), opened("dual:tests/dual@v1")
    assert new.identity != old.identity
    assert f"@{COMMIT}" in old.identity
    for encoder, folder in ((new, newer), (old, dual_folder)):
        alone = opened(f"dual:{folder}")
        assert same(encoder.encode_images(pictures), alone.encode_images(pictures))
        wanted = alone.encode_texts(TEXTS, role="query")
        assert same(encoder.encode_texts(TEXTS, role="query"), wanted)
    assert not same(new.encode_images(pictures), old.encode_images(pictures), 1e-4)
    assert not hub.asked


def test_a_model_with_one_tower_is_refused(sbert_folder):
    said = complaint(f"dual:{sbert_folder}")
    assert said.startswith(f"dual:{sbert_folder}: is no dual encoder: XLMRobertaModel has no")


@DAMAGE
@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_refused(copied, damage, file: str):
    path = copied("dual") / file
    path.write_bytes(damage(path.read_bytes()))
    said = complaint(f"dual:{path.parent}")
    assert said.startswith(f"dual:{path.parent}: transformers cannot load it (")


def test_another_transformers_may_give_other_vectors(dual_folder, monkeypatch):
    before = open_encoder(f"dual:{dual_folder}").identity
    monkeypatch.setattr("admire.models.encoders.dual.metadata.version", lambda _: "6.0")
    assert open_encoder(f"dual:{dual_folder}").identity != before
