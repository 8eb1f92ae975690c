"""Caches that survive: kills, threads, processes, damage."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
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


def test_an_empty_value_is_not_a_missing_one(path):
    cache = Cache(path)
    cache.put("key", b"")
    assert cache.get("key") == b""


def test_a_new_value_replaces_the_old_one(path):
    cache = Cache(path)
    cache.put("key", b"old")
    cache.put("key", b"new")
    assert cache.get("key") == b"new"
    assert len(cache) == 1


def test_entries_are_there_after_reopening(path):
    first = Cache(path)
    first.put("key", b"\x00\xff")
    first.close()
    assert Cache(path).get("key") == b"\x00\xff"


def test_two_open_caches_see_each_others_entries_at_once(path):
    one, two = Cache(path), Cache(path)
    one.put("key", b"value")
    assert two.get("key") == b"value"


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


def test_no_entries_are_put_without_harm(path):
    cache = Cache(path)
    cache.put_all({})
    assert len(cache) == 0
    cache.put("key", b"value")
    assert Cache(path).get("key") == b"value"


class Unfolding(dict[str, bytes]):
    """Entries that are handed out one by one, with something happening before the last."""

    def __init__(self, entries: dict[str, bytes], happens: Callable[[], None]):
        super().__init__(entries)
        self.happens = happens

    def items(self):
        *first, last = super().items()
        yield from first
        self.happens()
        yield last


def test_others_see_entries_that_are_put_together_all_or_not_at_all(path):
    cache, other = Cache(path), Cache(path)
    seen: list[bytes | None] = []
    cache.put_all(Unfolding({"a": b"1", "b": b"2"}, lambda: seen.append(other.get("a"))))
    assert seen == [None]
    assert (other.get("a"), other.get("b")) == (b"1", b"2")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"old": b"new", "a": b"1", "b": object(), "c": b"3"}, UserError),
        (Unfolding({"old": b"new", "a": b"1", "c": b"3"}, interrupt), KeyboardInterrupt),
    ],
    ids=["a value that cannot be stored", "Ctrl-C on the way"],
)
def test_where_one_entry_cannot_be_put_none_is(path, entries, error):
    cache, other = Cache(path), Cache(path)
    cache.put("old", b"old")
    with pytest.raises(error):
        cache.put_all(entries)
    for reader in (cache, other, Cache(path)):
        assert [reader.get(key) for key in ("old", "a", "b", "c")] == [b"old", None, None, None]
    # Neither the cache nor the file stays locked.
    other.put("theirs", b"1")
    cache.put_all({"ours": b"2"})
    assert len(other) == 3


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


def test_an_entry_that_is_put_is_committed_before_put_returns(path):
    Cache(path).put("key", b"value")
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT key, value FROM entries").fetchall() == [("key", b"value")]
    other.close()


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


def test_another_programs_database_is_refused(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE entries (something TEXT)")
    db.close()
    with pytest.raises(UserError) as caught:
        Cache(path).get("key")
    assert str(path) in str(caught.value)


def test_a_cache_where_no_file_can_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="ADMIRE_CACHE") as caught:
        Cache(tmp_path / "file" / "cache.sqlite")
    assert str(tmp_path / "file") in str(caught.value)


def test_a_cache_in_a_folder_that_may_not_be_written_to_is_refused(locked_folder):
    with pytest.raises(UserError, match="ADMIRE_CACHE") as caught:
        Cache(locked_folder / "cache.sqlite")
    assert str(locked_folder) in str(caught.value)
