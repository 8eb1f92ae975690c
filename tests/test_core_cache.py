import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

from admire.core.cache import Cache, Share, open_cache
from admire.core.errors import UserError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "cache.sqlite"


def test_where_one_entry_cannot_be_put_none_is(path):
    cache, other = Cache(path), Cache(path)
    cache.put("old", b"old", "e5")
    with pytest.raises(UserError):
        cache.put_all({"old": b"new", "a": b"1", "b": object()}, "e5")
    for reader in (cache, other, Cache(path)):
        assert [reader.get(key) for key in ("old", "a", "b")] == [b"old", None, None]
    other.put("theirs", b"1", "e5")  # the file does not stay locked


PUT_MANY = """
import sys
from pathlib import Path
from admire.core.cache import Cache

cache = Cache(Path(sys.argv[1]))
for k in range(int(sys.argv[2])):
    cache.put(f"theirs {k}", str(k).encode() * 1000, "e5")
    print(k, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_leaves_every_entry_that_it_had_put(path):
    command = [sys.executable, "-c", PUT_MANY, str(path), "1_000_000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        for _ in range(30):
            other.stdout.readline()
        other.kill()
        last = 29 + sum(line.endswith("\n") for line in other.stdout)
    cache = Cache(path)
    assert all(cache.get(f"theirs {k}") == b"%d" % k * 1000 for k in range(last + 1))
    # At most one more: that which it was about to report.
    assert cache.get(f"theirs {last + 2}") is None
    cache.put("ours", b"value", "e5")
    assert cache.get("ours") == b"value"


def test_a_process_opens_a_file_once_and_one_that_takes_its_place_anew(path, monkeypatch):
    monkeypatch.setenv("ADMIRE_CACHE", str(path.parent))
    cache = open_cache(path.name)
    cache.put("a", b"1", "e5")
    assert open_cache(path.name) is cache
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    again = open_cache(path.name)
    assert again.get("a") is None
    again.put("b", b"2", "e5")
    assert Cache(path).get("b") == b"2"
    opened = weakref.ref(again)
    for k in range(4):
        open_cache(f"{k}.sqlite")
    del again
    assert opened() is None  # without the garbage collector


@pytest.mark.parametrize("content", [b"this is not a database " * 100, b"SQLite format 3\0" * 300])
def test_a_damaged_file_and_a_place_for_none_are_named_with_what_to_do(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    for place in (path, path / "below.sqlite"):
        with pytest.raises(UserError, match=f"{place}.*remove.*ADMIRE_CACHE"):
            Cache(place)
    assert path.read_bytes() == content


def test_what_is_kept_is_counted_and_removed_by_model_and_age(path):
    cache, times = Cache(path), [time.time()]
    for key, model in (("a", "e5"), ("b", "e5"), ("c", "gpt")):
        cache.put(key, b"1234", model)
        times.append(time.time())
    kept = cache.by_model()
    e5, gpt = kept["e5"], kept["gpt"]
    assert (e5[:2], gpt[:2]) == ((2, 8), (1, 4))
    written = [times[0], e5.oldest, times[1], e5.newest, times[2], gpt.oldest, times[3]]
    assert written == sorted(written)
    assert cache.clear("e5", before=e5.newest) == 1
    assert cache.by_model() == {"e5": Share(1, 4, e5.newest, e5.newest), "gpt": gpt}
    assert (cache.clear("gpt"), cache.clear(None)) == (1, 1)
    assert cache.by_model() == {}
