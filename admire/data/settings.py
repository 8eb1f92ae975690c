"""Where items are read from, and how, as options of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from admire.core.options import Option
from admire.core.schema import Count, settings

if TYPE_CHECKING:
    from admire.data.items import Item
    from admire.data.reader import Data
    from admire.data.rows import RowReader


@settings(frozen=True, kw_only=True)
class ItemFiles:
    """Where items are read from, and how."""

    lang: Annotated[str | None, Option("Data and output", daily=True, in_file=False)] = None
    """Language tag (en, pt, xe, pt-br; default: inferred from the file name or the sentences)."""
    limit: Annotated[Count | None, Option("Data and output", daily=True, in_file=False)] = None
    """Read only the first N items of each file (default: all)."""
    images: Annotated[Path | None, Option("Data and output", in_file=False)] = None
    """Folder of the pictures, if it is not the data's; their file names are enough."""
    gold: Annotated[Path | None, Option("Data and output", in_file=False)] = None
    """Gold of V-WSD, if it is not called x.gold.txt beside x.data.txt."""
    skip_bad: Annotated[bool, Option("Data and output", in_file=False)] = False
    """Skip unusable items, candidates and pictures."""

    def read(self, data: Data, rows: RowReader | None = None) -> Iterator[Item]:
        """Read the items; see :func:`admire.data.reader.iter_items`."""
        from admire.data.reader import iter_items

        files: Any = {"images": self.images, "gold": self.gold, "limit": self.limit}
        return iter_items(data, self.lang, **files, rows=rows)
