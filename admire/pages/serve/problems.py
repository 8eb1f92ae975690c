"""What went wrong, as RFC 9457 tells programs: ``application/problem+json``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

log = logging.getLogger("admire")

INTERNAL = "Something went wrong inside admire. What it was stands in the server's terminal."


class Problem(Exception):  # noqa: N818  it is called as RFC 9457 calls it
    """A request that cannot be fulfilled.

    Attributes:
        detail: what is wrong and what to do, for people.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def told(self) -> dict[str, Any]:
        """The members of the answer."""
        title = HTTPStatus(self.status).phrase
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
        }

    def response(self) -> Response:
        return JSONResponse(
            self.told(),
            self.status,
            dict(self.headers or {}),
            media_type="application/problem+json",
        )


def answer_problem(request: Request, error: Exception) -> Response:
    """Of a :class:`Problem`, of what Starlette refuses, and of an error that nobody foresaw."""
    if isinstance(error, Problem):
        return error.response()
    if isinstance(error, HTTPException):
        told = {404: "There is nothing at this address.", 405: "This address takes other methods."}
        detail = told.get(error.status_code, str(error.detail))
        return Problem(error.status_code, detail, error.headers).response()
    log.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return Problem(500, INTERNAL).response()
