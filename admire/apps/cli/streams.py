"""The standard streams: a command continues if it cannot print, and reports this at its end."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BROKEN_PIPE = 141
"""The exit code where the reader of stdout closed it, as shells report death by SIGPIPE."""

_READER_LEFT = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)


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

    Characters that a stream's encoding lacks are printed as escapes. A stream that is closed, as by
    ``>&-`` or pythonw, is opened first: otherwise the next file gets its number, and libraries in C
    write their messages into it. What is printed to a closed stdout is lost, which is an error
    unless stderr is closed as well, because then nobody could read the message.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    closed = [stream is None or stream.closed for stream in before]
    # A null device that is open for reading only makes output fail; otherwise output is dropped.
    output = os.O_WRONLY if closed[2] else os.O_RDONLY
    with ExitStack() as opened:
        # In this order: each gets the lowest free number.
        if closed[0]:
            sys.stdin = opened.enter_context(_null_device(os.O_RDONLY, "r"))
        if closed[1]:
            sys.stdout = opened.enter_context(_null_device(output, "w"))
        if closed[2]:
            sys.stderr = opened.enter_context(_null_device(os.O_WRONLY, "w"))
        sys.stdout, sys.stderr = _forgiving(sys.stdout), _forgiving(sys.stderr)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdin, sys.stdout, sys.stderr = before


def _null_device(flags: int, mode: Literal["r", "w"]) -> TextIO:
    number = os.open(os.devnull, flags)
    os.set_inheritable(number, True)  # programs that a command starts need it as well
    return open(number, mode, encoding="utf-8")


def _forgiving(stream: TextIO) -> TextIO:
    """Return a stream that raises nothing, to replace one that writes to a file or terminal."""
    raw = getattr(stream.buffer, "raw", stream.buffer) if hasattr(stream, "buffer") else None
    if not isinstance(raw, io.FileIO):
        return stream  # of a notebook or a test
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(raw.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=bool(stream.line_buffering) or raw is stream.buffer,
    )


def flush_stdout() -> OSError | None:
    """Print buffered output; return the error if stdout could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, _Stream) else None


def reader_left(error: OSError | None) -> bool:
    """Return whether an error of stdout is that its reader closed it, as ``head`` does."""
    return error is not None and error.errno in _READER_LEFT
