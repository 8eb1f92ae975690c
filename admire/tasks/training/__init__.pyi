from .classifier import train_classifier
from .heads import fit_head, head_scores, info_nce, top1_share, train_head, triplet_loss
from .light_detector import sample_items, train_detector
from .settings import ClassifierTraining, DetectorTraining, SweepAxes, TripletSettings
from .sweep import (
    check_heads,
    compare_heads,
    cross_validate_heads,
    head_grid,
    sweep_heads,
)
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
    "ClassifierTraining",
    "DetectorTraining",
    "SweepAxes",
    "TripletSettings",
    "Triplets",
    "caption_modalities",
    "check_heads",
    "compare_heads",
    "cross_validate_heads",
    "draw_soft_negatives",
    "encode_triplets",
    "fit_head",
    "head_grid",
    "head_scores",
    "image_modalities",
    "info_nce",
    "open_triplets",
    "sample_items",
    "split_compounds",
    "sweep_heads",
    "top1_share",
    "train_classifier",
    "train_detector",
    "train_head",
    "triplet_loss",
]
