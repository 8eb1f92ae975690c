from .cached import CachedEncoder
from .families import open_context_encoder, open_encoder
from .protocols import (
    Device,
    ImageEncoder,
    Precision,
    Query,
    QueryEncoder,
    Role,
    TextEncoder,
    Towers,
    Vectors,
)

__all__ = [
    "CachedEncoder",
    "Device",
    "ImageEncoder",
    "Precision",
    "Query",
    "QueryEncoder",
    "Role",
    "TextEncoder",
    "Towers",
    "Vectors",
    "open_context_encoder",
    "open_encoder",
]
