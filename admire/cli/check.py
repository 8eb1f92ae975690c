"""The command ``check``: what is wrong with a set, before anything is asked."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from admire.base.errors import UserError
from admire.base.terminal import visible
from admire.cli import options as opt


@opt.with_settings("check", (opt.ItemFiles, "lang", "images"))
def check(
    data: opt.Data,
    /,
    *,
    out: Path | None = None,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Find all faults of a set at once: in rows, paths, links and pictures. Opens no model.

    Only the headers of pictures are read. A set of which no picture is there is ranked by its
    captions, and that is no fault. Ends with exit code 2 if there are faults; admire rank
    --skip-bad goes on without what they spoil.

    Args:
        out: Run folder for admire rank: also check that it can be written.
    """
    from admire.base.storage import check_folder
    from admire.data.check import SetCounts, check_set
    from admire.data.reader import iter_items

    files = opt.make(opt.ItemFiles, options)
    folder = files.images or (data if data.is_dir() else data.parent)
    checked = check_set(
        partial(iter_items, data, files.lang, images=files.images),
        partial(SetCounts, folder.resolve()),
        lambda first: first.counts["pictures"] > 0,
    )
    counts, links = checked.collector.counts, list(checked.collector.links)
    faults: list[dict[str, Any]] = [asdict(fault) for fault in checked.faults]
    if out:
        try:
            check_folder(out, "run")
        except UserError as error:
            faults.append({"what": str(error), "lost": "run"})
    if json:
        print(jsonlib.dumps({"counts": counts, "faults": faults, "links": links}, indent=2))
    else:
        for fault in faults:
            print(visible(fault["what"]))
        print("; ".join(f"{kind}: {count}" for kind, count in counts.items()))
        if links:
            others = f" and {len(links) - 1} more" if len(links) > 1 else ""
            print(visible(f"Links that lead out of the set's folder: {links[0]}{others}"))
    if faults:
        number = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise UserError(f"{data}: {number}, listed above.")
