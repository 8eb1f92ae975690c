"""Texts to search: reading them from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from admire.errors import UserError
from admire.files import json_rows, read_table, read_text
from admire.items import Candidate


def read_texts(path: Path) -> list[Candidate]:
    """Texts to search, as candidates without pictures.

    Each line of a ``.txt`` is a text; a ``.jsonl``, ``.csv`` or ``.tsv`` has texts in ``text`` and,
    optionally, ids in ``id``. Rows without an id are numbered.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    rows: Iterable[tuple[int, dict[str, Any]]]
    if path.suffix == ".txt":
        lines = enumerate(read_text(path).splitlines(), start=1)
        rows = [(number, {"text": line}) for number, line in lines if line.strip()]
    elif path.suffix == ".jsonl":
        rows = json_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        table = read_table(path, ("text",))
        rows = enumerate(cast(list[dict[str, Any]], table.to_dict("records")), start=1)
    else:
        raise UserError(f"{path}: expected a .txt, .jsonl, .csv or .tsv file.")
    found: dict[str, Candidate] = {}
    for number, row in rows:
        text, name = row.get("text"), str(number if row.get("id") in (None, "") else row["id"])
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{path}, row {number}, text: is missing or empty.")
        if name in found:
            raise UserError(f"{path}, row {number}, id: '{name}' stands in two rows.")
        found[name] = Candidate(name, caption=text)
    if not found:
        raise UserError(f"{path}: holds no texts.")
    return list(found.values())
