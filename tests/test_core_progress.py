import logging
import sys
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace

import pytest

from admire.core import progress
from admire.core.progress import progress_as_wanted, progress_told_to, show_progress


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="admire")
    return caplog


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    monkeypatch.setenv("FORCE_COLOR", "1")

    def be(is_terminal: bool) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)

    return be


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times that are told, first the first; then an hour later each time."""
    times: list[float] = []
    later = count(3600, 3600)
    monkeypatch.setattr(progress.time, "monotonic", lambda: times.pop(0) if times else next(later))
    return times


def test_plain_lines_say_how_far_long_work_has_come(log, clock, terminal):
    terminal(False)
    clock += [0, 1, 2]
    assert list(show_progress("ab", "Writing")) == ["a", "b"]  # short work has one line
    assert list(show_progress("", "Nothing")) == []
    clock += [0, 16, 17, 20, 36, 200]
    assert list(show_progress(iter("abcde"), "Reading", 5)) == [*"abcde"]
    assert log.messages == [
        "Writing",
        "Reading",
        "Reading: 0 of 5",
        "Reading: 3 of 5, 12 s each, about 0:24 min left",
        "Reading: 4 of 5, 50 s each, about 0:50 min left",
    ]


def test_a_terminal_gets_a_bar_and_a_program_that_only_uses_the_library_nothing(
    log, terminal, capsys
):
    terminal(True)
    for level in (logging.INFO, logging.WARNING):
        log.set_level(level, logger="admire")
        assert list(show_progress("ab", "Reading")) == ["a", "b"]
        out, err = capsys.readouterr()
        assert (out, "Reading" in err, log.messages) == ("", level == logging.INFO, [])


def test_a_listener_is_called_instead_and_can_stop_the_work(log):
    calls: list[tuple[str, int, int]] = []
    with progress.progress_told_to(lambda *call: calls.append(call)):
        assert list(show_progress("ab", "Reading")) == ["a", "b"]
        with progress.hidden_progress():
            list(show_progress("ab", "In the midst of reading"))
    assert calls == [("Reading", 0, 2), ("Reading", 1, 2), ("Reading", 2, 2)]
    assert not log.messages

    def stop(what: str, done: int, total: int) -> None:
        if done:
            raise InterruptedError

    letters = iter("abc")
    with pytest.raises(InterruptedError), progress.progress_told_to(stop):
        list(show_progress(letters, "Reading", 3))
    assert next(letters) == "b"


def test_a_function_of_python_shows_progress_as_wanted(terminal, capsys):
    """Without the command line's INFO: on a terminal, or where it is asked for."""

    def work(progress: progress.Progress) -> str:
        with progress_as_wanted(progress):
            assert list(show_progress("ab", "Reading")) == ["a", "b"]
        return capsys.readouterr().err

    told = []
    for is_terminal in (False, True):
        terminal(is_terminal)
        assert ("Reading" in work(None)) is is_terminal
        assert work(False) == ""
        with progress_told_to(lambda *what: told.append(what)):
            assert work(None) == ""  # who listens around it hears it
    assert told == [("Reading", done, 2) for done in range(3)] * 2
    assert work(lambda *what: told.append(what)) == ""
    assert told[6:] == told[:3]


@pytest.mark.usefixtures("clock")
def test_a_notebook_shows_one_line_and_leaves_none(monkeypatch):
    display = pytest.importorskip("IPython.display", reason="needs the extra 'notebooks'")
    shown = []
    for name in ("display", "update"):
        monkeypatch.setattr(
            display.DisplayHandle, name, lambda self, data, raw: shown.append(data["text/plain"])
        )
    kernel = SimpleNamespace(kernel=None)
    monkeypatch.setattr("IPython.get_ipython", lambda: kernel)
    with progress_as_wanted(None):
        assert list(show_progress("a", "Reading")) == ["a"]
        assert list(show_progress("b", "Writing")) == ["b"]
    assert shown == ["Reading: 0 of 1", "Reading: 1 of 1", "Writing: 0 of 1", "Writing: 1 of 1", ""]
