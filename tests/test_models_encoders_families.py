"""How an encoder is opened by its name, and what all that run on torch have in common."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from admire import UserError
from admire.models.encoders import open_encoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
open_clip = pytest.importorskip("open_clip", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

from clips import (  # noqa: E402
    FAMILIES,
    TEXTS,
    Evil,
    complaint,
    encode,
    opened,
    same,
)

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


@pytest.mark.parametrize(
    ("name", "close"),
    [("mcilp:x", "mclip"), ("sbrt:x", "sbert"), ("embeded-state", "embedded-state")],
)
def test_a_misspelt_family_is_told_the_closest(name: str, close: str):
    with pytest.raises(UserError, match=f"Did you mean '{close}'"):
        open_encoder(name)


@pytest.mark.parametrize("name", ["", ":", "zzz", "e5:x", "e5:", "mclip", "sbert:"])
def test_an_incomplete_or_unknown_name_is_told_the_forms(name: str):
    with pytest.raises(UserError) as caught:
        open_encoder(name)
    said = str(caught.value)
    assert "dual:REPOSITORY, e5, embedded-state, mclip:NAME, openclip:MODEL/TAG, sbert:REP" in said
    assert f"mean '{name.rstrip(':')}'" not in said  # it would not help
    assert caught.value.settings == ("encoder",)


@pytest.mark.parametrize("place", ["./nowhere", "~/no/such/model", "../no"])
def test_a_path_without_a_folder_is_no_name_on_the_hub(hub, place: str):
    for family in ("mclip", "openclip", "dual", "sbert"):
        assert complaint(f"{family}:{place}") == f"{place}: is no folder of a model."
    assert not hub.asked


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("mclip:LABSE-Vit-L-14", "M-CLIP/LABSE-Vit-L-14"),
        ("openclip:ViT-B-32/openai", "timm/vit_base_patch32_clip_224.openai"),
        ("dual:google/siglip2-base-patch16-224", "google/siglip2-base-patch16-224"),
        ("sbert:intfloat/multilingual-e5-small", "intfloat/multilingual-e5-small"),
    ],
)
def test_a_model_that_is_not_here_is_asked_of_the_hub_once(hub, name: str, repository: str):
    assert f"'{repository}' is not here" in complaint(f"{name}@v9")
    assert {(asked, revision) for asked, _, revision in hub.asked} == {(repository, "v9")}
    assert len(hub.asked) == 1


@pytest.mark.parametrize("family", ["openclip", "mclip", "dual"])
def test_vectors_do_not_change_with_batch_or_order(
    folders, family, pictures, tmp_path, monkeypatch
):
    encoder = opened(f"{family}:{folders[family]}")
    texts, images = encoder.encode_texts(TEXTS, role="query"), encoder.encode_images(pictures)
    for batch in (1, 2, 3):
        monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / str(batch)))
        again = opened(f"{family}:{folders[family]}")
        again.encoder = encoder.encoder  # loaded already
        again.batch = batch
        assert same(again.encode_texts(TEXTS[::-1], role="query")[::-1], texts)
        assert same(again.encode_images(pictures[::-1])[::-1], images)
        assert again.encoded == 10


@FAMILIES
def test_bfloat16_is_near_float32_and_another_encoder(folders, family: str, pictures):
    name = f"{family}:{folders[family]}"
    fine, coarse = opened(name), opened(name, precision="bfloat16")
    assert fine.identity != coarse.identity
    pairs = [[one.encode_texts(TEXTS, role="query") for one in (fine, coarse)]]
    if family != "sbert":
        pairs.append([one.encode_images(pictures) for one in (fine, coarse)])
    for exact, near in pairs:
        assert near.dtype == np.float32
        assert (exact * near).sum(axis=1).min() > 0.99
        assert not same(near, exact, 1e-4), "it was not computed in bfloat16"


@FAMILIES
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "pickle"])
def test_a_malicious_pickle_is_refused_and_not_run(copied, tmp_path, family: str, zipped: bool):
    folder = copied(family)
    path = folder / ("open_clip_" * (family == "openclip") + "pytorch_model.bin")
    for safe in folder.glob("*.safetensors"):
        safe.unlink()
    evil = {"transformer.weight": Evil(tmp_path / "mark")}
    torch.save(evil, path, _use_new_zipfile_serialization=zipped)
    said = complaint(f"{family}:{folder}")
    assert str(path if family == "mclip" else folder) in said
    assert not (tmp_path / "mark").exists()
    torch.load(path, weights_only=False)  # which runs it
    assert (tmp_path / "mark").exists()


@FAMILIES
def test_a_folders_name_may_hold_an_at_sign(copied, folders, family: str):
    folder = copied(family, "model@v1")
    assert same(encode(f"{family}:{folder}"), encode(f"{family}:{folders[family]}"))


def test_a_folder_may_be_named_from_the_users_home(copied, monkeypatch):
    folder = copied("sbert", "model@v1")
    monkeypatch.setenv("HOME", str(folder.parent))
    assert open_encoder("sbert:~/model@v1").identity == open_encoder(f"sbert:{folder}").identity


def test_a_folder_has_no_revisions(sbert_folder):
    said = complaint(f"sbert:{sbert_folder}@v1")
    assert said == f"{sbert_folder}: a folder has no revisions. Leave out '@v1'."


@FAMILIES
def test_the_device_is_that_of_the_placement(folders, family: str, monkeypatch, pictures):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name = f"{family}:{folders[family]}"
    assert "torch finds no device 'cuda' here" in complaint(name, device="cuda")
    if family != "sbert":
        with pytest.raises(UserError, match="no device 'cuda'"):
            opened(name, "cuda").encode_images(pictures)


@pytest.mark.parametrize(
    ("family", "package"),
    [
        ("mclip", "multilingual_clip"),
        ("openclip", "open_clip"),
        ("dual", "transformers"),
        ("sbert", "sentence_transformers"),
        ("sbert", "torch"),
    ],
)
def test_a_missing_package_names_the_extra(family: str, package: str, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "admire.base.errors.find_spec", lambda name: None if name == package else find(name)
    )
    with pytest.raises(UserError) as caught:
        open_encoder(f"{family}:any")
    assert f"'{family}:any' needs {package}, of the extra 'clip': pip install" in str(caught.value)


def test_any_change_of_a_folder_is_another_encoder(copied):
    folder = copied("mclip")

    def identity() -> str:
        return open_encoder(f"mclip:{folder}").identity

    before = identity()
    assert identity() == before
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        assert identity() != before, path
        path.write_bytes(content)
    assert identity() == before
    (folder / "more.json").write_text("{}")
    more = identity()
    assert more != before
    (folder / "more.json").rename(folder / "other.json")
    assert identity() not in (before, more)


@FAMILIES
def test_a_folder_that_is_moved_is_the_same_encoder(copied, folders, family: str, pictures):
    encoder = opened(f"{family}:{folders[family]}")
    encoder.encode_texts(TEXTS, role="query")
    moved = opened(f"{family}:{copied(family, 'elsewhere')}")
    assert moved.identity == encoder.identity
    moved.encode_texts(TEXTS, role="query")
    assert (encoder.encoded, moved.encoded) == (5, 0)
    if family != "sbert":
        encoder.encode_images(pictures)
        moved.encode_images(pictures)
        assert (encoder.encoded, moved.encoded) == (10, 0)


def test_nothing_is_loaded_before_something_is_to_be_encoded(folders, pictures):
    names = [f"{family}:{folder}" for family, folder in folders.items()]
    for name in names:
        encoder = opened(name)
        encoder.encode_texts(TEXTS, role="query")
        if not name.startswith("sbert"):
            encoder.encode_images(pictures)
    program = f"""
import sys
from pathlib import Path
from admire.models.encoders import open_encoder
for name in {names!r}:
    encoder = open_encoder(name)
    assert not {{"torch", "transformers"}} & set(sys.modules), f"{{name}}: opening it loads torch"
    encoder.encode_texts({TEXTS!r}, role="query")
    if not name.startswith("sbert"):
        encoder.encode_images([Path(path) for path in {[str(path) for path in pictures]!r}])
    assert encoder.encoded == 0
assert not {{"torch", "transformers"}} & set(sys.modules), "known vectors load torch"
print("done")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr
