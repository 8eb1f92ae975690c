"""Processes that do something at the same moment, again and again."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from admire.base.errors import UserError

Work = Callable[[int], object]
LONGEST = 60.0


def rounds(count: int, *works: Work) -> Iterator[list[str]]:
    """What came of each piece of work, round by round: "" or the message of a user's error.

    Each has a process of its own, forked, so that what a test has patched is patched there, too. It
    is given the number of the round. Any other error fails the test.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(works))
    pipes = [context.Pipe() for _ in works]
    processes = [
        context.Process(target=_repeat, args=(work, theirs, barrier), daemon=True)
        for work, (_, theirs) in zip(works, pipes, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        for turn in range(count):
            for ours, _ in pipes:
                ours.send(turn)
            yield [_said(ours) for ours, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()


def together(*works: Callable[[], object]) -> list[str]:
    """As :func:`rounds`, once."""

    def once(work: Callable[[], object]) -> Work:
        return lambda _: work()

    (told,) = rounds(1, *map(once, works))
    return told


def _repeat(work: Work, pipe: Connection, barrier: Barrier) -> None:
    while True:
        turn = pipe.recv()
        barrier.wait(LONGEST)
        said: tuple[str, Any]
        try:
            work(turn)
            said = "done", ""
        except UserError as error:
            said = "refused", str(error)
        except BaseException as error:
            said = "failed", f"{type(error).__name__}: {error}"
        pipe.send(said)


def _said(pipe: Connection) -> str:
    assert pipe.poll(LONGEST), "a process hangs"
    how, message = pipe.recv()
    assert how != "failed", message
    return str(message)
