"""The command that shows runs in a page."""

from __future__ import annotations

import logging
from pathlib import Path

from admire.base.choices import Images
from admire.cli import options as opt

log = logging.getLogger("admire")


def report(
    runs: list[Path],
    /,
    *,
    out: Path = Path("report.html"),
    images: Images = "embed",
    data: Path | None = None,
    published: opt.Published = None,
    track: opt.PublishedTrack = None,
) -> None:
    """Show runs in one HTML file: figures, plots, and each item with its pictures.

    Nothing is asked or encoded. Of several runs, each is compared with the first. If the set is
    one on which figures were published (told by its language, size and name, or by --published),
    the page shows the run's place among them.

    Args:
        runs: Folders of rank, fuse or retrieve, or tables of sense or detect.
        out: HTML file to write.
        images: Put thumbnails into the file, or name the picture files.
        data: Where the data of the runs are now, for the pictures and for gold that came later;
            else as ranked.
    """
    from admire.pages.report import write_report

    written = write_report(runs, out, images=images, data=data, published=published, track=track)
    log.info("Wrote %s, %.1f MB", written, written.stat().st_size / 1e6)
