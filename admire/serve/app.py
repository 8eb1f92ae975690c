"""The server's addresses, and what answers at each."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

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

from admire.errors import UserError
from admire.languages import LANGUAGES
from admire.serve import rest
from admire.serve.guard import Guard, Limits, body_within, read_object
from admire.serve.models import Models, OpeningError, load_and_tell
from admire.serve.pictures import Picture, check_picture, distinct, label
from admire.serve.problems import INTERNAL, Problem, answer_problem
from admire.serve.visitors import Event, Visitor, Visitors, new_id
from admire.serve.work import Job, Stopped, Work

if TYPE_CHECKING:
    from admire.serve.ranking import Ranked

log = logging.getLogger("admire")

HERE = Path(__file__).parent

STATIC = {
    "cards.js": (HERE.parent / "report", "text/javascript"),
    "cards.css": (HERE.parent / "report", "text/css"),
    "serve.js": (HERE, "text/javascript"),
    "serve.css": (HERE, "text/css"),
}
"""The page's files: in which folder they are, and their types."""

ASKED = 1.0
"""Megabytes of a page's request, without pictures."""

SIDES = range(16, 1025)
"""How large thumbnails may be, in pixels."""


class Service:
    """What the server holds while it runs: models, the work, and visitors with their files."""

    folder: Path
    work: Work
    visitors: Visitors

    def __init__(self, models: Models, limits: Limits | None = None):
        self.models, self.limits = models, limits or Limits()
        self.state: Event = ("models", {"state": "loading", "said": "The models are being loaded."})
        self.one_at_a_time = asyncio.Semaphore(1)
        """For pictures, which may take hundreds of megabytes when they are decoded."""

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Start the work, and at the end stop it and remove all files."""
        self.folder = Path(mkdtemp(prefix="admire-serve-"))
        self.work = Work(self.limits.jobs)
        self.visitors = Visitors(self.folder, self.limits, self.work)
        loop = asyncio.get_running_loop()

        def tell(state: str, said: str) -> None:
            loop.call_soon_threadsafe(lambda: self._tell_state(state, said))

        working = asyncio.create_task(self.work.run(partial(load_and_tell, self.models, tell)))
        try:
            yield
        finally:
            self.end()
            working.cancel()
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """Stop all work, end all streams, remove all visitors' files."""
        self.work.close()
        self.visitors.remove_all()

    def check_profile(self, profile: object) -> None:
        """Refuse a profile that there is not.

        Raises:
            Problem: the message names those that there are.
        """
        if profile not in self.models.profiles:
            known = ", ".join(self.models.profiles)
            raise Problem(422, f"profile: is none of {known}.")

    def told(self, error: UserError, names: Mapping[str, str]) -> Problem:
        """What a user's error is for somebody far away: without paths of this machine."""
        message = str(error)
        for path in sorted(names, key=len, reverse=True):  # some begin as others do
            message = message.replace(path, names[path])
        status = 503 if isinstance(error, OpeningError) else 422
        return Problem(status, message.replace(str(self.folder), "…"))

    def _tell_state(self, state: str, said: str) -> None:
        if state == "failed":
            log.warning(said)
        self.state = ("models", {"state": state, "said": said})
        for visitor in self.visitors:
            visitor.tell(*self.state)


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
        Route("/jobs", add_job, methods=["POST"]),
        Route("/jobs/{id}", stop_job, methods=["DELETE"]),
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


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _visitor(request: Request) -> Visitor:
    """Who asks.

    Raises:
        Problem: the request does not say it, or nobody is known by that id.
    """
    given = request.headers.get("admire-visitor") or request.query_params.get("visitor")
    return _service(request).visitors.find(given)


# --------------------------------------------------------------------------------- the page


async def show_page(request: Request) -> Response:
    """``GET /``: the page, for a new visitor."""
    from admire import __version__

    service = _service(request)
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
    # Without admire.items, which takes longer to import than the page may take.
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
    return EventStream(_service(request), _visitor(request))


# --------------------------------------------------------------------------------- pictures


async def add_picture(request: Request) -> Response:
    """``POST /pictures?name=NAME``: keep a picture for this visitor."""
    service, visitor = _service(request), _visitor(request)
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
    service, visitor = _service(request), _visitor(request)
    picture = visitor.seen(request.path_params["id"])
    path, kind = picture.path, picture.type
    wanted = request.query_params.get("side")
    if wanted is not None:
        if not wanted.isdecimal() or int(wanted) not in SIDES:
            raise Problem(422, f"side: is not a number from {SIDES[0]} to {SIDES[-1]}.")
        path, kind = visitor.folder / f"{picture.id}.{wanted}", "image/webp"
        async with service.one_at_a_time:
            if not path.exists():
                await run_in_threadpool(_write_thumbnail, picture.path, path, int(wanted))
    headers = {"Content-Disposition": "inline", "Cache-Control": "private, max-age=3600"}
    return FileResponse(path, media_type=kind, headers=headers)


def _write_thumbnail(picture: Path, path: Path, side: int) -> None:
    from admire.report.thumbnails import thumbnail

    content, _ = thumbnail(picture, side)
    path.write_bytes(content)


async def remove_picture(request: Request) -> Response:
    """``DELETE /pictures/ID``."""
    visitor = _visitor(request)
    visitor.remove_picture(visitor.picture(request.path_params["id"]))
    return Response(status_code=204)


# ------------------------------------------------------------------------------------- jobs


async def add_job(request: Request) -> Response:
    """``POST /jobs``: something to do when its turn comes."""
    service, visitor = _service(request), _visitor(request)
    asked = await read_object(request, ASKED)
    id = new_id()
    if asked.get("kind") == "rank":
        do, names = await _ranking(service, visitor, asked, id)
    elif asked.get("kind") == "search":
        do, names = _search(service, asked), {}
    else:
        raise Problem(422, "kind: is neither rank nor search.")
    job = Job(id, do, visitor.tell)
    service.work.add(job)
    visitor.jobs[id] = job
    job.done.add_done_callback(partial(_tell_result, service, visitor, id, names))
    return JSONResponse({"job": id}, 202)


async def stop_job(request: Request) -> Response:
    """``DELETE /jobs/JOB``: take it out of the queue, or stop it soon."""
    visitor = _visitor(request)
    job = visitor.jobs.get(request.path_params["id"])
    if job:
        _service(request).work.stop(job)
    elif request.path_params["id"] not in visitor.ranked:
        raise Problem(404, "There is no such job.")
    return Response(status_code=204)


Do = Callable[[], Mapping[str, Any]]
"""Does a job; returns what is told of it, and under ``ranked`` what is kept."""


def _search(service: Service, asked: Mapping[str, Any]) -> Do:
    if service.models.index is None:
        raise Problem(422, "There are no texts to search. Start admire serve with --index.")
    text, span, language = (asked.get(key) for key in ("text", "span", "language"))
    top = asked.get("top", 10)
    for key, value in (("text", text), ("span", span)):
        if not isinstance(value, str) or not value.strip():
            raise Problem(422, f"{key}: is empty.")
    if not isinstance(top, int) or not 1 <= top <= 100:
        raise Problem(422, "top: is not a number from 1 to 100.")

    def do() -> Mapping[str, Any]:
        from admire.serve.ranking import search

        return {"found": search(str(text), str(span), str(language or "en"), top, service.models)}

    return do


async def _ranking(
    service: Service, visitor: Visitor, asked: Mapping[str, Any], id: str
) -> tuple[Do, dict[str, str]]:
    """What ranks what is asked, and what the pictures' files are called for people."""
    profile = asked.get("profile") or service.models.profiles[0]
    service.check_profile(profile)
    by_hand = asked.get("by_hand")
    if by_hand is not None:
        return _ranking_by_hand(service, visitor, by_hand)
    things = asked.get("candidates")
    if not isinstance(things, list) or not all(isinstance(one, Mapping) for one in things):
        raise Problem(422, "candidates: is not a list of objects.")
    if len(things) > service.limits.pictures:
        raise Problem(422, f"candidates: are more than {service.limits.pictures}.")
    pictures = [visitor.picture(one["picture"]) if one.get("picture") else None for one in things]
    names = distinct(
        [one.name if one else f"candidate{k}" for k, one in enumerate(pictures, start=1)]
    )
    row = {key: asked.get(key) for key in ("compound", "sentence", "language")}
    files = [one.path.name if one else None for one in pictures]
    captions = [one.get("caption") for one in things]
    row["candidates"] = [
        {"image": file, "caption": caption} for file, caption in zip(files, captions, strict=True)
    ]
    shown = {name: one for name, one in zip(names, pictures, strict=True) if one}

    def read() -> Any:
        from dataclasses import replace

        from admire.serve.ranking import read_row

        item = read_row(row, visitor.folder, f"{id}.jsonl")
        called = zip(item.candidates, names, strict=True)
        return replace(item, candidates=tuple(replace(one, name=name) for one, name in called))

    labels = {str(one.path): name for name, one in shown.items()}
    try:
        item = await run_in_threadpool(read)
    except UserError as error:
        raise service.told(error, labels) from None

    def do() -> Mapping[str, Any]:
        from admire.serve.ranking import Ranked, rank_item

        settings = service.models.settings(profile)
        ranked = Ranked(rank_item(item, settings, service.models), settings, shown)
        return _shown(ranked, visitor)

    return do, labels


def _ranking_by_hand(
    service: Service, visitor: Visitor, by_hand: object
) -> tuple[Do, dict[str, str]]:
    """What ranks a job's item again, with what a person says of it."""
    from admire.serve.ranking import check_by_hand

    if not isinstance(by_hand, Mapping):
        raise Problem(422, "by_hand: is not an object.")
    before = visitor.result(by_hand.get("of"))
    sense, meanings = by_hand.get("sense"), by_hand.get("meanings") or {}
    if sense not in (None, "idiomatic", "literal"):
        raise Problem(422, "by_hand, sense: is neither idiomatic nor literal.")
    labels = ("idiomatic", "literal")
    if not isinstance(meanings, Mapping) or not all(
        key in labels and isinstance(text, str | None) for key, text in meanings.items()
    ):
        raise Problem(
            422, "by_hand, meanings: is not an object of an idiomatic and a literal text."
        )
    try:
        check_by_hand(before)
    except UserError as error:
        raise Problem(422, str(error)) from None

    def do() -> Mapping[str, Any]:
        from dataclasses import replace

        from admire.serve.ranking import rank_by_hand

        run = rank_by_hand(before.item, before, sense, meanings, service.models)
        return _shown(replace(before, run=run, sense=sense or before.sense), visitor)

    return do, {str(one.path): name for name, one in before.pictures.items()}


def _shown(ranked: Ranked, visitor: Visitor) -> Mapping[str, Any]:
    """What is told of a ranking."""
    from admire.report.thumbnails import Shown
    from admire.serve.ranking import item_card

    pictures = {
        one.path: Shown(f"/pictures/{one.id}?visitor={visitor.id}", one.width, one.height)
        for one in ranked.pictures.values()
    }
    return {"item": item_card(ranked.run, pictures), "metrics": [], "ranked": ranked}


def _tell_result(
    service: Service,
    visitor: Visitor,
    id: str,
    names: Mapping[str, str],
    done: asyncio.Future[Mapping[str, Any]],
) -> None:
    """Tell a visitor what a job brought, and keep it."""
    visitor.jobs.pop(id, None)
    error = done.exception()
    if isinstance(error, Stopped):
        return
    if error is None:
        found = dict(done.result())
        ranked = found.pop("ranked", None)
        if ranked:
            visitor.keep(id, ranked)
        visitor.tell("result", {"job": id, **found})
        return
    if isinstance(error, UserError):
        problem = service.told(error, names)
    else:
        log.error("A job failed.", exc_info=error)
        problem = Problem(500, INTERNAL)
    visitor.tell("problem", {"job": id, **problem.told()})


# ---------------------------------------------------------------------------------- bundles


async def send_set(request: Request) -> Response:
    """``GET /set.zip``: all that the visitor has ranked, as an image set."""
    visitor = _visitor(request)
    ranked = list(visitor.ranked.values())
    if not ranked:
        raise Problem(404, "Nothing is ranked yet.")

    def write(out: Path) -> None:
        from admire.serve.bundles import write_set

        write_set(ranked, out)

    return await _bundle(visitor, write, "set.zip")


async def send_run(request: Request) -> Response:
    """``GET /runs/JOB.zip``: the run folder of one job."""
    visitor = _visitor(request)
    ranked = visitor.result(request.path_params["id"])

    def write(out: Path) -> None:
        from admire.serve.bundles import write_run_bundle

        write_run_bundle(ranked, out)

    return await _bundle(visitor, write, "run.zip")


async def _bundle(visitor: Visitor, write: Callable[[Path], None], name: str) -> Response:
    path = visitor.folder / f"{new_id()}.zip"
    await run_in_threadpool(write, path)
    remove = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type="application/zip", filename=name, background=remove)
