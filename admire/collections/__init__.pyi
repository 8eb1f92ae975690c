from .index import TextIndex, index_texts, open_index, write_index
from .search import Found, SearchSettings, search_texts
from .texts import read_texts

__all__ = [
    "Found",
    "SearchSettings",
    "TextIndex",
    "index_texts",
    "open_index",
    "read_texts",
    "search_texts",
    "write_index",
]
