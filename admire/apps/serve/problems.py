"""Errors as problem details (RFC 9457): ``application/problem+json``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

log = logging.getLogger("admire")

PROBLEM_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """Why a request failed."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What is wrong and what to do, for people.")


class Problem(Exception):  # noqa: N818  it is called as RFC 9457 calls it
    """A request that cannot be fulfilled; the detail says what is wrong and what to do."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def details(self) -> ProblemDetails:
        """Return the members of the answer."""
        title = HTTPStatus(self.status).phrase
        return ProblemDetails(title=title, status=self.status, detail=self.detail)

    def response(self, headers: Headers) -> Response:
        """Answer a request with these headers: by JSON, or by a page for a browser's window."""
        content = self.details().model_dump()
        if "text/html" in headers.get("accept", ""):
            page = template("problem.html.j2").render(content)
            return HTMLResponse(page, self.status, self.headers)
        return JSONResponse(content, self.status, self.headers, media_type=PROBLEM_TYPE)


LATER = {"Retry-After": "10"}  #: a header of problems that pass


def problem_of(error: Exception) -> Problem:
    """Describe a problem, a broken schema, or an unforeseen error, which is logged."""
    match error:
        case Problem():
            return error
        case ClientDisconnect():  # nobody reads the answer
            return Problem(400, "The request is incomplete.")
        case ValidationError():
            sentences = []  # ``candidates[0].image: Input should be a valid string.``
            for each in error.errors():
                names = (f"[{n}]" if isinstance(n, int) else f".{n}" for n in each["loc"])
                key = "".join([*names, ": "]).lstrip(".") if each["loc"] else ""
                message = each["msg"].removeprefix("Value error, ").rstrip(".")
                sentences.append(f"{key}{message}{'' if message.endswith('?') else '.'}")
            return Problem(422, " ".join(sentences))
        case HTTPException(status_code=404):
            return Problem(404, "There is nothing at this address.")
        case HTTPException():
            return Problem(error.status_code, f"{error.detail}.", error.headers)
    log.error("A request failed.", exc_info=error)
    return Problem(500, "Something went wrong inside admire. The server's terminal shows what.")


@cache
def template(name: str) -> Any:
    """Return a template of this folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(autoescape=True, undefined=StrictUndefined, loader=loader).get_template(name)


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a request that failed."""
    return problem_of(error).response(request.headers)
