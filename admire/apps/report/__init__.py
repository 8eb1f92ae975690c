"""One HTML page that shows what a run did: figures, plots, and every item with its pictures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
