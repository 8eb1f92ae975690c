from .entries import (
    NO_ENTRIES,
    Dictionary,
    Entries,
    Entry,
    code_of,
    key_of,
    look_up,
    look_up_item,
    sort_by_sense,
    spellings,
)
from .files import Glossary, Kaikki
from .opening import WordNet, find_wordnet, open_dictionaries

__all__ = [
    "NO_ENTRIES",
    "Dictionary",
    "Entries",
    "Entry",
    "Glossary",
    "Kaikki",
    "WordNet",
    "code_of",
    "find_wordnet",
    "key_of",
    "look_up",
    "look_up_item",
    "open_dictionaries",
    "sort_by_sense",
    "spellings",
]
