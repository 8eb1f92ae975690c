"""Where a command ends: what cannot be printed, and what the operating system refuses."""

import errno
import logging
import os
import sys
from pathlib import Path
from typing import TextIO
from unittest.mock import Mock

import pytest
from commands import ended, run
from conftest import admire_row

from admire.apps.cli import main
from admire.core.errors import UserError

FULL = "admire: A file or connection: cannot be used (No space left on device).\n"


SERVER_GONE = UserError("The server has gone.")
SERVER_GONE.__context__ = BrokenPipeError(errno.EPIPE, "Broken pipe")


def reader_gone() -> TextIO:
    """A pipe whose reader has ended, as after ``| head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w", encoding="utf-8")


def full_disk() -> TextIO:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    return open("/dev/full", "w", encoding="utf-8")


def ends(stdout: TextIO | None, *arguments: object) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
    logging.getLogger("admire").handlers.clear()  # they would write to this test's stderr
    return stopped.value.code


@pytest.mark.parametrize("command", ["models", "models --json"])
def test_what_no_command_can_print_is_reported_once(capsys, command):
    with reader_gone() as stream:
        assert (ends(stream, *command.split()), capsys.readouterr().err) == (141, "")
    with reader_gone() as stream:
        stream.reconfigure(write_through=True)  # as with PYTHONUNBUFFERED
        assert (ends(stream, *command.split()), capsys.readouterr().err) == (141, "")
    with full_disk() as stream:
        assert (ends(stream, *command.split()), capsys.readouterr().err) == (2, FULL)


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize(("opened", "code"), [(reader_gone, 141), (full_disk, 2)])
def test_all_files_are_written_although_nothing_can_be_printed(
    capsys, monkeypatch, tmp_path, write_table, opened, code
):
    monkeypatch.setattr("admire.apps.report.write.draw_plots", lambda _: ())
    command = ("rank", write_table(admire_row()), "--query", "compound", "--report")
    with opened() as stream:
        assert ends(stream, *command, "--out", tmp_path / "run") == code
    assert {"run.json", "report.html"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert capsys.readouterr().err.count(FULL) == (code == 2)


@pytest.mark.usefixtures("words")
def test_characters_that_an_encoding_lacks_are_escaped(capsys, monkeypatch, tmp_path, write_table):
    data = write_table(admire_row("夜梟", sentence="夜梟 ★"))
    log = tmp_path / "log"
    for command in (
        ("rank", data, "--query", "compound", "--out", tmp_path / "run"),
        ("check", tmp_path / "夜.tsv"),
    ):
        with log.open("a", encoding="ascii") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            assert ends(stream, *command) == (2 if "夜.tsv" in str(command) else 0)
    text = log.read_text("ascii")
    assert r"\u591c\u689f" in text
    assert r"\u591c.tsv: cannot be read" in text


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/a/b"), "/a/b: cannot be used"),
        (OSError(errno.EXDEV, "Cross-device link", "a", None, "b"), "a and b: cannot be used"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),  # of a socket
        (OSError(), "(OSError)"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (MemoryError("Unable to allocate 9 GiB"), "memory (Unable to allocate 9 GiB)"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), "is not UTF-8 ("),
        (SERVER_GONE, "admire: The server has gone."),  # it is no reader of stdout
    ],
    ids=repr,
)
def test_what_is_no_fault_of_admire_ends_in_one_sentence(capsys, monkeypatch, error, says):
    monkeypatch.setattr("admire.apps.cli.app.load", Mock(side_effect=error))
    assert says in ended(capsys)


def test_control_characters_are_escaped_on_stderr_alone(capsys, caplog, monkeypatch):
    def warn(_: object) -> None:
        logging.getLogger("admire").warning("no %s", "\x1b[2J")
        raise UserError("That is enough.")

    monkeypatch.setattr("admire.apps.cli.app.load", warn)
    assert r"no \u001b[2J" in run(capsys)[2]
    assert caplog.messages == ["no \x1b[2J"]  # of a program or plug-in that has a handler


def test_a_fault_of_admire_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("admire.apps.cli.app.load", None)
    with pytest.raises(TypeError):
        main([])


@pytest.mark.parametrize(
    ("command", "out"),
    [
        *(("rank none.tsv", out) for out in ("/", "/proc/a", "n" * 245, "loop/a")),
        ("demo", "file/a"),
        ("reproduce admire:ablation", "file"),
        ("sweep none.tsv", "/proc/a"),
        *(("report none", out) for out in ("/dev/full", "n" * 251)),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    capsys, monkeypatch, tmp_path, command, out
):
    if out != "/" and not Path(out).absolute().parents[-2].exists():
        pytest.skip(f"needs {Path(out).parent}")
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("file").write_text("mine")
    error = ended(capsys, *command.split(), "--out", out)
    assert error.startswith((f"admire: {out}", f"admire: {os.path.abspath(out)}"))
    assert {path.name for path in tmp_path.iterdir()} == {"loop", "file"}
