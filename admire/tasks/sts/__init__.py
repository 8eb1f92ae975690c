"""Idiomatic semantic textual similarity: SemEval-2022 Task 2B and ChengyuSTS."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
