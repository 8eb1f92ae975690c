"""Commands that are killed in the middle of their work, and started again until they finish.

What a kill leaves behind is on the disk and at servers, and both change only by system calls. So
the moments of a kill are system calls that change something: a file is made, opened to be written,
written, cut, flushed, renamed or removed, or something is sent. That holds for SQLite's pages, for
native code, for threads and for processes that the command starts. Before each of these calls the
kernel (seccomp's user notification) stops the process until :class:`Nursery` lets it go on, or
sends SIGKILL to its process group. A kill while something is computed leaves what one before the
next such call leaves, and one while Python imports its modules leaves nothing.

Of an undisturbed run all such calls are noted. A seed then draws for each start a kind of call,
evenly among those that the run makes, and the how manieth of them does not happen any more: half of
the time from the first third, so that many kills add up in one run, and otherwise from all. No
clock has a part in it. A run that finishes before is compared, and the next one begins in a new
folder, until there were as many kills as wanted; the last start is left alone.

To start Python and to import torch takes seconds. So one process, the nursery, imports all that the
command needs, while it has but one thread, and each start is a fork of it. To the kernel these are
processes like any other.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "sendto": 44, "fsync": 74, "fdatasync": 75,
        "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85,
        "link": 86, "unlink": 87, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
        "linkat": 265, "renameat2": 316, "copy_file_range": 326,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "writev": 66, "sendto": 206, "fsync": 82, "fdatasync": 83,
        "truncate": 45, "ftruncate": 46, "openat": 56, "mkdirat": 34, "unlinkat": 35,
        "renameat": 38, "linkat": 37, "renameat2": 276, "copy_file_range": 285,
    },
}  # fmt: skip
"""Numbers of the system calls that change something, by machine."""
MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
"""What the kernel calls a machine, and the number of the call ``seccomp`` there."""
WRITES = ("write", "pwrite64", "writev")
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
RECEIVE, ANSWER = 0xC0502100, 0xC0182101
PATIENCE = 120
"""Seconds without any call after which a start counts as hanging."""

POSSIBLE = sys.platform == "linux" and platform.machine() in CALLS


# ----------------------------------------------------------------------------- the process itself


def watched() -> int:
    """Have this process, and all that it starts, stopped before each call; who listens decides.

    Returns:
        A file descriptor to listen at.
    """
    machine = platform.machine()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):  # no new privileges
        raise OSError(ctypes.get_errno(), "prctl")
    code = _filter(machine)
    program = ctypes.create_string_buffer(code, len(code))
    told = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(program))
    listener = libc.syscall(MACHINES[machine][1], 1, 8, told)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


def _filter(machine: str) -> bytes:
    """A program of the kernel's packet filter, which sees number and arguments of each call.

    Messages go to standard output and error, and files are opened to be read: those do not count.
    """
    load, equal, above, any_bit, end = 0x20, 0x15, 0x25, 0x45, 0x06
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    calls = CALLS[machine]
    plain = [number for name, number in calls.items() if name not in (*WRITES, "openat")]
    # Jumps tell how many steps to leave out where it holds, and where not.
    steps = [(load, 0, 0, 4), (equal, 1, 0, MACHINES[machine][0]), (end, 0, 0, ALLOW)]
    steps.append((load, 0, 0, 0))
    for number in plain:
        steps += [(equal, 0, 1, number), (end, 0, 0, NOTIFY)]
    for name in WRITES:
        steps += [(equal, 0, 4, calls[name]), (load, 0, 0, 16)]
        steps += [(above, 0, 1, 2), (end, 0, 0, NOTIFY), (end, 0, 0, ALLOW)]
    steps += [(equal, 0, 3, calls["openat"]), (load, 0, 0, 32)]
    steps += [(any_bit, 0, 1, changing), (end, 0, 0, NOTIFY), (end, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def nurse(door: socket.socket) -> int | None:
    """Fork for each message that comes in, and tell how the child ended.

    Returns:
        In a child, the exit code of the command; None at the end of the nursery.
    """
    tasks = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
    # Arrow's allocator ends its thread before a fork, and starts it again.
    if [one.read_text() for one in tasks if "jemalloc" not in one.read_text()][1:]:
        raise SystemExit("the nursery has threads, which no fork would have")
    while message := door.recv(1 << 20):
        told = json.loads(message)
        child = os.fork()
        if not child:
            return _begin(door, told)
        _, status = os.waitpid(child, 0)
        door.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())
    return None


def _begin(door: socket.socket, told: Mapping[str, Any]) -> int:
    os.setsid()
    os.environ.update(told["environ"])
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(log, number)
    listener = watched()
    socket.send_fds(door, [str(os.getpid()).encode()], [listener])
    os.close(listener)
    door.close()
    from admire.cli import main

    try:
        main(told["argv"])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


# ------------------------------------------------------------------------------------- from outside

Moment = tuple[str, int]
"""Which call does not happen any more: its name, and the how manieth of that name it is."""


@dataclass
class Start:
    """How a start went.

    Attributes:
        code: the exit code; None where it was killed.
        calls: the names of the calls, in their order.
        said: what it wrote to standard output and error.
    """

    code: int | None
    calls: list[str]
    said: str


class Nursery:
    """Starts commands, and kills them; a context manager.

    Args:
        surroundings: a function of surroundings.py, which imports what is needed and puts toys in
            the place of models.
    """

    def __init__(self, surroundings: str):
        self.surroundings = surroundings

    def __enter__(self) -> Nursery:
        self._door, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        places = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, self.surroundings, str(other.fileno())],
                pass_fds=[other.fileno()],
                env=os.environ | threads | {"PYTHONPATH": places, "TOKENIZERS_PARALLELISM": "0"},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        self._process.wait(30)

    def start(
        self,
        argv: Sequence[object],
        environ: Mapping[str, str],
        log: Path,
        moment: Moment | None = None,
    ) -> Start:
        """Start a command, and kill it at a moment if it comes to it; None leaves it alone."""
        told = {"argv": list(map(str, argv)), "environ": dict(environ)}
        self._door.send(json.dumps(told | {"log": str(log)}).encode())
        message, (listener, *_), *_ = socket.recv_fds(self._door, 64, 1)
        group = int(message)
        calls: list[str] = []
        try:
            killed = self._watch(listener, group, calls, moment)
        finally:
            os.close(listener)
        code = json.loads(self._door.recv(1000))["code"]
        assert not killed or code == -signal.SIGKILL, code
        return Start(None if killed else code, calls, log.read_text(errors="replace"))

    def _watch(self, listener: int, group: int, calls: list[str], moment: Moment | None) -> bool:
        """Let calls happen until one is not to; whether that came."""
        names = {number: name for name, number in CALLS[platform.machine()].items()}
        waiting = select.poll()
        waiting.register(listener, select.POLLIN)
        seen: Counter[str] = Counter()
        killed = False
        while True:
            found = waiting.poll(1000 * PATIENCE)
            if not found:
                os.killpg(group, signal.SIGKILL)
                raise AssertionError(f"it hangs after {calls[-5:]}")
            if not found[0][1] & select.POLLIN:
                return killed  # no process is left
            stopped = bytearray(80)
            try:
                fcntl.ioctl(listener, RECEIVE, stopped)
            except OSError as error:
                if error.errno == errno.ENOENT:  # it has died meanwhile
                    continue
                raise
            name = names[struct.unpack_from("i", stopped, 16)[0]]
            calls.append(name)
            seen[name] += 1
            if not killed and moment and name == moment[0] and seen[name] >= moment[1]:
                killed = True
                os.killpg(group, signal.SIGKILL)
            if not killed:
                going_on = struct.pack("QqiI", *struct.unpack_from("Q", stopped), 0, 0, 1)
                with suppress(FileNotFoundError):
                    fcntl.ioctl(listener, ANSWER, going_on)


@dataclass
class Told:
    """What came of a command that was killed again and again.

    Attributes:
        kills: how many there were, by the call that did not happen any more.
        starts: how many starts, those that were killed among them.
        runs: how many runs finished, each in a folder of its own.
        deepest: the most kills that one run outlived.
    """

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    runs: int = 0
    deepest: int = 0


def kill_until_done(
    nursery: Nursery,
    root: Path,
    command: Callable[[Path], Sequence[object]],
    *,
    left: Callable[[Path], dict[str, object]],
    whole: str = "",
    kills: int = 20,
    seed: int = 0,
    environ: Callable[[], Mapping[str, str]] = dict,
    ended: Callable[[Start], None] = lambda start: None,
    finished: Callable[[], None] = lambda: None,
) -> Told:
    """Kill a command so many times, start it until it finishes, and compare what it leaves.

    Args:
        root: a folder for the runs.
        command: its arguments, for a run in this folder. It may write there alone; its cache is
            ``cache`` and its temporary folder ``tmp`` below it.
        left: what lies below a folder, by relative path, to be compared with an undisturbed run.
        whole: what is written, by its name in the folder: whenever the command is killed, it is not
            there, or it is as it is in the end.
        seed: of the moments.
        environ: gives what a start finds in its environment besides.
        ended: called after each start, before the next.
        finished: called after each run.

    Raises:
        AssertionError: it leaves something else than undisturbed, fails, hangs, or comes to no end.
    """
    told = Told()

    folder = root / "run"  # the same for all runs, so that no path tells them apart
    places = {"ADMIRE_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "tmp").mkdir(parents=True)

    def start(moment: Moment | None = None) -> Start:
        log = root / f"{told.starts}.log"
        around = {**environ(), **places}
        done = nursery.start(command(folder), around, log, moment)
        ended(done)
        return done

    def finish(done: Start) -> None:
        assert done.code == 0, done.said
        finished()

    begin()
    done = start()
    calls = done.calls
    finish(done)
    wanted, known = left(folder), Counter(calls)
    end_state = left(folder / whole)
    rng = random.Random(seed)
    while True:
        begin()
        outlived = 0
        while True:
            moment = None
            if told.kills.total() < kills:
                name = rng.choice(sorted(known))
                reach = known[name] if rng.random() < 0.5 else known[name] // 3
                moment = name, rng.randint(1, max(1, reach))
            told.starts += 1
            assert told.starts < 6 * kills + 20, "it comes to no end"
            done = start(moment)
            if moment and done.code is None:
                told.kills[moment[0]] += 1
                outlived += 1
                if whole and (folder / whole).exists():
                    found = left(folder / whole)
                    assert found == end_state, _difference(end_state, found)
            else:
                finish(done)
                break
        told.runs += 1
        told.deepest = max(told.deepest, outlived)
        found = left(folder)
        assert found == wanted, _difference(wanted, found)
        if told.kills.total() >= kills:
            return told


def _difference(wanted: Any, found: Any) -> str:
    if not (isinstance(wanted, dict) and isinstance(found, dict)):
        return f"{found!r} in place of {wanted!r}"
    less, more = sorted({*wanted} - {*found}), sorted({*found} - {*wanted})
    other = sorted(name for name in {*wanted} & {*found} if wanted[name] != found[name])
    return f"other than undisturbed: lacks {less}, has {more}, differs in {other}"


if __name__ == "__main__":
    import surroundings

    getattr(surroundings, sys.argv[1])()
    assert threading.active_count() == 1
    ended_with = nurse(socket.socket(fileno=int(sys.argv[2])))
    if ended_with is not None:
        sys.exit(ended_with)
