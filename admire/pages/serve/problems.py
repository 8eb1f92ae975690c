"""Errors as problem details (RFC 9457): ``application/problem+json``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

log = logging.getLogger("admire")

PROBLEM_TYPE = "application/problem+json"
INTERNAL = "Something went wrong inside admire. The server's terminal shows what."


class ProblemDetails(BaseModel):
    """Why a request failed."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What is wrong and what to do, for people.")


class Problem(Exception):  # noqa: N818  it is called as RFC 9457 calls it
    """A request that cannot be fulfilled.

    Attributes:
        detail: what is wrong and what to do, for people.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def details(self) -> dict[str, Any]:
        """The members of the answer."""
        title = HTTPStatus(self.status).phrase
        return ProblemDetails(title=title, status=self.status, detail=self.detail).model_dump()

    def response(self) -> Response:
        return JSONResponse(self.details(), self.status, self.headers, media_type=PROBLEM_TYPE)


async def answer_error(request: Request, error: Exception) -> Response:
    """The answer to a problem, a body that breaks its schema, or an unforeseen error."""
    match error:
        case Problem():
            return error.response()
        case RequestValidationError():
            return Problem(422, " ".join(map(_sentence, error.errors()))).response()
        case HTTPException():
            return Problem(error.status_code, f"{error.detail}.", error.headers).response()
    log.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return Problem(500, INTERNAL).response()


def _sentence(error: Mapping[str, Any]) -> str:
    """``candidates[0].image: Input should be a valid string.``"""
    message = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{_key(error['loc'][1:])}{message}."


def _key(location: Sequence[int | str]) -> str:
    names = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    key = "".join(names).lstrip(".")
    return f"{key}: " if key else ""
