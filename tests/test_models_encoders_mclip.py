"""M-CLIP on small towers: what it computes, what it refuses, where its files come from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from admire import Candidate, Item, Settings, UserError, rank
from admire.models.encoders import Vectors, open_encoder
from admire.models.encoders.mclip import IMAGE_TOWERS, MClipEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
open_clip = pytest.importorskip("open_clip", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("multilingual_clip", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

import transformers  # noqa: E402
from clips import (  # noqa: E402
    COMMIT,
    CPU,
    DAMAGE,
    LONG,
    OTHER_COMMIT,
    TEXTS,
    complaint,
    distinct,
    encode,
    images_of,
    labse,
    opened,
    plain_images,
    same,
    texts_of,
    unit,
)
from safetensors.torch import save_file  # noqa: E402
from towers import save_mclip  # noqa: E402

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


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


def test_mclip_on_another_base_model_has_all_its_positions(tmp_path, mclip_folder):
    # LaBSE is a BERT: no position is kept for the padding. Its tokenizer sets no limit.
    folder = labse(tmp_path / "labse", mclip_folder / "image")
    encoder = MClipEncoder(str(folder), None, CPU)
    words = LONG.split()
    full, cut, shorter = (" ".join(words[:n]) for n in (90, 38, 37))
    vectors = texts_of(encoder, [full, cut, shorter])
    assert same(vectors[0], vectors[1])
    assert not same(vectors[1], vectors[2], 1e-4)


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


def test_a_folder_without_a_config_is_no_mclip(tmp_path, openclip_folder):
    said = complaint(f"mclip:{openclip_folder}")
    assert f"{openclip_folder}: holds no config.json of an M-CLIP" in said
    assert str(tmp_path) in complaint(f"mclip:{tmp_path}")


@pytest.mark.parametrize(
    "config",
    ["", "{", "[]", '{"modelBase": 3}', "\udcff"],
)
def test_a_config_without_a_base_model_is_refused(copied, config: str):
    path = copied("mclip") / "config.json"
    path.write_bytes(config.encode(errors="surrogateescape"))
    with pytest.raises(UserError) as caught:
        open_encoder(f"mclip:{path.parent}")
    assert f"{path}: is no config of an M-CLIP text tower (no modelBase)" in str(caught.value)


@DAMAGE
@pytest.mark.parametrize("safe", [False, True], ids=["pickle", "safetensors"])
def test_damaged_weights_are_refused(tmp_path, copied, damage, safe: bool):
    folder = save_mclip(tmp_path / "safe", pickle=False) if safe else copied("mclip")
    path = folder / ("model.safetensors" if safe else "pytorch_model.bin")
    path.write_bytes(damage(path.read_bytes()))
    said = complaint(f"mclip:{folder}")
    assert f"{path}: the weights cannot be read (" in said
    assert "Download the file again" in said


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("tokenizer.json", "tokenizer.json"),
        ("tokenizer_config.json", "tokenizer.json"),
        ("tiny-xlm-roberta/config.json", "tiny-xlm-roberta/config.json"),
    ],
)
def test_damaged_files_beside_the_weights_are_refused(copied, file: str, named: str):
    folder = copied("mclip")
    (folder / file).write_text("{")
    assert f"{folder / named}: cannot be used (" in complaint(f"mclip:{folder}")


def test_the_base_models_own_precision_does_not_round_the_weights(copied, mclip):
    folder = copied("mclip")
    path = folder / "tiny-xlm-roberta" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": "float16"}))
    assert same(encode(f"mclip:{folder}"), texts_of(mclip, TEXTS))


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


def test_missing_weights_are_named(copied):
    folder = copied("mclip")
    (folder / "pytorch_model.bin").unlink()
    said = complaint(f"mclip:{folder}")
    assert said == f"{folder}: holds no model.safetensors or pytorch_model.bin."


def test_mclip_takes_the_image_tower_of_its_folder(mclip, mclip_folder, pictures):
    vectors = images_of(mclip, pictures)
    assert same(vectors, plain_images(f"local-dir:{mclip_folder / 'image'}", pictures))
    assert same(opened(f"mclip:{mclip_folder}").encode_images(pictures), vectors)


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
    candidates = tuple(Candidate(path.name, path) for path in pictures)
    item = Item("night owl", "My sister is a night owl.", candidates=candidates)
    with pytest.raises(UserError, match=r"16 and 24 dimensions.*one space"):
        rank([item], settings)


def test_an_image_tower_of_another_precision_or_content_is_another_encoder(copied):
    folder = copied("mclip")
    plain = open_encoder(f"mclip:{folder}").identity
    coarse = open_encoder(f"mclip:{folder}", precision="bfloat16").identity
    assert plain.count("float32") == 2, "text and image tower"
    assert coarse == plain.replace("float32", "bfloat16")
    for device in ("cpu", "cuda", "mps"):
        assert open_encoder(f"mclip:{folder}", device=device).identity == plain


def test_mclip_by_name_comes_from_the_hubs_cache(labse_hub, hub, mclip_folder, pictures, tmp_path):
    encoder = opened("mclip:LABSE-Vit-L-14")
    assert f"LABSE-Vit-L-14@{COMMIT}" in encoder.identity
    hub.add("someone/else", labse_hub)  # any other repository is taken by its whole name
    assert f"mclip:someone/else@{COMMIT}" in open_encoder("mclip:someone/else").identity
    local = labse(tmp_path / "local", mclip_folder / "image")
    vectors = encoder.encode_texts(["an Owl", "owls at night", *TEXTS], role="query")
    assert same(vectors, encode(f"mclip:{local}", ["an Owl", "owls at night", *TEXTS]))
    assert same(encoder.encode_images(pictures), opened(f"mclip:{local}").encode_images(pictures))
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
