"""The cache of vectors: nothing is encoded twice, images are prepared ahead, memory may run out."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks import RecordingEncoder
from toys import WordEncoder

from admire.core.cache import open_cache
from admire.core.errors import UserError
from admire.data.image_files import read_image
from admire.embedded.hidden_states import StateEncoder
from admire.encoders import Query, Role, TextEncoder, Vectors
from admire.encoders.cached import VECTORS, CachedEncoder, checked, describe_long
from admire.encoders.windows import Windows, compare

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'clip'")

TEXTS = ["a red bird", "a blue bird", "the sea at night", "an owl", "an old red boat"]
LONGEST_FIRST = [TEXTS[2], TEXTS[4], TEXTS[1], TEXTS[0], TEXTS[3]]


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


def test_only_missing_texts_are_encoded_and_each_once():
    first = encode(Watched(), [TEXTS[1], TEXTS[3], TEXTS[1]])
    assert np.array_equal(first[0], first[2])
    later = Watched()
    cached = CachedEncoder(later)
    vectors = cached.encode_texts([*TEXTS, TEXTS[0]], role="document")[:-1]
    assert {*later.texts} == {TEXTS[0], TEXTS[2], TEXTS[4]}
    assert len(later.texts) == 3
    assert cached.encoded == 3
    assert np.array_equal(vectors[[1, 3]], first[:2])
    assert vectors == pytest.approx(Watched().encode_texts(TEXTS, role="document"))


def test_what_is_encoded_is_counted_in_words_unless_an_encoder_says_what_it_is_for(caplog):
    reader, detector = RecordingEncoder("sbert:x"), RecordingEncoder("sbert:y")
    detector.identity, detector.progress = "detector:1", StateEncoder.progress
    with caplog.at_level("INFO", "admire"):
        encode(Watched(), TEXTS[:1])
        for encoder in (reader, detector):
            CachedEncoder(encoder).encode_queries([Query("an owl"), Query("a bird")])
    starts = ("Reading 1 text (model ", "Reading 2 queries", "Detecting senses (")
    for message, start in zip(caplog.messages, starts, strict=True):
        assert message.startswith(start)


@pytest.mark.parametrize(
    "damage",
    [
        lambda vector: vector * np.nan,
        lambda vector: vector * 0,
        lambda vector: vector[: len(vector) // 2],
        lambda vector: vector[:1] * 0 + 1,  # of unit length, but of another width
        lambda vector: vector.tobytes()[:-1],
    ],
)
def test_damaged_vectors_in_the_cache_are_computed_again(damage):
    vectors = encode(Watched(), TEXTS)
    cache = open_cache(VECTORS)
    (key,) = [key for (key,) in cache._db.execute("SELECT key FROM entries LIMIT 1")]
    stored = np.frombuffer(cache.get(key), "<f4")
    cache.put(key, bytes(damage(stored)), "words")
    again = Watched()
    assert np.array_equal(encode(again, TEXTS), vectors)
    assert again.texts
    assert cache.get(key) == stored.tobytes()


def test_encoders_of_different_identity_are_kept_apart():
    encode(Watched("words:1"), TEXTS)
    other = Watched("words:2")
    encode(other, TEXTS)
    assert {*other.texts} == {*TEXTS}
    renamed = Watched("words:1", works_for=0)
    renamed.name = "words, renamed"  # a name is no identity
    encode(renamed, TEXTS)


def test_what_was_encoded_before_a_kill_is_kept():
    with pytest.raises(KeyboardInterrupt):
        encode(Watched(works_for=1), TEXTS)
    rerun = Watched()
    encode(rerun, TEXTS)
    assert rerun.texts == LONGEST_FIRST[2:]


def test_texts_of_like_length_share_a_batch_and_vectors_keep_their_places():
    # A model pads a batch to its longest text: in the order of the texts it took 1.3 times as long.
    encoder = Watched()
    vectors = encode(encoder, TEXTS)
    assert encoder.batches == [LONGEST_FIRST[:2], LONGEST_FIRST[2:4], LONGEST_FIRST[4:]]
    assert vectors == pytest.approx(Watched().encode_texts(TEXTS, role="document"))


class Returns(WordEncoder):
    """Returns something else than unit vectors."""

    def __init__(self, make):
        self.make = make

    def encode_texts(self, texts, *, role):
        return self.make(super().encode_texts(texts, role=role))


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_a_vector_without_direction_is_refused_and_not_kept_and_others_have_unit_length(bad):
    with pytest.raises(UserError, match=r"words: .*zero or not finite"):
        encode(Returns(lambda vectors: vectors * bad), ["a"])
    plain = WordEncoder().encode_texts(["a"], role="query")
    assert encode(Returns(lambda vectors: 3 * vectors), ["a"]) == pytest.approx(plain)


class Colours(WordEncoder):
    """A picture's vector is its mean colour. Remembers what it was given.

    More than ``memory`` pictures at once are answered with ``error``.
    """

    name = identity = "colours"

    def __init__(self, batch: int = 2, memory: int = 99, error: Exception | None = None):
        self.batch = batch
        self.memory = memory
        self.error = error or MemoryError()
        self.prepared: list[str] = []
        self.tried: list[int] = []
        self.batches: list[list[str]] = []

    def prepare_image(self, path: Path) -> tuple[str, np.ndarray]:
        mean = np.asarray(read_image(path), dtype=float).mean(axis=(0, 1))
        self.prepared.append(path.name)
        return path.name, mean

    def encode_prepared(self, images: Sequence[tuple[str, np.ndarray]]) -> Vectors:
        self.tried.append(len(images))
        if len(images) > self.memory:
            raise type(self.error)(*self.error.args)
        self.batches.append([name for name, _ in images])
        return np.array([mean for _, mean in images], dtype=np.float32)

    @property
    def encoded(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


def paint(path: Path, *colour: int) -> Path:
    Image.new("RGB", (4, 4), colour).save(path)
    return path


def colour(number: int) -> tuple[int, int, int]:
    return 5 + 6 * number, 250 - 6 * number, 60


def gallery(folder: Path, count: int) -> list[Path]:
    return [paint(folder / f"{k}.png", *colour(k)) for k in range(count)]


def expected(numbers: Sequence[int]) -> np.ndarray:
    colours = np.array([colour(k) for k in numbers], dtype=float)
    return colours / np.linalg.norm(colours, axis=1, keepdims=True)


def names(*numbers: int) -> list[str]:
    return [f"{k}.png" for k in numbers]


def test_an_image_is_prepared_and_encoded_once_under_however_many_names(tmp_path):
    red, blue = paint(tmp_path / "red.png", 255, 0, 0), paint(tmp_path / "blue.png", 0, 0, 255)
    copy = tmp_path / "copy.png"
    copy.write_bytes(red.read_bytes())
    towers = Colours()
    cached = CachedEncoder(towers)
    vectors = cached.encode_images([red, blue, red, copy, blue])
    assert vectors.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert (len(towers.prepared), len(towers.encoded), cached.encoded) == (2, 2, 2)
    cached.encode_images([copy])
    assert (len(towers.prepared), cached.encoded) == (2, 2)


def test_what_was_encoded_before_a_bad_picture_is_kept(tmp_path):
    images = gallery(tmp_path, 8)
    whole = images[5].read_bytes()
    images[5].write_bytes(whole[:-30])
    towers = Colours()
    cached = CachedEncoder(towers)
    with pytest.raises(UserError) as caught:
        cached.encode_images(images)
    assert str(caught.value).startswith(f"{images[5]}: ")
    assert towers.batches == [names(0, 1), names(2, 3)]
    assert cached.encoded == 4

    images[5].write_bytes(whole)
    rerun = Colours()
    vectors = CachedEncoder(rerun).encode_images(images)
    assert vectors == pytest.approx(expected(range(8)), abs=1e-6)
    assert rerun.batches == [names(4, 5), names(6, 7)]
    assert sorted(rerun.prepared) == names(4, 5, 6, 7)


OUT_OF_MEMORY = [
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=repr)
def test_where_images_do_not_fit_batches_are_halved(tmp_path, caplog, error):
    towers = Colours(batch=8, memory=2, error=error)
    cached = CachedEncoder(towers)
    vectors = cached.encode_images(gallery(tmp_path, 13))
    assert vectors == pytest.approx(expected(range(13)), abs=1e-6)
    assert towers.tried == [8, 4, 2, 2, 2, 2, 2, 2, 1]
    assert towers.encoded == names(*range(13))
    assert (cached.batch, cached.encoded, len(towers.prepared)) == (2, 13, 13)
    four, two = (one.getMessage() for one in caplog.records if one.levelno == logging.WARNING)
    assert "colours: out of memory" in four
    assert "batches of 4" in four
    assert "batches of 2" in two


class Short(Watched):
    """Reads eight words of a text, and has no more to say of the others."""

    max_tokens = 8

    def __init__(self, identity: str = "short:1"):
        super().__init__(identity)
        self.counted = 0

    def count_tokens(self, text: str) -> int:
        self.counted += 1
        return len(text.split())

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.batches.append(list(texts))
        cut = [" ".join(text.split()[:8]) for text in texts]
        return WordEncoder.encode_texts(self, cut, role=role)

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        texts = [f"{q.prompt or ''}{q.text[slice(*q.span)] if q.span else q.text}" for q in queries]
        return self.encode_texts(texts, role="query")


LONG = "An owl sits on a tree. It looks at the sea. A red boat is there (at night). "


def test_a_long_text_counts_by_its_best_window_and_the_first_is_what_the_encoder_reads():
    encoder, texts = Short(), [LONG, "an owl", LONG[:-5]]
    windows = CachedEncoder(encoder).text_windows(texts, role="document")
    parts = ["An owl sits on a tree. It looks", "at the sea. A red boat is there"]
    assert {*parts, "(at night).", "(at nig", "an owl"} == {*encoder.texts}
    assert [len(own) for own in windows.each] == [3, 1, 3]
    owl, boat = Windows.of(WordEncoder().encode_texts(["owl tree", "red boat"], role="query")).each
    first, second, _ = WordEncoder().encode_texts([*parts, "(at night)."], role="document")
    for query, best in ((owl, first), (boat, second)):
        found = compare(Windows.of(query), windows)
        assert found[0, 0] == pytest.approx(query[0] @ best, abs=1e-6)
    both = compare(windows, windows)  # a query counts by its best window, too
    assert both.shape == (3, 3)
    assert both.diagonal() == pytest.approx(1)
    later = Short()
    assert (encode(later, texts) == windows.first).all()
    assert not later.texts
    assert not later.counted


@pytest.mark.parametrize("damage", [b"12a", b"", b"\0" * 8, np.array([9, 9], "<i8").tobytes()])
def test_damaged_windows_and_limits_in_the_cache_are_computed_again(damage):
    each = CachedEncoder(Short()).text_windows([LONG], role="document").each
    cache = open_cache(VECTORS)
    for (key,) in cache._db.execute("SELECT key FROM entries").fetchall():
        cache.put(key, damage, "words")
    again = CachedEncoder(Short()).text_windows([LONG], role="document").each
    assert np.array_equal(again, each)


def test_a_long_text_may_be_cut_at_its_end():
    encoder = Short()
    CachedEncoder(encoder, long_texts="cut").encode_texts([LONG], role="document")
    assert encoder.texts == [LONG]
    assert not encoder.counted


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (" ".join(map(str, range(30))), lambda text: len(text.split())),  # one sentence
        ("猫が海を見ています。" + "".join(map(chr, range(0x4E00, 0x4E20))), len),  # no spaces
        ("A. " + " ".join(map(str, range(30))), lambda text: len(text.split())),
    ],
)
def test_each_part_is_within_the_limit_and_nothing_is_lost(text, count):
    encoder = Short(f"short:{text}")
    encoder.count_tokens = count
    encode(encoder, [text])
    assert all(0 < count(part) <= 8 for part in encoder.texts)
    assert sorted("".join(encoder.texts).replace(" ", "")) == sorted(text.replace(" ", ""))


def test_what_cannot_be_divided_is_left_to_the_encoder():
    encoder = Short("short:all")
    encoder.count_tokens = lambda text: 99
    encode(encoder, [LONG])
    assert encoder.texts == [LONG]


def test_the_window_with_the_span_counts_of_a_long_query_and_else_the_first():
    encoder = Short()
    span = LONG.index("red boat"), LONG.index("red boat") + len("red boat")
    cached = CachedEncoder(encoder)
    own, _, whole = cached.encode_queries(
        [
            Query(LONG, span=span),
            Query(LONG, span=(LONG.index("tree"), LONG.index("It looks") + 8)),
            Query(LONG, "find: "),
        ]
    )
    assert {"red boat", "tree. It looks", "find: An owl sits on a tree. It"} <= {*encoder.texts}
    plain = WordEncoder().encode_texts(
        ["red boat", "find: An owl sits on a tree. It"], role="query"
    )
    assert [own, whole] == [pytest.approx(vector) for vector in plain]


def test_long_texts_are_counted_once_each():
    counted = [
        CachedEncoder(Short()).count_long([LONG, "an owl", LONG]),
        CachedEncoder(WordEncoder()).count_long([LONG]),
        CachedEncoder(Short(), long_texts="cut").count_long([LONG, LONG * 2]),
    ]
    assert [*describe_long(counted, "captions")] == [
        "Longer than the 8 tokens that words reads: 1 of 2 captions, read in parts.",
        "Longer than the 8 tokens that words reads: 2 of 2 captions, cut at their end.",
    ]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda vectors: vectors / 0, "zero or not finite, of “an owl”"),
        (lambda vectors: vectors[1:], r"shape \(0, 512\) for 1 inputs"),
        (lambda vectors: [[1.0], [2.0, 3.0]], "no array of numbers"),
        (lambda vectors: None, "shape"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_object_is_checked_as_one_opened_by_name_is(make, fault):
    with pytest.raises(UserError, match=f"words: returned .*{fault}"):
        checked(Returns(make)).encode_texts(["an owl"], role="query")


def test_an_object_may_return_lists_and_nothing_of_it_is_cached():
    encoder = Watched()
    plain = encode(Watched(), TEXTS)
    for _ in range(2):
        assert checked(encoder).encode_texts(TEXTS, role="document") == pytest.approx(plain)
    assert len(encoder.texts) == 2 * len(TEXTS)
    lists = checked(Returns(np.ndarray.tolist)).encode_texts(TEXTS, role="document")
    assert lists == pytest.approx(WordEncoder().encode_texts(TEXTS, role="document"))
