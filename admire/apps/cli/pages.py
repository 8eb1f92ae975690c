"""Commands for web pages: a report of runs, and a page for ranking."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from admire.apps.cli import options as opt
from admire.apps.cli.output import REPORT
from admire.core.choices import Images, ProfileName
from admire.core.errors import UserError, check_extra
from admire.rankers.settings import RequestOptions, Settings
from admire.tasks.scorecard import ScoreSettings
from admire.tasks.task import session_options

log = logging.getLogger("admire")

SERVED = ("llms", "llm_url", "encoder", "detector", "rankers")
"""Settings of the first profile that options of ``serve`` change."""


@opt.with_settings("report", (ScoreSettings, "published", "track", "metrics"))
def report(
    runs: list[Path],
    /,
    *,
    out: Path | None = None,
    force: opt.Force = False,
    images: Images = "embed",
    data: Path | None = None,
    options: opt.Options = None,
) -> None:
    """Show runs in one HTML file: figures, plots, and each item with its pictures.

    Asks no model and encodes nothing. Each further run is compared with the first. If figures were
    published for the set (recognised by its language, size and name, or given by --published), the
    page shows the run's place among them.

    Needs the extra report, which embedded includes.

    Args:
        runs: Folders of rank, fuse or retrieve, or tables of sense or detect.
        out: HTML file to write (default: report.html in the run's folder, or beside a table with
            its name). Needed for several runs.
        images: Embed thumbnails in the file, or link to the picture files.
        data: Current path of the runs' data, for pictures and for gold that was added later
            (default: the ranked data, if it has not changed).

    Examples:
        admire report runs/my_set
        admire report runs/a runs/b --out both.html
    """
    from admire.apps.report import write_report
    from admire.core.storage import check_file

    if out is None and len(runs) > 1:
        raise UserError("A report of several runs needs a file of its own. Name it.", "out")
    out = out or (runs[0] / REPORT if runs[0].is_dir() else runs[0].with_suffix(".html"))
    check_file(out, '<meta name="generator" content="admire">', force=force)
    written = write_report(runs, out, images=images, data=data, **(options or {}))
    log.info("Wrote %s, %.1f MB", written, written.stat().st_size / 1e6)


@opt.with_settings("serve", (Settings, *SERVED), RequestOptions)
def serve(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Field(ge=0, le=65535)] = 8765,
    token: Annotated[str | None, Parameter(env_var="ADMIRE_TOKEN")] = None,
    profile: ProfileName = "embedded",
    in_browser: Annotated[bool, Parameter("--open")] = False,
    options: opt.Options = None,
) -> None:
    """Serve a local web page for ranking pictures and captions, and the REST API POST /v1/rank.

    Needs the extras serve and embedded.

    Args:
        host: Address to listen on; an address that other machines can reach needs a token.
        port: Port to listen on; 0 for any free port.
        token: Password that clients must send.
        profile: Preset that the other options override.
        in_browser: Open the page in the browser.

    Examples:
        admire serve --open
    """
    check_extra("serve", "admire serve", "fastapi", "uvicorn", "PIL")
    from admire.apps.serve import Models, run_server

    changes = {name: value for name, value in (options or {}).items() if name in SERVED}
    changes["plugins"] = session_options(options)["plugins"]
    models = Models(profile, changes, opt.make(RequestOptions, options))
    run_server(models, host=host, port=port, token=token, opens=in_browser)
    if not all(t.daemon for t in threading.enumerate() if t is not threading.main_thread()):
        # The thread waits for a chat model's reply. All temporary files have been removed.
        sys.stderr.flush()
        os._exit(0)
