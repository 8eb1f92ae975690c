"""Small towers with random weights, saved in the layouts of the real checkpoints."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

MARKS = ("<s>", "<pad>", "</s>", "<unk>")
TEXT = (
    "a an the of in on is night owl woman man desk lamp bird tree red blue green yellow big small "
    "circle square triangle sister real my who writes at midnight query passage"
)
WORDS = (*MARKS, *TEXT.split())

VISION = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
PREPROCESS = {
    "mean": [0.48145466, 0.4578275, 0.40821073],
    "std": [0.26862954, 0.26130258, 0.27577711],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
}

TINY = {
    "embed_dim": 16,
    "vision_cfg": VISION,
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


def word_tokenizer(
    words: Sequence[str] = WORDS, limit: int = 512
) -> transformers.PreTrainedTokenizer:
    """XLM-R's marks around whole words: a tokenizer that needs no download."""
    tokenizer = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=limit,
    )


def xlm_roberta(words: Sequence[str] = WORDS, layers: int = 2) -> transformers.XLMRobertaConfig:
    return transformers.XLMRobertaConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=66,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )


def save_openclip(folder: Path, config: dict = TINY, model: torch.nn.Module | None = None) -> Path:
    """A small open_clip model as its own push_to_hf_hub lays it out: config and safetensors."""
    import open_clip

    if model is None:
        torch.manual_seed(0)
        model = open_clip.CLIP(config["embed_dim"], config["vision_cfg"], config["text_cfg"])
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()},
        folder / "open_clip_model.safetensors",
    )
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESS})
    )
    return folder


def save_mclip(folder: Path) -> Path:
    """An M-CLIP text tower in the layout of M-CLIP/XLM-Roberta-Large-Vit-B-32, with its base
    model and a small image tower beside it. The base model's own weights are of no use, as those of
    xlm-roberta-large, which M-CLIP trained on."""
    torch.manual_seed(3)
    transformers.XLMRobertaModel(xlm_roberta()).save_pretrained(folder / "tiny-xlm-roberta")
    word_tokenizer().save_pretrained(folder)
    torch.manual_seed(1)
    save_text_tower(folder, xlm_roberta(), "tiny-xlm-roberta")
    save_openclip(folder / "image")
    return folder


def save_text_tower(folder: Path, base: transformers.PreTrainedConfig, name: str) -> None:
    """As transformers 4.8 saved M-CLIP's, position numbers included; ``name`` is the base's."""
    encoder, head = transformers.AutoModel.from_config(base), torch.nn.Linear(32, 16)
    weights = {f"transformer.{k}": v for k, v in encoder.state_dict().items()}
    weights |= {f"LinearTransformation.{k}": v.detach() for k, v in head.state_dict().items()}
    places = torch.arange(base.max_position_embeddings)[None]
    torch.save(
        weights | {"transformer.embeddings.position_ids": places}, folder / "pytorch_model.bin"
    )
    kind = {"architectures": ["MultilingualCLIP"], "model_type": "M-CLIP"}
    sizes = {"modelBase": name, "numDims": 16, "transformerDimensions": 32}
    (folder / "config.json").write_text(json.dumps(kind | sizes))


def save_sentence_transformer(
    folder: Path, words: Sequence[str] = WORDS, *, by_character: bool = False
) -> Path:
    """A sentence encoder with random weights; ``by_character`` for Chinese."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    parts = folder.with_name(folder.name + "-parts")
    torch.manual_seed(2)
    transformers.XLMRobertaModel(xlm_roberta(words)).save_pretrained(parts)
    tokenizer = word_tokenizer(words, limit=64)
    if by_character:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save_pretrained(parts)
    module = Transformer(str(parts), max_seq_length=64)
    SentenceTransformer(modules=[module, Pooling(32)]).save(str(folder))
    return folder


def reconfigured(folder: Path, copy: Path, **changes: object) -> Path:
    """A copy of a sentence encoder, with other settings in config_sentence_transformers.json."""
    shutil.copytree(folder, copy)
    path = copy / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return copy


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def distance(one: Path, other: Path) -> float:
    """The most that a weight of the two models differs."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)
