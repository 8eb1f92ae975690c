from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentences import pair

from admire.tasks.sts.evaluation import measure_similarity
from admire.tasks.sts.settings import SimilaritySettings, VectorSettings

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer import modules as kinds  # noqa: E402
from tokenizers import processors  # noqa: E402
from towers import word_tokenizer, xlm_roberta  # noqa: E402

from admire.tasks.sts.vectors import change_vectors  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

TEXTS = ["a night owl", "my sister is the real bird in the tree", "owl"]
LONG = " ".join(["a night owl in the tree"] * 30)
XLNET = transformers.XLNetConfig(
    vocab_size=40, d_model=32, n_layer=4, n_head=2, d_inner=64, pad_token_id=1
)


def save(folder: Path, config: Any, tokenizer: Any = None) -> Path:
    """Save a model of four layers, a pooling and a dense layer, that reads 16 tokens."""
    torch.manual_seed(5)
    transformers.AutoModel.from_config(config).save_pretrained(folder / "parts")
    (tokenizer or word_tokenizer()).save_pretrained(folder / "parts")
    transformer = kinds.Transformer(str(folder / "parts"), max_seq_length=16)
    modules = [transformer, kinds.Pooling(32), kinds.Dense(32, 8), kinds.Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "deep", xlm_roberta(layers=4))


def changed(folder: Path, **settings: Any) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu")
    change_vectors(model, VectorSettings(**settings))
    return model


@cache
def hidden_states(folder: Path, text: str, limit: int) -> list[torch.Tensor]:
    """A text's hidden states in layers 0 to 4, by transformers alone."""
    inner = transformers.AutoModel.from_pretrained(folder / "parts").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "parts")
    tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
    with torch.inference_mode():
        hidden = inner(**tokens, output_hidden_states=True).hidden_states
    return [states[0] for states in hidden]


def by_hand(folder: Path, text: str, pool: Callable[..., torch.Tensor], limit: int) -> np.ndarray:
    with torch.inference_mode():
        vector = pool(hidden_states(folder, text, limit))
    return (vector / vector.norm()).numpy()


WAYS: list[tuple[dict[str, Any], Callable[..., torch.Tensor]]] = [
    ({}, lambda h: h[4].mean(dim=0)),
    ({"pooling": "mean"}, lambda h: h[4].mean(dim=0)),
    ({"pooling": "cls"}, lambda h: h[4][0]),
    ({"pooling": "first-last-avg"}, lambda h: (h[1].mean(dim=0) + h[4].mean(dim=0)) / 2),
    ({"last_layers": 2}, lambda h: (h[3].mean(dim=0) + h[4].mean(dim=0)) / 2),
    ({"pooling": "cls", "last_layers": 2}, lambda h: (h[3][0] + h[4][0]) / 2),
]


@pytest.mark.parametrize(("settings", "pool"), WAYS)
@pytest.mark.parametrize("drop_dense", [True, False])
def test_vectors_are_those_of_the_hidden_states_also_when_saved_and_measured(
    deep, tmp_path, settings, pool, drop_dense
):
    weights = load_file(deep / "2_Dense" / "model.safetensors")

    def projected(hidden: list[torch.Tensor]) -> torch.Tensor:
        if drop_dense:
            return pool(hidden)
        return torch.tanh(weights["linear.weight"] @ pool(hidden) + weights["linear.bias"])

    wanted = np.array([by_hand(deep, text, projected, 16) for text in TEXTS])
    model = changed(deep, drop_dense=drop_dense, **settings)
    assert np.allclose(model.encode(TEXTS), wanted, atol=1e-6)
    model.save(str(tmp_path / "out"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert np.allclose(again.encode(TEXTS), wanted, atol=1e-6)

    pairs = [pair(TEXTS[0], TEXTS[1], similarity=1.0), pair(TEXTS[0], TEXTS[2], similarity=0.0)]
    settings = settings | {"drop_dense": drop_dense}
    chosen = SimilaritySettings(encoder=f"sbert:{deep}", device="cpu", **settings)
    for _ in range(2):  # the second time from the cache
        measured = measure_similarity(pairs, chosen)
        cosines = [measured.similarities[p.first, p.second] for p in pairs]
        assert cosines == pytest.approx((wanted[1:] @ wanted[0]).tolist(), abs=1e-6)


def test_the_token_that_stands_for_a_text_is_the_last_one_in_xlnet(tmp_path):
    tokenizer = word_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s> <s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.padding_side = "left"
    folder = save(tmp_path / "model", XLNET, tokenizer)
    wanted = [by_hand(folder, text, lambda h: h[4][-1], 16) for text in TEXTS]
    found = changed(folder, pooling="cls", drop_dense=True).encode(TEXTS)
    assert np.allclose(found, wanted, atol=1e-6)


def test_vectors_of_different_ways_do_not_meet_in_the_cache(deep):
    pairs = [pair(TEXTS[0], TEXTS[1], similarity=1.0)]
    cosines = set()
    for settings, _ in WAYS[1:]:
        chosen = SimilaritySettings(encoder=f"sbert:{deep}", device="cpu", **settings)
        cosines |= set(measure_similarity(pairs, chosen).similarities.values())
    assert len(cosines) == len(WAYS) - 1


SMALL = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2}
SMALL |= {"max_position_embeddings": 66, "pad_token_id": 1}


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (xlm_roberta(layers=4), 64),  # positions are counted from behind that of padding
        (transformers.BertConfig(**SMALL, intermediate_size=64), 66),
        (transformers.MPNetConfig(**SMALL, intermediate_size=64), 64),
        (transformers.DistilBertConfig(**SMALL, hidden_dim=64), 66),
        (XLNET, 100),
    ],
    ids=lambda value: getattr(value, "model_type", value),
)
def test_a_model_reads_past_its_own_limit_as_far_as_it_has_positions(tmp_path, config, limit):
    folder = save(tmp_path / "model", config)
    for asked, read in ((100, limit), (12, 12), (None, 16)):
        model = changed(folder, max_length=asked, drop_dense=True)
        assert model.max_seq_length == read
        wanted = by_hand(folder, LONG, lambda h: h[4].mean(dim=0), read)
        assert np.allclose(model.encode(LONG), wanted, atol=1e-6)
