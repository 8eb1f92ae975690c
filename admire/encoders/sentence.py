"""Any sentence-transformers model, for queries, captions, and images if it encodes them."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from admire.core.errors import UserError
from admire.core.registry import Variant
from admire.data.image_files import read_image
from admire.encoders.hub import load_cached_first, resolve_source
from admire.encoders.protocols import Query, Role, Vectors
from admire.encoders.torch_models import LazyModel, Placement, register_family

if TYPE_CHECKING:  # nothing is loaded before something is to be encoded
    import torch
    from PIL.Image import Image
    from sentence_transformers import SentenceTransformer

log = logging.getLogger("admire")


def prepare_spans(
    model: SentenceTransformer,
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    rows: Sequence[int] | None = None,
) -> tuple[dict[str, Any], torch.Tensor]:
    """Return the model's features of texts, and a mask of the spans' tokens, shape (spans, tokens).

    A token that is partly in a span belongs to it; a ValueError names one beyond the model's limit.
    ``rows`` are the texts of the spans; None for one span per text.
    """
    import torch

    features: dict[str, Any] = model.preprocess(
        list(texts), task="query", processing_kwargs={"text": {"return_offsets_mapping": True}}
    )
    rows = range(len(texts)) if rows is None else rows
    offsets = features.pop("offset_mapping")[list(rows)]
    start, end = (torch.tensor([span[k] for span in spans])[:, None] for k in (0, 1))
    # Special tokens like [CLS] and padding have an empty range.
    inside = (offsets[..., 0] < end) & (offsets[..., 1] > start)
    mask = inside & (offsets[..., 0] < offsets[..., 1])
    for k, (row, (a, b)) in enumerate(zip(rows, spans, strict=True)):
        if not mask[k].any():
            text, why = texts[row], "is not a word"
            if int(offsets[k].max()) <= a < len(text.rstrip()):
                why = f"is beyond its limit of {model.max_seq_length} tokens"
            raise ValueError(f"'{text[a:b]}' {why} in “{text[:60]}…”")
    return features, mask


def span_states(
    model: SentenceTransformer,
    features: dict[str, Any],
    mask: torch.Tensor,
    rows: Sequence[int] | None = None,
) -> torch.Tensor:
    """Average the masked tokens' last states, shape (spans, width); see :func:`prepare_spans`.

    The modules after the model's pooling (projection, normalisation) are applied to it as well, so
    that it is in the space of the texts' vectors.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    modules: list[Any] = []
    for module in model:
        routed: Any = module.sub_modules["query"] if isinstance(module, Router) else [module]
        modules += routed
    pooling = next((k for k, module in enumerate(modules) if isinstance(module, Pooling)), 0)
    for module in modules[:pooling] or modules[:1]:
        features = module(features)
    states = features["token_embeddings"]
    if rows is not None:
        states = states[list(rows)]
    weights = mask.to(states.dtype)[..., None]
    features["sentence_embedding"] = (states * weights).sum(dim=1) / weights.sum(dim=1)
    for module in modules[pooling + 1 :]:
        features = module(features)
    pooled: torch.Tensor = features["sentence_embedding"][:, : model.truncate_dim]
    return pooled


ENCODING: dict[str, Any] = {
    "convert_to_numpy": True,
    "normalize_embeddings": True,
    "show_progress_bar": False,
}

E5_PROMPTS = {"query": "query: ", "document": "passage: "}
"""The prompts that E5 models were trained with; their repositories lack them."""


@register_family(
    "sbert",
    takes="REPOSITORY",
    about="any sentence-transformers model: texts, and images if it reads them",
    citation="Reimers and Gurevych 2019, arXiv 1908.10084",
    variants=(
        Variant(
            "Qwen/Qwen3-VL-Embedding-2B",
            "texts and images, a language model that sees",
            "4.3 GB",
            "Apache-2.0",
            ("Qwen/Qwen3-VL-Embedding-2B",),
        ),
        Variant(
            "intfloat/multilingual-e5-large",
            "texts, about 100 languages",
            "2.2 GB",
            "MIT",
            ("intfloat/multilingual-e5-large",),
        ),
    ),
)
class SentenceEncoder(LazyModel):
    """A sentence-transformers model with its own pooling and prompts.

    Models with ``e5`` in their name get E5's prompts, unless they have their own. Images are
    documents: a model that puts an instruction before documents puts it before images as well.

    Args:
        own_prompts: whether texts get the model's own prompts, and not only E5's.
        trust_remote_code: whether the model's custom code is run.
    """

    accepts_images: bool | None = None

    def __init__(
        self,
        source: str,
        revision: str | None,
        placement: Placement,
        *,
        own_prompts: bool = True,
        trust_remote_code: bool = False,
    ):
        super().__init__(f"sbert:{source}", placement)
        self._trust_remote_code = trust_remote_code
        self._source = resolve_source(source, "modules.json", "config.json", revision=revision)
        modules = self._json("modules.json")
        if modules is None:  # other programs download a model without it into the hub's cache
            log.warning(
                "%s: modules.json is missing, so the mean of the last states is used. "
                "For a model of sentence-transformers, run: hf download %s",
                self.name,
                source,
            )
        name = Path(source).name.lower()
        is_e5 = re.search(r"(?<![a-z0-9])e5(?![a-z0-9])", name) is not None
        self._e5 = is_e5 and "instruct" not in name
        self._drops_prompts = False
        if not own_prompts:
            saved = self._json("config_sentence_transformers.json") or {}
            own = saved.get("prompts") or {}
            others = (own.get(role) not in (None, "", e5) for role, e5 in E5_PROMPTS.items())
            self._drops_prompts = any(others)
        self.identity = f"sbert:{self._source.identity}:{placement.precision}{':e5' * self._e5}"
        self.identity += ":no-prompts" * self._drops_prompts + ":remote-code" * trust_remote_code
        try:
            self.accepts_images = self._reads_images(**modules[0])
        except (TypeError, LookupError, AttributeError):  # loading it raises the error
            self.accepts_images = False
        self.batch = 8 if self.accepts_images else 32  # decoded images wait for their batch

    def _reads_images(self, type: str, path: str, **_: object) -> bool:
        """Return ``model.supports("image")`` by a row of ``modules.json``, without loading it."""
        kind = type.rpartition(".")[2]
        if kind == "Router":
            router = self._json("router_config.json", path)
            inputs = [first for first, *_ in router["structure"].values()]
            places = {first: f"{path}/{first}".strip("/") for first in inputs}
            return any(self._reads_images(router["types"][k], places[k]) for k in inputs)
        if kind == "Transformer":
            settings = self._json("sentence_bert_config.json", path) or {}
            return "image" in settings.get("modality_config", {})
        return bool(kind == "CLIPModel")  # as older versions of the package save a CLIP

    def _json(self, name: str, path: str = "") -> Any:
        """Read a JSON file of a module; None if it has none, empty if it is damaged."""
        with suppress(UserError):
            file = self._source.file(f"{path}/{name}".strip("/"))
            with suppress(OSError, ValueError):
                return json.loads(file.read_text(encoding="utf-8"))
            return {}
        return None

    @property
    def model(self) -> SentenceTransformer:
        """The model itself, loaded when it is first used."""
        return cast("SentenceTransformer", self._loaded)

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        device, dtype = self._placement.resolve()

        def load() -> SentenceTransformer:
            return SentenceTransformer(
                self._source.place,
                revision=self._source.revision,
                device=str(device),
                model_kwargs={"dtype": dtype},
                trust_remote_code=self._trust_remote_code,
            )

        try:
            model = load_cached_first(load, self._source.place)
        except ValueError as error:  # of transformers or sentence-transformers
            if self._trust_remote_code or "trust_remote_code" not in str(error):
                raise
            raise UserError(
                f"{self.name}: needs custom code. Read the .py files of {self._source.place}. If "
                "you trust them, allow it: retrieve, sts, train sentences and train retriever have "
                "a setting.",
                "trust_remote_code",
            ) from None
        config = self._json("config.json") or {}
        if not self._trust_remote_code and "AutoModel" in config.get("auto_map", {}):
            log.warning(
                "%s: has custom code, but the code of transformers was used instead. Its vectors "
                "may differ from the original ones (setting trust_remote_code).",
                self.name,
            )
        if self._drops_prompts:
            model.prompts, model.default_prompt_name = {}, None
        if self._e5 and not any(model.prompts.values()):
            model.prompts = dict(E5_PROMPTS)
        return model

    @property
    def max_tokens(self) -> int | None:
        """None for a model without a limit."""
        return self.model.max_seq_length

    def count_tokens(self, text: str) -> int:
        """Count with the longer one of its prompts."""
        prompt = max(query_prompt(self.model), document_prompt(self.model), key=len)
        return len(self.model.tokenizer(prompt + text, verbose=False)["input_ids"])

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        return np.asarray(encode(list(texts), **ENCODING), "float32")

    def prepare_image(self, path: Path) -> Image:
        return read_image(path)  # the model's own processor does the rest

    def encode_prepared(self, images: Sequence[Image]) -> Vectors:
        return np.asarray(self.model.encode_document(list(images), **ENCODING), "float32")

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """See :class:`admire.encoders.QueryEncoder`; spans beyond the limit are refused."""
        vectors: dict[int, Vectors] = {}
        groups: dict[tuple[str | None, bool], list[int]] = defaultdict(list)
        for k, query in enumerate(queries):
            groups[query.prompt, query.span is None].append(k)
        for (prompt, whole), places in groups.items():
            chosen = [queries[k] for k in places]
            if whole:
                texts = [query.text for query in chosen]
                encoded = self.model.encode_query(texts, prompt=prompt, **ENCODING)
            else:
                encoded = self._encode_spans(chosen, prompt)
            vectors |= zip(places, encoded, strict=True)
        return np.array([vectors[k] for k in range(len(queries))], dtype=np.float32)

    def _encode_spans(self, queries: Sequence[Query], prompt: str | None) -> Vectors:
        import torch
        from sentence_transformers.util import batch_to_device

        if prompt is None:
            prompt = query_prompt(self.model)
        texts = [prompt + query.text for query in queries]
        spans = [(len(prompt) + a, len(prompt) + b) for a, b in (q.span or (0, 0) for q in queries)]
        distinct = list(dict.fromkeys(texts))
        rows = [distinct.index(text) for text in texts]
        try:
            features, mask = prepare_spans(self.model, distinct, spans, rows)
        except ValueError as error:
            raise UserError(f"{self.name}: {error}.") from None
        device = self.model.device
        self.model.eval()
        with torch.inference_mode():
            features = batch_to_device(features, device)
            states = span_states(self.model, features, mask.to(device), rows)
        return np.asarray(torch.nn.functional.normalize(states, dim=-1).float().cpu())


def query_prompt(model: SentenceTransformer) -> str:
    """Return the prompt that the model puts before a query."""
    default = model.prompts.get(model.default_prompt_name or "")
    return model.prompts.get("query", default) or ""


def document_prompt(model: SentenceTransformer) -> str:
    """Return the prompt that the model puts before a document."""
    default = model.prompts.get(model.default_prompt_name or "", "")
    names = ("document", "passage", "corpus")
    return next((model.prompts[name] for name in names if name in model.prompts), default) or ""
