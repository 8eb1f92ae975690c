from .classifier import Classifier
from .detector import Detector, open_detector
from .recording import Known, Recording
from .sense import Sense, given, majority
from .sense_table import known_senses, read_senses, sense_table, write_senses
from .settings import Setting, Use, context_columns
from .task2a import (
    detect_uses,
    macro_f1,
    read_compounds,
    read_idiomaticity,
    read_uses,
    score_senses,
    write_predictions,
)
from .votes import read_label, vote

__all__ = [
    "Classifier",
    "Detector",
    "Known",
    "Recording",
    "Sense",
    "Setting",
    "Use",
    "context_columns",
    "detect_uses",
    "given",
    "known_senses",
    "macro_f1",
    "majority",
    "open_detector",
    "read_compounds",
    "read_idiomaticity",
    "read_label",
    "read_senses",
    "read_uses",
    "score_senses",
    "sense_table",
    "vote",
    "write_predictions",
    "write_senses",
]
