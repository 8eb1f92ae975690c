"""The command that makes what a team hands in."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger("admire")


def submit(
    run: Path,
    /,
    *,
    out: Path = Path("submission.zip"),
    data: Path | None = None,
    without_sense: bool = False,
) -> None:
    """Write the ZIP that a team hands in to AdMIRe or AdMIRe 2, checked against the blind files.

    Args:
        run: Folder of rank or fuse.
        out: ZIP file to write.
        data: Where the run's blind files are, if they have moved.
        without_sense: Leave out the column sentence_type.
    """
    from admire.runs.team_submission import hand_in

    names = hand_in(run, out, data=data, sense=not without_sense)
    log.info("Wrote %s with %s", out, ", ".join(names))
