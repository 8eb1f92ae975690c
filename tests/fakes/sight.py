"""A very small CLIP that has learnt to see: shapes and colours, in English and Portuguese.

It stands in for a downloaded checkpoint where no hub can be reached, and is saved in the formats
that the real ones have.
"""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import torch
import transformers
from PIL import Image, ImageDraw
from towers import MARKS, PREPROCESS, save_openclip, word_tokenizer

COLOURS = {
    "red": ("vermelho", "vermelha", (215, 45, 40)),
    "green": ("verde", "verde", (50, 160, 70)),
    "blue": ("azul", "azul", (45, 85, 200)),
    "yellow": ("amarelo", "amarela", (240, 205, 50)),
    "black": ("preto", "preta", (25, 25, 25)),
    "pink": ("rosado", "rosada", (245, 150, 190)),
}
SHAPES = {
    "circle": ("um círculo", 0),
    "square": ("um quadrado", 0),
    "triangle": ("um triângulo", 0),
    "cross": ("uma cruz", 1),
    "star": ("uma estrela", 1),
}
COMBINATIONS = tuple(itertools.product(COLOURS, SHAPES))
HELD_OUT = tuple(zip(COLOURS, itertools.cycle(SHAPES), strict=False))
"""One for each colour: the model sees red things and circles, but never a red circle."""

VISION = {"image_size": 32, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}
WIDTH = 32
POOL = 128


def names(colour: str, shape: str) -> tuple[str, str]:
    """The compound in English and in Portuguese."""
    noun, gender = SHAPES[shape]
    return f"{colour} {shape}", f"{noun.split()[1]} {COLOURS[colour][gender]}"


def captions(colour: str, shape: str) -> tuple[str, str]:
    english, portuguese = names(colour, shape)
    return f"a {english}", f"{SHAPES[shape][0].split()[0]} {portuguese}"


def draw(colour: str, shape: str, rng: random.Random) -> Image.Image:
    """The shape in its colour, somewhere, at some size, on some light ground."""
    side = rng.choice((48, 64, 96, 128))
    picture = Image.new("RGB", (side, side), tuple(rng.randrange(225, 256) for _ in range(3)))
    radius = rng.uniform(0.28, 0.42) * side
    x, y = (rng.uniform(radius, side - radius) for _ in range(2))
    ink = tuple(max(0, min(255, c + rng.randrange(-12, 13))) for c in COLOURS[colour][2])
    pen = ImageDraw.Draw(picture)
    if shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
    elif shape == "square":
        half = 0.85 * radius
        pen.rectangle((x - half, y - half, x + half, y + half), fill=ink)
    elif shape == "cross":
        arm = 0.3 * radius
        pen.rectangle((x - radius, y - arm, x + radius, y + arm), fill=ink)
        pen.rectangle((x - arm, y - radius, x + arm, y + radius), fill=ink)
    else:
        points = 3 if shape == "triangle" else 10
        lengths = [radius if k % 2 == 0 or points == 3 else 0.4 * radius for k in range(points)]
        angles = [2 * math.pi * k / points - math.pi / 2 for k in range(points)]
        pen.polygon(
            [
                (x + length * math.cos(angle), y + length * math.sin(angle))
                for length, angle in zip(lengths, angles, strict=True)
            ],
            fill=ink,
        )
    return picture


def vocabulary() -> tuple[str, ...]:
    texts = [text for combination in COMBINATIONS for text in captions(*combination)]
    return (*MARKS, *dict.fromkeys(word for text in texts for word in text.split()))


def train(folder: Path, *, steps: int = 800, seed: int = 0) -> Path:
    """Train the model on all but the held-out combinations and save it as an open_clip folder."""
    import open_clip

    words = vocabulary()
    base = transformers.XLMRobertaConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=34,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    folder.mkdir(parents=True)
    base.save_pretrained(folder / "tiny-xlm-roberta")
    tokenizer = word_tokenizer(words, limit=32)
    tokenizer.save_pretrained(folder)
    text = {
        "context_length": 16,
        "hf_model_name": str(folder / "tiny-xlm-roberta"),
        "hf_tokenizer_name": "tiny-xlm-roberta",
        "hf_pooler_type": "mean_pooler",
        "hf_proj_type": "linear",
        "hf_model_pretrained": False,
    }
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = open_clip.CustomTextCLIP(WIDTH, VISION, text)
    preprocess = open_clip.image_transform(32, is_train=False, **PREPROCESS)
    seen = [combination for combination in COMBINATIONS if combination not in HELD_OUT]
    pool = {c: torch.stack([preprocess(draw(*c, rng)) for _ in range(POOL)]) for c in seen}
    tokens = {
        c: tokenizer(list(captions(*c)), padding="max_length", max_length=16, return_tensors="pt")[
            "input_ids"
        ]
        for c in seen
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small are faster on one
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    same = torch.arange(len(seen))
    for _ in range(steps):
        images = torch.stack([pool[c][rng.randrange(POOL)] for c in seen])
        texts = torch.stack([tokens[c][rng.randrange(2)] for c in seen])
        pictures, words_, scale = model(images, texts)[:3]
        logits = scale * pictures @ words_.T
        loss = (
            torch.nn.functional.cross_entropy(logits, same)
            + torch.nn.functional.cross_entropy(logits.T, same)
        ) / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    torch.set_num_threads(threads)
    text["hf_model_name"] = "tiny-xlm-roberta"
    del text["hf_model_pretrained"]
    return save_openclip(folder, width=WIDTH, text=text, vision=VISION, model=model.eval())
