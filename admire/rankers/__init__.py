"""Rankers that reason: chat models look at the candidates, and what they say becomes scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
