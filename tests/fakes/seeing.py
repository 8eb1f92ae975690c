"""Small models of sentence-transformers with random weights that read texts and pictures."""

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


def _random(model: type, config: transformers.PretrainedConfig) -> transformers.PreTrainedModel:
    """As it is initialised, a model gives all texts and all pictures nearly the same vector."""
    torch.manual_seed(7)
    made = model(config)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.2)
    return made


def save_seeing(folder: Path) -> Path:
    """A CLIP as a sentence-transformers model, which reads images, as the package saves it."""
    from sentence_transformers import SentenceTransformer

    clip = folder.with_name(folder.name + "-clip")
    context, square = 16, {"height": 32, "width": 32}
    reads = LAYERS | {"vocab_size": len(WORDS), "max_position_embeddings": context}
    reads |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "projection_dim": 16}
    sees = LAYERS | {"patch_size": 8, "image_size": 32, "projection_dim": 16}
    config = transformers.CLIPConfig(text_config=reads, vision_config=sees, projection_dim=16)
    _random(transformers.CLIPModel, config).save_pretrained(clip)
    transformers.CLIPProcessor(
        image_processor=transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size=square
        ),
        tokenizer=word_tokenizer(limit=context),
    ).save_pretrained(clip)
    SentenceTransformer(str(clip), device="cpu", local_files_only=True).save(str(folder))
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
