"""The command that makes what a team hands in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from admire.cli import options as opt

log = logging.getLogger("admire")


def submit(
    run: Annotated[Path, opt.argument("Folder of rank or fuse.")],
    out: Annotated[Path, opt.option("ZIP file to write.")] = Path("submission.zip"),
    data: Annotated[
        Path | None,
        opt.option("Where the run's blind files are, if they have moved."),
    ] = None,
    without_sense: Annotated[
        bool, opt.option("Leave out the column sentence_type.", "--without-sense")
    ] = False,
) -> None:
    """Write the ZIP that a team hands in to AdMIRe or AdMIRe 2, checked against the blind files."""
    from admire.runs.handing_in import hand_in

    names = hand_in(run, out, data=data, sense=not without_sense)
    log.info("Wrote %s with %s", out, ", ".join(names))
