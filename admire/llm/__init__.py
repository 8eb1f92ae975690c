"""Chat models: the embedded one, GGUF files, and servers that speak the OpenAI API."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
