"""The command that serves a page to rank by hand."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from admire.base.choices import ProfileName
from admire.base.errors import UserError, check_extra
from admire.cli import options as opt


def serve(
    host: Annotated[
        str, opt.option("Address to listen at; one that other machines can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ADMIRE_TOKEN", help="What people and programs have to give to be let in."
        ),
    ] = None,
    profile: Annotated[
        ProfileName,
        opt.choice("profile", ProfileName, "The stack that is loaded and stands first."),
    ] = "embedded",
    llm: opt.Llm = None,
    llm_url: opt.LlmUrl = None,
    encoder: Annotated[
        str | None,
        opt.option("Encoder of queries and candidates, as for rank.", autocompletion=opt.ENCODERS),
    ] = None,
    detector: opt.DetectorFile = None,
    index: Annotated[
        Path | None,
        opt.option(
            "A collection to search in a second tab: a folder that admire index wrote, or a "
            "file of texts, as there."
        ),
    ] = None,
    opens: Annotated[bool, opt.option("Open the page in the browser.", "--open")] = False,
) -> None:
    """Serve a page on this machine to rank pictures and captions by hand, and POST /v1/rank."""
    check_extra("serve", "admire serve", "fastapi", "uvicorn", "PIL", "py3langid")
    from admire.pages.serve import Models, run_server
    from admire.rankers.settings import Settings

    if index and not index.exists():
        raise UserError(f"{index}: cannot be read (No such file or folder).", "index")
    models = Models(profile, opt.given(locals(), Settings), index=index)
    run_server(models, host=host, port=port, token=token, opens=opens)
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # The thread waits for a chat model's reply. All files are removed by now.
        sys.stderr.flush()
        os._exit(0)
