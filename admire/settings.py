"""What a run is made with, and whole stacks by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from admire.encoders import Device, Precision
from admire.interpretation import SenseMethod
from admire.scorer import Scoring, Track

EMBEDDED_SCORING = Scoring(gate="soft", contrast=1.0, standardise=True)


@dataclass(frozen=True)
class Settings:
    """What a run is made with. The defaults are the embedded profile.

    Attributes:
        llms: chat models, by name; their scores are averaged.
        encoder: the encoder of queries and candidates, by name.
        caption_encoder: an encoder of its own for captions and the queries that they are compared
            with; None takes ``encoder``.
        device, precision: where encoders that run on torch do so, and how finely they compute.
        query: ``meaning`` is the method; ``compound`` and ``sentence`` are baselines without LLM.
        sense: how the sense is decided, see :data:`admire.interpretation.SenseMethod`.
        votes: how often each chat model is asked for the sense, the paper's T.
        track: what candidates are compared by; None takes images and captions as far as they
            are there and the encoder reads them.
        scoring: how similarities become scores.
        head: a folder that ``admire train`` wrote, to compare queries and candidates in its space.
        prompts: a folder of templates that replace the built-in ones of the same name.
        detector: what ``admire detector`` or ``admire finetune detector`` wrote; None is the
            built-in one.
        llm_url: the address of an OpenAI-compatible server; None is the official one.
        seed: of the sampled replies.
    """

    llms: tuple[str, ...] = ("embedded",)
    encoder: str = "e5"
    caption_encoder: str | None = None
    device: Device = "auto"
    precision: Precision = "float32"
    query: Literal["meaning", "compound", "sentence"] = "meaning"
    sense: SenseMethod = "auto"
    votes: int = 5
    track: Track | None = None
    scoring: Scoring = field(default=EMBEDDED_SCORING)
    head: str | None = None
    prompts: str | None = None
    detector: str | None = None
    llm_url: str | None = None
    seed: int = 0


PROFILES = {
    "embedded": Settings(),
    "paper": Settings(
        llms=("openai:gpt-3.5-turbo", "openai:gpt-4", "openai:gpt-4o"),
        encoder="mclip:XLM-Roberta-Large-Vit-B-32",
        track="image",
        scoring=Scoring(),
    ),
    "best": Settings(
        llms=("openai:gpt-6.1-sol",),
        encoder="openclip:ViT-SO400M-16-SigLIP2-384/webli",
        caption_encoder="sbert:intfloat/multilingual-e5-large",
    ),
}
"""Whole stacks by name. ``embedded`` needs no key and no hub. ``paper`` is the best English row of
UoR-NCL's Table 2 (CI, ensemble, XLM-32). ``best`` is what we would try first today; it has not been
measured here, where no hub and no API can be reached."""
