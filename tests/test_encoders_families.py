"""What all encoders that run on torch have in common: one contract, for each family.

Each small model of the table in clips.py is compared with the package that its kind comes from.
"""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra 'clip'")

import torch
from clips import (
    COMMIT,
    FAMILIES,
    LONG,
    MODELS,
    OTHER_COMMIT,
    TEXTS,
    Evil,
    complaint,
    distinct,
    encode,
    images_of,
    opened,
    pointer,
    same,
    texts_of,
    truncated,
)
from safetensors.torch import load_file, save_file

from admire.encoders import ImageEncoder

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "network")


@pytest.mark.parametrize("kind", MODELS)
def test_vectors_are_those_of_the_models_own_package(folder_of, pictures, kind: str):
    model, folder = MODELS[kind], folder_of(kind)
    texts = model.texts(folder, TEXTS)
    assert distinct(texts)
    cached = opened(f"{model.family}:{folder}")
    encoder = cached.encoder
    for role in ("query", "document"):
        assert same(texts_of(encoder, TEXTS, role), texts)
    # Neither company nor order matters, nor dropout, nor how much is padded.
    assert same(np.concatenate([texts_of(encoder, [text]) for text in TEXTS]), texts)
    assert same(texts_of(encoder, [LONG, *TEXTS[::-1]])[:0:-1], texts)
    assert same(cached.encode_texts(TEXTS, role="query"), texts)
    assert isinstance(cached, ImageEncoder) == (model.images is not None)
    if model.images:
        images = model.images(folder, pictures)
        assert distinct(images)
        assert same(images_of(encoder, pictures), images)
        assert same(np.concatenate([images_of(encoder, [path]) for path in pictures]), images)
        assert same(cached.encode_images(pictures[::-1])[::-1], images)
    assert np.allclose(np.linalg.norm(cached.encode_texts(TEXTS, role="query"), axis=1), 1)


@pytest.mark.parametrize("kind", MODELS)
def test_the_first_part_of_a_long_text_is_read(folder_of, kind: str):
    model = MODELS[kind]
    encoder = opened(f"{model.family}:{folder_of(kind)}").encoder
    words = LONG.split()
    fits, shorter = " ".join(words[: model.words]), " ".join(words[: model.words - 2])
    whole, beginning, less = texts_of(encoder, [LONG, fits, shorter])
    assert same(whole, beginning)
    assert not same(less, beginning, 1e-4)


@FAMILIES
def test_bfloat16_is_near_float32_and_another_encoder(folders, family: str, pictures):
    name = f"{family}:{folders[family]}"
    fine, coarse = opened(name), opened(name, precision="bfloat16")
    assert coarse.identity == fine.identity.replace("float32", "bfloat16") != fine.identity
    pairs = [[one.encode_texts(TEXTS, role="query") for one in (fine, coarse)]]
    if family != "sbert":
        pairs.append([one.encode_images(pictures) for one in (fine, coarse)])
    for exact, near in pairs:
        assert near.dtype == np.float32
        assert (exact * near).sum(axis=1).min() > 0.99
        assert not same(near, exact, 1e-4), "it was not computed in bfloat16"


@FAMILIES
def test_a_folder_is_the_same_encoder_anywhere_and_another_when_it_changes(copied, folders, family):
    encoder = opened(f"{family}:{folders[family]}")
    encoder.encode_texts(TEXTS, role="query")
    moved = copied(family, "model@v1")  # an @ in a folder's name is no revision
    again = opened(f"{family}:{moved}")
    again.encode_texts(TEXTS, role="query")
    assert (again.identity, encoder.encoded, again.encoded) == (encoder.identity, 5, 0)
    (moved / "more.json").write_text("{}")
    assert opened(f"{family}:{moved}").identity != encoder.identity
    assert "'@v1'" in complaint(f"{family}:{folders[family]}@v1")


def test_a_repository_and_its_revisions(hub, folders, copied):
    older, newer = folders["sbert"], copied("sbert")
    weights = load_file(newer / "model.safetensors")
    weights = {k: v + torch.randn(v.shape) / 5 for k, v in weights.items()}
    save_file(weights, newer / "model.safetensors", {"format": "pt"})
    hub.add("tests/model", older)
    hub.add("tests/model", newer, OTHER_COMMIT)
    hub.tag("tests/model", "v1", COMMIT)
    new, old = opened("sbert:tests/model"), opened("sbert:tests/model@v1")
    assert f"@{OTHER_COMMIT}" in new.identity
    assert f"@{COMMIT}" in old.identity
    assert opened(f"sbert:tests/model@{COMMIT}").identity == old.identity
    vectors = [one.encode_texts(TEXTS, role="query") for one in (new, old)]
    assert same(vectors[0], encode(f"sbert:{newer}"))
    assert same(vectors[1], encode(f"sbert:{older}"))
    assert not same(*vectors, 1e-3)
    assert not hub.asked


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("mclip:LABSE-Vit-L-14", "M-CLIP/LABSE-Vit-L-14"),
        ("sbert:intfloat/e5-base", "intfloat/e5-base"),
    ],
)
def test_a_model_that_is_not_here_is_asked_of_the_hub_once(hub, name: str, repository: str):
    assert f"'{repository}' is not on this machine" in complaint(f"{name}@v9")
    assert {(asked, revision) for asked, _, revision in hub.asked} == {(repository, "v9")}
    assert len(hub.asked) == 1
    family = name.partition(":")[0]
    assert complaint(f"{family}:./nowhere").startswith("./nowhere: ")
    assert len(hub.asked) == 1, "a path is no name on the hub"


def test_nothing_is_loaded_before_something_is_to_be_encoded(folders, pictures):
    names = [f"{family}:{folder}" for family, folder in folders.items()]
    for name in names:
        encoder = opened(name)
        encoder.encode_texts(TEXTS, role="query")
        if isinstance(encoder, ImageEncoder):
            encoder.encode_images(pictures)
    program = f"""
import sys
from pathlib import Path
from admire.encoders import ImageEncoder, open_encoder
for name in {names!r}:
    encoder = open_encoder(name)
    assert not {{"torch", "transformers"}} & set(sys.modules), f"{{name}}: opening it loads torch"
    encoder.encode_texts({TEXTS!r}, role="query")
    if isinstance(encoder, ImageEncoder):
        encoder.encode_images([Path(path) for path in {[str(path) for path in pictures]!r}])
    assert encoder.encoded == 0
assert not {{"torch", "transformers"}} & set(sys.modules), "known vectors load torch"
print("done")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr


@FAMILIES
def test_a_malicious_pickle_is_refused_and_not_run(copied, tmp_path, family: str):
    folder = copied(family)
    path = folder / ("open_clip_" * (family == "openclip") + "pytorch_model.bin")
    for safe in folder.glob("*.safetensors"):
        safe.unlink()
    evil = {"transformer.weight": Evil(tmp_path / "mark")}
    torch.save(evil, path)
    assert str(folder) in complaint(f"{family}:{folder}")
    assert not (tmp_path / "mark").exists()
    torch.load(path, weights_only=False)  # which runs it
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("family", "file"),
    [
        ("mclip", "pytorch_model.bin"),
        ("mclip", "tiny-xlm-roberta/config.json"),
        ("openclip", "open_clip_model.safetensors"),
        ("sbert", "model.safetensors"),
    ],
)
def test_damaged_and_missing_files_are_refused_with_the_models_name(copied, family: str, file: str):
    path = copied(family) / file
    name = f"{family}:{path.parent if '/' not in file else path.parents[1]}"
    whole = path.read_bytes()
    for content in (truncated(whole), pointer(whole)):  # the other is what Git LFS leaves
        path.write_bytes(content)
        assert complaint(name).startswith(f"{name}: ")
        assert "cannot be loaded (" in complaint(name)
