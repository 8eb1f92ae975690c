"""Ctrl-C, from the first import on, and where a command does not come to its end."""

import signal
import subprocess
import sys
import time

import pytest

STOPPED = "Interrupted. Run the same command again to resume.\n"
ENDLESS = """
import atexit, itertools, threading
from admire.apps import cli

{grace}

def hang():
    print("here", flush=True)
    threading.Event().wait()

atexit.register(print, "put away")
with cli.stoppable():
    for _ in itertools.{counted}:
        try:
            hang()
        except KeyboardInterrupt:
            pass
    {then}
"""


pytestmark = pytest.mark.usefixtures("listening")


def pressed(code: str, times: int = 1) -> tuple[int, str, str, float]:
    """Exit code, output and seconds of a program that Ctrl-C ends when it has printed a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(times):
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, time.monotonic() - began


IMPORTING = """
import os, signal, sys
from admire.apps.cli import main

class Press:
    def find_spec(name, *_):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press)
main(["--help"])
"""


def test_ctrl_c_while_the_command_line_is_imported():
    assert pressed(IMPORTING, 0)[:3] == (130, "", STOPPED)


@pytest.mark.parametrize(
    ("counted", "then", "times", "said", "put_away"),
    [
        ("repeat(1)", "", 1, STOPPED, False),
        ("repeat(1)", "", 2, STOPPED, False),
        ("repeat(1, 1)", "raise SystemExit(0)", 1, "", True),  # as a server ends
        ("repeat(1, 1)", "raise ValueError('cut off')", 1, STOPPED, True),
    ],
    ids=["once", "twice", "a server", "an error on the way"],
)
def test_ctrl_c_ends_what_does_not_end(counted, then, times, said, put_away):
    grace = "cli.GRACE = 45" if times > 1 else ""  # which the second Ctrl-C does not wait for
    code, out, err, took = pressed(ENDLESS.format(counted=counted, then=then, grace=grace), times)
    assert (code, err) == (130 if said else 0, said)
    assert ("put away" in out) is put_away
    assert took < (4 if times == 1 else 30)  # after 1.5 s and at once, even on a busy machine
