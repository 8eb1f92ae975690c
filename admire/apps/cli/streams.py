"""The standard streams: a command continues if it cannot print, and reports this at its end."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BROKEN_PIPE = 141
"""The exit code where the reader of stdout closed it, as shells report death by SIGPIPE."""


class _Stream(io.FileIO):
    """A standard stream that stores its first error, and drops what is written after it.

    So a command whose reader is ``head -1`` still writes all of its files, and a broken pipe of
    stdout is not mistaken for that of a connection.
    """

    error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, and return how much was written or dropped."""
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make ``print`` to stdout and stderr raise nothing in this block.

    Characters that a stream's encoding lacks are printed as escapes.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_forgiving, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            print(end="", file=stream, flush=True)
        sys.stdout, sys.stderr = before


def _forgiving(stream: TextIO) -> TextIO:
    """Return a stream that raises nothing, to replace one that writes to a file or terminal."""
    buffer: Any = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(raw, io.FileIO):
        return stream  # of a notebook or a test
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(raw.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=bool(stream.line_buffering) or raw is buffer,
    )


def flush_stdout() -> OSError | None:
    """Print buffered output; return the error if stdout could not be written."""
    print(end="", flush=True)
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, _Stream) else None
