"""Collections: pictures and texts, their index, and search in them by meaning."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
