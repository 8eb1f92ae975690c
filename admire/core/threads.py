"""Prefetching: threads compute results before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from admire.core.machine import cores

Input = TypeVar("Input")
Output = TypeVar("Output")


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
