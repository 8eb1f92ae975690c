from .classifier import ClassifierTraining, hold_out_compounds, paper_fit, train_classifier
from .heads import (
    TripletLoss,
    fit_and_test_head,
    fit_head,
    head_scores,
    info_nce,
    top1_share,
    train_head,
)
from .light_detector import DetectorTraining, sample_items, train_detector
from .sweep import PAPER_AXES, compare_heads, cross_validate_heads, head_grid, sweep_heads
from .triplets import (
    Triplets,
    caption_modalities,
    draw_soft_negatives,
    encode_triplets,
    image_modalities,
    open_triplets,
    split_compounds,
)

__all__ = [
    "PAPER_AXES",
    "ClassifierTraining",
    "DetectorTraining",
    "TripletLoss",
    "Triplets",
    "caption_modalities",
    "compare_heads",
    "cross_validate_heads",
    "draw_soft_negatives",
    "encode_triplets",
    "fit_and_test_head",
    "fit_head",
    "head_grid",
    "head_scores",
    "hold_out_compounds",
    "image_modalities",
    "info_nce",
    "open_triplets",
    "paper_fit",
    "sample_items",
    "split_compounds",
    "sweep_heads",
    "top1_share",
    "train_classifier",
    "train_detector",
    "train_head",
]
