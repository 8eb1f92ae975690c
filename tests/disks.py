"""A small disk for tests, which can be full, read-only or gone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Disk:
    """A tmpfs.

    Attributes:
        place: where it is mounted.
    """

    place: Path

    def fill(self, left: int) -> None:
        """Leave so many bytes, in whole pages of 4096."""
        self.free()
        with (self.place / "ballast").open("wb", buffering=0) as file:
            with suppress(OSError):
                while file.write(bytes(65536)):
                    pass
            with suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            file.truncate(max(0, file.tell() // 4096 * 4096 - left))

    def free(self) -> None:
        """Take away what fills it."""
        (self.place / "ballast").unlink(missing_ok=True)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        self._mount("remount,ro")
        try:
            yield
        finally:
            self._mount("remount,rw")

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"may not mount a tmpfs: {done.stderr.strip()}")


@contextmanager
def small_disk(place: Path, size: str = "4m") -> Iterator[Disk]:
    """A disk of this size; the test is skipped where none may be mounted."""
    if not shutil.which("mount"):
        pytest.skip("needs mount")
    place.mkdir()
    disk = Disk(place)
    disk._mount(f"size={size}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
