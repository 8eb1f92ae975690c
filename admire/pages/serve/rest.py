"""The same for programs: one row of a ``manifest.jsonl`` in, its ranking out."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from admire.base.errors import UserError
from admire.pages.serve.guard import MEGABYTE, Limits, read_object
from admire.pages.serve.pictures import check_picture
from admire.pages.serve.problems import Problem
from admire.pages.serve.visitors import new_id
from admire.pages.serve.work import Job, Stopped

if TYPE_CHECKING:
    from admire.pages.serve.service import Service
    from admire.runs.run import Run

DESCRIPTION = Path(__file__).with_name("openapi.json")

KEYS = (
    "compound",
    "sentence",
    "language",
    "sentence_type",
    "expected_order",
    "expected_item",
)
"""Of a row, besides its candidates and its sequence."""


async def describe(request: Request) -> Response:
    """``GET /v1/openapi.json``."""
    return FileResponse(DESCRIPTION, media_type="application/json")


async def rank_row(request: Request) -> Response:
    """``POST /v1/rank``: waits for its turn, and stops if the program goes away."""
    service: Service = request.app.state.service
    body = await read_object(request, service.limits.row)
    profile = body.get("profile") or service.models.profiles[0]
    service.check_profile(profile)
    folder = service.folder / new_id()
    folder.mkdir(mode=0o700)
    try:
        return JSONResponse(await _ranked(request, service, body, profile, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _ranked(
    request: Request, service: Service, body: Mapping[str, Any], profile: str, folder: Path
) -> dict[str, Any]:
    """What the program is answered.

    Raises:
        Problem: the row cannot be ranked, or nobody waits for it any more.
    """
    names = {
        str(folder / f"{kind}{k}"): f"{key}[{k - 1}].image"
        for key, kind in (("candidates", "candidate"), ("sequence", "sequence"))
        for k in range(1, service.limits.pictures + 1)
    }

    def start() -> Any:
        from admire.pages.serve.ranking import read_row

        item = read_row(_row(body, folder, service.limits), folder, "manifest.jsonl")

        def do() -> dict[str, Any]:
            from admire.pages.serve.ranking import rank_item

            return _answer(rank_item(item, service.models.settings(profile), service.models))

        return do

    try:
        async with service.one_at_a_time:
            do = await run_in_threadpool(start)
        job = Job(new_id(), do)
        service.work.add(job)
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait({job.done, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            service.work.stop(job)
        return dict(job.done.result())
    except UserError as error:
        raise service.told(error, names) from None
    except Stopped:
        raise Problem(503, "The server is ending, or nobody waits any more.") from None


async def _gone(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _row(body: Mapping[str, Any], folder: Path, limits: Limits) -> dict[str, Any]:
    """The row with names of files in place of data, which are written to the folder.

    Raises:
        Problem: a picture is none or breaks a limit.
    """
    row = {key: body[key] for key in KEYS if body.get(key) is not None}
    count = 0
    for key, kind in (("candidates", "candidate"), ("sequence", "sequence")):
        things = body.get(key) or []
        if not isinstance(things, list) or not all(isinstance(one, Mapping) for one in things):
            raise Problem(422, f"{key}: is not a list of objects.")
        count += len(things)
        if count > limits.pictures:
            raise Problem(
                422, f"{key}: there are more than {limits.pictures}, the most that is taken."
            )
        row[key] = []
        for k, one in enumerate(things, start=1):
            thing = {"caption": one.get("caption")}
            if one.get("image") not in (None, ""):
                thing["image"] = f"{kind}{k}"
                _write_picture(one["image"], folder / f"{kind}{k}", f"{key}[{k - 1}].image", limits)
            row[key].append(thing)
    return row


def _write_picture(value: object, path: Path, called: str, limits: Limits) -> None:
    found = (
        re.match(r"data:[\w.+/-]*(;[\w=.+-]+)*;base64,", value) if isinstance(value, str) else None
    )
    if not found or not isinstance(value, str):
        raise Problem(
            422, f"{called}: is not a data URI like data:image/png;base64,…, with the picture."
        )
    try:
        content = base64.b64decode(value[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise Problem(422, f"{called}: what stands after base64, is not base64.") from None
    if len(content) > limits.megabytes * MEGABYTE:
        raise Problem(
            413, f"{called}: is more than {limits.megabytes:g} MB, the most that is taken."
        )
    path.write_bytes(content)
    check_picture(path, called, limits.megapixels)


def _answer(run: Run) -> dict[str, Any]:
    """What a run of one item says, for programs."""
    from admire.pages.serve.ranking import item_card

    told = item_card(run, {})
    (ranking,) = run.rankings
    names = [one["name"] for one in told["candidates"]]
    (found,) = told["runs"]
    return {
        "compound": ranking.item.compound,
        "sentence": ranking.item.sentence,
        "language": ranking.item.language,
        "sense": found["sense"],
        "probability": found["probability"],
        "readings": found["readings"],
        "order": list(ranking.order),
        "candidates": [
            {
                "name": name,
                "score": found["scores"][k],
                "rank": 1 + ranking.order.index(name),
                "parts": [
                    {"of": part["of"], "text": part["text"], "value": part["values"][k]}
                    for part in found["parts"]
                ],
            }
            for k, name in enumerate(names)
        ],
    }
