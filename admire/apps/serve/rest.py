"""``/v1``: rankings, for the page and for programs."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from admire.apps.serve.bodies import check_json, check_picture, distinct, label
from admire.apps.serve.guard import MEGABYTE
from admire.apps.serve.problems import PROBLEM_TYPE, Problem, ProblemDetails, problem_of
from admire.apps.serve.schemas import Ranking, Row
from admire.apps.serve.service import Service, TheService
from admire.apps.serve.work import Progress, Stopped
from admire.data.languages import language_of

if TYPE_CHECKING:
    from admire.apps.serve.ranking import LanguageFrom
    from admire.data.items import Item

FILES = {"candidates": "candidate", "sequence": "sequence"}
"""What pictures' files are called, without their number; a candidate has its file's name."""

LINES, ZIP = "application/x-ndjson", "application/zip"

TOKEN = HTTPBearer(
    description="The token that admire serve was given, if it was given one.", auto_error=False
)
PROBLEM: dict[str, Any] = {
    "description": "Why it cannot be done (RFC 9457).",
    "content": {PROBLEM_TYPE: {"schema": ProblemDetails.model_json_schema()}},
}
LINE_SCHEMA = {
    "itemSchema": {
        "anyOf": [
            {"$ref": "#/components/schemas/Ranking"},
            Progress.model_json_schema(),
            ProblemDetails.model_json_schema(),
        ]
    }
}
"""A line of an answer by line."""


class RankRoute(APIRoute):
    """A route whose body is read here: FastAPI would read any size, and parse it in its loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            service, header = request.app.state.service, request.headers.get("content-type", "")
            kind = header.partition(";")[0].strip().lower()  # without parameters
            if kind not in ("application/json", LINES):
                raise Problem(415, "Send JSON, with the header Content-Type: application/json.")
            async with AsyncExitStack() as held:
                reading = service.bodies.read(request, service.limits.row)
                body = await held.enter_async_context(reading)
                if kind == LINES:
                    return Lines(_answers(body, request, service), held.pop_all())
                response: Response = await self.endpoint(body, request, service)
                return response

        return answer


class Lines(StreamingResponse):
    """An answer by line that holds something until it has been sent, or the client has left."""

    def __init__(self, lines: AsyncIterator[bytes], held: AsyncExitStack | None = None):
        super().__init__(lines, media_type=LINES)
        self._held = held or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


router = APIRouter(
    route_class=RankRoute,
    dependencies=[Security(TOKEN)],  # for the description; Guard checks it
    responses={"4XX": PROBLEM, "5XX": PROBLEM},
)


async def _answers(body: bytearray, request: Request, service: Service) -> AsyncIterator[bytes]:
    """Yield for each line with an item a line with its ranking, or with a problem in its place."""
    while first := re.search(rb"\S", body):
        del body[: first.start()]
        end = body.find(b"\n") + 1 or len(body)
        left = len(body) - end
        answer: BaseModel
        try:
            answer = await _last(_rank(body, request, service, end))
        except Stopped:
            return
        except Exception as error:
            answer = problem_of(error).details()
        del body[: len(body) - left]  # unless it has been read
        yield _line(answer)


@router.post(
    "/v1/rank",
    response_model=Ranking,
    responses={200: {"content": {LINES: LINE_SCHEMA, ZIP: {}}}},
    openapi_extra={
        "requestBody": {"content": {LINES: {"itemSchema": {"$ref": "#/components/schemas/Row"}}}}
    },
)
async def rank(body: Row, request: Request, service: TheService) -> Any:
    """Rank the candidates of one item; or of several, an item a line.

    A client that accepts application/x-ndjson is told of the request's Progress in lines; the last
    line is the Ranking, or a problem, which has a status. One that accepts application/zip gets the
    run folder for admire report.

    A body of the type application/x-ndjson has a Row in each line. It is answered by as many lines
    in the same order, each sent as soon as its item is ranked: a Ranking or a problem. The other
    items are ranked in any case.
    """
    accepted = request.headers.get("accept", "")
    options = {"zipped": ZIP in accepted, "reports": LINES in accepted}
    events: AsyncGenerator[Any, None] = _rank(body, request, service, **options)
    if ZIP in accepted:
        return Response(await _last(events), media_type=ZIP)
    if LINES not in accepted:
        return Response((await _last(events)).model_dump_json(), media_type="application/json")
    first = await anext(events)  # its place in the queue: what is wrong by then has a status
    return Lines(_lines(first, events))


async def _last(events: AsyncGenerator[Any, None]) -> Any:
    """Return the last event, which is the answer."""
    async with aclosing(events):
        async for event in events:
            last = event
    return last


async def _lines(first: BaseModel, events: AsyncGenerator[BaseModel, None]) -> AsyncIterator[bytes]:
    """Yield all events as lines; a problem is the last."""
    yield _line(first)
    async with aclosing(events):
        try:
            async for event in events:
                yield _line(event)
        except Exception as error:
            yield _line(problem_of(error).details())


def _line(event: BaseModel) -> bytes:
    return event.model_dump_json().encode() + b"\n"


async def _rank(
    body: Any,
    request: Request,
    service: Service,
    end: int | None = None,
    *,
    zipped: bool = False,
    reports: bool = False,
) -> AsyncGenerator[Progress | Ranking | bytes, None]:
    """Rank an item when its turn comes; yield the progress, and last the ranking or run folder.

    Args:
        body: a bytearray, from which the item is deleted as soon as it is read.
        end: of the item there.
        reports: whether the progress is yielded.
    """
    service.work.check_room()
    models, names = service.models, dict[str, str]()

    def do() -> Ranking | bytes:
        from admire.apps.serve.ranking import describe, rank_item, zip_folder

        settings = models.settings(profile)
        run = rank_item(item, settings, models, row.readings)
        if zipped:
            return zip_folder(run)
        detector = None if row.readings else models.detector(settings)
        return describe(run, detector, language_from)

    with service.hidden_paths(names), TemporaryDirectory(dir=service.folder) as place:
        async with service.parsing:
            row = await run_in_threadpool(_parse, body, end, service, Path(place), names)
        profile = row.profile or models.profiles[0]
        for path in filter(Path.exists, map(Path, names)):
            check = partial(check_picture, path, names[str(path)], service.limits.megapixels)
            async with service.decoding:
                await run_in_threadpool(check)
        item, language_from = await run_in_threadpool(_read, row, Path(place))
        asks = not row.readings and await service.asks(profile)
        pieces = len(item.candidates) + len(item.sequence)
        async with aclosing(
            service.work.run(do, request, pieces, asks=asks, reports=reports)
        ) as events:
            async for event in events:
                yield event


def _parse(
    body: Any, end: int | None, service: Service, folder: Path, names: dict[str, str]
) -> Row:
    """Take a row out of a body; its pictures go to the folder, and ``names`` gets theirs here."""
    check_json(body[:end], service.limits.json)
    row = Row.model_validate_json(body[:end])
    del body[:end]
    if len(row.candidates) + len(row.sequence) > (most := service.limits.pictures):
        raise Problem(422, f"candidates, sequence: are more than {most}, the limit.")
    models, megabytes = service.models, service.limits.megabytes
    if len(row.readings) > (most := models.count_llms(row.profile or models.profiles[0])):
        raise Problem(422, f"readings: are more than {most}, one for each chat model.")
    for key, file in FILES.items():
        for k, thing in enumerate(getattr(row, key)):
            path, name = folder / f"{file}{k + 1}", f"{key}[{k}].image"
            names[str(path)] = name
            if thing.image is None:
                continue
            if len(thing.image) > megabytes * MEGABYTE:
                raise Problem(413, f"{name}: is more than {megabytes:g} MB, the limit.")
            path.write_bytes(thing.image)
            thing.image = None  # the file is enough
    return row


def _read(row: Row, folder: Path) -> tuple[Item, LanguageFrom]:
    """Read a row as an item, whose pictures are in the folder under their numbers."""
    from admire.data.rows import RowReader

    language = row.language
    language_from: LanguageFrom = "request"
    if not (language and language.strip()):
        language = language_of(row.sentence or "")
        language_from = "sentence" if language else "default"
    others = {"candidates", "sequence", "profile", "readings"}
    plain = row.model_dump(exclude=others, exclude_none=True)
    for key, file in FILES.items():
        things = getattr(row, key)
        numbered = [f"{file}{k}" for k in range(1, 1 + len(things))]
        pairs = zip(things, numbered, strict=True)
        names = distinct([label(thing.name) if thing.name else number for thing, number in pairs])
        plain[key] = [
            {"name": name, "caption": thing.caption}
            | ({"image": folder / number} if (folder / number).exists() else {})
            for thing, name, number in zip(things, names, numbered, strict=True)
        ]
    return RowReader(language or "en").item(plain, ""), language_from
