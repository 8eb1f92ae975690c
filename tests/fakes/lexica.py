"""Small made-up dictionaries, in each format."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Synset = tuple[str, str, list[str], str]
SYNSETS: list[Synset] = [
    ("noun", "noun.person", ["spring_chicken", "youth"], 'someone of few years; "no chicken"'),
    ("noun", "noun.food", ["spring_chicken"], "a tender chicken for the pan"),
    ("noun", "noun.group", ["flea_market"], "a market of used things, out of doors"),
    ("noun", "noun.person", ["black_sheep"], "who brings shame on a family"),
    ("noun", "noun.animal", ["black_sheep"], "a sheep whose wool is black"),
    ("noun", "noun.animal", ["guinea_pig", "cavy"], "a small plump rodent kept as a pet"),
    ("noun", "noun.person", ["guinea_pig"], "who is tried something out on"),
    ("noun", "noun.person", ["night_owl"], 'who stays up late; "she\'s an owl"; "owls, all"'),
    ("noun", "noun.artifact", ["cat's_eye"], "a small reflector in the road"),
    ("adj", "adj.all", ["colour-blind(a)"], "not able to tell red from green"),
    ("verb", "verb.communication", ["spill_the_beans"], "tell what was secret"),
]
"""Part of speech, lexicographers' file, words and gloss with examples."""
OWLS: list[Synset] = [
    *SYNSETS,
    ("noun", "noun.animal", ["night_owl"], "an owl of the night"),
    ("noun", "noun.animal", ["white_owl"], "an owl with white feathers"),
]
"""The night owl in both senses, the white one in the literal sense alone."""


def wordnet(
    folder: Path, end: str = "\n", shift: int = 0, synsets: Sequence[Synset] = SYNSETS
) -> Path:
    """A WordNet in Princeton's format; ``shift`` moves its synsets away from their numbers."""
    from admire.senses.dictionaries.opening import FILES, PARTS

    folder.mkdir(parents=True, exist_ok=True)
    licence = f"  1 Made up for a test.{end}"
    for part in PARTS:
        data = licence
        index: dict[str, list[str]] = {}
        for kind, file, words, told in synsets:
            if kind == part:
                at = len(data.replace("\r", ""))
                cells = f"{FILES.index(file):02d} n {len(words):02x} {' 0 '.join(words)} 0 000"
                data += f"{at:08d} {cells} | {told}  {end}"
                for word in words:
                    index.setdefault(word.partition("(")[0], []).append(f"{at:08d}")
        lines = [
            f"{word} n {len(at)} 0 {len(at)} 0 {' '.join(at)}  {end}" for word, at in index.items()
        ]
        (folder / f"data.{part}").write_bytes(b" " * shift + data.encode())
        (folder / f"index.{part}").write_bytes((licence + "".join(lines)).encode())
    return folder


def sense(gloss: str, *tags: str, **more: Any) -> dict[str, Any]:
    return {"glosses": [gloss], "tags": list(tags), **more}


def word(name: str, language: str, *senses: dict[str, Any]) -> dict[str, Any]:
    return {"word": name, "lang_code": language, "pos": "noun", "senses": list(senses)}


WIKTIONARY = [
    {"title": "nite owl", "redirect": "night owl"},
    word(
        *("night owl", "en"),
        sense("Awake at night.", "Idiomatic", examples=[{"text": "Owls!"}, {"type": "quote"}]),
        sense("Used other than figuratively or idiomatically: see night, owl."),
        sense("An owl of the night.", "literally"),
        {"tags": ["no-gloss"]},
    ),
    word("night owls", "en", sense("plural", "form-of", form_of=[{"word": "night owl"}])),
    word("pé frio", "pt", sense("Quem traz azar.")),
    word("画蛇添足", "cmn", sense("多此一举" * 30_000)),
]


def wiktionary(path: Path, words: list[dict[str, Any]] = WIKTIONARY) -> Path:
    text = "".join(json.dumps(word, ensure_ascii=False) + "\n" for word in words).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
