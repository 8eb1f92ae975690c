"""The server's addresses, and what answers at each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from admire.data.languages import LANGUAGES
from admire.pages.serve import jobs, rest
from admire.pages.serve.guard import Guard, body_within
from admire.pages.serve.pictures import Picture, check_picture, label
from admire.pages.serve.problems import Problem, answer_problem
from admire.pages.serve.service import Service, service_of, visitor_of
from admire.pages.serve.visitors import Event, Visitor, new_id

HERE = Path(__file__).parent

STATIC = {
    "cards.js": (HERE.parent / "report", "text/javascript"),
    "cards.css": (HERE.parent / "report", "text/css"),
    "serve.js": (HERE, "text/javascript"),
    "serve.css": (HERE, "text/css"),
}
"""The page's files: in which folder they are, and their types."""

SIDES = range(16, 1025)
"""How large thumbnails may be, in pixels."""


def create_app(service: Service, host: str, port: int, token: str | None = None) -> Guard:
    """The page and the endpoint for programs, to be run by a server at that host and port.

    Args:
        token: what the page's address and programs have to give; None lets everybody in.
    """
    routes = [
        Route("/", show_page),
        Route("/favicon.ico", no_icon),
        Route("/static/{name}", send_static),
        Route("/events", send_events),
        Route("/pictures", add_picture, methods=["POST"]),
        Route("/pictures/{id}", send_picture),
        Route("/pictures/{id}", remove_picture, methods=["DELETE"]),
        Route("/found/{name}", send_found),
        Route("/jobs", jobs.add_job, methods=["POST"]),
        Route("/jobs/{id}", jobs.stop_job, methods=["DELETE"]),
        Route("/set.zip", send_set),
        Route("/runs/{id}.zip", send_run),
        Route("/v1/rank", rest.rank_row, methods=["POST"]),
        Route("/v1/openapi.json", rest.describe),
    ]
    app = Starlette(
        routes=routes,
        lifespan=service.running,
        exception_handlers=dict.fromkeys((Exception, 404, 405, Problem), answer_problem),
    )
    app.state.service = service
    return Guard(app, host, port, token)


# --------------------------------------------------------------------------------- the page


async def show_page(request: Request) -> Response:
    """``GET /``: the page, for a new visitor."""
    from admire import __version__

    service = service_of(request)
    visitor = service.visitors.enter()
    page = _template().render(
        visitor=visitor.id,
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
    """What fills the form to try it: the first of the samples, by its captions."""
    # Without admire.data.items, which takes longer to import than the page may take.
    with (HERE.parent / "samples" / "manifest.jsonl").open(encoding="utf-8") as file:
        row = json.loads(file.readline())
    keys = ("compound", "sentence", "language")
    captions = [candidate["caption"] for candidate in row["candidates"]]
    return {key: row[key] for key in keys} | {"captions": captions}


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE)
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    return environment.get_template("page.html.j2")


async def no_icon(request: Request) -> Response:
    """``GET /favicon.ico``: browsers ask for it unbidden."""
    return Response(status_code=204)


async def send_static(request: Request) -> Response:
    """``GET /static/NAME``: a file of the page."""
    folder, kind = STATIC.get(request.path_params["name"], (None, ""))
    path = folder / request.path_params["name"] if folder else None
    if path is None or not path.is_file():
        raise Problem(404, "There is no such file.")
    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


class EventStream(StreamingResponse):
    """A visitor's events, as they come, until the page is closed."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, visitor: Visitor):
        self.service, self.visitor = service, visitor
        super().__init__(iter(()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        self.service.work.want()
        with self.service.visitors.listening(self.visitor) as events:
            self.body_iterator = self._sent(events)
            await super().__call__(scope, receive, send)

    async def _sent(self, events: asyncio.Queue[Event | None]) -> AsyncIterator[str]:
        yield f"retry: 2000\n{_written(self.service.state)}"
        while True:
            try:
                async with asyncio.timeout(self.service.limits.keep_alive):
                    event = await events.get()
            except TimeoutError:
                yield ": still there\n\n"
                continue
            if event is None:
                return
            yield _written(event)


def _written(event: Event) -> str:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


async def send_events(request: Request) -> Response:
    """``GET /events``: a stream of server-sent events."""
    return EventStream(service_of(request), visitor_of(request))


# --------------------------------------------------------------------------------- pictures


async def add_picture(request: Request) -> Response:
    """``POST /pictures?name=NAME``: keep a picture for this visitor."""
    service, visitor = service_of(request), visitor_of(request)
    service.visitors.check_room(visitor)
    name, limits = label(request.query_params.get("name", "")), service.limits
    id = new_id()
    path = visitor.folder / id
    try:
        with path.open("xb") as file:
            async for piece in body_within(request, limits.megabytes):
                file.write(piece)
        if not path.stat().st_size:
            raise Problem(422, f"{name}: is empty.")
        async with service.one_at_a_time:
            found = await run_in_threadpool(check_picture, path, name, limits.megapixels)
        service.visitors.check_room(visitor)  # others may have come meanwhile
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Problem(507, f"{name}: cannot be kept ({error.strerror}).") from error
        raise
    picture = Picture(id, name, path, *found, path.stat().st_size)
    visitor.add_picture(picture)
    told = {"id": id, "name": name, "width": picture.width, "height": picture.height}
    return JSONResponse(told, 201)


async def send_picture(request: Request) -> Response:
    """``GET /pictures/ID``: the picture, or with ``side`` a thumbnail."""
    service, visitor = service_of(request), visitor_of(request)
    picture = visitor.seen(request.path_params["id"])
    path, kind = picture.path, picture.type
    wanted = request.query_params.get("side")
    if wanted is not None:
        if not wanted.isdecimal() or len(wanted) > 4 or int(wanted) not in SIDES:
            raise Problem(422, f"side: is not a number from {SIDES[0]} to {SIDES[-1]}.")
        path, kind = visitor.folder / f"{picture.id}.{wanted}", "image/webp"
        async with service.one_at_a_time:
            if not path.exists():
                await run_in_threadpool(_write_thumbnail, picture.path, path, int(wanted))
    headers = {"Content-Disposition": "inline", "Cache-Control": "private, max-age=3600"}
    return FileResponse(path, media_type=kind, headers=headers)


async def send_found(request: Request) -> Response:
    """``GET /found/NAME``: a copy of a picture that the visitor's last search found."""
    file = visitor_of(request).found.get(request.path_params["name"])
    if file is None:
        raise Problem(404, "There is no such picture. Search again.")
    headers = {"Content-Disposition": "inline", "Cache-Control": "private, max-age=3600"}
    return FileResponse(file, media_type="image/webp", headers=headers)


def _write_thumbnail(picture: Path, path: Path, side: int) -> None:
    from admire.pages.report.thumbnails import thumbnail

    content, _ = thumbnail(picture, side)
    path.write_bytes(content)


async def remove_picture(request: Request) -> Response:
    """``DELETE /pictures/ID``."""
    visitor = visitor_of(request)
    visitor.remove_picture(visitor.picture(request.path_params["id"]))
    return Response(status_code=204)


# ---------------------------------------------------------------------------------- bundles


async def send_set(request: Request) -> Response:
    """``GET /set.zip``: all that the visitor has ranked, as an image set."""
    visitor = visitor_of(request)
    ranked = list(visitor.ranked.values())
    if not ranked:
        raise Problem(404, "Nothing is ranked yet.")

    def write(out: Path) -> None:
        from admire.pages.serve.bundles import write_set

        write_set(ranked, out)

    return await _bundle(visitor, write, "set.zip")


async def send_run(request: Request) -> Response:
    """``GET /runs/JOB.zip``: the run folder of one job."""
    visitor = visitor_of(request)
    ranked = visitor.result(request.path_params["id"])

    def write(out: Path) -> None:
        from admire.pages.serve.bundles import write_run_bundle

        write_run_bundle(ranked, out)

    return await _bundle(visitor, write, "run.zip")


async def _bundle(visitor: Visitor, write: Callable[[Path], None], name: str) -> Response:
    path = visitor.folder / f"{new_id()}.zip"
    await run_in_threadpool(write, path)
    remove = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type="application/zip", filename=name, background=remove)
