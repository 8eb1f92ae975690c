"""Checks of a model: an encoder against its own package, a chat model by one question a kind."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel

from admire.base.errors import UserError
from admire.data.items import SAMPLES, read_items
from admire.models.encoders import ImageEncoder, Vectors, open_encoder
from admire.models.encoders.hub import hub_file, local_folder
from admire.models.llm import ChatModel, Image, Question, Reply, open_llm
from admire.prompts import Prompts
from admire.rankers.settings import Settings
from admire.runs.ranking import Run
from admire.runs.run import rank
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
        package: what it is compared with; None if there is no such package.
        differences: by what was encoded (queries, captions, images), the largest difference
            between components of the unit vectors.
        run: the samples ranked by their sentences.
    """

    package: str | None
    differences: dict[str, float]
    run: Run


def check_encoder(name: str) -> EncoderCheck:
    """Encode some of the samples with an encoder and with its own package, on the CPU.

    The package is used as its documentation shows, without admire's code. Missing weights are
    downloaded.

    Raises:
        UserError: the encoder cannot be opened, or a revision is named.
    """
    family, _, source = name.partition(":")
    if "@" in source and not Path(source).expanduser().exists():
        raise UserError(f"'{name}': packages load the newest revision. Leave out the '@'.")
    items = read_items(SAMPLES)
    encoder = open_encoder(name, device="cpu")
    candidates = [candidate for item in items for candidate in item.candidates]
    samples = Samples(
        [item.sentence for item in items][:SEVERAL],
        [c.caption for c in candidates if c.caption][:SEVERAL],
        [c.image for c in candidates if c.image][:SEVERAL],
    )
    ours = {
        "queries": encoder.encoder.encode_texts(samples.queries, role="query"),
        "captions": encoder.encoder.encode_texts(samples.captions, role="document"),
    }
    if isinstance(encoder, ImageEncoder):
        towers: Any = encoder.encoder  # past the cache
        ours["images"] = towers.encode_prepared([towers.prepare_image(p) for p in samples.images])
    package, encode = PEERS.get(family, (None, None))
    theirs = encode(source, samples) if encode else {}
    ranked = rank(items, Settings(query="sentence"), encoder=encoder)
    differences = {
        what: float(np.abs(_unit(vectors) - _unit(ours[what])).max())
        for what, vectors in theirs.items()
        if what in ours
    }
    return EncoderCheck(package, differences, ranked)


def _unit(vectors: Any) -> Vectors:
    plain: Vectors = np.asarray(vectors, dtype=np.float32)
    unit: Vectors = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    return unit


class Samples(NamedTuple):
    """What is encoded."""

    queries: list[str]
    captions: list[str]
    images: list[Path]


Peer = Callable[[str, Samples], dict[str, Any]]
"""Encodes samples with a family's own package; the vectors by the names in :class:`Samples`."""


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


def _openclip_peer(source: str, samples: Samples) -> dict[str, Any]:
    folder = local_folder(source)
    model, _, tag = (f"local-dir:{folder}", "", None) if folder else source.partition("/")
    vectors = _open_clip(model, tag, samples[:2], samples.images)
    return dict(zip(Samples._fields, vectors, strict=True))


def _mclip_peer(source: str, samples: Samples) -> dict[str, Any]:
    """M-CLIP's own class; its ``from_pretrained`` fails under transformers 5, so the weights are
    loaded here."""
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
            "queries": tower(samples.queries, tokenizer),
            "captions": tower(samples.captions, tokenizer),
            "images": _open_clip(model, tag, (), samples.images)[0],
        }


def _dual_peer(source: str, samples: Samples) -> dict[str, Any]:
    import torch
    from transformers import AutoModel, AutoProcessor

    model = AutoModel.from_pretrained(source).eval()
    processor = AutoProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
    siglip = "siglip" in model.config.model_type

    def encode(texts: list[str]) -> Any:
        ready = processor(
            text=[text.lower() if siglip else text for text in texts],
            padding="max_length" if siglip else True,
            truncation=True,
            max_length=model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        return model.get_text_features(**ready)

    with torch.inference_mode():
        shown = processor(images=_pictures(samples.images), return_tensors="pt")
        found = {
            "queries": encode(samples.queries),
            "captions": encode(samples.captions),
            "images": model.get_image_features(**shown),
        }
    return {what: getattr(one, "pooler_output", one) for what, one in found.items()}


def _sbert_peer(source: str, samples: Samples) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(source, device="cpu")
    name = Path(source).name.lower()
    query, passage = {}, {}
    if "e5" in name and "instruct" not in name and not any(model.prompts.values()):
        # As the cards of E5's models say.
        query, passage = {"prompt": "query: "}, {"prompt": "passage: "}
    found = {
        "queries": model.encode_query(samples.queries, **query),
        "captions": model.encode_document(samples.captions, **passage),
    }
    if model.supports("image"):
        found["images"] = model.encode_document(_pictures(samples.images))
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
        right: whether it is right; None if the check cannot know.
        tokens: of question and reply; None if the server does not say.
    """

    kind: str
    answer: str
    right: bool | None
    tokens: int | None = None
    seconds: float = 0.0


class Animal(BaseModel, extra="forbid"):
    """The reply to two of the questions."""

    animal: Literal["owl", "horse", "fish"]
    reason: str


def check_chat(name: str, *, url: str | None = None) -> list[Understood]:
    """Ask a chat model one question of each kind about a sample, without the cache.

    Args:
        url: the address of its server.

    Raises:
        UserError: the model cannot be opened.
    """
    opened = open_llm(name, url=url)
    llm: ChatModel = getattr(opened, "model", opened)
    item = next(item for item in read_items(SAMPLES) if item.sentence_type == "literal")
    owl = next(c.image for c in item.candidates if c.name == OWL)
    assert owl
    prompts = Prompts()
    meaning = prompts.about(item, "literal")
    schema = Animal.model_json_schema()

    def read_sense(reply: Reply) -> tuple[str, bool | None]:
        label = read_label(reply.text)
        return label or _raw(reply), label == item.sentence_type

    def read_definitions(reply: Reply) -> tuple[str, bool | None]:
        found = read_meaning(reply.text, item, meaning)
        return "; ".join(found.definitions) or _raw(reply), None if found else False

    questions: list[tuple[str, Question, Callable[[Reply], tuple[str, bool | None]]]] = [
        ("sense", Question(prompts.about(item, "sense"), max_tokens=VOTE_TOKENS), read_sense),
        ("meaning", Question(meaning, max_tokens=MEANING_TOKENS), read_definitions),
        ("schema", Question(NIGHT_BIRD, max_tokens=200, schema=schema), _read_animal),
        ("log-probabilities", Question(LETTER, max_tokens=1, logprobs=5), _read_letter),
        ("image", Question((PICTURE, Image(owl)), max_tokens=200, schema=schema), _read_animal),
    ]
    found = []
    for kind, question, read in questions:
        try:
            reply = llm.ask(question)
        except UserError as error:
            found.append(Understood(kind, str(error), False))
            continue
        tokens = reply.usage.prompt + reply.usage.completion if reply.usage else None
        found.append(Understood(kind, *read(reply), tokens, reply.seconds))
    return found


OWL = "images/night_owl_2.png"
"""The sample picture that chat models are shown."""

NIGHT_BIRD = "Which animal is meant by 'a night bird with big eyes'?"
PICTURE = "Which animal is in this picture?"
LETTER = (
    "A night owl flew from the barn. Is that A: a person, or B: a bird? Answer with one letter."
)


def _read_animal(reply: Reply) -> tuple[str, bool | None]:
    try:
        animal = Animal.model_validate_json(reply.text).animal
    except ValueError:
        return f"no JSON of the schema: {_raw(reply)}", False
    return f"JSON, {animal}", animal == "owl"


def _read_letter(reply: Reply) -> tuple[str, bool | None]:
    if not reply.logprobs:
        return f"none given; the answer is {_raw(reply)}", False
    shares = {token.strip(): math.exp(value) for token, value in reply.logprobs[0].items()}
    answer = ", ".join(f"{token} {share:.2f}" for token, share in shares.items())
    return answer, max(shares, key=lambda token: shares[token]) == "B"


def _raw(reply: Reply) -> str:
    cut = " (cut off)" if reply.cut else ""
    return repr(textwrap.shorten(reply.text, 100, placeholder="…")) + cut
