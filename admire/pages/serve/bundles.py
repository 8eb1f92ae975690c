"""Downloads: an image set or a run folder as a zip file."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from admire.data.items import Candidate
from admire.pages.serve.pictures import Picture, distinct
from admire.pages.serve.ranking import Ranked
from admire.runs.run_folder import write_run
from admire.senses.recorded import key_of

SUFFIXES = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/webp": (".webp",),
    "image/gif": (".gif",),
}
"""File suffixes of each type; the first is added to names without one."""


def write_set(ranked: Iterable[Ranked], out: Path) -> None:
    """Write an image set that ``admire rank`` reads: each item once, as it was last ranked.

    A sense that was given by hand is the item's ``sentence_type``.
    """
    last: dict[Any, Ranked] = {}
    for one in ranked:
        key = (*key_of(one.item.compound, one.item.sentence), one.item.language)
        last.pop(key, None)
        last[key] = one
    pictures = {p.id: p for one in last.values() for p in one.pictures.values()}
    files = distinct([_file_name(picture) for picture in pictures.values()])
    names = {id: f"pictures/{file}" for id, file in zip(pictures, files, strict=True)}
    with zipfile.ZipFile(out, "w") as bundle:
        rows = [json.dumps(_row(one, names), ensure_ascii=False) for one in last.values()]
        bundle.writestr("manifest.jsonl", "".join(f"{row}\n" for row in rows))
        for id, picture in pictures.items():
            bundle.write(picture.path, names[id])


def write_run_bundle(ranked: Ranked, out: Path) -> None:
    """Write the run folder of what one job ranked."""
    with TemporaryDirectory(dir=out.parent) as folder:
        write_run(ranked.run, Path(folder) / "run")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
            for file in sorted((Path(folder) / "run").iterdir()):
                bundle.write(file, f"run/{file.name}")


def _row(ranked: Ranked, names: dict[str, str]) -> dict[str, Any]:
    """The item's row in the manifest."""

    def thing(one: Candidate) -> dict[str, str]:
        picture = ranked.pictures.get(one.name)
        image = {"image": names[picture.id]} if picture else {}
        return image | ({"caption": one.caption} if one.caption else {})

    item = ranked.item
    row: dict[str, Any] = {
        "compound": item.compound,
        "sentence": item.sentence,
        "language": item.language,
        "candidates": [thing(one) for one in item.candidates],
    }
    return row | ({"sentence_type": ranked.sense} if ranked.sense else {})


def _file_name(picture: Picture) -> str:
    """A name that any file system takes, with the suffix of the picture's type."""
    plain = re.sub(r"[^\w.-]+", "_", picture.name).strip("._-") or "picture"
    suffixes = SUFFIXES[picture.type]
    return plain if plain.lower().endswith(suffixes) else plain + suffixes[0]
