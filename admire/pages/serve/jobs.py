"""Jobs of the page: put into the queue, and their results sent as events."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, StringConstraints

from admire.base.errors import UserError
from admire.pages.serve.guard import Limits
from admire.pages.serve.language import language_of
from admire.pages.serve.pictures import Picture, distinct
from admire.pages.serve.problems import INTERNAL, Problem
from admire.pages.serve.service import Service, TheService, TheVisitor, Visitor
from admire.pages.serve.work import Job

if TYPE_CHECKING:
    from admire.data.items import Item
    from admire.pages.serve.ranking import Ranked

log = logging.getLogger("admire")

router = APIRouter(include_in_schema=False)

Label = Literal["idiomatic", "literal"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Candidate(BaseModel):
    """A picture by its id, a caption, or both."""

    picture: str | None = None
    caption: str | None = None


class ByHand(BaseModel):
    """What a person says of an item that the job ``of`` ranked."""

    of: str
    sense: Label | None = None
    meanings: dict[Label, str | None] = {}


class Ranking(BaseModel):
    """An item to rank, or one to rank again by hand."""

    kind: Literal["rank"]
    compound: str
    sentence: str
    language: str | None = None
    candidates: list[Candidate] = Field(max_length=Limits.pictures)
    profile: str | None = None
    by_hand: ByHand | None = None


class Search(BaseModel):
    """A search in the collection."""

    kind: Literal["search"]
    text: Text
    span: Text
    language: str | None = None
    top: int = Field(10, ge=1, le=100, strict=True)


@router.post("/jobs", status_code=202)
async def add_job(
    asked: Annotated[Ranking | Search, Field(discriminator="kind")],
    service: TheService,
    visitor: TheVisitor,
) -> dict[str, str]:
    """Something to do when its turn comes.

    A job returns what the page shows, and under ``ranked`` and ``pictures`` what is kept.
    """
    do: Callable[[], Mapping[str, Any]]
    id = secrets.token_hex(16)
    names: dict[str, str] = {}
    if isinstance(asked, Search):
        if service.models.index is None:
            raise Problem(422, "There is nothing to search. Start admire serve with --index.")
        do = partial(_search, service, visitor, asked)
    elif asked.by_hand:
        before = visitor.result(asked.by_hand.of)
        names = _names(before.pictures)
        do = partial(_rank_by_hand, service, visitor, asked, asked.by_hand, before)
    else:
        profile = service.check_profile(asked.profile)
        pictures = [
            visitor.picture(one.picture) if one.picture else None for one in asked.candidates
        ]
        called = distinct(
            [one.name if one else f"candidate{k}" for k, one in enumerate(pictures, start=1)]
        )
        shown = {name: one for name, one in zip(called, pictures, strict=True) if one}
        names = _names(shown)
        try:
            item = await run_in_threadpool(_read, asked, visitor, f"{id}.jsonl", called)
        except UserError as error:
            raise service.problem(error, names) from None
        do = partial(_rank, service, visitor, asked, profile, item, shown)
    job = Job(id, do, visitor.tell)
    service.work.add(job)
    visitor.jobs[id] = job
    job.done.add_done_callback(partial(_tell_result, service, visitor, id, names))
    return {"job": id}


@router.get("/results/{job}")
async def send_result(job: str, service: TheService, visitor: TheVisitor) -> dict[str, Any]:
    """A result by its address, and what was asked for it."""
    ranked = service.open_result(job, visitor)
    shown = await run_in_threadpool(_shown, ranked, visitor)
    return {"item": shown["item"], "body": ranked.asked}


@router.delete("/jobs/{id}", status_code=204)
async def stop_job(id: str, service: TheService, visitor: TheVisitor) -> None:
    """Take a job out of the queue, or stop it soon."""
    if id in visitor.jobs:
        service.work.stop(visitor.jobs[id])
    elif id not in visitor.ranked:
        raise Problem(404, "There is no such job.")


def _search(service: Service, visitor: Visitor, asked: Search) -> Mapping[str, Any]:
    from admire.pages.serve.ranking import search

    return search(
        asked.text,
        asked.span,
        asked.language or language_of(asked.text) or "en",
        asked.top,
        service.models,
        visitor.folder,
        visitor.id,
    )


def _read(asked: Ranking, visitor: Visitor, manifest: str, names: list[str]) -> Item:
    """The item, with the names that its candidates have on the page."""
    from admire.pages.serve.ranking import read_row

    row = asked.model_dump(include={"compound", "sentence", "language"})
    row["candidates"] = [{"image": one.picture, "caption": one.caption} for one in asked.candidates]
    item = read_row(row, visitor.folder, manifest)
    called = zip(item.candidates, names, strict=True)
    return replace(item, candidates=tuple(replace(one, name=name) for one, name in called))


def _names(pictures: Mapping[str, Picture]) -> dict[str, str]:
    """What messages call pictures, by their paths and their files' names."""
    paths = {str(one.path): name for name, one in pictures.items()}
    return paths | {one.path.name: name for name, one in pictures.items()}


def _rank(
    service: Service,
    visitor: Visitor,
    asked: Ranking,
    profile: str,
    item: Item,
    pictures: Mapping[str, Picture],
) -> Mapping[str, Any]:
    from admire.pages.serve.ranking import Ranked, rank_item

    settings = service.models.settings(profile)
    run = rank_item(item, settings, service.models)
    return _shown(Ranked(run, settings, pictures, asked=asked.model_dump()), visitor)


def _rank_by_hand(
    service: Service, visitor: Visitor, asked: Ranking, by_hand: ByHand, before: Ranked
) -> Mapping[str, Any]:
    from admire.pages.serve.ranking import rank_by_hand

    run = rank_by_hand(before, by_hand.sense, by_hand.meanings, service.models)
    sense = by_hand.sense or before.sense
    return _shown(replace(before, run=run, sense=sense, asked=asked.model_dump()), visitor)


def _shown(ranked: Ranked, visitor: Visitor) -> Mapping[str, Any]:
    from admire.pages.serve.ranking import item_card

    pictures = {one.path: one for one in ranked.pictures.values()}
    return {"item": item_card(ranked.run, pictures, visitor.id), "ranked": ranked}


def _tell_result(
    service: Service,
    visitor: Visitor,
    id: str,
    names: Mapping[str, str],
    done: asyncio.Future[Mapping[str, Any]],
) -> None:
    """Send a visitor the result of a job, and keep it."""
    visitor.jobs.pop(id, None)
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        shown = dict(done.result())
        if "ranked" in shown:
            visitor.ranked[id] = shown.pop("ranked")
        visitor.pictures |= {picture.id: picture for picture in shown.pop("pictures", ())}
        visitor.tell("result", {"job": id, **shown})
        return
    if isinstance(error, UserError):
        problem = service.problem(error, names)
    else:
        log.error("A job failed.", exc_info=error)
        problem = Problem(500, INTERNAL)
    visitor.tell("problem", {"job": id, **problem.details()})
