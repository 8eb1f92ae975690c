"""The words that settings are chosen from."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal, get_args

Track = Literal["image", "caption", "image+caption"]
"""What of the candidates is compared: their images (the paper's CI), captions, or both (CIC)."""

TRACKS = ("image", "caption")

QueryText = Literal["meaning", "compound", "sentence"]
"""What texts are compared with: the meaning is the method, the others are baselines."""

TextRole = Literal["gloss", "gloss2", "scene", "literal", "literal2", "literal_scene", "compound"]
TEXTS: tuple[TextRole, ...] = get_args(TextRole)
"""What candidates are compared with, by role: definitions and scenes of a sense, the compound."""

RankQuery = Literal["meaning", "compound", "sentence", "sequence"]
"""What candidates are compared with; ``sequence`` is a baseline for Subtask B."""

SenseMethod = Literal["auto", "vote", "detector", "given"]
"""How the sense is decided: ``vote`` asks the chat model, ``detector`` reads it off the embedded
model's hidden states, ``given`` takes the data's own. ``auto`` is the detector for the embedded
chat model; others vote or, with the ranker ``listwise``, say it with their orders."""

Meanings = Literal["auto", "meant", "both", "gloss"]
"""What chat models say of a compound: ``meant`` is definitions and a scene of the sense that is
meant, ``both`` of each sense, and ``gloss`` one definition of the idiomatic sense, as in the paper.
``auto`` is ``meant`` for the embedded chat model and ``both`` for every other. With ``meant`` the
embedded model is not asked about literal uses, because nothing uses what it says. Where a detector
decides, ``both`` leaves out the idiomatic sense of literal uses. With a soft gate, or the ranker
``pointwise``, both senses of every use are asked for."""

Gate = Literal["hard", "soft"]
"""Whether one sense is followed, or both are weighed by their probability."""

Standardise = Literal["noise", "item", "no"]
"""How cosines become comparable before they are added: by each query's deviation within the item,
with the encoder's noise added in quadrature; by the former alone; or not at all, as in the
paper."""

Fusion = Literal["scores", "borda", "rrf"]
"""How rankers are fused: by their standardised scores, by Borda's points or by reciprocal ranks."""

PublishedSet = Literal[
    "en-dev", "en-test", "en-extended", "en-both",
    "pt-dev", "pt-test", "pt-extended", "pt-both",
    "admire2",
]  # fmt: skip
"""Sets on which figures were published: AdMIRe's (``both`` is test and extended together), and
AdMIRe 2's blind sets of fifteen languages."""

BoardTrack = Literal["image+caption", "caption"]
"""The tracks of AdMIRe's boards: systems that see images, and those with captions alone."""

Images = Literal["embed", "link"]
"""Whether a report holds thumbnails of the pictures, or names their files."""

LongTexts = Literal["parts", "cut"]
"""How encoders read texts that are longer than their limit: in parts, of which the most
similar one counts; or cut at the limit."""

Device = Literal["auto", "cpu", "cuda", "mps"]
"""The device of torch; ``auto`` is a GPU if there is one."""

Precision = Literal["float32", "bfloat16", "float16"]
"""Of encoders on torch; ``float16`` needs a GPU."""

TrainingPrecision = Literal["float32", "bfloat16"]

ProfileName = Literal["embedded", "paper", "vision", "vision-local", "best"]


def not_among(word: object, words: Sequence[str]) -> str:
    """Return the complaint about a word that is none of these."""
    text = repr(word)
    text = text[:80] + "…" * (len(text) > 80)
    return f"cannot be {text}.{nearest(str(word), words)} Choose from: {', '.join(words)}."


def nearest(word: str, words: Sequence[str]) -> str:
    """Return ``" Did you mean 'soft'?"`` if a word is like this one, else nothing."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close and close[0] != word else ""
