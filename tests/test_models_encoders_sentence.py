"""Sentence-transformers on a small model: prompts, files, folders and the hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from admire.models.encoders import ImageEncoder, open_encoder
from admire.models.encoders.sentence import SentenceEncoder

pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

from clips import COMMIT, CPU, TEXTS, distinct, images_of, opened, plain_sbert, same, texts_of, unit
from duals import save_vlm

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "network")


E5 = ("query: ", "passage: ")


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [
        ("multilingual-e5-small", E5),
        ("E5-base", E5),
        ("multilingual-e5-large-instruct", ("", "")),
        ("note5", ("", "")),
    ],
)
def test_e5_models_alone_get_the_prefixes_they_were_trained_with(copied, name: str, prefixes):
    folder = copied("sbert", f"instruct/{name}")  # only a model's own name tells what it is
    encoder = opened(f"sbert:{folder}")
    for role, prefix in zip(("query", "document"), prefixes, strict=True):
        wanted = plain_sbert(folder, [prefix + text for text in TEXTS])
        assert same(encoder.encode_texts(TEXTS, role=role), wanted)
    plain = opened(f"sbert:{copied('sbert', 'small')}")
    assert (encoder.identity != plain.identity) == (prefixes == E5)


def test_a_model_of_which_transformers_alone_left_its_files_is_asked_for_its_modules(
    hub, sbert_folder, caplog
):
    # Without modules.json sentence-transformers would silently take the mean of all tokens.
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    hub.add("tests/small", {name: sbert_folder / name for name in names})
    encoder = opened("sbert:tests/small")
    assert hub.asked == [("tests/small", "modules.json", COMMIT)]
    assert "sbert:tests/small: there is no modules.json" in caplog.text
    assert same(encoder.encode_texts(TEXTS, role="query"), plain_sbert(sbert_folder, TEXTS))
    caplog.clear()
    hub.online = {"tests/small": sbert_folder}
    open_encoder("sbert:tests/small")
    assert "modules.json" not in caplog.text


# -------------------------------------------------------------------------- models that see


def test_a_vlm_embeds_pictures_and_texts_with_its_prompts(tmp_path, pictures):
    from sentence_transformers import SentenceTransformer

    folder = save_vlm(tmp_path / "vlm")
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    images = [str(path) for path in pictures]
    encoder = SentenceEncoder(str(folder), None, CPU)
    found = images_of(encoder, pictures)
    assert same(found, unit(plain.encode_document(images)))
    assert not same(found, unit(plain.encode(images)), 1e-3)
    assert same(np.concatenate([images_of(encoder, [path]) for path in pictures]), found)
    assert same(texts_of(encoder, TEXTS, "query"), unit(plain.encode_query(TEXTS)))
    assert distinct(found)


def legacy(folder: Path, model: Path) -> Path:
    """As versions before 5.4 saved a CLIP."""
    shutil.copytree(model, folder)
    path = folder / "modules.json"
    (module,) = json.loads(path.read_text())
    path.write_text(json.dumps([module | {"type": "sentence_transformers.models.CLIPModel"}]))
    (folder / "sentence_bert_config.json").unlink()
    return folder


def test_whether_a_model_sees_is_known_before_it_is_loaded(
    seeing_folder, sbert_folder, tmp_path, pictures
):
    models = {
        seeing_folder: True,
        legacy(tmp_path / "legacy", seeing_folder): True,
        sbert_folder: False,
    }
    for folder, sees in models.items():
        encoder = SentenceEncoder(str(folder), None, CPU)
        assert encoder.sees == sees
        assert "model" not in encoder.__dict__
        assert encoder.model.supports("image") == sees
        assert isinstance(opened(f"sbert:{folder}"), ImageEncoder) == sees


def test_a_repository_that_sees_is_known_by_two_small_files(hub, seeing_folder, pictures):
    names = ("modules.json", "sentence_bert_config.json")
    hub.online = {"tests/seeing": seeing_folder}
    assert isinstance(opened("sbert:tests/seeing"), ImageEncoder)
    assert [name for _, name, _ in hub.asked] == list(names)
    shutil.rmtree(hub.cache / "models--tests--seeing")
    hub.add("tests/seeing", seeing_folder)
    found = opened("sbert:tests/seeing").encode_images(pictures)
    assert same(found, opened(f"sbert:{seeing_folder}").encode_images(pictures))
    assert len(hub.asked) == len(names)
