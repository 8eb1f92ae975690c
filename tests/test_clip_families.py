"""The encoders that run on torch: M-CLIP, open_clip and sentence-transformers, on small towers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from admire import Candidate, Item, Settings, UserError, rank, read_items
from admire.encoders import Device, Precision, Role, Vectors, open_encoder
from admire.encoders.cached import CachedEncoder, CachedTowers
from admire.encoders.mclip import IMAGE_TOWERS, MClipEncoder
from admire.encoders.openclip import OpenClipEncoder
from admire.encoders.placement import Placement
from admire.encoders.sentence import SentenceEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
open_clip = pytest.importorskip("open_clip", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

import transformers  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from towers import (  # noqa: E402
    PREPROCESS,
    TEXT,
    VISION,
    save_mclip,
    save_openclip,
    save_sentence_transformer,
    word_tokenizer,
    xlm_roberta,
)

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = [
    "a night owl",
    "the owl in the big green tree at night",
    "my sister",
    "a small red circle on a blue square",
    "who writes at midnight on a desk is a real night owl",
]
LONG = " ".join((TEXT.split() * 4)[:150])
CPU = Placement("cpu")
Encoder = MClipEncoder | OpenClipEncoder | SentenceEncoder
FAMILIES = pytest.mark.parametrize("family", ["mclip", "openclip", "sbert"])


# --------------------------------------------------------------------- surroundings and towers


@pytest.fixture(autouse=True)
def network(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple]]:
    """Nothing of the user's hub cache is seen, and no test may try the network.

    Libraries swallow failures, so every try is noted; what is left in the list fails the test.
    """
    tried: list[tuple] = []

    def refuse(*address: object, **_: object) -> None:
        tried.append(address)
        raise OSError("tests must not use the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    # The hub's package asks once in a process which programs call it.
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._fetch_registry", lambda: None)
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
    yield tried
    assert not tried


@pytest.fixture(scope="module")
def mclip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_mclip(tmp_path_factory.mktemp("towers") / "mclip")


@pytest.fixture(scope="module")
def openclip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_openclip(tmp_path_factory.mktemp("towers") / "clip")


@pytest.fixture(scope="module")
def sbert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_transformer(tmp_path_factory.mktemp("towers") / "sbert")


@pytest.fixture(scope="module")
def folders(mclip_folder: Path, openclip_folder: Path, sbert_folder: Path) -> dict[str, Path]:
    return {"mclip": mclip_folder, "openclip": openclip_folder, "sbert": sbert_folder}


@pytest.fixture(scope="module")
def mclip(mclip_folder: Path) -> MClipEncoder:
    return MClipEncoder(str(mclip_folder), None, CPU)


@pytest.fixture(scope="module")
def openclip(openclip_folder: Path) -> OpenClipEncoder:
    return OpenClipEncoder(str(openclip_folder), None, CPU)


@pytest.fixture(scope="module")
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


def unit(vectors: object) -> Vectors:
    array = np.asarray(vectors, dtype=np.float32)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def texts_of(encoder: Encoder, texts: Sequence[str], role: Role = "document") -> Vectors:
    """Without the cache, which would hide that two encodings differ."""
    return unit(encoder.encode_texts(texts, role=role))


def images_of(encoder: MClipEncoder | OpenClipEncoder, images: Sequence[Path]) -> Vectors:
    return unit(encoder.encode_prepared([encoder.prepare_image(image) for image in images]))


def same(found: Vectors, wanted: Vectors, within: float = 1e-5) -> bool:
    assert found.shape == wanted.shape
    return bool(np.abs(found - wanted).max() < within)


def distinct(vectors: Vectors) -> bool:
    """Whether no two of the vectors are alike: else comparing them would show nothing."""
    cosines = vectors @ vectors.T
    return bool(cosines[~np.eye(len(vectors), dtype=bool)].max() < 0.9999)


def opened(
    name: str, device: Device = "cpu", precision: Precision = "float32"
) -> CachedTowers | CachedEncoder:
    return open_encoder(name, device=device, precision=precision)


def encode(name: str, texts: Sequence[str] = TEXTS) -> Vectors:
    return opened(name).encode_texts(texts, role="document")


def complaint(name: str, *, device: Device = "cpu", precision: Precision = "float32") -> str:
    """What opening the encoder and encoding with it ends with, which must be a UserError."""
    with pytest.raises(UserError) as caught:
        opened(name, device, precision).encode_texts(["an owl"], role="query")
    return str(caught.value)


class Evil:
    """A pickle that, once read, makes a file."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


# ------------------------------------------------------------------------------- M-CLIP: texts


def plain_mclip(folder: Path, weights: Mapping[str, torch.Tensor], texts: Sequence[str]) -> Vectors:
    """M-CLIP's own class with the weights of its own; the tokenizer's file alone."""
    from multilingual_clip.Config_MCLIP import MCLIPConfig
    from multilingual_clip.pt_multilingual_clip import MultilingualCLIP

    settings = json.loads((folder / "config.json").read_text())
    tower = MultilingualCLIP(
        MCLIPConfig(**settings | {"modelBase": str(folder / "tiny-xlm-roberta")})
    )
    tower.load_state_dict({k: v for k, v in weights.items() if "position_ids" not in k})
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    with torch.inference_mode():
        return unit(tower.eval()(list(texts), tokenizer))


@pytest.fixture(scope="module")
def mclip_weights(mclip_folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(mclip_folder / "pytorch_model.bin", weights_only=True)


def test_mclip_gives_what_its_own_package_gives(mclip, mclip_folder, mclip_weights):
    wanted = plain_mclip(mclip_folder, mclip_weights, TEXTS)
    assert distinct(wanted)
    assert wanted.shape == (5, 16)
    assert "transformer.embeddings.position_ids" in mclip_weights
    for role in ("query", "document"):
        assert same(texts_of(mclip, TEXTS, role), wanted)
    assert same(encode(f"mclip:{mclip_folder}"), wanted)


def test_mclip_reads_safetensors_as_it_reads_the_pickle(mclip, tmp_path):
    folder = save_mclip(tmp_path / "safe", pickle=False)
    assert not (folder / "pytorch_model.bin").exists()
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


def test_of_both_formats_safetensors_is_read(copied, mclip, mclip_weights):
    folder = copied("mclip")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    save_file(
        {k: v.clone() for k, v in mclip_weights.items() if "position_ids" not in k},
        folder / "model.safetensors",
    )
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


def test_mclip_never_reads_the_base_models_weights(copied, mclip):
    folder = copied("mclip")
    base = folder / "tiny-xlm-roberta"
    (base / "model.safetensors").unlink()
    assert [path.name for path in base.iterdir()] == ["config.json"]
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


def test_mclip_does_not_change_with_batch_order_or_company(mclip):
    together = texts_of(mclip, TEXTS)
    assert same(texts_of(mclip, TEXTS), together), "dropout is on"
    assert same(texts_of(mclip, TEXTS[::-1])[::-1], together)
    for k, text in enumerate(TEXTS):
        assert same(texts_of(mclip, [text])[0], together[k])
        assert same(texts_of(mclip, [text, LONG])[0], together[k])
        assert same(texts_of(mclip, [LONG, text])[1], together[k])


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


def test_mclip_reads_an_empty_text(mclip):
    assert np.isfinite(texts_of(mclip, ["", "an owl"])).all()


def test_mclip_on_another_base_model_has_all_its_positions(tmp_path, mclip_folder):
    # LaBSE is a BERT: no position is kept for the padding. Its tokenizer sets no limit.
    folder = labse(tmp_path / "labse", mclip_folder / "image")
    encoder = MClipEncoder(str(folder), None, CPU)
    words = LONG.split()
    full, cut, shorter = (" ".join(words[:n]) for n in (90, 38, 37))
    vectors = texts_of(encoder, [full, cut, shorter])
    assert same(vectors[0], vectors[1])
    assert not same(vectors[1], vectors[2], 1e-4)


def labse(folder: Path, image: Path) -> Path:
    """A tower in the layout of M-CLIP/LABSE-Vit-L-14, with BERT's tokenizer, 40 positions."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: k for k, word in enumerate([*marks, *TEXT.split(), "Owl", "##s"])}
    base = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    torch.manual_seed(4)
    encoder = transformers.BertModel(base)
    head = torch.nn.Linear(32, 16)
    base.save_pretrained(folder / "LaBSE")
    transformers.BertTokenizer(vocab=vocabulary, do_lower_case=False).save_pretrained(folder)
    weights = {f"transformer.{k}": v for k, v in encoder.state_dict().items()}
    weights |= {f"LinearTransformation.{k}": v.detach() for k, v in head.state_dict().items()}
    weights["transformer.embeddings.position_ids"] = torch.arange(40)[None]
    torch.save(weights, folder / "pytorch_model.bin")
    settings = {"modelBase": "sentence-transformers/LaBSE", "model_type": "M-CLIP"}
    sizes = {"numDims": 16, "transformerDimensions": 32}
    (folder / "config.json").write_text(json.dumps(settings | sizes))
    shutil.copytree(image, folder / "image")
    return folder


def test_mclip_takes_the_tokenizer_as_its_file_describes_it(copied, mclip_weights):
    # XLM-R's: pieces of words, and a class of its own in transformers that rebuilds it.
    from tokenizers import Tokenizer

    folder = copied("mclip")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "▁an", "▁owl", "s", "▁night", "▁", "<mask>"]
    transformers.XLMRobertaTokenizer(
        vocab=[(piece, -float(k)) for k, piece in enumerate(pieces)]
    ).save_pretrained(folder)
    texts = ["an  owls night", "a night", "owl ﬁ"]
    encoded = [Tokenizer.from_file(str(folder / "tokenizer.json")).encode(t).ids for t in texts]
    assert encoded[0] == [0, 5, 6, 7, 8, 2]

    def tokenize(texts: list[str], **_: object) -> transformers.BatchEncoding:
        ids = torch.tensor([encoded[asked]])
        return transformers.BatchEncoding(
            {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        )

    from multilingual_clip.Config_MCLIP import MCLIPConfig
    from multilingual_clip.pt_multilingual_clip import MultilingualCLIP

    config = MCLIPConfig(modelBase=str(folder / "tiny-xlm-roberta"), numDims=16)
    config.transformerDimensions = 32
    tower = MultilingualCLIP(config).eval()
    tower.load_state_dict({k: v for k, v in mclip_weights.items() if "position_ids" not in k})
    vectors = encode(f"mclip:{folder}", texts)
    for asked in range(len(texts)):
        with torch.inference_mode():
            assert same(vectors[asked], unit(tower([""], tokenize))[0])


# ---------------------------------------------------------------- M-CLIP: what cannot be used


def test_a_folder_without_a_config_is_no_mclip(tmp_path, openclip_folder):
    said = complaint(f"mclip:{openclip_folder}")
    assert f"{openclip_folder}: holds no config.json of an M-CLIP" in said
    assert str(tmp_path) in complaint(f"mclip:{tmp_path}")


@pytest.mark.parametrize(
    "config",
    ["", "{", "[]", "null", '"xlm"', "{}", '{"modelBase": null}', '{"modelBase": 3}', "\udcff"],
)
def test_a_config_without_a_base_model_is_refused(copied, config: str):
    path = copied("mclip") / "config.json"
    path.write_bytes(config.encode(errors="surrogateescape"))
    with pytest.raises(UserError) as caught:
        open_encoder(f"mclip:{path.parent}")
    assert f"{path}: is no config of an M-CLIP text tower (no modelBase)" in str(caught.value)


def test_a_sentence_transformer_is_no_mclip(sbert_folder):
    assert f"{sbert_folder / 'config.json'}: is no config" in complaint(f"mclip:{sbert_folder}")


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def pointer(content: bytes) -> bytes:
    """What lies in a clone where Git LFS has not run."""
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\n".encode()


DAMAGE = {"truncated": truncated, "empty": lambda content: b"", "a git-lfs pointer": pointer}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("safe", [False, True], ids=["pickle", "safetensors"])
def test_damaged_weights_are_refused(tmp_path, copied, damage, safe: bool):
    folder = save_mclip(tmp_path / "safe", pickle=False) if safe else copied("mclip")
    path = folder / ("model.safetensors" if safe else "pytorch_model.bin")
    path.write_bytes(damage(path.read_bytes()))
    said = complaint(f"mclip:{folder}")
    assert f"{path}: the weights cannot be read (" in said
    assert "Download the file again" in said


@pytest.mark.parametrize("content", ["", "{", "{}"])
@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("tokenizer.json", "tokenizer.json"),
        ("tokenizer_config.json", "tokenizer.json"),
        ("tiny-xlm-roberta/config.json", "tiny-xlm-roberta/config.json"),
    ],
)
def test_damaged_files_beside_the_weights_are_refused(copied, file: str, named: str, content: str):
    folder = copied("mclip")
    (folder / file).write_text(content)
    assert f"{folder / named}: cannot be used (" in complaint(f"mclip:{folder}")


def test_sizes_that_are_no_numbers_are_refused(copied):
    path = copied("mclip") / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"transformerDimensions": "many"}))
    assert f"{path}: cannot be used (" in complaint(f"mclip:{path.parent}")


def test_the_base_models_own_precision_does_not_round_the_weights(copied, mclip):
    folder = copied("mclip")
    path = folder / "tiny-xlm-roberta" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": "float16"}))
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


def test_weights_that_are_no_dictionary_are_refused(copied):
    path = copied("mclip") / "pytorch_model.bin"
    torch.save(torch.zeros(3, 3), path)
    assert f"{path}: the weights cannot be read (" in complaint(f"mclip:{path.parent}")


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


@pytest.mark.parametrize("change", ["missing", "more", "shape"])
def test_weights_that_do_not_fit_are_refused(copied, mclip_weights, change: str):
    folder = copied("mclip")
    weights = dict(mclip_weights)
    if change == "missing":
        del weights["LinearTransformation.bias"]
    elif change == "more":
        weights["LinearTransformation.scale"] = torch.ones(1)
    else:
        weights["LinearTransformation.weight"] = torch.zeros(8, 32)
    torch.save(weights, folder / "pytorch_model.bin")
    said = complaint(f"mclip:{folder}")
    assert f"mclip:{folder}: its weights do not fit its config" in said
    assert "LinearTransformation" in said


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_tokenizer_is_named(copied, file: str):
    folder = copied("mclip")
    (folder / file).unlink()
    assert complaint(f"mclip:{folder}") == f"{folder}: holds no {file}."


def test_missing_weights_are_named(copied):
    folder = copied("mclip")
    (folder / "pytorch_model.bin").unlink()
    said = complaint(f"mclip:{folder}")
    assert said == f"{folder}: holds no model.safetensors or pytorch_model.bin."


# ------------------------------------------------------------------------------ M-CLIP: images


def test_mclip_takes_the_image_tower_of_its_folder(mclip, mclip_folder, pictures):
    vectors = images_of(mclip, pictures)
    assert same(vectors, plain_images(f"local-dir:{mclip_folder / 'image'}", pictures))
    assert same(opened(f"mclip:{mclip_folder}").encode_images(pictures), vectors)


def test_an_image_folder_without_a_tower_is_named(copied):
    folder = copied("mclip")
    (folder / "image" / "open_clip_config.json").unlink()
    said = complaint(f"mclip:{folder}")
    assert f"{folder / 'image'}: holds no open_clip_config.json" in said


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


@pytest.mark.parametrize("tower", IMAGE_TOWERS.values())
def test_the_image_towers_are_openais_with_its_activation(tower: str):
    model, tag = tower.split("/")
    assert (model, tag) in open_clip.list_pretrained()
    assert open_clip.get_model_config(model)["quick_gelu"] is True
    assert open_clip.pretrained.get_pretrained_cfg(model, tag)["quick_gelu"] is True


def test_a_width_without_a_known_image_tower_is_refused(copied):
    folder = copied("mclip")
    shutil.rmtree(folder / "image")
    with pytest.raises(UserError, match=r"a space of 16 dimensions\. Put one into .*/image"):
        open_encoder(f"mclip:{folder}")


def test_towers_of_different_widths_are_not_ranked_with(tmp_path, pictures):
    folder = save_mclip(tmp_path / "mixed", image_width=24)
    settings = Settings(encoder=f"mclip:{folder}", query="compound", track="image", device="cpu")
    with pytest.raises(UserError, match=r"16 and 24 dimensions.*one space"):
        rank([item(pictures)], settings)


# ----------------------------------------------------------------------------------- open_clip


def plain_clip(model_name: str, **options: object) -> tuple:
    model, _, preprocess = open_clip.create_model_and_transforms(model_name, **options)
    return model.eval(), preprocess, open_clip.get_tokenizer(model_name)


def plain_images(model_name: str, images: Sequence[Path], **options: object) -> Vectors:
    model, preprocess, _ = plain_clip(model_name, **options)
    ready = [preprocess(Image.open(path).convert("RGB"))[None] for path in images]
    with torch.inference_mode():
        return unit(torch.cat([model.encode_image(one) for one in ready]))


def plain_texts(model_name: str, texts: Sequence[str], **options: object) -> Vectors:
    model, _, tokenizer = plain_clip(model_name, **options)
    with torch.inference_mode():
        return unit(model.encode_text(tokenizer(list(texts))))


def test_openclip_gives_what_open_clip_gives(openclip, openclip_folder, pictures):
    texts = plain_texts(f"local-dir:{openclip_folder}", TEXTS)
    images = plain_images(f"local-dir:{openclip_folder}", pictures)
    assert distinct(texts)
    assert distinct(images)
    for role in ("query", "document"):
        assert same(texts_of(openclip, TEXTS, role), texts)
    assert same(images_of(openclip, pictures), images)
    cached = opened(f"openclip:{openclip_folder}")
    assert same(cached.encode_texts(TEXTS, role="query"), texts)
    assert same(cached.encode_images(pictures), images)


@pytest.mark.parametrize("family", ["openclip", "mclip"])
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


def test_openclip_reads_the_first_part_of_a_long_text(openclip):
    # 16 tokens of context, two of them marks
    words = LONG.split()
    whole, beginning, shorter = texts_of(
        openclip, [LONG, " ".join(words[:14]), " ".join(words[:12])]
    )
    assert not same(beginning, shorter, 1e-4)
    assert same(whole, beginning)


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


def test_open_clips_other_checkpoint_format_is_read(copied, openclip, pictures):
    folder = copied("openclip")
    weights = load_file(folder / "open_clip_model.safetensors")
    (folder / "open_clip_model.safetensors").unlink()
    torch.save(weights, folder / "open_clip_pytorch_model.bin")
    encoder = OpenClipEncoder(str(folder), None, CPU)
    assert same(texts_of(encoder, TEXTS), texts_of(openclip, TEXTS))
    assert same(images_of(encoder, pictures), images_of(openclip, pictures))


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


def test_a_folder_without_open_clips_config_is_refused(sbert_folder):
    with pytest.raises(UserError) as caught:
        open_encoder(f"openclip:{sbert_folder}")
    assert f"{sbert_folder}: holds no open_clip_config.json" in str(caught.value)


def test_an_open_clip_folder_without_weights_is_refused(copied):
    # open_clip itself would go on with random weights.
    folder = copied("openclip")
    (folder / "open_clip_model.safetensors").unlink()
    assert f"openclip:{folder}: open_clip cannot load it (" in complaint(f"openclip:{folder}")


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"model_cfg": []}', "\udcff"])
def test_a_damaged_open_clip_config_is_refused(copied, content: str):
    path = copied("openclip") / "open_clip_config.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    said = complaint(f"openclip:{path.parent}")
    assert said == f"{path}: is no config of an open_clip model."


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_open_clip_weights_are_refused(copied, damage):
    folder = copied("openclip")
    path = folder / "open_clip_model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    assert f"openclip:{folder}: open_clip cannot load it (" in complaint(f"openclip:{folder}")


def test_open_clip_weights_that_do_not_fit_are_refused(copied):
    folder = copied("openclip")
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["model_cfg"]["embed_dim"] = 24
    path.write_text(json.dumps(config))
    assert f"openclip:{folder}: open_clip cannot load it (" in complaint(f"openclip:{folder}")


def test_images_of_a_model_that_cannot_be_loaded_are_refused_once(copied, pictures):
    folder = copied("openclip")
    (folder / "open_clip_model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="open_clip cannot load it"):
        opened(f"openclip:{folder}").encode_images(pictures)


def test_threads_that_prepare_images_load_the_model_once(openclip_folder, pictures, monkeypatch):
    create = open_clip.create_model_and_transforms
    loads = []

    def load(*args: object, **options: object) -> object:
        loads.append(args)
        return create(*args, **options)

    monkeypatch.setattr(open_clip, "create_model_and_transforms", load)
    encoder = OpenClipEncoder(str(openclip_folder), None, CPU)
    together = threading.Barrier(len(pictures))

    def prepare(path: Path) -> object:
        together.wait()
        return encoder.prepare_image(path)

    with ThreadPoolExecutor(len(pictures)) as pool:
        assert len(list(pool.map(prepare, pictures))) == len(pictures)
    assert len(loads) == 1


XLM = {
    "hf_model_name": "tiny-xlm-roberta",
    "hf_tokenizer_name": "tiny-xlm-roberta",
    "hf_pooler_type": "mean_pooler",
    "context_length": 16,
}


@pytest.fixture(scope="module")
def xlm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k, with the base's config beside."""
    folder = tmp_path_factory.mktemp("towers") / "xlm"
    base = folder / "tiny-xlm-roberta"
    xlm_roberta().save_pretrained(base)
    word_tokenizer().save_pretrained(folder)
    torch.manual_seed(5)
    own = {"hf_model_name": str(base), "hf_model_pretrained": False}
    model = open_clip.CustomTextCLIP(16, VISION, XLM | own)
    return save_openclip(folder, text=XLM, model=model)


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


def test_a_missing_base_config_is_asked_of_the_hub(hub, xlm_folder, tmp_path):
    folder = Path(shutil.copytree(xlm_folder, tmp_path / "xlm"))
    shutil.rmtree(folder / "tiny-xlm-roberta")
    assert "'tiny-xlm-roberta' is not here" in complaint(f"openclip:{folder}")
    hub.add("tiny-xlm-roberta", {"config.json": xlm_folder / "tiny-xlm-roberta" / "config.json"})
    assert same(encode(f"openclip:{folder}"), encode(f"openclip:{xlm_folder}"))


# -------------------------------------------------------------------- a hub that is not there

COMMIT, OTHER_COMMIT = "1" * 40, "2" * 40


class Hub:
    """The hub's cache as huggingface_hub lays it out, in front of a hub that answers as told.

    ``error`` is what the hub's client raises; ``online`` holds repositories that it gives.
    """

    def __init__(self, cache: Path):
        self.cache = cache
        self.error: Exception = huggingface_hub.errors.LocalEntryNotFoundError("no connection")
        self.online: dict[str, Path] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self._cached = huggingface_hub.hf_hub_download

    def add(
        self, repository: str, files: Mapping[str, bytes | Path] | Path, commit: str = COMMIT
    ) -> Path:
        """Put the files into the cache as the repository's newest commit."""
        if isinstance(files, Path):
            found = [path for path in files.rglob("*") if path.is_file()]
            files = {str(path.relative_to(files)): path for path in found}
        home = self.cache / f"models--{repository.replace('/', '--')}"
        snapshot = home / "snapshots" / commit
        for name, content in files.items():
            if isinstance(content, Path):
                content = content.read_bytes()
            blob = home / "blobs" / hashlib.sha256(content).hexdigest()
            for path in (blob, snapshot / name, home / "refs" / "main"):
                path.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(content)
            (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
        (home / "refs" / "main").write_text(commit)
        return snapshot

    def tag(self, repository: str, name: str, commit: str) -> None:
        home = self.cache / f"models--{repository.replace('/', '--')}"
        (home / "refs" / name).write_text(commit)

    def download(
        self,
        repository: str,
        name: str,
        *,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> str:
        """Stands for huggingface_hub.hf_hub_download."""
        if local_files_only:
            return self._cached(repository, name, revision=revision, local_files_only=True)
        self.asked.append((repository, name, revision))
        if repository not in self.online:
            raise self.error
        if not (self.online[repository] / name).is_file():
            missing = huggingface_hub.errors.RemoteEntryNotFoundError
            raise missing("404", response=answer(404))
        return str(self.add(repository, {name: self.online[repository] / name}) / name)


def answer(status: int) -> SimpleNamespace:
    return SimpleNamespace(status_code=status, headers={}, request=None)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(Path(huggingface_hub.constants.HF_HUB_CACHE))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub.download)
    return hub


def test_the_cache_of_these_tests_is_one_of_the_hub(hub):
    path = hub.add("tests/any", {"a/b.txt": b"text"}) / "a" / "b.txt"
    found = huggingface_hub.hf_hub_download("tests/any", "a/b.txt", local_files_only=True)
    assert (found, path.read_text()) == (str(path), "text")


@pytest.fixture
def labse_hub(hub: Hub, tmp_path: Path, mclip_folder: Path) -> Path:
    """M-CLIP/LABSE-Vit-L-14 in the hub's cache, its base model's config under its own name."""
    folder = labse(tmp_path / "labse", mclip_folder / "image")
    base = folder / "LaBSE" / "config.json"
    hub.add("sentence-transformers/LaBSE", {"config.json": base})
    shutil.rmtree(base.parent)
    hub.add("M-CLIP/LABSE-Vit-L-14", folder)
    return folder


def test_mclip_by_name_comes_from_the_hubs_cache(labse_hub, hub, mclip_folder, pictures, tmp_path):
    encoder = opened("mclip:LABSE-Vit-L-14")
    assert f"LABSE-Vit-L-14@{COMMIT}" in encoder.identity
    local = labse(tmp_path / "local", mclip_folder / "image")
    vectors = encoder.encode_texts(["an Owl", "owls at night", *TEXTS], role="query")
    assert same(vectors, encode(f"mclip:{local}", ["an Owl", "owls at night", *TEXTS]))
    assert same(encoder.encode_images(pictures), opened(f"mclip:{local}").encode_images(pictures))
    assert not hub.asked


def test_a_repository_of_ones_own_is_taken_by_its_whole_name(labse_hub, hub):
    vectors = encode("mclip:LABSE-Vit-L-14")
    hub.add("someone/else", labse_hub)
    assert same(encode("mclip:someone/else"), vectors)
    assert not hub.asked


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
    monkeypatch.setattr("admire.encoders.mclip.IMAGE_TOWERS", {16: "tiny/openai"})
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


def test_a_revision_that_is_pinned_is_that_of_all_files(labse_hub, hub):
    newer = Path(shutil.copytree(labse_hub, labse_hub.with_name("newer")))
    weights = torch.load(newer / "pytorch_model.bin", weights_only=True)
    weights["LinearTransformation.bias"] += 1
    torch.save(weights, newer / "pytorch_model.bin")
    hub.add("M-CLIP/LABSE-Vit-L-14", newer, OTHER_COMMIT)
    hub.tag("M-CLIP/LABSE-Vit-L-14", "v1", COMMIT)
    new, old = opened("mclip:LABSE-Vit-L-14"), opened("mclip:LABSE-Vit-L-14@v1")
    pinned = opened(f"mclip:LABSE-Vit-L-14@{COMMIT}")
    assert OTHER_COMMIT in new.identity
    assert old.identity == pinned.identity != new.identity
    vectors = [one.encode_texts(TEXTS, role="query") for one in (new, old)]
    assert same(vectors[0], encode(f"mclip:{newer}"))
    assert same(vectors[1], encode(f"mclip:{labse_hub}"))
    assert not same(*vectors, 1e-3)
    assert not hub.asked


def hub_errors() -> dict[str, tuple[Exception, str]]:
    errors = huggingface_hub.errors
    return {
        "unreachable": (errors.LocalEntryNotFoundError("no connection"), "cannot be reached"),
        "unknown": (
            errors.RepositoryNotFoundError("401", response=answer(401)),
            "does not know it, or it asks for a login",
        ),
        "gated": (
            errors.GatedRepoError("403", response=answer(403)),
            "does not know it, or it asks for a login",
        ),
        "revision": (
            errors.RevisionNotFoundError("404", response=answer(404)),
            "does not know its revision 'v9'",
        ),
        "server": (
            errors.HfHubHTTPError("500", response=answer(500)),
            "does not give it (HfHubHTTPError)",
        ),
        "connection lost": (
            errors.HTTPError("peer closed connection"),  # of the HTTP client, no OSError
            "does not give it (HTTPError)",
        ),
        "file": (errors.RemoteEntryNotFoundError("404", response=answer(404)), "has no "),
        "disk": (OSError(28, "No space left on device"), "does not give it (OSError)"),
    }


@pytest.mark.parametrize("case", hub_errors())
@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("mclip:LABSE-Vit-L-14", "M-CLIP/LABSE-Vit-L-14"),
        ("openclip:ViT-B-32/openai", "timm/vit_base_patch32_clip_224.openai"),
        ("sbert:intfloat/multilingual-e5-small", "intfloat/multilingual-e5-small"),
    ],
)
def test_a_hub_that_gives_nothing_ends_with_what_to_run(hub, case, name, repository):
    hub.error, reason = hub_errors()[case]
    with pytest.raises(UserError) as caught:
        open_encoder(f"{name}@v9")
    said = str(caught.value)
    assert f"The model '{repository}' is not here, and the hub {reason}" in said
    assert f"hf download {repository}" in said
    assert {(asked, revision) for asked, _, revision in hub.asked} == {(repository, "v9")}
    assert len(hub.asked) == 1 or case == "file", "one try is enough"


def test_a_base_model_that_cannot_be_had_is_named(labse_hub, hub):
    shutil.rmtree(hub.cache / "models--sentence-transformers--LaBSE")
    said = complaint("mclip:LABSE-Vit-L-14")
    assert "'sentence-transformers/LaBSE' is not here" in said
    assert "hf download sentence-transformers/LaBSE" in said


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LABSE-Vit-L14", "Did you mean 'LABSE-Vit-L-14'?"),
        ("xlm-roberta-large-vit-b-32", "Did you mean 'XLM-Roberta-Large-Vit-B-32'?"),
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


@FAMILIES
@pytest.mark.parametrize("place", ["./nowhere", "/nowhere/at/all", "~/no/such/model", "../no"])
def test_a_path_without_a_folder_is_no_name_on_the_hub(hub, family: str, place: str):
    with pytest.raises(UserError) as caught:
        open_encoder(f"{family}:{place}")
    assert str(caught.value) == f"{place}: is no folder of a model."
    assert not hub.asked


@FAMILIES
def test_a_file_is_no_folder_of_a_model(hub, family: str, mclip_folder, monkeypatch):
    monkeypatch.chdir(mclip_folder)
    with pytest.raises(UserError, match=r"config\.json: is no folder of a model"):
        open_encoder(f"{family}:config.json")
    assert not hub.asked


@FAMILIES
def test_a_folders_name_may_hold_an_at_sign(copied, folders, family: str):
    folder = copied(family, "model@v1")
    assert same(encode(f"{family}:{folder}"), encode(f"{family}:{folders[family]}"))


@FAMILIES
def test_a_folder_may_be_named_from_the_users_home(copied, folders, family: str, monkeypatch):
    folder = copied(family, "model@v1")
    monkeypatch.setenv("HOME", str(folder.parent))
    assert same(encode(f"{family}:~/{folder.name}"), encode(f"{family}:{folders[family]}"))


@FAMILIES
def test_a_folder_has_no_revisions(folders, family: str):
    said = complaint(f"{family}:{folders[family]}@v1")
    assert said == f"{folders[family]}: a folder has no revisions. Leave out '@v1'."


def test_the_hubs_cache_may_lie_below_a_folder_called_snapshots(
    sbert_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "snapshots"))
    hub = Hub(tmp_path / "snapshots")
    hub.add("tests/small", sbert_folder)
    assert f"@{COMMIT}:" in open_encoder("sbert:tests/small").identity
    assert same(encode("sbert:tests/small"), plain_sbert(sbert_folder, TEXTS))


@FAMILIES
@pytest.mark.parametrize("offline", [False, True])
def test_loading_leaves_the_hubs_settings_as_they_were(
    copied, folders, family: str, offline: bool, monkeypatch
):
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    encode(f"{family}:{folders[family]}")
    assert constants.HF_HUB_OFFLINE is offline
    folder = copied(family)
    for path in [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        path.write_bytes(b"damaged")
    complaint(f"{family}:{folder}")
    assert constants.HF_HUB_OFFLINE is offline


# ------------------------------------------------------------------------- open_clip: its tags

TINY = {
    "embed_dim": 16,
    "vision_cfg": VISION,
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TAGS = {
    "openai": {
        "url": "",
        "hf_hub": "tests/tiny/",
        "mean": (0.1, 0.2, 0.3),
        "std": (0.4, 0.5, 0.6),
        "interpolation": "bilinear",
        "resize_mode": "squash",
        "quick_gelu": True,
    },
    "laion": PREPROCESS | {"url": "", "hf_hub": "tests/tiny/"},
    "named": PREPROCESS | {"url": "", "hf_hub": "tests/tiny/some_weights.bin"},
    "elsewhere": PREPROCESS | {"url": "https://example.com/tiny.pt", "hf_hub": ""},
}


@pytest.fixture
def tiny(hub: Hub, openclip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model 'tiny' on open_clip's list, its weights in the hub's cache."""
    configs = {"tiny": TINY, "tiny-quickgelu": TINY | {"quick_gelu": True}}
    configs["tiny-xlm"] = TINY | {
        "text_cfg": XLM | {"hf_model_name": "tests/xlm", "hf_tokenizer_name": "tests/xlm"}
    }
    for name, config in configs.items():
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, config)
        tags = TAGS if name == "tiny" else {"laion": TAGS["laion"] | {"hf_hub": f"tests/{name}/"}}
        monkeypatch.setitem(open_clip.pretrained._PRETRAINED, name, tags)
    weights = openclip_folder / "open_clip_model.safetensors"
    return hub.add("tests/tiny", {weights.name: weights}) / weights.name


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


def test_a_tag_of_others_is_computed_as_its_config_says(tiny, pictures):
    encoder = opened("openclip:tiny/laion")
    options = {"pretrained": str(tiny)}
    assert same(encoder.encode_texts(TEXTS, role="query"), plain_texts("tiny", TEXTS, **options))
    assert same(encoder.encode_images(pictures), plain_images("tiny", pictures, **options))
    assert encoder.identity != opened("openclip:tiny/openai").identity


def test_a_tag_whose_weights_have_a_name_of_their_own(tiny, hub):
    hub.error = huggingface_hub.errors.RemoteEntryNotFoundError("404", response=answer(404))
    assert "has no some_weights.bin." in complaint("openclip:tiny/named")
    weights = {"state_dict": load_file(tiny)}
    path = tiny.with_name("some_weights.bin")
    torch.save(weights, path)
    assert same(encode("openclip:tiny/named"), encode("openclip:tiny/laion"))


def test_a_tag_that_is_not_on_the_hub_is_refused(tiny, hub):
    assert "'openclip:tiny/elsewhere' is not on the hub" in complaint("openclip:tiny/elsewhere")
    assert not hub.asked


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


def test_a_model_that_had_quick_gelu_all_along_is_not_refused(hub):
    said = complaint("openclip:roberta-ViT-B-32/laion2b_s12b_b32k")
    assert "'laion/CLIP-ViT-B-32-roberta-base-laion2B-s12B-b32k' is not here" in said


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
        ("ViT-B32/openai", "Did you mean 'ViT-B-32/openai'?"),
        ("ViT-B-32/laion2b_s34b_b97k", "Did you mean 'ViT-B-32/laion2b_s34b_b79k'?"),
        ("ViT-B-32", "is no model and tag of open_clip, and no folder."),
        ("no such thing at all", "folder. open_clip.list_pretrained() lists them."),
        ("laion/CLIP-ViT-B-32-laion2B-s34B-b79K", "no model and tag of open_clip, and no folder."),
    ],
)
def test_an_unknown_tag_is_told_a_close_one(tiny, hub, name: str, hint: str):
    said = complaint(f"openclip:{name}")
    assert f"'openclip:{name}'" in said
    assert hint in said
    assert not hub.asked


# -------------------------------------------------------------------- sentence-transformers


def plain_sbert(folder: Path, texts: Sequence[str]) -> Vectors:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return unit(model.encode(list(texts), prompt="", show_progress_bar=False))


def test_sbert_gives_what_sentence_transformers_gives(sbert_folder):
    wanted = plain_sbert(sbert_folder, TEXTS)
    assert distinct(wanted)
    encoder = SentenceEncoder(str(sbert_folder), None, CPU)
    for role in ("query", "document"):
        assert same(texts_of(encoder, TEXTS, role), wanted)
        assert same(texts_of(encoder, TEXTS[::-1], role)[::-1], wanted)
    for k, text in enumerate(TEXTS):
        assert same(texts_of(encoder, [LONG, text])[1], wanted[k])
    assert same(encode(f"sbert:{sbert_folder}"), wanted)


def test_sbert_reads_the_first_part_of_a_long_text(sbert_folder):
    encoder = SentenceEncoder(str(sbert_folder), None, CPU)
    words = LONG.split()
    whole, beginning, shorter = texts_of(
        encoder, [LONG, " ".join(words[:62]), " ".join(words[:61])]
    )
    assert same(whole, beginning)
    assert not same(shorter, beginning, 1e-4)


def roles(name: str) -> dict[str, Vectors]:
    encoder = opened(name)
    return {role: encoder.encode_texts(TEXTS, role=role) for role in ("query", "document")}


def prefixed(folder: Path, query: str, document: str) -> dict[str, Vectors]:
    return {
        role: plain_sbert(folder, [prefix + text for text in TEXTS])
        for role, prefix in (("query", query), ("document", document))
    }


@pytest.mark.parametrize("name", ["multilingual-e5-small", "E5-base", "e5", "my_e5"])
def test_e5_models_get_the_prefixes_they_were_trained_with(copied, name: str):
    folder = copied("sbert", name)
    found, wanted = roles(f"sbert:{folder}"), prefixed(folder, "query: ", "passage: ")
    assert same(found["query"], wanted["query"])
    assert same(found["document"], wanted["document"])
    assert not same(wanted["query"], wanted["document"], 1e-3)


@pytest.mark.parametrize("name", ["multilingual-e5-large-instruct", "note5", "bge-m3", "e50"])
def test_other_models_get_no_prefixes(copied, name: str):
    folder = copied("sbert", name)
    found, plain = roles(f"sbert:{folder}"), plain_sbert(folder, TEXTS)
    assert same(found["query"], plain)
    assert same(found["document"], plain)


@pytest.mark.parametrize("name", ["e5-small", "any"])
def test_prompts_of_a_models_own_are_used(copied, name: str):
    folder = copied("sbert", name)
    path = folder / "config_sentence_transformers.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"prompts": {"query": "who is ", "document": "the "}}))
    found, wanted = roles(f"sbert:{folder}"), prefixed(folder, "who is ", "the ")
    assert same(found["query"], wanted["query"])
    assert same(found["document"], wanted["document"])


def test_only_a_models_own_name_tells_what_it_is(copied):
    folder = copied("sbert", "instruct/e5-small")
    wanted = prefixed(folder, "query: ", "passage: ")
    assert same(roles(f"sbert:{folder}")["query"], wanted["query"])


def test_prefixes_are_part_of_the_identity(copied):
    plain, e5 = copied("sbert", "small"), copied("sbert", "e5-small")
    assert open_encoder(f"sbert:{plain}").identity != open_encoder(f"sbert:{e5}").identity


def test_sbert_comes_from_the_hubs_cache(hub, sbert_folder):
    hub.add("tests/small", sbert_folder)
    encoder = opened("sbert:tests/small")
    assert COMMIT in encoder.identity
    assert same(encoder.encode_texts(TEXTS, role="query"), plain_sbert(sbert_folder, TEXTS))
    assert not hub.asked


def test_e5_from_the_hubs_cache_gets_its_prefixes(hub, sbert_folder):
    hub.add("intfloat/multilingual-e5-small", sbert_folder)
    found = roles("sbert:intfloat/multilingual-e5-small")
    wanted = prefixed(sbert_folder, "query: ", "passage: ")
    assert same(found["query"], wanted["query"])
    assert same(found["document"], wanted["document"])
    hub.add("intfloat/multilingual-e5-large-instruct", sbert_folder)
    plain = plain_sbert(sbert_folder, TEXTS)
    assert same(roles("sbert:intfloat/multilingual-e5-large-instruct")["query"], plain)
    assert not hub.asked


def test_a_pinned_revision_of_sbert_is_another_encoder(hub, sbert_folder, copied):
    newer = copied("sbert")
    weights = load_file(newer / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += torch.arange(32) / 100
    save_file(weights, newer / "model.safetensors", {"format": "pt"})
    hub.add("tests/small", sbert_folder)
    hub.add("tests/small", newer, OTHER_COMMIT)
    hub.tag("tests/small", "v1", COMMIT)
    new, old = opened("sbert:tests/small"), opened("sbert:tests/small@v1")
    assert new.identity != old.identity
    wanted = [plain_sbert(folder, TEXTS) for folder in (newer, sbert_folder)]
    assert not same(*wanted, 1e-3)
    assert same(new.encode_texts(TEXTS, role="query"), wanted[0])
    assert same(old.encode_texts(TEXTS, role="query"), wanted[1])


@pytest.mark.parametrize(
    "missing", ["model.safetensors", "config.json", "tokenizer.json", "1_Pooling/config.json"]
)
def test_a_download_of_sbert_that_was_stopped_is_completed(
    hub, sbert_folder, missing: str, monkeypatch
):
    # sentence-transformers fetches by itself; here the file appears once it may ask the hub.
    import sentence_transformers

    wanted = plain_sbert(sbert_folder, TEXTS)
    whole = sentence_transformers.SentenceTransformer
    (hub.add("tests/small", sbert_folder) / missing).unlink()
    loads = []

    def load(*args: object, **options: object) -> object:
        loads.append(huggingface_hub.constants.HF_HUB_OFFLINE)
        if not loads[-1]:
            hub.add("tests/small", {missing: sbert_folder / missing})
        return whole(*args, **options, local_files_only=True)

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", load)
    assert same(encode("sbert:tests/small"), wanted)
    assert loads == [True, False]


def test_a_model_of_which_transformers_alone_left_its_files_is_asked_for_its_modules(
    hub, sbert_folder, caplog
):
    # Without modules.json sentence-transformers would silently take the mean of all tokens.
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    hub.add("tests/small", {name: sbert_folder / name for name in names})
    encoder = opened("sbert:tests/small")
    assert hub.asked == [("tests/small", "modules.json", COMMIT)]
    assert "sbert:tests/small: no modules.json is to be had" in caplog.text
    assert same(encoder.encode_texts(TEXTS, role="query"), plain_sbert(sbert_folder, TEXTS))
    caplog.clear()
    hub.online = {"tests/small": sbert_folder}
    open_encoder("sbert:tests/small")
    assert "modules.json" not in caplog.text


def test_a_folder_that_is_no_sentence_transformer_is_refused(tmp_path, openclip_folder):
    for folder in (tmp_path, openclip_folder):
        said = complaint(f"sbert:{folder}")
        assert f"sbert:{folder}: sentence-transformers cannot load it (" in said


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "modules.json"])
def test_damaged_files_of_sbert_are_refused(copied, damage, file: str):
    path = copied("sbert") / file
    path.write_bytes(damage(path.read_bytes()))
    said = complaint(f"sbert:{path.parent}")
    assert f"sbert:{path.parent}: sentence-transformers cannot load it (" in said


# ------------------------------------------------------------ devices, extras and identities


@pytest.fixture
def only_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@FAMILIES
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused(folders, family, device: Device, only_cpu, pictures):
    name = f"{family}:{folders[family]}"
    said = complaint(name, device=device)
    assert f"torch finds no device '{device}' here. Use --device cpu or auto." in said
    if family != "sbert":
        with pytest.raises(UserError, match=f"no device '{device}'"):
            opened(name, device).encode_images(pictures)


@FAMILIES
@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_float16_is_refused_on_a_cpu(folders, family: str, device: Device, only_cpu):
    said = complaint(f"{family}:{folders[family]}", device=device, precision="float16")
    assert said == "float16 needs a GPU. Use --precision bfloat16 or float32."


@pytest.mark.parametrize(
    ("there", "auto"),
    [([], "cpu"), (["cuda"], "cuda"), (["mps"], "mps"), (["cuda", "mps"], "cuda")],
)
def test_auto_takes_a_gpu_where_there_is_one(there: list[str], auto: str, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in there)
    assert Placement().resolve() == (torch.device(auto), torch.float32)
    assert Placement("cpu", "bfloat16").resolve() == (torch.device("cpu"), torch.bfloat16)
    for device in there:
        assert Placement(device, "float16").resolve() == (torch.device(device), torch.float16)


@FAMILIES
@pytest.mark.parametrize(
    "package", ["torch", "open_clip", "multilingual_clip", "sentence_transformers"]
)
def test_a_missing_package_names_the_extra(folders, family: str, package: str, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else find(name)
    )
    said = complaint(f"{family}:{folders[family]}")
    assert f"'{family}:{folders[family]}' needs {package}, of the extra 'clip'" in said
    assert "pip install '.[clip]'" in said


@FAMILIES
def test_any_change_of_a_folder_is_another_encoder(copied, family: str):
    folder = copied(family)

    def identity() -> str:
        return open_encoder(f"{family}:{folder}").identity

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


def test_an_image_tower_of_another_precision_or_content_is_another_encoder(copied):
    folder = copied("mclip")
    plain = open_encoder(f"mclip:{folder}").identity
    coarse = open_encoder(f"mclip:{folder}", precision="bfloat16").identity
    assert plain.count("float32") == 2, "text and image tower"
    assert coarse == plain.replace("float32", "bfloat16")
    for device in ("cpu", "cuda", "mps"):
        assert open_encoder(f"mclip:{folder}", device=device).identity == plain


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
from admire.encoders import open_encoder
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


# ------------------------------------------------------------------------------------ rankings


def item(pictures: Sequence[Path]) -> Item:
    candidates = tuple(Candidate(path.name, path) for path in pictures)
    return Item("night owl", "My sister is a night owl.", candidates=candidates)


@pytest.fixture
def image_set(tmp_path: Path, pictures: Sequence[Path]) -> Path:
    folder = tmp_path / "set"
    shutil.copytree(pictures[0].parent, folder / "pictures")
    names = [f"pictures/{path.name}" for path in pictures]
    head = ["compound", "sentence", *(f"image{k}_name" for k in range(1, 6))]
    rows = [["night owl", "A night owl."], ["red circle", "A red circle."], ["tree", "A tree."]]
    lines = [",".join(head)] + [",".join(row + names) for row in rows]
    (folder / "manifest.csv").write_text("\n".join(lines))
    return folder


def test_a_model_saved_again_ranks_the_same(
    openclip_folder, image_set, pictures, tmp_path, monkeypatch
):
    items = read_items(image_set)
    settings = Settings(encoder=f"openclip:{openclip_folder}", query="compound", device="cpu")
    first = rank(items, settings)
    model, _, _ = plain_clip(f"local-dir:{openclip_folder}")
    texts = plain_texts(f"local-dir:{openclip_folder}", [item.compound for item in items])
    cosines = texts @ plain_images(f"local-dir:{openclip_folder}", pictures).T
    for ranking, row in zip(first.rankings, cosines, strict=True):
        order = [f"pictures/{pictures[k].name}" for k in np.argsort(-row)]
        assert list(ranking.order) == order
    assert len({ranking.order for ranking in first.rankings}) > 1

    fresh = open_clip.CLIP(**TINY)
    fresh.load_state_dict(model.state_dict())
    again = save_openclip(tmp_path / "again", model=fresh)
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "another cache"))
    second = rank(items, Settings(encoder=f"openclip:{again}", query="compound", device="cpu"))
    for one, other in zip(first.rankings, second.rankings, strict=True):
        assert one.order == other.order
        assert other.scores == pytest.approx(one.scores, abs=1e-4)
