from .cached import CachedEncoder, CachedSeers, CachedSentences, CachedTowers
from .families import FAMILIES, open_encoder
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
    "FAMILIES",
    "CachedEncoder",
    "CachedSeers",
    "CachedSentences",
    "CachedTowers",
    "Device",
    "ImageEncoder",
    "Precision",
    "Query",
    "QueryEncoder",
    "Role",
    "TextEncoder",
    "Towers",
    "Vectors",
    "open_encoder",
]
