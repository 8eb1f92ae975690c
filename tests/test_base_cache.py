"""Caches that survive kills, and are shared by threads and processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admire.base.cache import Cache
from admire.base.errors import UserError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "cache.sqlite"


def test_an_entry_comes_back_and_a_missing_one_is_none(path):
    cache = Cache(path)
    cache.put("key", b"value")
    assert cache.get("key") == b"value"
    assert cache.get("other") is None
    assert len(cache) == 1


def test_many_entries_are_put_at_once(path):
    cache = Cache(path)
    cache.put("0", b"old")
    cache.put("kept", b"kept")
    entries = {str(k): b"%d" % k for k in range(2000)}
    cache.put_all(entries)
    for reader in (cache, Cache(path)):
        assert {key: reader.get(key) for key in entries} == entries
        assert reader.get("kept") == b"kept"
        assert len(reader) == 2001


def test_where_one_entry_cannot_be_put_none_is(path):
    cache, other = Cache(path), Cache(path)
    cache.put("old", b"old")
    with pytest.raises(UserError):
        cache.put_all({"old": b"new", "a": b"1", "b": object()})
    for reader in (cache, other, Cache(path)):
        assert [reader.get(key) for key in ("old", "a", "b")] == [b"old", None, None]
    other.put("theirs", b"1")  # the file does not stay locked


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=20)  # each one makes a file
@given(st.dictionaries(ANY_TEXT, st.binary(), max_size=5))
def test_any_text_and_any_bytes_come_back(entries):
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder) / "cache.sqlite")
        for key, value in entries.items():
            cache.put(key, value)
        assert {key: cache.get(key) for key in entries} == entries
        assert len(cache) == len(entries)
        cache.close()


def test_threads_share_a_cache(path):
    cache = Cache(path)
    start = threading.Barrier(4)

    def work(thread: int) -> list[bytes | None]:
        start.wait()
        for k in range(25):
            cache.put(f"{thread} {k}", b"%d %d" % (thread, k))
        return [cache.get(f"{thread} {k}") for k in range(25)]

    with ThreadPoolExecutor(4) as pool:
        for thread, values in enumerate(pool.map(work, range(4))):
            assert values == [b"%d %d" % (thread, k) for k in range(25)]
    assert len(cache) == 100


PUT_MANY = """
import sys
from pathlib import Path
from admire.base.cache import Cache

cache = Cache(Path(sys.argv[1]))
for k in range(int(sys.argv[2])):
    cache.put(f"theirs {k}", str(k).encode() * 1000)
    print(k, flush=True)
"""


def putting(path: Path, count: int) -> subprocess.Popen[str]:
    """A process that puts entries and says the number of each that it has put."""
    return subprocess.Popen(
        [sys.executable, "-c", PUT_MANY, str(path), str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_write_at_the_same_time(path):
    cache = Cache(path)
    with putting(path, 100) as other:
        assert other.stdout is not None
        other.stdout.readline()  # it is at it
        for k in range(100):
            cache.put(f"ours {k}", b"%d" % k)
        assert other.wait(60) == 0
    assert len(cache) == 200
    assert [cache.get(f"ours {k}") for k in range(100)] == [b"%d" % k for k in range(100)]
    assert all(cache.get(f"theirs {k}") == b"%d" % k * 1000 for k in range(100))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_leaves_every_entry_that_it_had_put(path):
    with putting(path, 1_000_000) as other:
        assert other.stdout is not None
        for _ in range(30):
            other.stdout.readline()
        other.kill()
        last = 29 + sum(line.endswith("\n") for line in other.stdout)
    cache = Cache(path)
    assert all(cache.get(f"theirs {k}") == b"%d" % k * 1000 for k in range(last + 1))
    # At most the one that it was about to report.
    assert len(cache) in (last + 1, last + 2)
    cache.put("ours", b"value")
    assert cache.get("ours") == b"value"


@pytest.mark.parametrize("content", [b"this is not a database " * 100, b"SQLite format 3\0" * 300])
def test_a_damaged_file_is_named_with_what_to_do(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(UserError, match="remove") as caught:
        Cache(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_a_file_damaged_further_inside_is_named_when_it_is_read(path):
    cache = Cache(path)
    for k in range(20):
        cache.put(f"key {k}", b"x" * 5000)
    cache.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(UserError, match="remove") as caught:
        Cache(path).get("key 7")
    assert str(path) in str(caught.value)


def test_a_cache_where_no_file_can_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="ADMIRE_CACHE") as caught:
        Cache(tmp_path / "file" / "cache.sqlite")
    assert str(tmp_path / "file") in str(caught.value)
