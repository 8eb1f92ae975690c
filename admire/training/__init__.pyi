from .heads import (
    TripletLoss,
    fit_and_test_head,
    fit_head,
    head_scores,
    info_nce,
    top1_share,
    train_head,
)
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
    "image_modalities",
    "info_nce",
    "open_triplets",
    "split_compounds",
    "sweep_heads",
    "top1_share",
    "train_head",
]
