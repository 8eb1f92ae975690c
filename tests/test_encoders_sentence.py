"""Sentence-transformers on a small model: prompts, files, folders and the hub."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from clips import (
    COMMIT,
    CPU,
    TEXTS,
    distinct,
    encode,
    images_of,
    opened,
    plain_sbert,
    same,
    texts_of,
    unit,
)
from seeing import save_vlm
from towers import reconfigured

from admire.core.errors import UserError
from admire.encoders import ImageEncoder, Query, open_encoder
from admire.encoders.cached import open_trainable
from admire.encoders.sentence import E5_PROMPTS, SentenceEncoder

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


def test_a_model_that_transformers_alone_has_fetched_lacks_its_modules(hub, sbert_folder, caplog):
    # Without modules.json sentence-transformers would silently take the mean of all tokens.
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    hub.add("tests/small", {name: sbert_folder / name for name in names})
    encoder = opened("sbert:tests/small")
    assert hub.asked == [("tests/small", "modules.json", COMMIT)]
    assert "sbert:tests/small: modules.json is missing" in caplog.text
    assert same(encoder.encode_texts(TEXTS, role="query"), plain_sbert(sbert_folder, TEXTS))
    caplog.clear()
    hub.online = {"tests/small": sbert_folder}
    open_encoder("sbert:tests/small")
    assert "modules.json" not in caplog.text


QUERY = "Given a web search query, retrieve passages: "


@pytest.mark.parametrize(
    "prompts", [{"query": QUERY}, {"document": "title: "}, {"web": QUERY, "query": ""}]
)
def test_a_model_can_be_opened_without_its_own_prompts(sbert_folder, tmp_path, prompts):
    folder = reconfigured(sbert_folder, tmp_path / "model", prompts=prompts)
    owned, bare = (
        open_encoder(f"sbert:{folder}", device="cpu", own_prompts=own) for own in (True, False)
    )
    plain = plain_sbert(sbert_folder, TEXTS)
    vectors = {role: owned.encode_texts(TEXTS, role=role) for role in ("query", "document")}
    # Vectors that stay as they are are taken from the cache.
    unchanged = all(same(vectors[role], plain) for role in vectors)
    assert (owned.identity == bare.identity) == unchanged == ("web" in prompts)
    for role in ("query", "document"):
        assert same(bare.encode_texts(TEXTS, role=role), plain)
        assert same(bare.encode_queries([Query(text) for text in TEXTS]), plain)


@pytest.mark.parametrize("name", ["e5-small", "trained"])
def test_e5s_prefixes_are_no_prompts_to_leave_out(sbert_folder, tmp_path, name):
    # A folder that was trained from an E5 model has them in its settings, and any name.
    prompts = E5_PROMPTS if name == "trained" else {}
    folder = reconfigured(sbert_folder, tmp_path / name, prompts=prompts)
    bare = open_encoder(f"sbert:{folder}", device="cpu", own_prompts=False)
    assert bare.identity == open_encoder(f"sbert:{folder}").identity
    queries, documents = (plain_sbert(sbert_folder, [e5 + text for text in TEXTS]) for e5 in E5)
    assert same(bare.encode_texts(TEXTS, role="query"), queries)
    assert same(bare.encode_texts(TEXTS, role="document"), documents)
    assert same(bare.encode_queries([Query(text) for text in TEXTS]), queries)


OWN_CODE = """
from transformers import XLMRobertaConfig, XLMRobertaModel

class OwnConfig(XLMRobertaConfig):
    model_type = "own"

class OwnModel(XLMRobertaModel):
    config_class = OwnConfig

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.last_hidden_state = output.last_hidden_state.flip(-1)
        return output
"""


@pytest.fixture
def bring_code(copied, tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Return a function that makes a model of a type, whose own code turns vectors round."""
    modules = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    monkeypatch.setattr("sys.path", [*sys.path])

    def bring(model_type: str) -> Path:
        folder = copied("sbert", model_type)
        (folder / "modeling_own.py").write_text(OWN_CODE)
        path = folder / "config.json"
        code = {"AutoModel": "modeling_own.OwnModel"}
        if model_type == "own":
            code["AutoConfig"] = "modeling_own.OwnConfig"
        config = {"model_type": model_type, "auto_map": code}
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
        return folder

    return bring


def test_code_of_a_model_that_needs_it_is_run_only_if_it_is_trusted(bring_code, sbert_folder):
    folder = bring_code("own")
    name = f"sbert:{folder}"
    with pytest.raises(UserError, match="needs custom code") as caught:
        encode(name)
    assert str(folder) in str(caught.value)
    assert caught.value.settings == ("trust_remote_code",)
    trusted = open_encoder(name, device="cpu", trust_remote_code=True)
    turned = plain_sbert(sbert_folder, TEXTS)[:, ::-1]
    assert same(trusted.encode_texts(TEXTS, role="query"), turned)


def test_without_a_models_code_that_of_transformers_runs_and_warns(
    bring_code, sbert_folder, caplog
):
    name = f"sbert:{bring_code('xlm-roberta')}"
    plain = plain_sbert(sbert_folder, TEXTS)
    assert same(encode(name), plain)
    assert "has custom code" in caplog.text
    caplog.clear()
    trusted = open_encoder(name, device="cpu", trust_remote_code=True)
    assert trusted.identity != opened(name).identity  # else it would get the cached vectors
    assert same(trusted.encode_texts(TEXTS, role="document"), plain[:, ::-1])
    assert "custom code" not in caplog.text


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


def test_whether_a_model_sees_is_known_before_it_is_loaded(seeing_folder, sbert_folder, tmp_path):
    models = {
        seeing_folder: True,
        legacy(tmp_path / "legacy", seeing_folder): True,
        sbert_folder: False,
    }
    for folder, sees in models.items():
        encoder = SentenceEncoder(str(folder), None, CPU)
        assert encoder.accepts_images == sees
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


def test_weights_are_loaded_once_and_not_shared_with_a_model_that_is_trained(sbert_folder):
    name = f"sbert:{sbert_folder}"
    first, second, trained = opened(name).encoder, opened(name).encoder, open_trainable(name)
    assert first.model is second.model
    assert trained.model is not first.model
    second.claim()
    assert second.model is not first.model
    assert opened(name).encoder.model is first.model
