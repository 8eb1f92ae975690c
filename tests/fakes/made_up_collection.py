"""A collection of made-up vectors: ``python made_up_collection.py TASK FOLDER N``.

The tasks are ``exact`` and ``near`` (an index of N things, of which every vector is compared, or
with an approximate index), ``add`` and ``remove`` (N things, to and from the second),
``search-exact`` and ``search-near`` (N queries, at most 100). Each prints what it took as JSON, and
is done in a process of its own, so that none counts the memory of another.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from admire.apps import search as collections
from admire.apps.search import lance_table

WIDTH = 384
FOUND = 10
QUERIES = 100


def like_texts(n: int, seed: int = 0) -> np.ndarray:
    """Vectors that crowd about topics, as texts' do, of 384 numbers and unit length."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(0).normal(size=(2000, WIDTH)).astype("f4")
    found = topics[rng.integers(0, len(topics), n)]
    found += 0.7 * rng.standard_normal((n, WIDTH), dtype="f4")
    return found / np.linalg.norm(found, axis=1, keepdims=True)


class MadeUp:
    """Draws vectors in place of encoding texts."""

    name = "made-up"
    identity = "made-up:1"

    def __init__(self) -> None:
        self.seconds = 0.0

    def encode_texts(self, texts: Sequence[str], *, role: str) -> np.ndarray:
        started = time.perf_counter()
        drawn = like_texts(len(texts), int(texts[0].split()[0]))
        self.seconds += time.perf_counter() - started
        return drawn


def timed(task: Callable[[], Any]) -> dict[str, Any]:
    """Seconds that the task takes, the peak memory of the process, and how busy the machine was."""
    started = time.perf_counter()
    result = task() or {}
    taken = time.perf_counter() - started
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    memory = int(peak[1]) / 1024 if peak else float("nan")
    return {"seconds": taken, "peak": memory, "load": os.getloadavg()[0]} | result


def write(folder: Path, kind: str, things: int) -> dict[str, Any]:
    """Index so many things. The time that drawing their vectors took is left out."""
    source, encoder = folder / "texts.txt", MadeUp()
    with source.open("w") as file:
        for k in range(1, things + 1):
            file.write(f"{k} is the number of a text that is about as long as a caption is.\n")
    lance_table.INDEXED = things + (kind == "exact")
    made = timed(lambda: collections.write_index(source, encoder, folder / kind) and None)
    return made | {"seconds": made["seconds"] - encoder.seconds}


def add(folder: Path, things: int) -> dict[str, Any]:
    source, encoder = folder / "more.jsonl", MadeUp()
    rows = ({"id": f"new{k}", "text": f"{k} is another text's number."} for k in range(things))
    source.write_text("\n".join(map(json.dumps, rows)))
    made = timed(lambda: collections.add_to_index(source, encoder, folder / "near") and None)
    return made | {"seconds": made["seconds"] - encoder.seconds}


def remove(folder: Path, things: int) -> dict[str, Any]:
    size = collections.open_index(folder / "near").entries.size
    names = [str(k) for k in range(1, size, size // things) if k <= size - things]
    return timed(lambda: collections.remove_from_index(names, folder / "near") and None)


def search(index: Any, queries: int) -> dict[str, Any]:
    """Ask one query after the other. Another one, which opens files, is asked before."""
    asked = like_texts(QUERIES + 1, seed=7)

    def names(query: np.ndarray) -> list[str]:
        matches = index.search({"compound": query}, {"compound": 1.0}, FOUND)
        return [entry.name for entry, _ in matches]

    names(asked[-1])
    return timed(lambda: {"found": [names(query) for query in asked[:queries]]})


if __name__ == "__main__":
    task, place = sys.argv[1], Path(sys.argv[2])
    number = int(sys.argv[3])
    action, _, kind = task.rpartition("-")
    if action == "search":
        told = search(collections.open_index(place / kind), number)
    elif task in ("add", "remove"):
        told = {"add": add, "remove": remove}[task](place, number)
    else:
        told = write(place, kind, number)
    print(json.dumps(told))
