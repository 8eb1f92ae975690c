import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from conftest import full_disk

from admire.core.errors import UserError
from admire.core.storage import (
    MARKER,
    cache_dir,
    check_folder,
    check_place,
    note_addition,
    only_writer,
    open_file,
    replace_folder,
    write_whole,
)


def content(folder: Path) -> dict[str, str]:
    """The text of every file below a folder but markers, hidden ones and leftovers included."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def write(path: Path, text: str = "new") -> None:
    with write_whole(path) as file:
        file.write(text)


def test_a_file_is_written_as_it_is_with_the_folders_it_needs(tmp_path):
    write(tmp_path / "one" / "two" / "out.txt", "não\r\nκ\n\r")
    assert (tmp_path / "one" / "two" / "out.txt").read_bytes() == "não\r\nκ\n\r".encode()
    with write_whole(tmp_path / "out.bin", "wb") as file:
        file.write(b"\x00\xff\r\n")
    assert (tmp_path / "out.bin").read_bytes() == b"\x00\xff\r\n"


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), UserError("mine")])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(type(failure)), write_whole(path) as file:  # noqa: PT012
        file.write("half")
        raise failure
    assert content(tmp_path) == {"out.txt": "old"}


def test_what_a_killed_process_left_is_written_over(tmp_path):
    killed = f"""
import os, signal
from pathlib import Path
from admire.core.storage import replace_folder, write_whole
with replace_folder(Path({str(tmp_path)!r}) / "folder", "index") as part:
    with write_whole(part / "a.txt") as file, write_whole(Path({str(tmp_path)!r}) / "b.txt"):
        os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert content(tmp_path)  # half-written files
    replace(tmp_path / "folder")
    write(tmp_path / "b.txt")
    assert content(tmp_path) == {"b.txt": "new"} | {f"folder/{k}": v for k, v in whole().items()}


@pytest.mark.parametrize("below", ["out.txt", "new/out.txt"])
def test_a_folder_that_may_not_be_written_to_is_named(locked_folder, below):
    for use in (write, ADD):
        with pytest.raises(UserError, match=r"Permission denied|Not a directory") as caught:
            use(locked_folder / below)
        assert str(locked_folder / below) in str(caught.value)
    assert content(locked_folder) == {"out.txt": "old"}


def replace(folder: Path, text: str = "new", what: str = "index") -> None:
    with replace_folder(folder, what) as part:
        (part / "below").mkdir()
        (part / "below" / "a.txt").write_text(text)
        (part / "b.txt").write_text(text)


def whole(text: str = "new") -> dict[str, str]:
    return {"below/a.txt": text, "b.txt": text}


ADD = partial(check_folder, kind="run", adding=True)


@pytest.mark.parametrize(
    ("uses", "name"),
    [
        ((open_file, write, check_place, replace, ADD), "n" * 256),
        ((check_place,), "n" * 250),  # because of what is made beside it on the way
        ((replace, partial(check_folder, kind="run")), "n" * 245),
        ((open_file, replace, ADD), "loop"),  # a file that replaces the link can be written
        ((open_file, write, check_place, replace, ADD), "loop/a"),
        ((open_file, write, check_place, replace, ADD), "file/a"),
        ((open_file, write, check_place), ""),
    ],
)
def test_what_cannot_be_a_path_or_is_a_folder_is_refused(tmp_path, uses, name):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("mine")
    for use in uses:
        with pytest.raises(UserError, match=r"cannot be (read|written)|is (not )?a (folder|file)"):
            use(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"loop", "file"}


def test_the_root_is_never_replaced():
    for refused in (lambda: replace(Path("/")), lambda: check_folder(Path("/"), "run")):
        with pytest.raises(UserError, match="/: cannot be written"):
            refused()


@pytest.mark.parametrize("before", ["absent", "empty", "admire's own"])
def test_a_folder_that_nobody_would_miss_is_replaced(tmp_path, before):
    folder = tmp_path / "new" / "place"
    if before == "empty":
        folder.mkdir(parents=True)
    elif before == "admire's own":
        replace(folder, "old")
    replace(folder)
    assert content(folder) == whole()
    assert list(folder.parent.iterdir()) == [folder]
    marker = json.loads((folder / MARKER).read_text())
    assert marker == {"what": "index", "holds": ["b.txt", "below"]}


@pytest.mark.parametrize(
    ("what", "file", "text", "says"),
    [
        (None, "place/thesis.txt", "years of work", "thesis.txt"),
        ("index", "place/thesis.txt", "years of work", "thesis.txt"),
        ("index", f"place/{MARKER}", '{"what": "index"', MARKER),
        ("index", f"place/{MARKER}", "[" * 10**5, MARKER),
        ("run", "other.txt", "", "contains a run"),
        (None, "place", "years of work", "is a file"),
    ],
)
def test_anything_else_is_refused_and_left_alone(tmp_path, what, file, text, says):
    folder = tmp_path / "place"
    if what:
        replace(folder, "old", what)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    before = content(tmp_path)
    for refused in (lambda: replace(folder), lambda: check_folder(folder, "index")):
        with pytest.raises(UserError, match=f"{folder}.*{re.escape(says)}") as error:
            refused()
        assert error.value.settings == ("out",)
    assert content(tmp_path) == before


def test_files_may_be_added_to_a_folder_that_holds_others(tmp_path):
    replace(tmp_path / "place", "old")
    (tmp_path / "place" / "thesis.txt").write_text("years of work")
    check_folder(tmp_path / "place", "index", adding=True)
    (tmp_path / "place" / "thesis.txt").unlink()
    note_addition(tmp_path / "place" / "report.html")
    (tmp_path / "place" / "report.html").write_text("a page")
    replace(tmp_path / "place")
    assert content(tmp_path / "place") == whole()
    note_addition(tmp_path / "report.html")  # no folder of admire's
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path, failure):
    replace(tmp_path / "place", "old")
    with pytest.raises(failure), replace_folder(tmp_path / "place", "index") as part:  # noqa: PT012
        (part / "half.txt").write_text("half")
        raise failure
    assert content(tmp_path) == {f"place/{name}": text for name, text in whole("old").items()}


def test_a_full_disk_leaves_the_old_folder_and_the_message_names_it(tmp_path):
    folder = tmp_path / "place"
    replace(folder, "old")
    with full_disk(), pytest.raises(UserError) as error:
        replace(folder, "new" * 1000)
    assert str(error.value).startswith(f"{folder}: cannot be written (File too large")
    for size in (1000, 100_000):  # the latter does not wait for the end
        with full_disk(), pytest.raises(UserError) as error, replace_folder(folder, "index") as p:
            write(p / "vectors.npy", "new" * size)
        assert str(error.value).startswith(f"{folder / 'vectors.npy'}: cannot be written")
    assert content(tmp_path) == {f"place/{name}": text for name, text in whole("old").items()}


def test_two_commands_cannot_write_to_one_place_and_a_kill_frees_it(tmp_path):
    place = tmp_path / "run"
    code = f"""
import sys, time
from pathlib import Path
from admire.core.storage import only_writer
with only_writer(Path({str(place)!r})):
    print("in", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        for refused in (lambda: only_writer(place).__enter__(), lambda: replace(place)):
            with pytest.raises(UserError, match="run: another admire process"):
                refused()
        replace(tmp_path / "other")
        other.kill()
    with only_writer(place):
        replace(place)  # one command may enter again
    assert content(place) == whole()


def test_the_cache_folder_follows_the_environment_and_is_named_if_it_cannot_hold_locks(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("ADMIRE_CACHE", "")
    assert cache_dir().is_absolute()
    assert "admire" in cache_dir().parts
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot be locked .* set ADMIRE_CACHE to a folder"):
        replace(tmp_path / "run")
