"""The server's addresses for the page; those for jobs and for programs are in other files."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from admire.data.languages import LANGUAGES
from admire.pages.serve import jobs, rest
from admire.pages.serve.guard import Guard
from admire.pages.serve.language import language_of
from admire.pages.serve.pictures import TIFF, check_picture, label
from admire.pages.serve.problems import Problem, answer_error
from admire.pages.serve.service import Service, TheService, TheVisitor

HERE = Path(__file__).parent
REPORT = HERE.parent / "report"
# Without admire.data.items, which takes longer to import than the page may take.
SAMPLES = HERE.parents[1] / "data" / "samples"
STATIC = {
    **{"cards.js": REPORT, "cards.css": REPORT, "serve.js": HERE, "serve.css": HERE},
    **{picture.name: picture.parent for picture in (SAMPLES / "images").iterdir()},
}
"""The folders of the page's files, and of the example's pictures."""

IN_BROWSER = {"Cache-Control": "private, max-age=3600"}

router = APIRouter(include_in_schema=False)


def create_app(service: Service, host: str, token: str | None = None) -> Guard:
    """The page and the endpoint for programs, to be run by a server at that address.

    Args:
        token: what the page's address and programs have to give; None lets everybody in.
    """
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
            (Problem, RequestValidationError, HTTPException, Exception), answer_error
        ),
    )
    for part in (router, jobs.router, rest.by_line, rest.router):
        app.include_router(part)
    app.state.service = service
    return Guard(app, host, service.limits, token)


@router.get("/")
async def show_page(service: TheService) -> HTMLResponse:
    """The page, for a new visitor."""
    from admire import __version__

    page = _template().render(
        visitor=service.enter().id,
        profiles=service.models.profiles,
        languages=[
            (code, name)
            for name, code in sorted({name: code for code, name in LANGUAGES.items()}.items())
        ],
        example=_example(),
        index=service.models.index.name if service.models.index else None,
        limits=service.limits,
        version=__version__,
    )
    return HTMLResponse(page)


@cache
def _example() -> dict[str, Any]:
    """What fills the form to try it: the first of the samples."""
    with (SAMPLES / "manifest.jsonl").open(encoding="utf-8") as file:
        row = json.loads(file.readline())
    candidates = [
        {"name": Path(one["image"]).name, "caption": one["caption"]} for one in row["candidates"]
    ]
    return {key: row[key] for key in ("compound", "sentence")} | {"candidates": candidates}


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE)
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    return environment.get_template("page.html.j2")


@router.get("/healthz")
async def tell_health(service: TheService) -> dict[str, str]:
    """That the server answers, and whether the models are loading, ready or failed."""
    return {"status": "ok", "models": service.state["state"]}


@router.get("/favicon.ico", status_code=204)
async def no_icon() -> None:
    """Browsers ask for it without being told to."""


@router.get("/static/{name}")
async def send_static(name: str) -> FileResponse:
    """A file of the page."""
    if name not in STATIC:
        raise Problem(404, "There is no such file.")
    return FileResponse(STATIC[name] / name, headers={"Cache-Control": "no-cache"})


@router.get("/events", response_class=EventSourceResponse)
async def send_events(service: TheService, visitor: TheVisitor) -> AsyncIterator[ServerSentEvent]:
    """The visitor's events, as they come, until the page is closed."""
    service.work.want()
    with service.listening(visitor) as events:
        yield ServerSentEvent(event="models", data=service.state, retry=2000)
        while event := await events.get():
            yield event


@router.post("/language")
async def propose_language(request: Request, visitor: TheVisitor) -> dict[str, str | None]:
    """The language of a text, which is the body; null where it cannot be told."""
    text = (await request.body()).decode(errors="replace")
    return {"language": await run_in_threadpool(language_of, text)}


# --------------------------------------------------------------------------------- pictures


@router.post("/pictures", status_code=201)
async def add_picture(
    request: Request, service: TheService, visitor: TheVisitor, name: str = ""
) -> dict[str, str | int]:
    """Keep a picture for this visitor. The body is the file."""
    name, path = label(name), visitor.folder / secrets.token_hex(16)
    try:
        path.write_bytes(await request.body())
        async with service.one_at_a_time:
            picture = await run_in_threadpool(check_picture, path, name, service.limits.megapixels)
    except Problem:
        path.unlink()
        raise
    except OSError as error:
        path.unlink(missing_ok=True)
        raise Problem(507, f"{name}: cannot be kept ({error.strerror}).") from error
    visitor.pictures[picture.id] = picture
    return {"id": picture.id, "name": name, "width": picture.width, "height": picture.height}


@router.get("/pictures/{id}")
async def send_picture(
    id: str,
    service: TheService,
    visitor: TheVisitor,
    side: Annotated[int | None, Query(ge=16, le=1024)] = None,
) -> FileResponse:
    """The picture, or a thumbnail of at most ``side`` pixels. Of a TIFF there is a large one."""
    picture = visitor.picture(id)
    if picture.type == TIFF:
        side = side or 1024
    if side is None:
        return FileResponse(picture.path, media_type=picture.type, headers=IN_BROWSER)
    path = visitor.folder / f"{id}.{side}"
    async with service.one_at_a_time:
        if not path.exists():
            await run_in_threadpool(_write_thumbnail, picture.path, path, side)
    return FileResponse(path, media_type="image/webp", headers=IN_BROWSER)


def _write_thumbnail(picture: Path, path: Path, side: int) -> None:
    from admire.pages.report.thumbnails import thumbnail

    content, _ = thumbnail(picture, side)
    path.write_bytes(content)


# ---------------------------------------------------------------------------------- bundles


@router.get("/set.zip")
def send_set(visitor: TheVisitor) -> FileResponse:
    """All that the visitor has ranked, as an image set."""
    from admire.pages.serve.bundles import write_set

    ranked = list(visitor.ranked.values())
    if not ranked:
        raise Problem(404, "Nothing is ranked yet.")
    return _bundle(visitor.folder, lambda file: write_set(ranked, file), "set.zip")


@router.get("/runs/{job}.zip")
def send_run(job: str, visitor: TheVisitor) -> FileResponse:
    """The run folder of one job."""
    from admire.pages.serve.bundles import write_run_bundle

    ranked = visitor.result(job)
    return _bundle(visitor.folder, lambda file: write_run_bundle(ranked, file), "run.zip")


def _bundle(folder: Path, write: Callable[[Path], None], name: str) -> FileResponse:
    path = folder / secrets.token_hex(16)
    write(path)
    remove = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type="application/zip", filename=name, background=remove)
