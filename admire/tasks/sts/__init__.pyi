from .evaluation import (
    MeasuredPairs,
    compare,
    correlate,
    measure_similarity,
    rate,
    write_similarities,
)
from .pairs import Group, Pair, count_pairs, read_groups, read_pairs
from .rows import TrainingData, hold_out_groups, hold_out_pairs, read_training_data
from .settings import Objective, SentenceFiles, SentenceTraining, SimilaritySettings
from .training import train_sentences

__all__ = [
    "Group",
    "MeasuredPairs",
    "Objective",
    "Pair",
    "SentenceFiles",
    "SentenceTraining",
    "SimilaritySettings",
    "TrainingData",
    "compare",
    "correlate",
    "count_pairs",
    "hold_out_groups",
    "hold_out_pairs",
    "measure_similarity",
    "rate",
    "read_groups",
    "read_pairs",
    "read_training_data",
    "train_sentences",
    "write_similarities",
]
