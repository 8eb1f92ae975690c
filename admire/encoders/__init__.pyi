from .cached import CachedEncoder, open_context_encoder, open_encoder
from .protocols import (
    Device,
    ImageEncoder,
    Precision,
    Query,
    QueryEncoder,
    Role,
    TextEncoder,
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
    "Vectors",
    "open_context_encoder",
    "open_encoder",
]
