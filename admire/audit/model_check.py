"""Trying a model: an encoder beside its own package, a chat model with a question of each kind."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.errors import UserError
from admire.data.items import SAMPLES, read_items
from admire.models.encoders import ImageEncoder, Vectors, open_encoder
from admire.models.encoders.hub import hub_file, local_folder
from admire.models.llm import ChatModel, Image, Question, Reply, open_llm
from admire.prompts import Prompts
from admire.rankers.settings import Settings
from admire.runs.run import Run, rank
from admire.senses import read_label
from admire.senses.meaning import MEANING_TOKENS, read_meaning
from admire.senses.votes import VOTE_TOKENS

SEVERAL = 5
"""How many texts and pictures of the samples are compared."""


# ----------------------------------------------------------------------------------- encoders


@dataclass(frozen=True)
class EncoderCheck:
    """How an encoder does on the samples.

    Attributes:
        package: the package that it is compared with; None where it has none of its own.
        differences: by what was encoded (queries, captions, images) the largest difference of any
            number in the unit vectors.
        run: the samples ranked by their sentences.
    """

    package: str | None
    differences: dict[str, float]
    run: Run


def check_encoder(name: str) -> EncoderCheck:
    """Encode some of the samples with an encoder and with its own package, on the CPU.

    The package is used as its documentation shows, past all of admire's code. Weights that are not
    here are fetched.

    Raises:
        UserError: the encoder cannot be opened, or a revision is named.
    """
    family, _, source = name.partition(":")
    if "@" in source and not Path(source).expanduser().exists():
        raise UserError(f"'{name}': packages load the newest revision. Leave out the '@'.")
    items = read_items(SAMPLES)
    encoder = open_encoder(name, device="cpu")
    candidates = [candidate for item in items for candidate in item.candidates]
    queries = [item.sentence for item in items][:SEVERAL]
    captions = [c.caption for c in candidates if c.caption][:SEVERAL]
    images = [c.image for c in candidates if c.image][:SEVERAL]
    found = {
        "queries": encoder.encoder.encode_texts(queries, role="query"),
        "captions": encoder.encoder.encode_texts(captions, role="document"),
    }
    if isinstance(encoder, ImageEncoder):
        towers: Any = encoder.encoder  # past the cache
        found["images"] = towers.encode_prepared([towers.prepare_image(path) for path in images])
    package, encode = PEERS.get(family, (None, None))
    wanted = encode(source, queries, captions, images) if encode else {}
    ranked = rank(items, Settings(query="sentence"), encoder=encoder)
    differences = {
        what: float(np.abs(_unit(vectors) - _unit(found[what])).max())
        for what, vectors in wanted.items()
        if what in found
    }
    return EncoderCheck(package, differences, ranked)


def _unit(vectors: Any) -> Vectors:
    plain: Vectors = np.asarray(vectors, dtype=np.float32)
    unit: Vectors = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    return unit


Peer = Callable[[str, Sequence[str], Sequence[str], Sequence[Path]], dict[str, Any]]
"""Encodes queries, captions and images with a package of its own, by what was encoded."""


def _pictures(images: Sequence[Path]) -> list[Any]:
    from PIL import Image as Pillow

    return [Pillow.open(path).convert("RGB") for path in images]


def _open_clip(
    model_name: str, pretrained: str | None, texts: Sequence[Sequence[str]], images: Sequence[Path]
) -> list[Any]:
    """Vectors of each list of texts and of the images."""
    import open_clip
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms(model_name, pretrained=pretrained)
    model.eval()
    with torch.inference_mode():
        shown = torch.stack([preprocess(picture) for picture in _pictures(images)])
        tokenizer = open_clip.get_tokenizer(model_name) if texts else None
        read = [model.encode_text(tokenizer(list(some))) for some in texts if tokenizer]
        return [*read, model.encode_image(shown)]


def _openclip_peer(
    source: str, queries: Sequence[str], captions: Sequence[str], images: Sequence[Path]
) -> dict[str, Any]:
    folder = local_folder(source)
    model, _, tag = (f"local-dir:{folder}", "", None) if folder else source.partition("/")
    vectors = _open_clip(model, tag, (queries, captions), images)
    return dict(zip(("queries", "captions", "images"), vectors, strict=True))


def _mclip_peer(
    source: str, queries: Sequence[str], captions: Sequence[str], images: Sequence[Path]
) -> dict[str, Any]:
    """M-CLIP's own class, which fetches its base model too.

    Its ``from_pretrained`` fails under transformers 5, so its weights are put into it.
    """
    import torch
    import transformers
    from multilingual_clip.Config_MCLIP import MCLIPConfig
    from multilingual_clip.pt_multilingual_clip import MultilingualCLIP

    from admire.models.encoders.mclip import IMAGE_TOWERS

    folder = local_folder(source)
    repository = source if "/" in source else f"M-CLIP/{source}"
    config = folder / "config.json" if folder else hub_file(repository, "config.json")
    settings = json.loads(config.read_text(encoding="utf-8"))
    base = config.parent / Path(settings["modelBase"]).name
    if base.is_dir():
        settings["modelBase"] = str(base)
    tower: Any = MultilingualCLIP(MCLIPConfig(**settings)).eval()
    names = ("pytorch_model.bin", "model.safetensors")
    if folder:
        weights = next(folder / name for name in names if (folder / name).is_file())
    else:
        weights = hub_file(repository, *names)
    if weights.suffix == ".bin":
        state = torch.load(weights, map_location="cpu", weights_only=True)
    else:
        from safetensors.torch import load_file

        state = load_file(weights)
    tower.load_state_dict({k: v for k, v in state.items() if "position_ids" not in k})
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder or repository))
    own = config.parent / "image"
    if own.is_dir():
        model, tag = f"local-dir:{own}", None
    else:
        model, _, tag = IMAGE_TOWERS[settings["numDims"]].partition("/")
    with torch.inference_mode():
        return {
            "queries": tower(list(queries), tokenizer),
            "captions": tower(list(captions), tokenizer),
            "images": _open_clip(model, tag, (), images)[0],
        }


def _dual_peer(
    source: str, queries: Sequence[str], captions: Sequence[str], images: Sequence[Path]
) -> dict[str, Any]:
    import torch
    from transformers import AutoModel, AutoProcessor

    model = AutoModel.from_pretrained(source).eval()
    processor = AutoProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
    siglip = "siglip" in model.config.model_type

    def read(texts: Sequence[str]) -> Any:
        ready = processor(
            text=[text.lower() if siglip else text for text in texts],
            padding="max_length" if siglip else True,
            truncation=True,
            max_length=model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        return _vectors(model.get_text_features(**ready))

    with torch.inference_mode():
        shown = processor(images=_pictures(images), return_tensors="pt")
        return {
            "queries": read(queries),
            "captions": read(captions),
            "images": _vectors(model.get_image_features(**shown)),
        }


def _vectors(features: Any) -> Any:
    return getattr(features, "pooler_output", features)


def _sbert_peer(
    source: str, queries: Sequence[str], captions: Sequence[str], images: Sequence[Path]
) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(source, device="cpu")
    name = Path(source).name.lower()
    if "e5" in name and "instruct" not in name and not any(model.prompts.values()):
        # As the cards of E5's models say.
        before: tuple[dict[str, str], ...] = ({"prompt": "query: "}, {"prompt": "passage: "})
    else:
        before = ({}, {})
    found = {
        "queries": model.encode_query(list(queries), **before[0]),
        "captions": model.encode_document(list(captions), **before[1]),
    }
    if model.supports("image"):
        found["images"] = model.encode_document(_pictures(images))
    return found


PEERS: dict[str, tuple[str, Peer]] = {
    "dual": ("transformers", _dual_peer),
    "mclip": ("multilingual_clip, open_clip", _mclip_peer),
    "openclip": ("open_clip", _openclip_peer),
    "sbert": ("sentence_transformers", _sbert_peer),
}


# -------------------------------------------------------------------------------- chat models


@dataclass(frozen=True)
class Understood:
    """A question to a chat model, and what was understood of its reply.

    Attributes:
        kind: what kind of question it is.
        answer: what was understood, or what went wrong.
        right: whether it is as it should be; None where that cannot be said.
        tokens: of question and reply; None where the server does not tell.
    """

    kind: str
    answer: str
    right: bool | None
    tokens: int | None = None
    seconds: float = 0.0


ANIMAL = {
    "type": "object",
    "properties": {
        "animal": {"type": "string", "enum": ["owl", "horse", "fish"]},
        "reason": {"type": "string"},
    },
    "required": ["animal", "reason"],
    "additionalProperties": False,
}


def check_chat(name: str, *, url: str | None = None) -> list[Understood]:
    """Put one question of each kind about a sample to a chat model, past the cache.

    Args:
        url: the address of its server.

    Raises:
        UserError: the model cannot be opened.
    """
    opened = open_llm(name, url=url)
    llm: ChatModel = getattr(opened, "model", opened)
    item = next(item for item in read_items(SAMPLES) if item.sentence_type == "literal")
    (owl,) = [c for c in item.candidates if c.name == OWL]
    assert owl.image
    prompts = Prompts()
    meaning = prompts.about(item, "literal")
    animal = Question(
        "Which animal is meant by 'a night bird with big eyes'?", max_tokens=200, schema=ANIMAL
    )
    letter = Question(
        "A night owl flew from the barn. Is that A: a person, or B: a bird? "
        "Answer with one letter.",
        max_tokens=1,
        logprobs=5,
    )

    def sense(reply: Reply) -> tuple[str, bool | None]:
        label = read_label(reply.text)
        return label or _raw(reply), label == item.sentence_type

    def meant(reply: Reply) -> tuple[str, bool | None]:
        found = read_meaning(reply.text, item, meaning)
        return "; ".join(found.definitions) or _raw(reply), None if found else False

    def form(reply: Reply) -> tuple[str, bool | None]:
        try:
            named = json.loads(reply.text)
            return f"JSON, {named['animal']}", named["animal"] == "owl"
        except (ValueError, TypeError, KeyError):
            return f"no JSON of the schema: {_raw(reply)}", False

    def likely(reply: Reply) -> tuple[str, bool | None]:
        if not reply.logprobs:
            return f"none given; the answer is {_raw(reply)}", False
        shares = {token.strip(): math.exp(value) for token, value in reply.logprobs[0].items()}
        told = ", ".join(f"{token} {share:.2f}" for token, share in shares.items())
        return told, max(shares, key=lambda token: shares[token]) == "B"

    shown = Question(
        ("Which animal is in this picture?", Image(owl.image)), max_tokens=200, schema=ANIMAL
    )
    asked: list[tuple[str, Question, Callable[[Reply], tuple[str, bool | None]]]] = [
        ("sense", Question(prompts.about(item, "sense"), max_tokens=VOTE_TOKENS), sense),
        ("meaning", Question(meaning, max_tokens=MEANING_TOKENS), meant),
        ("schema", animal, form),
        ("log-probabilities", letter, likely),
        ("image", shown, form),
    ]
    return [_understood(kind, llm, question, read) for kind, question, read in asked]


OWL = "images/night_owl_2.png"
"""The sample picture that chat models are shown."""


def _understood(
    kind: str,
    llm: ChatModel,
    question: Question,
    read: Callable[[Reply], tuple[str, bool | None]],
) -> Understood:
    try:
        reply = llm.ask(question)
    except UserError as error:
        return Understood(kind, str(error), False)
    answer, right = read(reply)
    tokens = reply.usage.prompt + reply.usage.completion if reply.usage else None
    return Understood(kind, answer, right, tokens, reply.seconds)


def _raw(reply: Reply) -> str:
    cut = " (cut off)" if reply.cut else ""
    return repr(textwrap.shorten(reply.text, 100, placeholder="…")) + cut
