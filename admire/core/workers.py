"""Work that is divided among processes, on this machine or over a cluster, by actors of Ray."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from math import ceil
from typing import Any, NamedTuple, TypeVar

from admire.core.errors import UserError, needs_extra
from admire.core.machine import cores
from admire.core.schema import Count, settings

log = logging.getLogger("admire")

Unit = TypeVar("Unit")
Result = TypeVar("Result")

AHEAD = 2
"""Units per worker that are started ahead of the oldest unfinished one. Their results wait in
memory, because they are given back in order."""

TRIES = 3  #: how many workers a unit may cost. One that fits into no machine would cost them all

STORE = 128 * 2**20  # bytes of shared memory for Ray, through which units and results go

SURROUNDINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # Ray would print of lost workers to stdout
    "RAY_worker_niceness": "0",  # else every other process goes before workers
}
"""Ray's settings, which it reads from the environment when it is imported."""


@settings(frozen=True)
class Workers:
    """Which processes share the work.

    Attributes:
        address: of a Ray cluster, ``HOST:PORT`` or ``auto``. None is ``RAY_ADDRESS``, or else Ray
            is started on this machine for as long as there is work.
        gpus: whether they share the GPUs that there are.
    """

    count: Count
    address: str | None = None
    gpus: bool = True


def map_processes(
    units: Iterable[Unit], open_worker: Callable[[], Callable[[Unit], Result]], workers: Workers
) -> Generator[Result, None, None]:
    """Have the workers do all units, and yield the results in the units' order.

    Units are read as they are needed; where there are none, no worker is started. If a worker is
    lost, Ray restarts it, and its unit is done again. If a unit ends in an error, the results
    before it are yielded, and then the error is raised. Warnings of workers are logged here, each
    once.

    Args:
        open_worker: opens the models in each worker and returns the function that does a unit. It
            travels by pickle, and must not contain keys, which Ray would keep; workers find them in
            their environment.

    Raises:
        UserError: Ray cannot be used, or a unit costs :data:`TRIES` workers.
    """
    rest = iter(units)
    first = list(islice(rest, 1))
    if not first:
        return
    with _connected(workers) as ray:
        # Each worker gets as much of a machine as leaves room for all of them.
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        processors = [int(node.get("CPU", 0)) for node in nodes]
        gpus = sum(node.get("GPU", 0) for node in nodes) if workers.gpus else 0
        threads, room = 1, sum(processors)
        while sum(count // (threads + 1) for count in processors) >= workers.count:
            threads += 1
        if room < workers.count:
            log.warning("There is room for %d of %d workers; others wait.", room, workers.count)
        share: dict[str, float] = {"num_cpus": threads}
        if gpus:
            share["num_gpus"] = 1 / ceil(workers.count / gpus)
        actor = ray.remote(_Worker).options(max_restarts=-1, max_task_retries=TRIES - 1, **share)
        arguments = open_worker, os.getcwd(), threads
        actors = [actor.remote(*arguments) for _ in range(workers.count)]
        try:
            yield from _in_order(ray, actors, chain(first, rest))
        finally:
            for process in actors:
                ray.kill(process)


def _in_order(ray: Any, actors: list[Any], units: Iterable[Any]) -> Iterator[Any]:
    from ray.util import ActorPool

    pool: Any = ActorPool(actors)
    waiting = enumerate(units)
    done: dict[int, _Outcome] = {}
    started = yielded = 0
    warned: set[str] = set()
    while True:
        while pool.has_free() and started < yielded + AHEAD * len(actors):
            task = next(waiting, None)
            if task is None:
                break
            pool.submit(lambda worker, task: worker.do.remote(*task), task)
            started += 1
        if not pool.has_next():
            return
        try:
            outcome: _Outcome = pool.get_next_unordered()
        except ray.exceptions.RayError as error:
            raise UserError(
                f"{TRIES} workers were lost by the same unit of work, or cannot begin "
                f"({str(error).strip().splitlines()[0]}). Memory may be short: take fewer workers, "
                "or a smaller model. Every machine of a cluster needs the same Python and the same "
                "packages. Finished work is cached; run the same command again to resume.",
                "workers",
            ) from error
        for warning in outcome.warnings:
            if warning not in warned:
                warned.add(warning)
                log.warning("%s", warning)
        done[outcome.number] = outcome
        while yielded in done:
            outcome = done.pop(yielded)
            if outcome.error:
                raise outcome.error
            yield outcome.result
            yielded += 1


def check_same(kind: str, expected: object, actual: object) -> None:
    """Refuse what a worker has opened, if the program itself has opened something else."""
    if actual != expected:
        raise UserError(
            f"A worker on {socket.gethostname()} opens another {kind} by the same name: {actual}, "
            f"not {expected}. Every machine needs the same files.",
            "ray_address",
        )


class _Outcome(NamedTuple):
    number: int
    warnings: list[str]
    result: Any = None
    error: Exception | None = None


class _Worker:
    """Does units in a process of its own."""

    def __init__(self, open_worker: Callable[[], Callable[[Any], Any]], folder: str, threads: int):
        os.environ["ADMIRE_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
        with suppress(OSError):  # it is on another machine; paths in settings may be relative
            os.chdir(folder)
        self._open_worker = open_worker
        self._do: Callable[[Any], Any] | None = None
        self._warnings: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: self._warnings.append(record.getMessage())  # type: ignore[method-assign]
        log.addHandler(handler)

    def do(self, number: int, unit: Any) -> _Outcome:
        """Do a unit. Errors are part of the outcome, so that Ray keeps them apart from its own."""
        try:
            if self._do is None:
                self._do = self._open_worker()
                self._warnings.clear()  # the program has opened the same, and was warned of it
            return _Outcome(number, self._warnings, self._do(unit))
        except Exception as error:
            return _Outcome(number, self._warnings, error=error)
        finally:
            self._warnings = []


@contextmanager
def _connected(workers: Workers) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one of this machine that ends with the block."""
    for name, value in SURROUNDINGS.items():
        os.environ.setdefault(name, value)
    with needs_extra("ray", "Work by several workers"):
        import ray
    address = workers.address or os.environ.get("RAY_ADDRESS")
    if address:
        check_address(address)
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {}
    if not address:
        options = {"num_cpus": max(workers.count, cores()), "include_dashboard": False}
        options["object_store_memory"] = STORE
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
    except (Exception, SystemExit) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f"The Ray cluster at '{address}'" if address else "Ray on this machine"
        raise UserError(
            f"{where} cannot be used ({reason}). Where a cluster asks for a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN.",
            "ray_address",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Refuse an address where nothing answers, for which Ray itself takes minutes."""
    if address == "auto":
        return
    parts = re.fullmatch(r"(?:ray://)?\[?([^/\]]+)\]?:(\d{1,5})", address)
    try:
        if not parts:
            raise ValueError("it is not HOST:PORT or auto")
        socket.create_connection((parts[1], int(parts[2])), timeout=5).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UserError(
            f"No Ray cluster answers at '{address}' ({error}). Ask ray status, on its head.",
            "ray_address",
        ) from None
