"""Names of models and files in a report, without folders of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath


def plain_name(name: str) -> str:
    """Return the name of a chat model, encoder or dictionary, of a path the last part alone.

    ``gguf:/home/me/model.gguf`` → ``gguf:model.gguf``. Names of repositories stay:
    ``sbert:intfloat/multilingual-e5-small``.
    """
    family, colon, source = name.partition(":")
    of_files = ("gguf", "recorded", "run", "kaikki", "glossary")
    model, slash, path = source.partition("/")
    if family in of_files or source.startswith(("/", ".", "~")) or "\\" in source:
        return family + colon + file_name(source)
    if slash and path.startswith(("/", ".", "~")):  # openclip:MODEL/PATH
        return f"{family}:{model}/{file_name(path)}"
    return name


def file_name(path: str) -> str:
    """Return the last part of a path, of Windows too."""
    return PurePath(path.replace("\\", "/")).name


def run_names(paths: Sequence[str | Path]) -> list[str]:
    """Return the names of the runs' folders, numbered if several are the same."""
    names = [Path(path).resolve().name for path in paths]
    return [
        f"{name} ({names[:place].count(name) + 1})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]
