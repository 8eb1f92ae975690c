"""What heads and detectors learn from, and how detectors are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from admire.core.choices import Track
from admire.core.options import EncoderDevice, LlmUrl, Option, PromptFolder
from admire.core.schema import SEVERAL, Count, Positive, Seed, settings
from admire.encoders.training_settings import (
    DATA,
    LEARNED,
    LOSS,
    OPTIMISER,
    FitSettings,
    Folds,
    StartEncoder,
    ValidationFiles,
)
from admire.senses.settings import Layers, Setting


@settings(frozen=True, kw_only=True)
class TripletSettings:
    """What triplets are made of, and what encodes them."""

    encoder: Annotated[str, Option("Models", daily=True, completes="encoder")] = "e5"
    """Encoder, as for rank."""
    llm: Annotated[str, Option("Models", daily=True, completes="chat")] = "embedded"
    """Chat model that writes the glosses."""
    llm_url: LlmUrl = None
    track: Annotated[Track, Option(DATA, daily=True)] = "caption"
    """Parts of the candidates to learn from."""
    images: Annotated[Path | None, Option(DATA)] = None
    """Folder that admire augment images wrote, for the image track."""
    captions: Annotated[Path | None, Option(DATA)] = None
    """File that admire augment captions wrote, for the caption track."""
    device: EncoderDevice = "auto"
    prompts: PromptFolder = None


@settings(frozen=True, kw_only=True)
class HeadData:
    """How the items that heads learn from are read and divided."""

    lang: Annotated[str | None, Option(DATA, daily=True)] = None
    """Language tag (en, pt, xe, pt-br; default: inferred from the file name)."""
    folds: Annotated[Folds | None, Option(DATA, daily=True)] = None
    """Number of folds of a cross-validation that shows whether heads help. Each fold is ranked by
    the head that validates best on the others."""


@settings(frozen=True, kw_only=True)
class SweepAxes:
    """Values to try; the paper's (section 3), 162 settings."""

    batch_size: Annotated[tuple[Count, ...], Option(OPTIMISER)] = (16, 32)
    """Batch sizes to try, with commas."""
    learning_rate: Annotated[tuple[Positive, ...], Option(OPTIMISER)] = (1e-3, 1e-4, 1e-5)
    """Learning rates to try, with commas."""
    soft_negatives: Annotated[tuple[int, ...], Option(LOSS)] = (10, 30, 49)
    """Numbers K of soft negatives to try, with commas."""
    temperature: Annotated[tuple[Positive, ...], Option(LOSS)] = (0.08, 0.09, 0.1)
    """Temperatures τ to try, with commas."""
    dropout: Annotated[tuple[float, ...], Option(LEARNED)] = (0.1, 0.3, 0.5)
    """Dropouts to try, with commas."""


@settings(frozen=True)
class DetectorTraining:
    """How a light detector is trained."""

    per_compound: Annotated[Count, Option(DATA)] = 10
    """Maximum number of sentences for each compound and sense."""
    neutral: Annotated[bool, Option(LEARNED)] = True
    """Score what a sentence adds to neutral ones, so that a compound which is usually an idiom
    counts no more than another. Without it, knowledge of the compound counts too, as suits Task 2A,
    where most compounds occur in one sense only."""
    strength: Annotated[Positive, Option(OPTIMISER)] = 3e-4
    """Inverse of the regularisation, scikit-learn's C."""
    seed: Annotated[Seed, Option(OPTIMISER)] = 0
    """Seed of the sample and of the folds."""


@settings(frozen=True, kw_only=True)
class DetectorData:
    """What a light detector reads, and must not read."""

    leave_out: Annotated[tuple[Path, ...], Option(DATA)] = ()
    """File whose compounds the detector must not see: as for rank, of Task 2A, or a .txt with one
    compound a line. Repeat for several."""
    encoder: Annotated[tuple[str, ...], SEVERAL, Option("Models")] = ("embedded-state", "e5-state")
    """Encoder of words in their context: embedded-state, e5-state or sbert:…. Repeat for several;
    the first reads the sentence in a prompt."""


@settings(frozen=True)
class ClassifierTraining:
    """How a classifier is trained; the defaults are the paper's (section 3.3)."""

    setting: Annotated[Setting, Option(LEARNED, daily=True)]
    """Input: the sentence with its context (zero_shot), or the sentence and the MWE (one_shot)."""
    layers: Annotated[Layers | None, Option(LEARNED)] = None
    """Hidden layers whose first states are classified (default: those of the paper's submission,
    all for zero_shot and the last for one_shot)."""
    max_length: Annotated[int, Field(ge=8), Option(LEARNED)] = 128
    """Maximum sequence length in tokens, special tokens included."""
    fit: FitSettings | None = None
    """Settings of the trainer (default: the paper's, section 3.3)."""


@settings(frozen=True, kw_only=True)
class ClassifierData(StartEncoder, ValidationFiles):
    """The encoder that a classifier begins with, and the data by which its epoch is chosen."""


def paper_fit(setting: Setting) -> FitSettings:
    """Return the paper's settings of the trainer (section 3.3)."""
    size = {"zero_shot": 32, "one_shot": 4}[setting]
    return FitSettings(
        batch_size=size, learning_rate=2e-5, warmup=0.05, epochs=10, patience=10, seed=4
    )
