"""Folders that admire writes: only its own are replaced, and one of the two is always whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from admire.base.errors import UserError
from admire.base.storage import MARKER, check_folder, replace_folder


def write(folder: Path, text: str = "new", what: str = "index") -> None:
    with replace_folder(folder, what) as part:
        (part / "below").mkdir()
        (part / "below" / "a.txt").write_text(text)
        (part / "b.txt").write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def whole(text: str) -> dict[str, str]:
    return {"below/a.txt": text, "b.txt": text}


@pytest.mark.parametrize("before", ["absent", "empty", "admire's own"])
def test_a_folder_that_nobody_would_miss_is_replaced(tmp_path, before):
    folder = tmp_path / "new" / "place"
    if before == "empty":
        folder.mkdir(parents=True)
    elif before == "admire's own":
        write(folder, "old")
        write(folder, "older")
    write(folder)
    assert content(folder) == whole("new")
    assert list(folder.parent.iterdir()) == [folder]


def thesis(folder: Path) -> str:
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    return "thesis.txt"


def note_in_an_index(folder: Path) -> str:
    write(folder, "old")
    (folder / "thesis.txt").write_text("years of work")
    return "thesis.txt"


def other_kind(folder: Path) -> str:
    write(folder, "old", "run")
    return "holds a run"


def damaged_marker(folder: Path) -> str:
    write(folder, "old")
    (folder / MARKER).write_text('{"what": "index"')
    return MARKER


def file(folder: Path) -> str:
    folder.write_text("years of work")
    return "is a file"


@pytest.mark.parametrize("make", [thesis, note_in_an_index, other_kind, damaged_marker, file])
def test_anything_else_is_refused_and_left_alone(tmp_path, make: Callable[[Path], str]):
    folder = tmp_path / "place"
    says = make(folder)
    before = content(tmp_path)
    for refused in (lambda: write(folder), lambda: check_folder(folder, "index")):
        with pytest.raises(UserError, match="place") as error:
            refused()
        assert says in str(error.value)
        assert "another place for the index" in str(error.value)
        assert error.value.settings == ("out",)
    assert content(tmp_path) == before


def test_a_file_put_there_while_the_folder_is_written_is_kept(tmp_path):
    folder = tmp_path / "place"
    with pytest.raises(UserError, match="thesis"), replace_folder(folder, "index"):
        thesis(folder)
    assert content(tmp_path) == {"place/thesis.txt": "years of work"}


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), OSError(28, "full")])
def test_a_failure_on_the_way_leaves_the_old_folder_and_nothing_else(tmp_path, failure):
    folder = tmp_path / "place"
    write(folder, "old")
    raised = UserError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(raised), replace_folder(folder, "index") as part:  # noqa: PT012
        (part / "half.txt").write_text("half")
        raise failure
    assert content(tmp_path) == {f"place/{name}": text for name, text in whole("old").items()}


def test_messages_name_the_folder_and_not_the_one_beside_it(tmp_path):
    folder = tmp_path / "place"
    with pytest.raises(UserError) as error, replace_folder(folder, "index") as part:
        raise UserError(f"{part / 'vectors.npy'}: cannot be written.")
    assert str(error.value) == f"{folder / 'vectors.npy'}: cannot be written."


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_process_that_dies_leaves_one_of_the_two_whole(tmp_path, monkeypatch, renames):
    """Death is played by renames that stop working; nothing is cleaned up after it."""
    folder = tmp_path / "place"
    write(folder, "old")
    rename, done = Path.rename, []

    def dies(path: Path, target: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(path)
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dies)
        patched.setattr("admire.base.storage.shutil.rmtree", lambda *_, **__: None)
        if renames < 2:
            with pytest.raises(KeyboardInterrupt):
                write(folder)
        else:
            write(folder)
    check_folder(folder, "index")  # the next call brings an old folder back
    assert content(folder) == whole("new" if renames == 2 else "old")
    write(folder, "newer")
    assert content(folder) == whole("newer")
    assert list(tmp_path.iterdir()) == [folder]


def test_hidden_folders_of_ones_own_with_like_names_are_left_alone(tmp_path):
    """They once could have been taken for what a replacement had left behind."""
    for name in (".place.old", ".place.part", ".place.admire-old"):
        thesis(tmp_path / name)
    check_folder(tmp_path / "place", "index")
    assert not (tmp_path / "place").exists()
    for name in (".place.old", ".place.part"):
        write(tmp_path / "place")
        assert content(tmp_path / name) == {"thesis.txt": "years of work"}


def test_the_marker_names_what_it_is_and_holds(tmp_path):
    write(tmp_path / "place")
    marker = json.loads((tmp_path / "place" / MARKER).read_text())
    assert marker == {"what": "index", "holds": ["b.txt", "below"]}
