"""Variants of pictures and captions, to have more to train on (UoR-NCL, section 2.4)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
