"""Opens encoders, and caches vectors: nothing is encoded twice, in this run or a later one."""

from __future__ import annotations

import hashlib
import logging
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from admire.core import registry
from admire.core.cache import Cache, open_cache
from admire.core.choices import Device, LongTexts, Precision
from admire.core.errors import UserError, check_extra
from admire.core.machine import cores, prefetch
from admire.core.progress import log_once, show_progress
from admire.data.image_files import read_bytes
from admire.data.languages import base_language
from admire.encoders.protocols import Query, QueryEncoder, Role, TextEncoder, Vectors, reads_images
from admire.encoders.windows import Windows, divide

if TYPE_CHECKING:
    from admire.encoders.sentence import SentenceEncoder

log = logging.getLogger("admire")

VECTORS = "embeddings.sqlite"  #: file name in the cache directory
PROGRESS = {
    "texts": ("Reading {} text", "Reading {} texts"),
    "queries": ("Reading {} query", "Reading {} queries"),
    "images": ("Looking at {} picture", "Looking at {} pictures"),
}
"""Texts of the progress bar, for one and for several, by the kind of input; an encoder may have
its own, in ``progress``."""
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")

Input = TypeVar("Input")


class CachedEncoder:
    """An encoder whose vectors are cached on disk, with all methods that it has.

    Args:
        encoder: a :class:`admire.encoders.TextEncoder`, which may encode images and queries as
            well.
        long_texts: what happens to texts that are longer than the encoder reads. One in parts has
            several :class:`Windows`; of a query with a span, the window with the span counts.
    """

    def __init__(self, encoder: Any, cache: Cache | None = None, long_texts: LongTexts = "parts"):
        self.encoder = encoder
        if hasattr(encoder, "encode_queries"):
            self.encode_queries = self._encode_queries
        if reads_images(encoder):
            self.encode_images = self._encode_images
        self.name = encoder.name
        self.identity = encoder.identity
        self.batch = encoder.batch
        self.long_texts = long_texts
        self.encoded = 0
        """How many texts and images the encoder has encoded, without those from the cache."""
        self._cache = open_cache(VECTORS) if cache is None else cache

    def knows(self, language: str) -> bool:
        """Return whether it reads texts of a language; any, unless it has ``languages``."""
        languages = getattr(self.encoder, "languages", None)
        return not languages or base_language(language) in languages

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`; of a long text the first window counts."""
        return self.text_windows(texts, role=role).first

    def text_windows(self, texts: Sequence[str], *, role: Role) -> Windows:
        """Encode texts window by window."""
        rows = [[text[part].strip() for part in self._read(text)] or [text] for text in texts]
        windows = list(chain.from_iterable(rows))
        keys = [self._key(role, window.encode()) for window in windows]
        encode = partial(self.encoder.encode_texts, role=role)
        return Windows.of(
            self._through_cache(windows, keys, encode, "texts", length=len), map(len, rows)
        )

    def _encode_queries(self, queries: Sequence[Query]) -> Vectors:
        return self.query_windows(queries).first

    def query_windows(self, queries: Sequence[Query]) -> Windows:
        """Encode queries window by window."""
        rows = []
        for query in queries:
            row, text = [query], query.text
            parts = self._read(text, query.prompt or "")
            if query.span is None and parts:
                row = [query._replace(text=text[part].strip()) for part in parts]
            elif query.span and parts:
                start, end = query.span
                within = (part for part in parts if part.start <= start and end <= part.stop)
                part = next(within, slice(start, None))
                span = start - part.start, end - part.start
                row = [query._replace(text=text[part], span=span)]
            rows.append(row)
        windows = list(chain.from_iterable(rows))
        keys = [self._key("asked", repr(tuple(window)).encode()) for window in windows]
        encode, length = self.encoder.encode_queries, lambda query: len(query.text)
        return Windows.of(
            self._through_cache(windows, keys, encode, "queries", length=length), map(len, rows)
        )

    def _read(self, text: str, prompt: str = "") -> list[slice]:
        """Return the windows in which a text is read; none if it is read as it is."""
        return self._windows(text, prompt) if self.long_texts == "parts" else []

    def _windows(self, text: str, prompt: str = "") -> list[slice]:
        """Return the windows of a text that is longer than the encoder reads; none if it is not.

        They are cached, because counting tokens may take loading the model.
        """
        # So short a text fits: a token has a byte at least, special tokens are few.
        if not self.limit or 2 * len(f"{prompt}{text}".encode()) <= self.limit:
            return []
        key = self._key("windows", f"{self.limit}\0{prompt}\0{text}".encode())
        stored = self._cache.get(key) or b""
        ends: list[int] = np.frombuffer(stored[: len(stored) // 8 * 8], "<i8").tolist()
        rise = all(map(lt, [0, *ends], ends))
        if not rise or ends[-1:] != [len(text.rstrip())]:  # not cached, or damaged
            with registry.blamed(self.encoder):
                ends = divide(
                    text, lambda part: self.encoder.count_tokens(prompt + part), self.limit
                )
            self._cache.put(key, np.array(ends, "<i8").tobytes(), self.name)
        return [slice(*part) for part in pairwise([0, *ends])] if len(ends) > 1 else []

    @cached_property
    def limit(self) -> int:
        """The number of tokens of a text that the encoder reads; 0 if it does not state it."""
        if not hasattr(self.encoder, "count_tokens"):
            return 0
        key = self._key("limit", b"")
        stored = self._cache.get(key) or b""
        if not stored.isdigit():  # not cached, or damaged; it may take loading the model
            stored = str(self.encoder.max_tokens or 0).encode()
            self._cache.put(key, stored, self.name)
        return int(stored)

    def count_long(self, texts: Iterable[str]) -> dict[str, Any]:
        """Count the texts that are longer than the encoder reads, for records."""
        distinct = set(texts)
        longer = [*filter(self._windows, distinct)]
        names = {"encoder": self.name, "tokens": self.limit, "read": self.long_texts}
        return names | {"texts": len(distinct), "longer": len(longer)}

    def _encode_images(self, images: Sequence[Path]) -> Vectors:
        """See :class:`admire.encoders.ImageEncoder`; images are identified by content.

        After a UserError about a file, the vectors of the images before it stay cached.
        """
        content = bytes if isinstance(self._cache, _Forgetful) else read_bytes
        keys = prefetch(lambda path: self._key("image", content(path)), images, 2 * cores())
        if not (encode := getattr(self.encoder, "encode_prepared", None)):
            return self._through_cache(images, [*keys], self.encoder.encode_images, "images")
        return self._through_cache(images, [*keys], encode, "images", prepare=self._prepare)

    def _prepare(self, paths: Iterable[Path]) -> Iterator[Any]:
        """Prepare the next images in other threads, while the model runs."""
        with registry.blamed(self.encoder):
            yield from prefetch(self.encoder.prepare_image, paths, 2 * self.batch)

    def _key(self, kind: str, content: bytes) -> str:
        return hashlib.sha256(f"{self.identity}\0{kind}\0".encode() + content).hexdigest()

    def _through_cache(
        self,
        inputs: Sequence[Input],
        keys: Sequence[str],
        encode: Callable[[Sequence[Any]], Vectors],
        kind: str,
        prepare: Callable[[Iterable[Input]], Iterator[Any]] = iter,
        length: Callable[[Input], int] = lambda _: 0,
    ) -> Vectors:
        """Return the inputs' vectors; prepare, encode and cache those that are not cached.

        The longest go first: inputs of a batch are padded to the longest of them. A cached vector
        that is damaged, of another length than 1 or of another width, is computed again.
        """
        vectors: dict[str, Any] = {key: _undamaged(self._cache.get(key)) for key in keys}
        if len({len(vector) for vector in vectors.values() if vector}) > 1:
            vectors = dict.fromkeys(vectors)
        pairs = zip(keys, inputs, strict=True)
        uncached = {key: content for key, content in pairs if vectors[key] is None}
        missing = dict(sorted(uncached.items(), key=lambda pair: -length(pair[1])))
        names = getattr(self.encoder, "progress", PROGRESS)[kind]
        message = f"{names[len(missing) != 1].format(len(missing))} (model {self.name})"
        prepared = zip(missing, prepare(missing.values()), strict=True)
        waiting = iter(show_progress(prepared, message, len(missing)))
        while part := dict(islice(waiting, self.batch)):
            unit = self._encode(encode, [*part.values()], [missing[key] for key in part], kind)
            new = {key: vector.tobytes() for key, vector in zip(part, unit, strict=True)}
            self._cache.put_all(new, self.name)
            vectors |= new
            self.encoded += len(part)
        if not inputs:
            return np.zeros((0, 0), dtype="<f4")
        if len(set(map(len, vectors.values()))) > 1:
            raise self._error(f"returned vectors of different widths for {kind}")
        return np.stack([np.frombuffer(vectors[key], dtype="<f4") for key in keys])

    def _encode(
        self,
        encode: Callable[[Sequence[Any]], Vectors],
        prepared: Sequence[Any],
        inputs: Sequence[Input],
        kind: str,
    ) -> Vectors:
        """Encode a batch as unit vectors; if it does not fit into memory, halve the batches."""
        try:
            with registry.blamed(self.encoder):
                encoded = encode(prepared)
            return self._unit(encoded, inputs)
        except Exception as error:
            text = str(error).lower()  # of torch, on any device, or NumPy
            if not (isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY)):
                raise
        if len(prepared) == 1:
            raise UserError(
                f"{self.name}: not even one of the {kind} fits into memory. Use the device "
                "cpu, the precision bfloat16 or a smaller encoder.",
                "device",
                "precision",
                "encoder",
            )
        self.batch = len(prepared) // 2
        log.warning("%s: out of memory; continuing with batches of %d.", self.name, self.batch)
        vectors = []
        while prepared:
            count = self.batch
            vectors.append(self._encode(encode, prepared[:count], inputs[:count], kind))
            prepared, inputs = prepared[count:], inputs[count:]
        return np.concatenate(vectors)

    def _unit(self, encoded: Any, inputs: Sequence[Input]) -> Vectors:
        """Scale vectors to unit length; refuse a wrong number, and any zero or not finite."""
        try:
            vectors = np.asarray(encoded)
            vectors = vectors if vectors.dtype == np.float32 else vectors.astype(float)
        except (TypeError, ValueError, RuntimeError) as error:  # of torch, too
            raise self._error(f"returned no array of numbers ({error})") from None
        if vectors.ndim != 2 or len(vectors) != len(inputs):
            raise self._error(f"returned vectors of shape {vectors.shape} for {len(inputs)} inputs")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        good = (np.isfinite(lengths) & (lengths > 0))[:, 0]
        if not good.all():
            bad = inputs[int(good.argmin())]
            text = textwrap.shorten(getattr(bad, "text", str(bad)), 80, placeholder="…")
            raise self._error(f"returned a vector that is zero or not finite, of “{text}”")
        return np.ascontiguousarray(vectors / lengths, dtype="<f4")

    def _error(self, fault: str) -> UserError:
        if plugin := registry.plugin_of(self.encoder):
            return plugin.error(f"{fault}.")
        return UserError(f"{self.name}: {fault}. The model is damaged.", "encoder")


def _undamaged(stored: bytes | None) -> bytes | None:
    """Return the bytes of a cached vector if they are one of unit length."""
    if stored and len(stored) % 4 == 0:
        vector = np.frombuffer(stored, dtype="<f4")
        if abs(np.dot(vector, vector) - 1) < 1e-3:  # not for NaN
            return stored
    return None


class _Forgetful(Cache):
    """Keeps nothing: the identity of an object may stay the same when its vectors change."""

    def __init__(self) -> None:
        pass

    def get(self, key: str) -> None:
        return None

    def put_all(self, entries: Mapping[str, bytes], model: str) -> None:
        pass


def checked(encoder: Any, long_texts: LongTexts = "parts") -> CachedEncoder:
    """Return an encoder given as an object with all that one opened by name has, but the cache:
    checks of its vectors, and long texts."""
    if not isinstance(encoder, CachedEncoder):
        return CachedEncoder(encoder, _Forgetful(), long_texts)
    if encoder.long_texts == long_texts:
        return encoder
    return CachedEncoder(encoder.encoder, encoder._cache, long_texts)


def describe_long(counted: Iterable[Mapping[str, Any]], texts: str) -> Iterator[str]:
    """Yield a sentence for each :meth:`CachedEncoder.count_long` with long ``texts``, so called."""
    how = {"parts": "read in parts", "cut": "cut at their end"}
    for row in counted:
        if row["longer"]:
            yield (
                f"Longer than the {row['tokens']:,} tokens that {row['encoder']} reads: "
                f"{row['longer']:,} of {row['texts']:,} {texts}, {how[row['read']]}."
            )


def log_long(counted: Iterable[Mapping[str, Any]], texts: str) -> None:
    """Log :func:`describe_long`."""
    for note in describe_long(counted, texts):
        log.info("%s", note)


def text_windows(encoder: TextEncoder, texts: Sequence[str], *, role: Role) -> Windows:
    """Encode texts window by window; one window each if the encoder is not a cached one."""
    if isinstance(encoder, CachedEncoder):
        return encoder.text_windows(texts, role=role)
    return Windows.of(encoder.encode_texts(texts, role=role))


def open_encoder(
    name: str,
    *,
    device: Device = "auto",
    precision: Precision = "float32",
    own_prompts: bool = True,
    trust_remote_code: bool = False,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> CachedEncoder:
    """Open the encoder of that name, a plug-in. Every vector that it computes is cached on disk.

    ``admire models`` lists them; ``embedded-state`` and ``e5-state`` encode words in a text, and
    ``mclip:``, ``openclip:`` and ``sbert:`` come from a folder, the hub's cache or the hub.
    ``@REVISION`` after the name selects that revision on the hub. No weights are loaded before the
    first text or image that is not cached.

    Args:
        device, precision: for the encoders of the extra ``clip``; ``auto`` uses a GPU if there is
            one. The others run on the CPU, and warn about other devices.
        own_prompts, trust_remote_code: see :class:`admire.encoders.sentence.SentenceEncoder`.
        plugins: see :attr:`admire.Settings.plugins`.

    Raises:
        UserError: the encoder is unknown, or a package, a file or the device is missing.
    """
    plugin, source = registry.resolve("encoder", name)
    if "clip" in plugin.needs:
        models = ("multilingual_clip", "sentence_transformers", "transformers")
        check_extra("clip", f"The encoder '{name}'", "torch", "open_clip", *models)
    options: dict[str, Any] = {"own_prompts": own_prompts, "plugins": plugins or {}}
    options["trust_remote_code"] = trust_remote_code
    placed = "placement" in plugin.arguments
    if placed or (device, precision) != ("auto", "float32"):
        from admire.encoders.torch_models import LazyModel, Placement

        options["placement"] = Placement(device, precision)
        if placed and device not in ("auto", "cpu"):
            options["placement"].resolve()
        elif device not in ("auto", "cpu"):
            log.warning("The encoder '%s' runs on the CPU, not on '%s'.", name, device)
    if "revision" in plugin.arguments:
        options["revision"] = None
        if not Path(source).expanduser().exists():  # a folder's name may contain an @
            source, _, revision = source.partition("@")
            if revision and Path(source).expanduser().is_dir():
                message = f"{source}: a folder has no revisions. Omit '@{revision}'."
                raise UserError(message, "encoder")
            options["revision"] = revision or None
    encoder = plugin.open(source, **options)
    if placed and isinstance(encoder, LazyModel):
        encoder.share()
    if limits := getattr(encoder, "limits", None):
        log_once(logging.INFO, f"The encoder {name} {limits}.")
    return CachedEncoder(encoder)


def open_trainable(name: str, **options: Any) -> SentenceEncoder:
    """Open a sentence-transformers model to fine-tune, without a cache: its vectors change.

    The options and errors are those of :func:`open_encoder`.
    """
    from admire.encoders.sentence import SentenceEncoder

    opened = open_encoder(name, **options).encoder
    if not isinstance(opened, SentenceEncoder):
        raise UserError(f"'{name}' cannot be fine-tuned. Use a model of sbert:….", "encoder")
    opened.claim()
    return opened


def open_context_encoder(name: str) -> QueryEncoder:
    """Open an encoder of words in context; refuse any other."""
    encoder = open_encoder(name)
    if not isinstance(encoder, QueryEncoder):
        raise UserError(
            f"The encoder '{name}' cannot encode words in context. Use embedded-state, e5-state or "
            "sbert:….",
            "encoder",
        )
    return encoder
