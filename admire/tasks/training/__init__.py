"""A projection head on frozen embeddings, trained with InfoNCE (UoR-NCL, section 2.4)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
