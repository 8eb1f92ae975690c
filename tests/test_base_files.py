"""Paths that stay in a folder, and texts and tables that are too large to be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from admire.base import files
from admire.base.errors import UserError
from admire.base.files import json_rows, open_text, path_inside, read_text, table_parts

PARTS = ("a", "..", ".", "", "out", "in", "up", "/", "\\", "C:", "\0", " ", "~", "a.png", "é")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links: out of it, into it, and to the folder above."""
    place = tmp_path_factory.mktemp("place")
    folder = place / "set"
    (folder / "a" / "a").mkdir(parents=True)
    (place / "secret.png").write_text("secret")
    (folder / "a.png").write_text("picture")
    for name, target in (("out", place / "secret.png"), ("in", "a"), ("a/up", ".."), ("up", "..")):
        (folder / name).symlink_to(target)
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PARTS), max_size=6), st.booleans(), st.booleans())
@example(["a", "up", "up", "secret.png"], False, False)
@example(["in", "..", "..", "secret.png"], False, True)
def test_a_path_is_inside_or_refused(folder: Path, parts: list[str], absolute: bool, follow: bool):
    name = "/".join([str(folder)] * absolute + parts)
    try:
        path = path_inside(folder, name, follow_links=follow)
    except UserError:
        return
    assert path == os.path.normpath(path)
    assert not os.path.isabs(path)
    assert path.split(os.sep)[0] != ".."
    if not follow:
        assert (folder / path).resolve().is_relative_to(folder)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        *(("a.png", "a.png"), ("./a//a.png", "a/a.png"), ("a/../a.png", "a.png")),
        *(("{folder}/a.png", "a.png"), ("{folder}/a/../a.png", "a.png"), ("in/x", "in/x")),
        *(("...", "..."), ("..a", "..a"), ("a:b.png", "a:b.png"), ("AC\\DC.png", "AC\\DC.png")),
        *(("gone/x.png", "gone/x.png"), ("x" * 1000, "x" * 1000)),
        *((name, "is outside") for name in ("..", "../a.png", "a/../../secret.png", "/etc/passwd")),
        *((name, "is outside") for name in ("{folder}/../secret.png", "{folder}2/a.png", "//a")),
        *(
            (name, "is outside")
            for name in ("..\\a", "a\\..\\..\\a", "C:\\a", "C:..\\a", "\\\\s\\a")
        ),
        *((name, "is a link out of") for name in ("out", "up/secret.png", "a/up/up/x")),
        *((name, "cannot be the name") for name in ("", " ", "a\0.png", "x" * 5000, "\udcff.png")),
    ],
)
def test_names_stay_in_the_folder(folder: Path, name: str, inside: str):
    name = name.format(folder=folder)
    if " " not in inside:
        assert path_inside(folder, name, follow_links=False) == inside
        return
    with pytest.raises(UserError, match=inside):
        path_inside(folder, name, follow_links=False)
    if "link" in inside:
        assert path_inside(folder, name, follow_links=True) == os.path.normpath(name)


def test_a_folder_may_itself_be_a_link(folder: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(folder)
    for name in (folder / "a.png", tmp_path / "link" / "a.png", "a.png"):
        assert path_inside(tmp_path / "link", str(name), follow_links=False) == "a.png"


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv"])
def test_a_file_without_line_breaks_is_not_read_to_its_end(tmp_path: Path, suffix: str):
    path = tmp_path / f"endless{suffix}"
    with path.open("wb") as file:
        file.write(b"text\n" if suffix == ".csv" else b"")
        file.truncate(1 << 40)  # it has no blocks on disk
    read = {
        ".csv": lambda path: list(table_parts(path, ())),
        ".jsonl": lambda p: list(json_rows(p)),
    }
    with pytest.raises(UserError, match=r"endless.*, row 1: has more than \d+ MB"):
        read.get(suffix, open_text)(path)


def test_tables_are_limited_in_columns_and_in_what_is_read_at_once(monkeypatch, tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a," * 20_000 + "b\n" + "1," * 20_000 + "2\n")
    with pytest.raises(UserError, match=r"t\.csv: has more than 10,000 columns"):
        list(table_parts(path, ()))
    monkeypatch.setattr(files, "PART", 1 << 20)
    row = "x" * 1000 + "\n"
    path.write_text("a\n" + row * 1024 + '"' + row * 4000 + '"\n')
    parts = table_parts(path, ())
    assert [len(next(parts)) for _ in range(2)] == [512, 512]
    with pytest.raises(UserError, match=r"t\.csv, after row 1024: .* have more than 1 MB"):
        next(parts)
    path.write_text("a\n" + row * 4000)
    assert sum(map(len, table_parts(path, ()))) == 4000


def test_a_file_that_is_read_whole_has_a_limit_of_its_own(monkeypatch, tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text("x" * 900)
    monkeypatch.setattr(files, "LINE", 800)
    monkeypatch.setattr(files, "WHOLE", 1000)
    assert read_text(path) == "x" * 900
    with pytest.raises(UserError, match="row 1: has more than"):
        open_text(path)
    path.write_text("x\n" * 600)
    with pytest.raises(UserError, match=r"t\.json: has more than"):
        read_text(path)
