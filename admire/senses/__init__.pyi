from .classifier import (
    Classifier,
    ClassifierTraining,
    hold_out_compounds,
    paper_fit,
    train_classifier,
)
from .detector import BUILT_IN, Detector, open_detector
from .light import (
    DetectorTraining,
    LightDetector,
    find_compound,
    open_context_encoder,
    train_detector,
)
from .sense import (
    Sense,
    given,
    known_senses,
    majority,
    read_senses,
    sense_table,
    write_senses,
)
from .task2a import detect_uses, score_senses, write_predictions
from .uses import (
    Setting,
    Use,
    context_columns,
    macro_f1,
    read_compounds,
    read_idiomaticity,
    read_uses,
)
from .votes import read_label, vote

__all__ = [
    "BUILT_IN",
    "Classifier",
    "ClassifierTraining",
    "Detector",
    "DetectorTraining",
    "LightDetector",
    "Sense",
    "Setting",
    "Use",
    "context_columns",
    "detect_uses",
    "find_compound",
    "given",
    "hold_out_compounds",
    "known_senses",
    "macro_f1",
    "majority",
    "open_context_encoder",
    "open_detector",
    "paper_fit",
    "read_compounds",
    "read_idiomaticity",
    "read_label",
    "read_senses",
    "read_uses",
    "score_senses",
    "sense_table",
    "train_classifier",
    "train_detector",
    "vote",
    "write_predictions",
    "write_senses",
]
