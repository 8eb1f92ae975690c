"""The server's addresses for the page; those for programs are in rest.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from admire.apps.serve import rest
from admire.apps.serve.bodies import SIDE, check_picture
from admire.apps.serve.guard import Guard
from admire.apps.serve.problems import Problem, answer_error, template
from admire.apps.serve.service import Service, State, TheService
from admire.data.languages import LANGUAGES, language_of

HERE = Path(__file__).parent
REPORT = HERE.parent / "report"
# Without admire.data.items, which takes longer to import than the page may take.
SAMPLES = HERE.parents[1] / "data" / "samples"
STATIC = {
    **{"cards.js": REPORT, "cards.css": REPORT},
    **dict.fromkeys(("serve.js", "store.js", "client-zip.js", "serve.css"), HERE),
    **{picture.name: picture.parent for picture in (SAMPLES / "images").iterdir()},
}
"""The folders of the page's files, and of the examples' pictures."""

EXAMPLES = {
    ("night owl", "idiomatic"): "An idiom",
    ("night owl", "literal"): "The same words, meant literally",
    ("mão aberta", "idiomatic"): "An idiom in Portuguese",
}
"""Samples to try, by compound and sense, with what is special about each."""

router = APIRouter(include_in_schema=False)


def create_app(service: Service, host: str, token: str | None = None) -> Guard:
    """Build the app of the page and of the address for programs; None as a token lets all in."""
    app = FastAPI(
        title="admire serve",
        version="1",
        description="Ranks candidates by how well they show the sense in which a compound is used. "
        "One request is worked on at a time; the others wait for their turn. If the connection is "
        "closed, the work stops.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=service.running,
        exception_handlers=dict.fromkeys(
            (Problem, ValidationError, ClientDisconnect, HTTPException, Exception), answer_error
        ),
    )
    for part in (router, rest.router):
        app.include_router(part)
    app.state.service = service
    return Guard(app, host, token)


@router.get("/")
async def show_page(service: TheService) -> HTMLResponse:
    """Show the page."""
    from admire import __version__

    page = template("page.html.j2").render(
        profiles=service.models.profiles,
        languages=sorted({name: code for code, name in LANGUAGES.items()}.items()),
        examples=_examples(),
        limits=service.limits,
        version=__version__,
    )
    return HTMLResponse(page)


@cache
def _examples() -> list[dict[str, Any]]:
    """Return the samples that a click fills in and ranks, without their gold."""
    with (SAMPLES / "manifest.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    by_sense = {(row["compound"], row["sentence_type"]): row for row in reversed(rows)}
    examples = []
    for key, title in EXAMPLES.items():
        row = by_sense[key]
        before, _, after = row["sentence"].partition(row["compound"])
        candidates = [
            {"name": Path(candidate["image"]).name, "caption": candidate["caption"]}
            for candidate in row["candidates"]
        ]
        texts = {name: row[name] for name in ("compound", "sentence", "language")}
        words = {"title": title, "before": before, "after": after}
        examples.append(texts | words | {"candidates": candidates})
    return examples


@router.get("/healthz")
async def report_health(service: TheService) -> dict[str, str | list[str]]:
    """Report that the server answers, and which models are loaded and which are not yet."""
    state = service.state
    loads = {"loaded": state.loaded, "loading": state.loading}
    return {"status": "ok", "models": state.state, **loads}


@router.get("/favicon.ico", status_code=204)
async def no_icon() -> None:
    """Answer browsers, which ask for it by themselves."""


@router.get("/static/{name}")
async def send_static(name: str) -> FileResponse:
    """Send a file of the page."""
    if name not in STATIC:
        raise Problem(404, "File not found.")
    return FileResponse(STATIC[name] / name, headers={"Cache-Control": "no-cache"})


@router.get("/models")
async def report_models(service: TheService) -> State:
    """Report how far the models are."""
    return service.state


@router.post("/language")
async def guess_language(request: Request, service: TheService) -> dict[str, str | None]:
    """Guess the language of a text, which is the body; null if it cannot be detected."""
    async with service.bodies.read(request, service.limits.text) as body:
        return {"language": await run_in_threadpool(language_of, body.decode(errors="replace"))}


@router.post("/thumbnail")
async def make_thumbnail(request: Request, service: TheService) -> Response:
    """Check a picture, which is the body, and answer with a small copy. Nothing is kept."""

    def copy() -> bytes:
        from admire.apps.report.pictures import thumbnail

        with NamedTemporaryFile(dir=service.folder) as file:
            file.write(content)
            file.flush()
            path = Path(file.name)
            check_picture(path, "picture", service.limits.megapixels)
            with service.hidden_paths({file.name: "picture"}):
                return thumbnail(path, SIDE)[0]

    body = service.bodies.read(request, service.limits.megabytes)
    async with body as content, service.decoding:
        return Response(await run_in_threadpool(copy), media_type="image/webp")
