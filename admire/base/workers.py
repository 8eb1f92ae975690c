"""Work that is divided among processes, on this machine or over a cluster, by actors of Ray."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import ceil
from typing import Any, Generic, TypeVar, cast

from admire.base.errors import UserError, needs_extra
from admire.base.machine import cores
from admire.base.schema import Count, check_setting

log = logging.getLogger("admire")

Unit = TypeVar("Unit")
Result = TypeVar("Result")

AHEAD = 2
"""How many units for each worker may be done, or begun, behind one that takes long. Their results
wait in memory, because they are given back in order."""

TRIES = 3
"""How many workers a unit may cost. One that fits into no machine would cost them all."""

STORE = 128 * 2**20
"""Bytes of shared memory for Ray on this machine, through which units and results go."""

SURROUNDINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # Ray would print of lost workers to stdout
    "RAY_worker_niceness": "0",  # else every other process goes before workers
}
"""Ray's settings, which it reads from the environment when it is imported."""

PATIENCE = 60.0
"""Seconds without any worker after which it is said that they wait for room in the cluster."""


@dataclass(frozen=True)
class Workers:
    """Which processes share the work.

    Attributes:
        count: how many there are.
        address: of a Ray cluster, ``HOST:PORT`` or ``auto``. None is ``RAY_ADDRESS``, or else Ray
            is started on this machine for as long as there is work.
        gpus: whether they share the GPUs that there are.

    Raises:
        UserError: there cannot be so many.
    """

    count: int
    address: str | None = None
    gpus: bool = True

    def __post_init__(self) -> None:
        check_setting("workers", self.count, Count)


def over_workers(
    units: Iterable[Unit], open_worker: Callable[[], Callable[[Unit], Result]], workers: Workers
) -> Generator[Result, None, None]:
    """Have the workers do all units, and yield what comes of each, in the units' order.

    Units are read as they are needed; where there are none, no worker is started. A worker that is
    lost, with its machine or for lack of memory, costs its unit, which another does from the
    beginning. Where a unit ends in an error, those before it are done and yielded, and then it is
    raised, as in one process. What workers warn of in a unit is said here, once.

    Args:
        open_worker: opens models in each worker, which the program has opened, too, and gives the
            function that does a unit. It travels by pickle, as units and results do: a function of
            a module, or a :func:`functools.partial` of one. It may hold no keys, which Ray would
            keep; workers find them in their environment.

    Raises:
        UserError: Ray is not installed, the cluster does not answer, or a unit costs
            :data:`TRIES` workers.
        Exception: what ``open_worker`` or a unit ends in.
    """
    coming: Iterator[_Task[Unit, Result]] = map(_Task, units)
    waiting = deque(islice(coming, workers.count))
    if not waiting:
        return
    with _connected(workers) as ray, closing(_Crew(ray, open_worker, workers)) as crew:
        for _ in waiting:
            crew.hire()
        row = deque(waiting)  # what is begun, or will be next, until it is yielded

        def ready() -> bool:
            """Whether a task waits for a worker; the next is read if none does."""
            if not waiting and len(row) < AHEAD * workers.count:
                waiting.extend(islice(coming, 1))
                row.extend(waiting)
            return bool(waiting)

        while ready() or row:
            while crew.free and ready():
                crew.give(waiting.popleft())
            ready()  # while workers are busy
            task = crew.wait()
            if task and not task.done:  # its worker was lost
                waiting.appendleft(task)
            elif task and task.error:  # what comes after it is not done any more
                coming = iter(())
                while row[-1] is not task:
                    row.pop()
                waiting = deque(one for one in waiting if one in row)
            while row and row[0].done:
                yield row.popleft().outcome()


def check_same(what: str, wanted: object, found: object) -> None:
    """Refuse what a worker has opened, if the program itself has opened something else.

    Raises:
        UserError: they differ, as where the same name is of different files on two machines.
    """
    if found != wanted:
        raise UserError(
            f"A worker on {socket.gethostname()} opens another {what} by the same name: {found}, "
            f"not {wanted}. Every machine needs the same files.",
            "ray_address",
        )


@dataclass(eq=False)
class _Task(Generic[Unit, Result]):
    """A unit, how many workers it has cost, and what it ended in."""

    unit: Unit
    lost: int = 0
    done: bool = False
    result: Result | None = None
    error: Exception | None = None

    def outcome(self) -> Result:
        if self.error:
            raise self.error
        return cast(Result, self.result)


class _Worker:
    """Does units in a process of its own. Each answer has what was warned of on the way."""

    def __init__(self, open_worker: Callable[[], Callable[[Any], Any]], folder: str, threads: int):
        os.environ["ADMIRE_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
        with suppress(OSError):  # it is on another machine; paths in settings may be relative
            os.chdir(folder)
        self._open_worker = open_worker
        self._warnings: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: self._warnings.append(record.getMessage())  # type: ignore[method-assign]
        log.addHandler(handler)

    def open(self) -> tuple[list[str], None]:
        self._do = self._open_worker()
        return [], None  # the program has opened the same, and was warned of it

    def do(self, unit: Any) -> tuple[list[str], Any]:
        self._warnings.clear()
        return self._warnings, self._do(unit)


class _Crew(Generic[Unit, Result]):
    """The workers, and what each is at.

    Attributes:
        free: those that have nothing to do.
    """

    def __init__(
        self, ray: Any, open_worker: Callable[[], Callable[[Unit], Result]], workers: Workers
    ):
        share = _share(ray, workers)
        actor: Any = ray.remote(_Worker).options(**share)
        self._ray = ray
        self._new = partial(actor.remote, open_worker, os.getcwd(), share["num_cpus"])
        self._all: list[Any] = []
        self._busy: dict[Any, tuple[Any, _Task[Unit, Result] | None]] = {}
        self._began = False
        self._lost = 0
        self._said: set[str] = set()
        self.free: list[Any] = []

    def hire(self) -> None:
        """Start a worker, which is free when it has opened its models."""
        worker = self._new()
        self._all.append(worker)
        self._busy[worker.open.remote()] = worker, None

    def give(self, task: _Task[Unit, Result]) -> None:
        """Have a free worker do a task."""
        worker = self.free.pop()
        self._busy[worker.do.remote(task.unit)] = worker, task

    def wait(self) -> _Task[Unit, Result] | None:
        """Wait for an answer, and give the task that it is of, if it is of one.

        The task is done, or its worker was lost, and another one is hired.

        Raises:
            UserError: too many workers were lost.
            Exception: a worker could not open its models.
        """
        done: list[Any] = []
        while not done:
            done, _ = self._ray.wait(list(self._busy), timeout=PATIENCE)
            if not done and not self._began:
                self._say("No worker has begun yet. They wait for room, or open their models.")
        worker, task = self._busy.pop(done[0])
        try:
            warnings, result = self._ray.get(done[0])
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if task is None:
                raise cause from error
            task.done, task.error = True, cause
            self.free.append(worker)
        except self._ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False):
                raise UserError(
                    f"A worker cannot begin ({str(error).strip().splitlines()[-1]}). Every machine "
                    "of a cluster needs the same Python and the same packages.",
                    "ray_address",
                ) from error
            self._replace(worker, task, error)
        else:
            self._began = True
            for warning in warnings:
                self._say(warning)
            self.free.append(worker)
            if task is None:
                self._lost = 0
            else:
                task.done, task.result = True, result
        return task

    def _replace(self, worker: Any, task: _Task[Unit, Result] | None, error: Exception) -> None:
        self._ray.kill(worker)
        self._all.remove(worker)
        if task is None:
            self._lost += 1
        else:
            task.lost += 1
        if (self._lost if task is None else task.lost) == TRIES:
            at = "while they opened their models" if task is None else "by the same unit of work"
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"{TRIES} workers were lost {at}: {reason} Memory may be short: take fewer "
                "workers, or a smaller model. What is done is kept; the same command goes on.",
                "workers",
            ) from error
        log.warning("A worker was lost. Another one does its unit of work again.")
        self.hire()

    def _say(self, warning: str) -> None:
        if warning not in self._said:
            self._said.add(warning)
            log.warning("%s", warning)

    def close(self) -> None:
        """End all workers, whatever they are at."""
        for worker in self._all:
            self._ray.kill(worker)


def _share(ray: Any, workers: Workers) -> dict[str, float]:
    """What of a machine each worker gets: as much as leaves room for all of them."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    processors = [int(node.get("CPU", 0)) for node in nodes]
    gpus = sum(node.get("GPU", 0) for node in nodes)
    threads = 1
    while sum(there // (threads + 1) for there in processors) >= workers.count:
        threads += 1
    if sum(processors) < workers.count:
        log.warning(
            "There is room for %d of %d workers; others begin when there is more.",
            sum(processors),
            workers.count,
        )
    if not workers.gpus or not gpus:
        return {"num_cpus": threads}
    return {"num_cpus": threads, "num_gpus": 1 / ceil(workers.count / gpus)}


@contextmanager
def _connected(workers: Workers) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one of this machine that ends with the block.

    Where the program is connected to one already, that is used and left as it is.

    Raises:
        UserError: Ray is not installed, or the cluster does not answer.
    """
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
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not address:
        options |= {
            "address": "local",
            "num_cpus": max(workers.count, cores()),
            "include_dashboard": False,
            "object_store_memory": STORE,
        }
    else:
        options["address"] = address
    try:
        ray.init(**options)
    except (Exception, SystemExit) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if not address:
            raise UserError(f"Ray cannot be started on this machine ({reason}).") from error
        raise UserError(
            f"The Ray cluster at '{address}' cannot be used ({reason}). Where it asks for a token, "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN.",
            "ray_address",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Refuse an address where nothing answers, for which Ray itself takes minutes.

    Raises:
        UserError: it is wrong, or nothing answers there.
    """
    if address == "auto":
        return
    found = re.fullmatch(r"(?:ray://)?\[?([^/\]]+)\]?:(\d{1,5})", address)
    try:
        if not found:
            raise ValueError("it is not HOST:PORT or auto")
        socket.create_connection((found[1], int(found[2])), timeout=5).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UserError(
            f"No Ray cluster answers at '{address}' ({error}). ray status, on its head, tells its "
            "address.",
            "ray_address",
        ) from None
