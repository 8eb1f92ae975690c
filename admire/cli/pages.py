"""Commands that show pages: a report of runs, and a page to rank by hand."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from admire.base.choices import Images, ProfileName
from admire.base.errors import UserError, check_extra
from admire.cli import options as opt
from admire.rankers.settings import Settings

log = logging.getLogger("admire")


def report(
    runs: list[Path],
    /,
    *,
    out: Path = Path("report.html"),
    force: opt.Force = False,
    images: Images = "embed",
    data: Path | None = None,
    published: opt.Published = None,
    track: opt.PublishedTrack = None,
) -> None:
    """Show runs in one HTML file: figures, plots, and each item with its pictures.

    Nothing is asked or encoded. Of several runs, each is compared with the first. If the set is
    one on which figures were published (told by its language, size and name, or by --published),
    the page shows the run's place among them.

    Needs the extra report, which embedded brings.

    Args:
        runs: Folders of rank, fuse or retrieve, or tables of sense or detect.
        out: HTML file to write.
        images: Put thumbnails into the file, or name the picture files.
        data: Where the data of the runs are now, for pictures and for gold that came later
            (default: what was ranked, if it has not changed).

    Examples:
        admire report runs/my_set
        admire report runs/a runs/b --out both.html
    """
    from admire.base.storage import check_file
    from admire.pages.report import write_report

    check_file(out, '<meta name="generator" content="admire">', force=force)
    written = write_report(runs, out, images=images, data=data, published=published, track=track)
    log.info("Wrote %s, %.1f MB", written, written.stat().st_size / 1e6)


@opt.with_settings("serve", (Settings, "llms", "llm_url", "encoder", "detector"))
def serve(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Field(ge=0, le=65535)] = 8765,
    token: Annotated[str | None, Parameter(env_var="ADMIRE_TOKEN")] = None,
    profile: ProfileName = "embedded",
    index: Path | None = None,
    in_browser: Annotated[bool, Parameter("--open")] = False,
    options: opt.Options = None,
) -> None:
    """Serve a page on this machine to rank pictures and captions by hand, and POST /v1/rank.

    Needs the extras serve and embedded.

    Args:
        host: Address to listen at; one that other machines can reach needs a token.
        port: Port to listen at; 0 takes a free one.
        token: Password that people and programs must send.
        profile: Stack that the other options change.
        index: A collection to search in a second tab: a folder that admire index wrote, or a file
            of texts, as there.
        in_browser: Open the page in the browser.

    Examples:
        admire serve --open
    """
    check_extra("serve", "admire serve", "fastapi", "uvicorn", "PIL")
    from admire.pages.serve import Models, run_server

    if index and not index.exists():
        raise UserError(f"{index}: cannot be read (No such file or folder).", "index")
    models = Models(profile, options, index=index)
    run_server(models, host=host, port=port, token=token, opens=in_browser)
    others = set(threading.enumerate()) - {threading.main_thread()}
    if any(not thread.daemon for thread in others):
        # The thread waits for a chat model's reply. All files are removed by now.
        sys.stderr.flush()
        os._exit(0)
