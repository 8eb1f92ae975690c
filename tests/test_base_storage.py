"""Files that appear whole, and one process at a time: full disks, kills."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from admire.base.errors import UserError
from admire.base.storage import alone, cache_dir, write_whole


def write(path: Path, text: str = "new") -> None:
    with write_whole(path) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -------------------------------------------------------------------------------- write_whole


def test_a_file_is_written_with_the_folders_it_needs(tmp_path):
    path = tmp_path / "one" / "two" / "out.tsv"
    write(path, "text")
    assert path.read_text() == "text"
    assert names(path.parent) == ["out.tsv"]


def test_text_is_utf8_with_its_line_ends_unchanged(tmp_path):
    write(tmp_path / "out.txt", "não\r\nκ\n\r")
    assert (tmp_path / "out.txt").read_bytes() == "não\r\nκ\n\r".encode()


def test_bytes_are_written_as_they_are(tmp_path):
    with write_whole(tmp_path / "out.bin", "wb") as file:
        file.write(b"\x00\xff\r\n")
    assert (tmp_path / "out.bin").read_bytes() == b"\x00\xff\r\n"


def test_nobody_sees_the_new_file_before_it_is_complete(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with write_whole(path) as file:
        file.write("half")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "half"


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), UserError("mine")])
def test_an_exception_in_the_body_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail() -> None:
        with write_whole(path) as file:
            file.write("half")
            raise failure

    with pytest.raises(type(failure)) as caught:
        fail()
    assert caught.value is failure
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_full_disk_is_reported_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"out\.txt.*No space left"):
        write(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_write_that_fails_half_way_is_reported_and_leaves_the_old_file(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "out.txt"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"out\.txt.*File too large"):
            write(path, "new" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("below", ["out.txt", "new/out.txt"])
def test_a_folder_that_may_not_be_written_to_is_named(locked_folder, below):
    with pytest.raises(UserError, match="Permission denied") as caught:
        write(locked_folder / below)
    assert str(locked_folder / below) in str(caught.value)
    assert names(locked_folder) == ["out.txt"]
    assert (locked_folder / "out.txt").read_text() == "old"


@pytest.mark.parametrize(
    "name",
    ["file/out.txt", "file/deeper/out.txt", "n" * 300, "folder"],
    ids=["below a file", "far below a file", "too long a name", "a folder"],
)
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError) as caught:
        write(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert names(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"


# -------------------------------------------------------------------------------- cache folder


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path


@pytest.mark.parametrize("value", ["", None])
def test_the_cache_folder_is_the_users_where_none_is_set(monkeypatch, value):
    monkeypatch.delenv("ADMIRE_CACHE")
    if value is not None:
        monkeypatch.setenv("ADMIRE_CACHE", value)
    assert cache_dir().is_absolute()
    assert "admire" in cache_dir().parts


# --------------------------------------------------------------------------------------- alone


def test_one_at_a_time_is_in_the_block_and_a_kill_lets_the_next_one_in(tmp_path):
    path = tmp_path / "folder" / "lock.sqlite"
    code = f"""
import sys, time
from pathlib import Path
from admire.base.storage import alone
with alone(Path({str(path)!r}), "working"):
    print("in", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.MonkeyPatch.context() as patch:
            connect = sqlite3.connect
            patch.setattr(
                "sqlite3.connect",
                lambda path, **more: connect(path, isolation_level=None, timeout=0),
            )
            with pytest.raises(UserError, match="Another run is working"), alone(path, "working"):
                pass
        other.kill()
    with alone(path, "working"):
        pass
