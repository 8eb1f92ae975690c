from .classifier import hold_out_compounds, train_classifier
from .heads import (
    TripletLoss,
    fit_and_test_head,
    fit_head,
    head_scores,
    info_nce,
    top1_share,
    train_head,
)
from .light_detector import sample_items, train_detector
from .settings import ClassifierTraining, DetectorTraining, SweepAxes, TripletSettings, paper_fit
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
    "SweepAxes",
    "TripletLoss",
    "TripletSettings",
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
