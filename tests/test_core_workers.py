import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

import pandas as pd
import pytest
from commands import hide, run
from units import open_meeting, open_nothing, open_squares

from admire import SAMPLES, Settings, read_items
from admire.apps.search import Entry, write_index
from admire.apps.search.encoding import Batch, encode_batches
from admire.apps.search.index import export_index
from admire.core.errors import UserError
from admire.core.progress import progress_told_to
from admire.core.workers import STORE, SURROUNDINGS, Workers, map_processes
from admire.encoders import TextEncoder, open_encoder
from admire.pipeline.run_blocks import rank_file
from admire.pipeline.run_folder import read_record
from admire.rankers.settings import RequestOptions

if find_spec("ray") is None:  # not importorskip: the import takes long
    pytest.skip("needs the extra 'ray'", allow_module_level=True)

pytestmark = pytest.mark.ci  # Ray takes half a minute to start
TWO = Workers(2, gpus=False)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, no_words: str) -> Iterator[Path]:
    """The workers' cache. All tests use one Ray, which takes seconds to start."""
    os.environ.update(SURROUNDINGS)
    import ray

    cache = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as surroundings:
        surroundings.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for this file's functions
        surroundings.setenv("ADMIRE_CACHE", str(cache))
        surroundings.setenv("ADMIRE_WORDNET", no_words)
        options = {"log_to_driver": False, "logging_level": logging.ERROR}
        options |= {"num_cpus": 2, "include_dashboard": False, "object_store_memory": STORE}
        try:
            ray.init("local", **options)
        except Exception:  # Ray gives its node 30 seconds, which a busy machine may need
            ray.shutdown()
            ray.init("local", **options)
        yield cache
        ray.shutdown()


def test_units_are_done_at_the_same_time_in_order_and_where_the_program_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    usage = "RAY_USAGE_STATS_ENABLED"
    monkeypatch.delenv(usage, raising=False)
    read = []

    def units() -> Iterator[int | str]:
        for unit in (*range(12), "cores", "OMP_NUM_THREADS", "cwd", usage):
            read.append(unit)
            yield unit

    found = map_processes(units(), partial(open_meeting, tmp_path), TWO)
    assert next(found) == 0
    assert len(read) < 12  # the rest is read when there is somebody to do it
    squares = [unit * unit for unit in range(1, 12)]
    assert list(found) == [*squares, 1, "1", str(tmp_path), "0"]
    assert os.environ[usage] == "0"  # where Ray is started


def test_without_units_nothing_is_started():
    assert list(map_processes([], open_nothing, Workers(2, "nowhere:1"))) == []


def test_a_unit_of_a_killed_worker_is_done_by_another_and_one_that_kills_each_ends_the_work(
    tmp_path: Path, caplog, capfd
):
    found = map_processes([0, 1, 2, 3, 4, 13, 5], partial(open_squares, tmp_path), TWO)
    assert [next(found) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert (tmp_path / "killed").exists()
    with pytest.raises(UserError, match="3 workers were lost by the same unit") as error:
        next(found)
    assert error.value.settings == ("workers",)
    assert caplog.messages == ["Squares are large."]
    assert capfd.readouterr().out == ""


def test_error_comes_after_the_units_before_it():
    found = map_processes([1, 2, 3, -4, 5, -6], open_squares, TWO)
    assert [next(found) for _ in range(3)] == [1, 4, 9]
    with pytest.raises(UserError, match=r"^row -4: is negative\.$") as error:
        next(found)
    assert error.value.settings == ("track",)
    with pytest.raises(UserError, match=r"^The model is missing\.$"):
        list(map_processes([1], open_nothing, Workers(1, gpus=False)))


class Killer:
    """Kills a worker that is at a unit, the first time that it is called and there is one."""

    def __init__(self, cache: Path):
        self.cache = cache
        self.killed = False

    def __call__(self, *things: object) -> None:
        for process in [] if self.killed else Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = f"ADMIRE_CACHE={self.cache}".encode() in (process / "environ").read_bytes()
                if ours and (process / "cmdline").read_bytes().startswith(b"ray::_Worker.do"):
                    os.kill(int(process.name), signal.SIGKILL)
                    self.killed = True
                    return


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def by_workers(batches: Iterable[Sequence[Entry]], encoder: TextEncoder) -> Iterator[Batch]:
    entries = chain.from_iterable(batches)
    return encode_batches(iter(lambda: [*islice(entries, 4)], []), encoder, workers=TWO)


def test_index_by_workers_is_that_of_one_process(tmp_path: Path):
    (tmp_path / "pictures").mkdir()
    for picture in sorted((SAMPLES / "images").iterdir())[:10]:
        shutil.copy(picture, tmp_path / "pictures")
    tables = []
    for name, encode in (("one", encode_batches), ("two", by_workers)):
        write_index(tmp_path / "pictures", open_encoder("sight"), tmp_path / name, encode=encode)
        export_index(tmp_path / name, tmp_path / f"{name}.parquet")
        tables.append(pd.read_parquet(tmp_path / f"{name}.parquet"))
    assert len(tables[0]) == 10
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.usefixtures("blocks_of_two")
def test_ranking_by_workers_is_that_of_one_process(tmp_path, cache):
    replies = tmp_path / "replies.jsonl"
    said = [
        {"compound": item.compound, "sense": sense, "meaning": f"{sense} {item.sentence}"}
        for item in read_items(SAMPLES)
        for sense in ("idiomatic", "literal")
    ]
    replies.write_text("\n".join(map(json.dumps, said)))
    settings = Settings(llms=(f"recorded:{replies}",), sense="given")
    rank_file(SAMPLES, tmp_path / "one", settings)
    killer = Killer(cache)
    with progress_told_to(lambda what, done, total: killer() if done else None):
        rank_file(SAMPLES, tmp_path / "two", settings, workers=TWO)
    assert killer.killed
    assert files(tmp_path / "two") == files(tmp_path / "one")
    records = [read_record(tmp_path / name) for name in ("one", "two")]
    for record in records:
        assert record.pop("seconds").keys() == {"senses and meanings", "encoding and scores"}
        assert [record.pop(name) for name in ("started", "finished")]
    assert records[0] == records[1]


def test_a_command_tells_what_workers_need(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    shared = ("rank", SAMPLES, "--out", tmp_path / "out")
    code, out, err = run(capsys, *shared, "--workers", 2, "--ray-address", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "'127.0.0.1:1'" in err
    assert err.endswith(" (--ray-address)\n")
    for options in (("--ray-address", "auto"), ("--workers", 0)):
        code, _, err = run(capsys, *shared, *options)
        assert (code, err.endswith(" (--workers)\n")) == (2, True)
    hide(monkeypatch, "ray")
    code, _, err = run(capsys, *shared, "--workers", 2)
    assert (code, "pip install '.[ray]'" in err) == (2, True)


@pytest.mark.parametrize(
    ("asking", "settings", "named"),
    [
        (RequestOptions(budget=1.0), Settings(), "budget"),
        (RequestOptions(), Settings(llm_url="https://user:password@host/v1"), "llm_url"),
    ],
)
def test_what_several_processes_cannot_keep(asking, settings, named, tmp_path):
    with pytest.raises(UserError) as error:
        rank_file(SAMPLES, tmp_path / "run", settings, asking=asking, workers=TWO)
    assert named in error.value.settings
    assert "password@" not in str(error.value)
