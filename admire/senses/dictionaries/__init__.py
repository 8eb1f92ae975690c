"""Dictionaries beside the chat models: what an expression means, by sense."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
