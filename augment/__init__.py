"""Variants of pictures and captions, to train on more than there is (UoR-NCL, section 2.4)."""
