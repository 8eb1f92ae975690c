"""Small models with random weights that read texts and pictures, saved as their packages do."""

from __future__ import annotations

import string
from pathlib import Path

import torch
import transformers
from towers import WORDS, word_tokenizer

LAYERS = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
}
CONTEXT = 16
"""Tokens that the text towers read."""

READS = LAYERS | {
    "vocab_size": len(WORDS),
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
SEES = LAYERS | {"patch_size": 8}
KINDS = {
    "clip": ("CLIP", "CLIP"),
    "metaclip_2": ("MetaClip2", "CLIP"),
    "siglip": ("Siglip", "Siglip"),
    "siglip2": ("Siglip2", "Siglip2"),
}
"""Model types, with what transformers calls the model and its processor. google's SigLIP 2 of fixed
resolution has the type ``siglip``; ``siglip2`` takes pictures of any shape (NaFlex)."""


def _random(model: type, config: transformers.PretrainedConfig) -> transformers.PreTrainedModel:
    """As it is initialised, a model gives all texts and all pictures nearly the same vector."""
    torch.manual_seed(7)
    made = model(config)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.2)
    return made


def save_dual(folder: Path, kind: str) -> Path:
    """A dual encoder of transformers: weights, configuration, tokenizer and image processor."""
    named, processed = KINDS[kind]
    space = {"projection_dim": 16} if processed == "CLIP" else {}
    side = {"num_patches": 16, "patch_size": 16} if kind == "siglip2" else {"image_size": 32}
    config = getattr(transformers, f"{named}Config")(
        text_config=READS | space, vision_config=SEES | side | space, **space
    )
    _random(getattr(transformers, f"{named}Model"), config).save_pretrained(folder)

    square = {"height": 32, "width": 32}
    sizes = {
        "CLIP": {"size": {"shortest_edge": 32}, "crop_size": square},
        "Siglip": {"size": square},
        "Siglip2": {},
    }
    images = getattr(transformers, f"{processed}ImageProcessor")(**sizes[processed])
    tokenizer = word_tokenizer(limit=10**30 if kind == "siglip" else CONTEXT)
    if kind == "siglip2":  # its own class of tokenizer, here by character
        marks = ("<bos>", "<pad>", "<eos>", "<unk>", "▁", *string.ascii_lowercase)
        tokenizer = transformers.Siglip2Tokenizer({mark: k for k, mark in enumerate(marks)})
    processor = getattr(transformers, f"{processed}Processor")
    processor(image_processor=images, tokenizer=tokenizer).save_pretrained(folder)
    return folder


def save_seeing(folder: Path) -> Path:
    """A CLIP as a sentence-transformers model, which reads images, as the package saves it."""
    from sentence_transformers import SentenceTransformer

    dual = save_dual(folder.with_name(folder.name + "-clip"), "clip")
    SentenceTransformer(str(dual), device="cpu", local_files_only=True).save(str(folder))
    return folder


MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}"
)


def save_vlm(folder: Path) -> Path:
    """A language model that sees, in the layout of Qwen/Qwen3-VL-Embedding-2B, with prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = (*WORDS, "system", "user", *MARKS)
    tokenizer = word_tokenizer(words)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKS)})
    start, end, image, video = range(len(words) - 4, len(words))
    rope = {"rope_type": "default", "mrope_section": [4, 2, 2], "rope_theta": 10000.0}
    config = transformers.Qwen3VLConfig(
        text_config=LAYERS
        | {"vocab_size": len(words), "num_key_value_heads": 1, "head_dim": 16}
        | {"rope_parameters": rope},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    parts = folder.with_name(folder.name + "-parts")
    _random(transformers.Qwen3VLModel, config).save_pretrained(parts)
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            min_pixels=32 * 32, max_pixels=64 * 64, patch_size=16
        ),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(),
        chat_template=TEMPLATE,
    ).save_pretrained(parts)
    modules = [Transformer(str(parts)), Pooling(32, "lasttoken"), Normalize()]
    prompts = {"query": "who is", "document": "the"}
    SentenceTransformer(modules=modules, prompts=prompts).save(str(folder))
    return folder
