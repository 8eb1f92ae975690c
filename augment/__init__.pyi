from .captions import (
    REWRITERS,
    Rewriter,
    Rewritten,
    open_rewriter,
    read_rewritten,
    rehearse_rewriting,
    rewrite_captions,
    rewrite_items,
    write_rewritten,
)
from .images import augment_folder, augment_image, contact_sheet

__all__ = [
    "REWRITERS",
    "Rewriter",
    "Rewritten",
    "augment_folder",
    "augment_image",
    "contact_sheet",
    "open_rewriter",
    "read_rewritten",
    "rehearse_rewriting",
    "rewrite_captions",
    "rewrite_items",
    "write_rewritten",
]
