from .entries import (
    UNKNOWN,
    Dictionary,
    Entry,
    Known,
    by_sense,
    code_of,
    key_of,
    known_of,
    look_up,
    spellings,
)
from .glossary import Glossary
from .kaikki import Kaikki
from .lexicon import Lexicon
from .opening import open_dictionaries
from .wordnet import WordNet, find_wordnet

__all__ = [
    "UNKNOWN",
    "Dictionary",
    "Entry",
    "Glossary",
    "Kaikki",
    "Known",
    "Lexicon",
    "WordNet",
    "by_sense",
    "code_of",
    "find_wordnet",
    "key_of",
    "known_of",
    "look_up",
    "open_dictionaries",
    "spellings",
]
