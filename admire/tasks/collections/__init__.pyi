from .building import Changes, add_to_index, remove_from_index, write_index
from .index import Index, index_texts, open_index
from .search import Found, search_index
from .settings import SearchSettings
from .sources import Thing, read_picture, read_texts, read_things

__all__ = [
    "Changes",
    "Found",
    "Index",
    "SearchSettings",
    "Thing",
    "add_to_index",
    "index_texts",
    "open_index",
    "read_picture",
    "read_texts",
    "read_things",
    "remove_from_index",
    "search_index",
    "write_index",
]
