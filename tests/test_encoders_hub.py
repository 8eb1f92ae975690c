from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from admire.encoders.hub import folder_digest, resolve_source
from admire.errors import UserError
from admire.storage import MARKER, replace_folder


def test_a_folder_is_resolved_to_itself_and_its_content(tmp_path: Path):
    (tmp_path / "model.bin").write_bytes(b"weights")

    found = resolve_source(str(tmp_path))

    assert found.place == str(tmp_path)
    assert found.folder == tmp_path
    assert found.identity == folder_digest(tmp_path)
    assert found.revision is None


def test_a_path_without_a_folder_is_told_with_what_it_should_hold(tmp_path: Path):
    with pytest.raises(UserError, match="is no folder of a benchmark"):
        resolve_source(str(tmp_path / "none"), what="a benchmark")


def test_a_folder_has_the_same_digest_with_and_without_admires_marker(tmp_path: Path):
    with replace_folder(tmp_path / "model", "model") as folder:
        (folder / "model.bin").write_bytes(b"weights")
    shutil.copytree(tmp_path / "model", tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))

    assert (tmp_path / "model" / MARKER).is_file()
    assert folder_digest(tmp_path / "model") == folder_digest(tmp_path / "copy")


def test_a_folder_has_another_digest_when_a_file_changes_or_moves(tmp_path: Path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    first = folder_digest(tmp_path)
    file.write_bytes(b"other")
    second = folder_digest(tmp_path)
    file.rename(tmp_path / "moved.bin")

    assert len({first, second, folder_digest(tmp_path)}) == 3
