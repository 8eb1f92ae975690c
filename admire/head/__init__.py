"""A projection head on frozen embeddings, trained with InfoNCE (UoR-NCL, section 2.4)."""
