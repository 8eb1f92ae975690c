"""The command line's entrance, which listens for Ctrl-C before anything slow is imported.

The first Ctrl-C ends a command within two seconds, a second one at once.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

GRACE = 1.5  #: seconds that a command has to clean up after Ctrl-C

STOPPED = 130  #: the exit code after Ctrl-C, as in shells

_ending = threading.Lock()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    A user's error ends with one message and exit code 2, Ctrl-C with one and exit code 130. Where
    the reader of stdout has closed it, the exit code is 141, without a message.
    """
    with stoppable():
        from admire.apps.cli.app import run

        run(arguments)


@contextmanager
def stoppable() -> Iterator[None]:
    """End the process at Ctrl-C once this block has cleaned up.

    In the block, Ctrl-C raises a KeyboardInterrupt, as everywhere in Python. If it takes longer
    than :data:`GRACE`, or Ctrl-C comes again, a thread ends the process: the main one may be in a
    library call of minutes. Other threads are not waited for, and C++ objects are not destroyed.
    If the block ends without an error after Ctrl-C, as a server does, the exit code is 0.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or others'
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    pressed = threading.Event()

    def interrupt(*_: object) -> NoReturn:
        pressed.set()
        # In the callback of a weak reference, Python would print the interrupt and continue.
        sys.unraisablehook = lambda _: None
        raise KeyboardInterrupt

    def watch() -> None:
        presses = 0
        with receiver, suppress(TimeoutError):
            while presses < 2:
                number = receiver.recv(1)
                if not number:  # the block has ended
                    return
                if number[0] == signal.SIGINT:
                    presses += 1
                    pressed.set()
                    receiver.settimeout(GRACE)
        _end(STOPPED)

    signal.signal(signal.SIGINT, interrupt)
    try:
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=watch, daemon=True).start()
        yield
    except BaseException as error:
        if not pressed.is_set():
            raise
        with suppress(BaseException):
            atexit._run_exitfuncs()  # Ray's, those of temporary folders and of other processes
        with suppress(BaseException):
            sys.stdout.flush()
        _end(0 if isinstance(error, SystemExit) and not error.code else STOPPED)
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sender.close()


def _end(code: int) -> NoReturn:
    """End the process at once, with a message if it was interrupted."""
    _ending.acquire()  # never released: only one thread ends the process
    if code:
        with suppress(OSError):  # sys.stderr may be locked
            os.write(2, b"Interrupted. Run the same command again to resume.\n")
    os._exit(code)
