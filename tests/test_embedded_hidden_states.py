"""The embedded chat model's states at words in a text. The real model is never loaded."""

import os
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from commands import run
from transformers.convert_slow_tokenizer import bytes_to_unicode

from admire.apps.catalogue import find_model
from admire.core.errors import UserError
from admire.core.storage import cache_dir
from admire.embedded.hidden_states import WEIGHTS, StateEncoder
from admire.embedded.qwen_model import GgufFile
from admire.encoders import Query
from admire.llm.weights import EMBEDDED_BYTES, embedded_file


def write_qwen(path: Path, layers: int) -> Path:
    """A Qwen2 model of so many layers, the first ones alike; its words are the bytes and “ab”."""
    numbers = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "qwen2")
    words = [*bytes_to_unicode().values(), "<|im_end|>", "ab"]
    settings = {"block_count": layers, "context_length": 64, "embedding_length": 256}
    settings |= {"feed_forward_length": 256, "head_count": 2, "head_count_kv": 1}
    settings |= {"layer_norm_rms_eps": 1e-6, "rope_freq_base": 1e6, "eos_token_id": 256}
    settings |= {"tokenizer_model": "gpt2", "tokenizer_pre": "qwen2", "token_list": words}
    settings |= {"token_types": [1] * 256 + [3, 1], "token_merges": ["a b"]}
    for name, value in settings.items():
        getattr(writer, f"add_{name}")(value)
    widths = {"attn_q": 256, "attn_k": 128, "attn_v": 128, "attn_output": 256}
    widths |= {"ffn_gate": 256, "ffn_up": 256, "ffn_down": 256}
    layer = {f"{name}.weight": (width, 256) for name, width in widths.items()}
    layer |= {f"attn_{part}.bias": (widths[f"attn_{part}"],) for part in "qkv"}
    layer |= {"attn_norm.weight": (256,), "ffn_norm.weight": (256,)}
    shapes = {f"blk.{k}.{name}": shape for k in range(layers) for name, shape in layer.items()}
    shapes |= {"output_norm.weight": (256,), "output.weight": (258, 256)}
    for name, shape in ({"token_embd.weight": (258, 256)} | shapes).items():
        if name.startswith("output"):
            values = np.ones(shape)
        else:
            values = numbers.normal(scale=1.0 if len(shape) == 1 else 0.1, size=shape)
        content, kind = values.astype(np.float32), gguf.GGMLQuantizationType.F32
        if len(shape) == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            content = gguf.quantize(content, kind)
        writer.add_tensor(name, content, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three layers."""
    return write_qwen(tmp_path_factory.mktemp("qwen") / "whole.gguf", 3)


@pytest.fixture
def encoder(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> StateEncoder:
    """The encoder of its first two layers, in a file as large as the real model's."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    monkeypatch.setattr("admire.embedded.hidden_states.LAYERS", 2)
    embedded_file().parent.mkdir(parents=True)
    shutil.copy(qwen, embedded_file())
    os.truncate(embedded_file(), EMBEDDED_BYTES)
    return StateEncoder()


HF_NAMES = {
    "token_embd": "embed_tokens",
    "blk": "layers",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "output_norm": "norm",
    "attn_output": "self_attn.o_proj",
}
HF_NAMES |= {f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"}
HF_NAMES |= {f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}


def test_states_are_those_of_transformers(qwen: Path, encoder: StateEncoder):
    import torch
    from transformers import Qwen2Config, Qwen2Model

    sizes = {"hidden_size": 256, "intermediate_size": 256, "vocab_size": 258}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    rope = {"rope_type": "default", "rope_theta": 1e6}
    peer = Qwen2Model(Qwen2Config(**sizes, rms_norm_eps=1e-6, rope_parameters=rope)).eval()
    weights = {
        ".".join(HF_NAMES.get(part, part) for part in tensor.name.split(".")): torch.tensor(
            gguf.dequantize(tensor.data, tensor.tensor_type)
        )
        for tensor in GgufFile(qwen).tensors
        if not tensor.name.startswith(("blk.2.", "output.weight"))
    }
    peer.load_state_dict(weights)
    text = "She sits in the dark."
    tokens = [list(bytes_to_unicode()).index(byte) for byte in text.encode()]
    with torch.no_grad():
        (expected,) = peer(torch.tensor([tokens])).last_hidden_state
    each_token = [Query(text, span=(k, k + 1)) for k in range(len(text))]
    states = encoder.encode_queries(each_token)
    norms = np.linalg.norm(states, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (states * expected.numpy()).sum(axis=1) / norms
    # Weights and activations are bytes. With one layer more or less cosines are below 0.9.
    assert cosines.min() > 0.995


def test_a_vector_is_the_mean_of_the_tokens_that_a_span_touches(encoder: StateEncoder):
    # "é" has two bytes, which are two tokens here, and spans are in characters.
    text = "pés-frio"
    states = encoder.encode_queries([Query(text, span=(k, k + 1)) for k in range(len(text))])
    part, whole = encoder.encode_queries([Query(text, span=(3, 7)), Query(text)])
    assert part == pytest.approx(states[3:7].mean(axis=0), abs=1e-5)
    assert whole == pytest.approx(np.average(states, axis=0, weights=[1, 2, *[1] * 6]), abs=1e-5)
    (same,) = encoder.encode_texts([text], role="query")
    assert (same == whole).all()


def test_a_prompt_stands_before_the_text(encoder: StateEncoder):
    behind, same, alone = encoder.encode_queries(
        [Query("def", prompt="abc"), Query("abcdef", span=(3, 6)), Query("def")]
    )
    assert behind == pytest.approx(same)
    assert np.abs(behind - alone).max() > 0.1


def test_the_weights_are_written_once_when_the_model_is_pulled(encoder, capsys):
    model, written = find_model("embedded-state"), cache_dir() / "models" / WEIGHTS
    assert model.status() == "yes (converted at first use)"
    assert run(capsys, "models", "pull", "embedded-state")[:2] == (0, f"{written}\n")
    assert model.status() == f"yes (file {written})"
    before = written.stat().st_mtime_ns
    encoder.encode_queries([Query("a night owl")])
    assert {*(cache_dir() / "models").iterdir()} == {embedded_file(), written}
    assert written.stat().st_mtime_ns == before


def test_a_text_that_is_too_long_is_a_message(encoder: StateEncoder):
    with pytest.raises(UserError, match=r"'owls .*: has 5,000 tokens, more than 4,096"):
        encoder.encode_queries([Query("owls " * 1000)])
