"""What this machine has, and work that is divided among its threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib import metadata
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")

installed_version = cache(metadata.version)
"""Return a package's version, which takes milliseconds to read; else PackageNotFoundError."""


def cores() -> int:
    """Return how many processors this process may use; ``ADMIRE_THREADS`` makes it fewer."""
    affinity = getattr(os, "sched_getaffinity", None)
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    threads = os.environ.get("ADMIRE_THREADS", "")
    return min(int(threads), there) if threads.isdecimal() and int(threads) else there


def prefetch(
    function: Callable[[Input], Output], inputs: Iterable[Input], depth: int
) -> Iterator[Output]:
    """Yield the function's results in order; threads compute up to ``depth`` of them ahead."""
    pool = ThreadPoolExecutor(cores())
    queue: deque[Future[Output]] = deque()
    try:
        for value in inputs:
            queue.append(pool.submit(function, value))
            if len(queue) > depth:
                yield queue.popleft().result()
        while queue:
            yield queue.popleft().result()
    finally:  # after an error or Ctrl-C, drop what has not begun
        pool.shutdown(cancel_futures=True)
