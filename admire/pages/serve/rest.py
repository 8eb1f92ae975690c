"""``/v1``: rows of a ``manifest.jsonl`` in, their rankings out."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from admire.base.choices import ProfileName
from admire.base.errors import UserError
from admire.data.image_files import FORMAT_NAMES
from admire.pages.serve.guard import MEGABYTE, Limits
from admire.pages.serve.pictures import check_picture, distinct, label
from admire.pages.serve.problems import (
    INTERNAL,
    PROBLEM_TYPE,
    Problem,
    ProblemDetails,
    unfit,
)
from admire.pages.serve.service import Service, TheService
from admire.pages.serve.work import Job

if TYPE_CHECKING:
    from admire.data.items import Item
    from admire.runs.ranking import Run

log = logging.getLogger("admire")

PROBLEM: dict[str, Any] = {
    "description": "Why it cannot be done (RFC 9457).",
    "content": {PROBLEM_TYPE: {"schema": ProblemDetails.model_json_schema()}},
}
FILES = {"candidates": "candidate", "sequence": "sequence"}
"""What pictures' files are called, without their number; a candidate has its file's name."""

TOKEN = HTTPBearer(
    description="The token that admire serve was given, if it was given one.", auto_error=False
)

LINES = "application/x-ndjson"
ASKED = {"itemSchema": {"$ref": "#/components/schemas/Row"}}
ANSWERED = {
    "itemSchema": {
        "anyOf": [{"$ref": "#/components/schemas/Ranking"}, ProblemDetails.model_json_schema()]
    }
}
"""What stands in each line, for the description."""


class ByLine(APIRoute):
    """A route for bodies with an item a line."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See Starlette."""
        match, child = super().matches(scope)
        kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
        return (match, child) if kind == LINES else (Match.NONE, {})


router = APIRouter(dependencies=[Security(TOKEN)])  # for the description; Guard checks it
by_line = APIRouter(route_class=ByLine, include_in_schema=False)

Sense = Literal["idiomatic", "literal"]
Probability = Annotated[
    float | None, Field(description="Of the idiomatic sense; null where no vote could be read.")
]


def _decoded(value: object) -> bytes:
    start = re.match(r"data:[^,]*;base64,", value) if isinstance(value, str) else None
    if not start or not isinstance(value, str):
        raise ValueError("is not a data URI like data:image/png;base64,…, with the picture")
    try:
        return base64.b64decode(value[start.end() :], validate=True)
    except ValueError:
        raise ValueError("is not base64 after base64,") from None


class Candidate(BaseModel):
    """A picture, a caption, or a picture with its caption."""

    image: (
        Annotated[
            bytes,
            BeforeValidator(_decoded),
            WithJsonSchema({"type": "string", "pattern": "^data:[^,]*;base64,"}),
        ]
        | None
    ) = Field(
        None,
        description=f"{FORMAT_NAMES} as a data URI, at most {Limits.megabytes} MB and "
        f"{Limits.megapixels} megapixels.",
    )
    caption: str | None = None
    name: str | None = Field(
        None, description="What the answer calls it, such as its file's name; else candidate1, …"
    )


class Row(BaseModel):
    """One row of a manifest.jsonl, with pictures as data URIs. Other keys are ignored."""

    compound: str
    sentence: str | None = Field(
        None, description="Uses the compound. Only an item with a sequence can do without."
    )
    language: str | None = Field(
        None,
        description="A language tag; without one that of the sentence, or en where it cannot be "
        "told.",
    )
    candidates: list[Candidate] = Field(
        min_length=2,
        max_length=Limits.pictures,
        description=f"At most {Limits.pictures} together with the sequence.",
    )
    sequence: list[Candidate] = Field(
        [], description="In place of the sentence: what the best candidate continues."
    )
    profile: ProfileName | None = Field(
        None, description="The models and settings; by default those of the server's start."
    )
    sentence_type: Sense | None = None
    expected_order: list[str] | None = None
    expected_item: str | None = None


class Votes(BaseModel):
    """How often each sense was given."""

    idiomatic: int
    literal: int
    unparsed: int


class Meaning(BaseModel):
    """What a chat model says of one sense."""

    definitions: list[str]
    scenes: list[str]


class Entry(BaseModel):
    """What a dictionary says of one sense."""

    gloss: str
    source: str = Field(description="The dictionary.")


class Reading(BaseModel):
    """How one chat model understands the compound here."""

    llm: str
    sense: Sense | None
    probability: Probability
    votes: Votes
    idiomatic: Meaning
    literal: Meaning
    dictionary: dict[Sense, list[Entry]]


class Part(BaseModel):
    """What one text or ranker adds to a candidate's score."""

    of: str = Field(description="What is compared (image, caption), or the ranker.")
    text: str | None = Field(
        description="With what it is compared: gloss, scene, compound, …; null for a ranker."
    )
    value: float


class Scored(BaseModel):
    """A candidate with its score."""

    name: str = Field(description="As in the request, or candidate1, candidate2, … in its order.")
    score: float
    rank: int = Field(description="1 is the best.")
    parts: list[Part] = Field(description="They sum to the score.")


class Ranking(BaseModel):
    """The ranking of an item."""

    compound: str
    sentence: str
    language: str = Field(description="As in the request, or as told from the sentence.")
    sense: Sense | None
    probability: Probability
    readings: list[Reading]
    order: list[str] = Field(description="The candidates' names, best first.")
    candidates: list[Scored] = Field(description="In the order of the request.")
    warnings: list[str] = Field(description="What is odd about the item.")


class Gone(Problem):
    """The server is ending, or nobody waits for the answer any more."""

    def __init__(self) -> None:
        super().__init__(503, "The server is ending, or nobody waits any more.")


@by_line.post("/v1/rank")
async def rank_lines(request: Request, service: TheService) -> StreamingResponse:
    """Rank one item after the other, as :func:`rank` does, and answer each as it is ranked."""
    return StreamingResponse(_answers(await request.body(), request, service), media_type=LINES)


async def _answers(body: bytes, request: Request, service: Service) -> AsyncIterator[bytes]:
    """For each line with an item a line with its ranking, or with a problem in its place."""
    for line in filter(None, map(bytes.strip, body.splitlines())):
        try:
            ranking = await rank(Row.model_validate_json(line), request, service)
            answer = ranking.model_dump()
        except Gone:
            return
        except Problem as problem:
            answer = problem.details()
        except ValidationError as error:
            answer = unfit(error.errors()).details()
        except Exception:
            log.exception("A line of /v1/rank failed.")
            answer = Problem(500, INTERNAL).details()
        yield json.dumps(answer, ensure_ascii=False).encode() + b"\n"


@router.post(
    "/v1/rank",
    responses={200: {"content": {LINES: ANSWERED}}, "4XX": PROBLEM, "5XX": PROBLEM},
    openapi_extra={"requestBody": {"content": {LINES: ASKED}}},
)
async def rank(row: Row, request: Request, service: TheService) -> Ranking:
    """Rank the candidates of one item; or of several, an item a line.

    A body of the type application/x-ndjson has a Row in each line. It is answered by as many lines
    in the same order, each sent as soon as its item is ranked: a Ranking, or a problem, which has
    a status. The other items are ranked in any case.
    """
    profile = service.check_profile(row.profile)
    if len(row.candidates) + len(row.sequence) > service.limits.pictures:
        most = service.limits.pictures
        raise Problem(422, f"candidates, sequence: are more than {most}, the most that is taken.")
    with TemporaryDirectory(dir=service.folder) as place:
        folder = Path(place)
        names = {
            str(folder / f"{file}{k}"): f"{key}[{k - 1}].image"
            for key, file in FILES.items()
            for k in range(1, 1 + service.limits.pictures)
        }

        def do() -> Ranking:
            from admire.pages.serve.ranking import rank_item

            return _answer(rank_item(item, service.models.settings(profile), service.models))

        try:
            async with service.one_at_a_time:
                item = await run_in_threadpool(_read, row, folder, service.limits)
            return await _done(Job(secrets.token_hex(16), do), request, service)
        except UserError as error:
            raise service.problem(error, names) from None


async def _done(job: Job, request: Request, service: Service) -> Ranking:
    """The result of a job, which is stopped if the client closes the connection."""
    service.work.add(job)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({job.done, gone}, return_when=asyncio.FIRST_COMPLETED)
        if job.done.cancelled() or not job.done.done():
            raise Gone
        result: Ranking = job.done.result()
        return result
    finally:
        gone.cancel()
        service.work.stop(job)


async def _gone(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _read(row: Row, folder: Path, limits: Limits) -> Item:
    """The row as an item, its pictures written to the folder under numbers.

    Raises:
        Problem: a picture is none or breaks a limit.
        UserError: the row cannot be ranked.
    """
    from admire.pages.serve.ranking import read_row

    plain = row.model_dump(exclude={"candidates", "sequence", "profile"}, exclude_none=True)
    for key, file in FILES.items():
        plain[key] = []
        for k, one in enumerate(getattr(row, key)):
            plain[key].append({"caption": one.caption})
            if one.image is None:
                continue
            path, name = folder / f"{file}{k + 1}", f"{key}[{k}].image"
            if len(one.image) > limits.megabytes * MEGABYTE:
                most = limits.megabytes
                raise Problem(413, f"{name}: is more than {most:g} MB, the most that is taken.")
            path.write_bytes(one.image)
            check_picture(path, name, limits.megapixels)
            plain[key][k]["image"] = path.name
    numbered = [f"{FILES['candidates']}{k}" for k in range(1, 1 + len(row.candidates))]
    named = [label(one.name) if one.name else "" for one in row.candidates]
    called = distinct([name or number for name, number in zip(named, numbered, strict=True)])
    files = dict(zip(called, numbered, strict=True))
    names = {number: name for name, number in files.items()}
    for key in ("expected_order", "expected_item"):
        if gold := plain.get(key):
            plain[key] = (
                files.get(gold, gold)
                if isinstance(gold, str)
                else [files.get(one, one) for one in gold]
            )
    item = read_row(plain, folder, "manifest.jsonl")
    return replace(
        item,
        candidates=tuple(replace(one, name=names[one.name]) for one in item.candidates),
        expected_order=item.expected_order and tuple(names[one] for one in item.expected_order),
        expected_item=item.expected_item and names[item.expected_item],
    )


def _answer(run: Run) -> Ranking:
    """A run of one item, for programs."""
    from admire.pages.serve.ranking import item_card

    (ranking,) = run.rankings
    card = item_card(run)
    (result,) = card["runs"]
    scored = [
        {
            "name": candidate.name,
            "score": round(result["scores"][k], 9) + 0.0,  # no -0.0, no -1.000000000000009
            "rank": 1 + result["order"].index(k),
            "parts": [part | {"value": part["values"][k]} for part in result["parts"]],
        }
        for k, candidate in enumerate(ranking.item.candidates)
    ]
    item = {key: getattr(ranking.item, key) for key in ("compound", "sentence", "language")}
    return Ranking.model_validate(
        result
        | item
        | {
            "order": list(ranking.order),
            "candidates": scored,
            "warnings": card["warnings"],
        }
    )
