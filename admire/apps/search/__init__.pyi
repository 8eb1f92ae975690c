from .changes import Changes, add_to_index, remove_from_index, write_index
from .entries import Entry, read_entries, read_texts
from .index import Index, index_texts, open_index
from .search import SearchResult, search_index
from .settings import SearchSettings

__all__ = [
    "Changes",
    "Entry",
    "Index",
    "SearchResult",
    "SearchSettings",
    "add_to_index",
    "index_texts",
    "open_index",
    "read_entries",
    "read_texts",
    "remove_from_index",
    "search_index",
    "write_index",
]
