"""The command that shows runs in a page."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from admire.base.choices import Images
from admire.cli import options as opt

log = logging.getLogger("admire")


def report(
    runs: Annotated[
        list[Path], opt.argument("Folders of rank, fuse or retrieve, or tables of sense or detect.")
    ],
    out: Annotated[Path, opt.option("HTML file to write.")] = Path("report.html"),
    images: Annotated[
        Images,
        opt.choice("images", Images, "Put thumbnails into the file, or name the picture files."),
    ] = "embed",
    data: Annotated[
        Path | None,
        opt.option(
            "Where the data of the runs are now, for the pictures and for gold that came "
            "later; else as ranked."
        ),
    ] = None,
    published: opt.Published = None,
    track: opt.PublishedTrack = None,
) -> None:
    """Show runs in one HTML file: figures, plots, and each item with its pictures.

    Nothing is asked or encoded. Of several runs, each is compared with the first. If the set is
    one on which figures were published (told by its language, size and name, or by --published),
    the page shows the run's place among them.
    """
    from admire.pages.report import write_report

    written = write_report(runs, out, images=images, data=data, published=published, track=track)
    log.info("Wrote %s, %.1f MB", written, written.stat().st_size / 1e6)
