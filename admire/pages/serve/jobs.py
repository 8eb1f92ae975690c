"""Jobs of the page: checked, put into the queue, and told of when they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from admire.base.errors import UserError
from admire.pages.serve.guard import read_object
from admire.pages.serve.pictures import Picture, distinct
from admire.pages.serve.problems import INTERNAL, Problem
from admire.pages.serve.service import Service, service_of, visitor_of
from admire.pages.serve.visitors import Visitor, new_id
from admire.pages.serve.work import Job, Stopped

if TYPE_CHECKING:
    from admire.pages.serve.ranking import Ranked

log = logging.getLogger("admire")

ASKED = 1.0
"""Megabytes of a page's request, without pictures."""

Do = Callable[[], Mapping[str, Any]]
"""Does a job; returns what is told of it, and under ``ranked`` and ``copies`` what is kept."""


async def add_job(request: Request) -> Response:
    """``POST /jobs``: something to do when its turn comes."""
    service, visitor = service_of(request), visitor_of(request)
    asked = await read_object(request, ASKED)
    id = new_id()
    if asked.get("kind") == "rank":
        do, names = await _ranking(service, visitor, asked, id)
    elif asked.get("kind") == "search":
        do, names = _search(service, visitor, asked), {}
    else:
        raise Problem(422, "kind: is neither rank nor search.")
    service.visitors.find(visitor.id)  # who may have left meanwhile
    job = Job(id, do, visitor.tell)
    service.work.add(job)
    visitor.jobs[id] = job
    job.done.add_done_callback(partial(_tell_result, service, visitor, id, names))
    return JSONResponse({"job": id}, 202)


async def stop_job(request: Request) -> Response:
    """``DELETE /jobs/JOB``: take it out of the queue, or stop it soon."""
    visitor = visitor_of(request)
    job = visitor.jobs.get(request.path_params["id"])
    if job:
        service_of(request).work.stop(job)
    elif request.path_params["id"] not in visitor.ranked:
        raise Problem(404, "There is no such job.")
    return Response(status_code=204)


def _search(service: Service, visitor: Visitor, asked: Mapping[str, Any]) -> Do:
    if service.models.index is None:
        raise Problem(422, "There is nothing to search. Start admire serve with --index.")
    text, span, language = (asked.get(key) for key in ("text", "span", "language"))
    top = asked.get("top", 10)
    for key, value in (("text", text), ("span", span)):
        if not isinstance(value, str) or not value.strip():
            raise Problem(422, f"{key}: is empty.")
    if not isinstance(top, int) or not 1 <= top <= 100:
        raise Problem(422, "top: is not a number from 1 to 100.")

    def do() -> Mapping[str, Any]:
        from admire.pages.serve.ranking import search

        return search(
            str(text),
            str(span),
            str(language or "en"),
            top,
            service.models,
            visitor.folder,
            lambda name: f"/found/{name}?visitor={visitor.id}",
        )

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

        from admire.pages.serve.ranking import read_row

        item = read_row(row, visitor.folder, f"{id}.jsonl")
        called = zip(item.candidates, names, strict=True)
        return replace(item, candidates=tuple(replace(one, name=name) for one, name in called))

    labels = _called(shown)
    try:
        item = await run_in_threadpool(read)
    except UserError as error:
        raise service.told(error, labels) from None

    def do() -> Mapping[str, Any]:
        from admire.pages.serve.ranking import Ranked, rank_item

        settings = service.models.settings(profile)
        ranked = Ranked(rank_item(item, settings, service.models), settings, shown)
        return _shown(ranked, visitor)

    return do, labels


def _called(pictures: Mapping[str, Picture]) -> dict[str, str]:
    """What messages call pictures, by their paths and their files' names."""
    paths = {str(one.path): name for name, one in pictures.items()}
    return paths | {one.path.name: name for name, one in pictures.items()}


def _ranking_by_hand(
    service: Service, visitor: Visitor, by_hand: object
) -> tuple[Do, dict[str, str]]:
    """What ranks a job's item again, with what a person says of it."""
    from admire.pages.serve.ranking import check_by_hand

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

        from admire.pages.serve.ranking import rank_by_hand

        run = rank_by_hand(before.item, before, sense, meanings, service.models)
        return _shown(replace(before, run=run, sense=sense or before.sense), visitor)

    return do, _called(before.pictures)


def _shown(ranked: Ranked, visitor: Visitor) -> Mapping[str, Any]:
    """What is told of a ranking."""
    from admire.pages.report.thumbnails import Shown
    from admire.pages.serve.ranking import item_card

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
        ranked, copies = found.pop("ranked", None), found.pop("copies", None)
        if ranked:
            visitor.keep(id, ranked)
        if copies is not None:
            visitor.keep_found(copies)
        visitor.tell("result", {"job": id, **found})
        return
    if isinstance(error, UserError):
        problem = service.told(error, names)
    else:
        log.error("A job failed.", exc_info=error)
        problem = Problem(500, INTERNAL)
    visitor.tell("problem", {"job": id, **problem.told()})
