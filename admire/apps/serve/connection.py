"""A connection whose requests have to arrive in time."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

STEP = 3_000_000
"""Bytes of a body that have to arrive in each period: slow lines manage 100 kB a second."""


class Connection(H11Protocol):
    """uvicorn's connection, which ends if a request does not arrive in time.

    uvicorn waits for ever for the end of a head and of a body, and for the first byte.

    Attributes:
        period: seconds in which a head arrives, and then each :data:`STEP` of its body.
    """

    period = 30.0
    _timer: asyncio.TimerHandle | None = None
    _bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if not self._timer:
            self._wait()
        super().data_received(data)
        self._stop_if_arrived()

    def on_response_complete(self) -> None:
        """See uvicorn, which continues with what the client has sent meanwhile."""
        super().on_response_complete()
        self._stop_if_arrived()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._bytes = 0
        self._timer = self.loop.call_later(self.period, self._expire)

    def _has_begun(self) -> bool:
        """Return whether a part of a request has arrived, and another one has not."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or bool(state is h11.IDLE and self.conn.trailing_data[0])

    def _stop_if_arrived(self) -> None:
        if not self._has_begun():
            self._stop()

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        reading = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is not h11.DONE
        if reading and self._bytes >= STEP * self.period / 30:
            self._wait()
            return
        if self._has_begun() and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._answer("The request did not arrive in time.")
        self.transport.close()

    def _answer(self, text: str) -> None:
        headers = [("Content-Type", "text/plain"), ("Connection", "close")]
        headers.append(("Content-Length", str(len(text))))
        events: list[Any] = [h11.Response(status_code=408, headers=headers)]
        for event in (*events, h11.Data(data=text.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
