"""A local page to rank pictures and captions by hand, and the same for programs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
