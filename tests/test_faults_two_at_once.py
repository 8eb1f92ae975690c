"""Two processes at the same place at the same time: both are right, or one is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import manifest_row
from processes import rounds, together
from toys import OWL, PictureEncoder, WordEncoder, explains

from admire import Settings, UserError, rank, read_items, write_run
from admire.base.cache import Cache
from admire.base.storage import (
    MARKER,
    cache_dir,
    check_folder,
    note_addition,
    only_writer,
    replace_folder,
)
from admire.pages.report import write_report
from admire.runs.fusion import fuse
from admire.runs.past_runs import read_run
from admire.runs.run_blocks import rank_file
from admire.senses.sense import Sense, read_senses, write_senses
from admire.tasks.collections import add_to_index, open_index, remove_from_index, write_index
from admire.tasks.collections import shards as sharding

TIMES = ("started", "finished", "seconds", "asked")


@pytest.fixture(autouse=True)
def toy_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.runs.run_folder.BLOCK", 2)
    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", lambda *_, **__: WordEncoder())


def content(folder: Path) -> dict[str, object]:
    """What the files of a run folder say, without the time."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir()}
    record = json.loads((folder / "run.json").read_text())
    return found | {"run.json": {k: v for k, v in record.items() if k not in TIMES}}


# ------------------------------------------------------------------------------------ the cache


def test_processes_make_and_fill_one_cache(tmp_path):
    """The file is new in each round, and one of the keys is everybody's."""

    def put(who: int) -> Callable[[int], None]:
        def work(turn: int) -> None:
            cache = Cache(tmp_path / f"{turn}.sqlite")
            cache.put_all({f"{who} {k}": b"%d %d" % (who, k) for k in range(20)})
            cache.put("all", b"the same")
            assert cache.get("all") == b"the same"

        return work

    for turn, said in enumerate(rounds(20, *map(put, range(4)))):
        assert said == [""] * 4
        cache = Cache(tmp_path / f"{turn}.sqlite")
        assert len(cache) == 81
        for who in range(4):
            assert [cache.get(f"{who} {k}") for k in range(20)] == [
                b"%d %d" % (who, k) for k in range(20)
            ]


# ----------------------------------------------------------------------------------------- rank


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    """Two sets of five items, which differ in their sentences and in the order of candidates."""
    paths = []
    for who in "ab":
        rows = [
            manifest_row(
                "night owl",
                f"{who}: a night owl again, no. {k}." + k * " Again.",
                "12345" if who == "a" else "54321",
            )
            for k in range(5)
        ]
        paths.append(tmp_path / f"{who}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)))
    replies = {"compound": "night owl", "sense": "literal", "meaning": "a bird"}
    (tmp_path / "replies.jsonl").write_text(json.dumps(replies))
    return paths


def ranking(data: Path, out: Path, cache: Path | None = None) -> None:
    if cache:
        os.environ["ADMIRE_CACHE"] = str(cache)
    settings = Settings(llms=(f"recorded:{data.parent / 'replies.jsonl'}",), sense="given")
    rank_file(data, out, settings)


@pytest.mark.parametrize("caches", ["one cache", "caches of their own"])
def test_two_runs_into_one_folder_leave_one_of_them_whole(tmp_path, sets, caches: str):
    """Where each has a cache of its own, on another machine say, neither sees the other's lock."""
    expected = []
    for data in sets:
        ranking(data, tmp_path / "alone" / data.stem)
        expected.append(content(tmp_path / "alone" / data.stem))

    def work(data: Path) -> Callable[[int], None]:
        own = tmp_path / f"cache of {data.stem}" if caches != "one cache" else None
        return lambda turn: ranking(data, tmp_path / f"{turn}" / "run", own)

    refused: list[str] = []
    for turn, said in enumerate(rounds(8, *map(work, sets))):
        out = tmp_path / f"{turn}" / "run"
        refused += filter(None, said)
        assert all(str(out) in message for message in said if message)
        if caches == "one cache":
            assert "" in said
            assert not out.with_name("run.unfinished").exists()
        elif not out.exists():  # each was in the other's way, and both said so
            part = out.with_name("run.unfinished")
            if part.is_dir() and not (part / MARKER).exists():
                with pytest.raises(UserError, match=r"run\.unfinished: admire did not write this"):
                    ranking(sets[0], out)
                shutil.rmtree(part)
            ranking(sets[0], out)
        assert content(out) in expected
    if caches == "one cache":
        assert refused
        for message in refused:
            assert "Another run is writing to" in message
            assert "Try again when it has ended, or choose another place." in message


@pytest.mark.parametrize("block", [1, 3])
def test_what_another_process_adds_to_a_run_is_noticed(tmp_path, sets, monkeypatch, block: int):
    """After the last of three blocks, too."""
    from admire.runs import run_blocks

    out, real, turns = tmp_path / "run", run_blocks.add_block, []

    def disturbed(folder: Path, *arguments: Any) -> None:
        real(folder, *arguments)
        turns.append(1)
        if len(turns) == block:
            with (folder / "items.jsonl").open("a") as file:
                file.write("{}\n")

    with monkeypatch.context() as patch:
        patch.setattr(run_blocks, "add_block", disturbed)
        with pytest.raises(UserError, match=r"items\.jsonl: was changed by another process"):
            ranking(sets[0], out)
    assert not out.exists()
    ranking(sets[0], out)  # goes on after the whole blocks
    assert len(read_run(out).rankings) == 5


# -------------------------------------------------------------------- folders that appear whole


def test_two_that_replace_a_folder_leave_one_of_them_whole(tmp_path):
    """Each writes a folder of its own meanwhile; nothing of either is left behind."""
    folder = tmp_path / "place"

    def write(who: str) -> Callable[[int], None]:
        def work(turn: int) -> None:
            with replace_folder(folder, "head") as part:
                for name in "abc":
                    (part / name).write_text(f"{who} {turn}")

        return work

    for turn, said in enumerate(rounds(25, write("one"), write("two"), write("three"))):
        assert said == [""] * 3
        texts = {path.read_text() for path in folder.iterdir() if path.name != MARKER}
        assert texts in ({f"{who} {turn}"} for who in ("one", "two", "three"))
        assert list(tmp_path.iterdir()) == [folder]


def test_parts_of_a_process_that_lives_are_kept_and_those_of_dead_ones_removed(tmp_path):
    folder, dead = tmp_path / "place", tmp_path / ".place.0123abcd.admire-part"
    dead.mkdir()
    (dead / "half").write_text("half")
    with replace_folder(folder, "head") as part:
        assert not dead.exists()
        (part / "a").write_text("long")

        def quick() -> None:
            with replace_folder(folder, "head") as other:
                (other / "a").write_text("quick")

        assert together(quick) == [""]
        assert (folder / "a").read_text() == "quick"
        assert (part / "a").read_text() == "long"
    assert (folder / "a").read_text() == "long"


def test_without_locks_of_the_file_system_parts_are_never_shared(tmp_path, monkeypatch):
    """As on NFS."""

    def lockless(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("fcntl.flock", lockless)
    folder = tmp_path / "place"
    with replace_folder(folder, "head") as one:
        with replace_folder(folder, "head") as two:
            (two / "b").write_text("two")
        assert [path.name for path in folder.iterdir() if path.name != MARKER] == ["b"]
        (one / "a").write_text("one")
    assert [path.name for path in folder.iterdir() if path.name != MARKER] == ["a"]


def test_where_nothing_can_be_locked_the_message_says_where_to_put_the_cache(tmp_path, monkeypatch):
    class Lockless(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("locking protocol")

    connect = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda *a, **k: connect(*a, **k, factory=Lockless))
    with pytest.raises(UserError, match=r"locking protocol.*set ADMIRE_CACHE to a folder on a"):
        only_writer(tmp_path / "run").__enter__()


def test_runs_are_fused_into_one_folder_at_the_same_time(tmp_path, sets):
    for data in sets:
        items = read_items(data)
        for sense in ("Idiomatic", "Literal"):
            run = rank(items, llms=[explains(sense)], encoder=WordEncoder())
            write_run(run, tmp_path / data.stem / sense)

    def work(data: Path) -> Callable[[int], object]:
        runs = [tmp_path / data.stem / sense for sense in ("Idiomatic", "Literal")]
        return lambda _: write_run(fuse(runs), tmp_path / "fused")

    for data in sets:
        work(data)(0)
        shutil.copytree(tmp_path / "fused", tmp_path / f"fused {data.stem}")
    expected = [content(tmp_path / f"fused {data.stem}") for data in sets]
    for said in rounds(6, *map(work, sets)):
        assert said == ["", ""]
        assert content(tmp_path / "fused") in expected


# ---------------------------------------------------------------------------------- collections


class Slow(PictureEncoder):
    """Its vectors are one a call, so that there is much to disturb."""

    batch = 1


def collection(folder: Path, names: Sequence[str]) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.png").write_text(f"a picture of {name}")
    return folder


def held(index: Path) -> set[str]:
    """What a search in an index finds."""
    opened = open_index(index)
    (query,) = WordEncoder().encode_texts(["a picture"], role="query")
    found = opened.search({"compound": query}, {"compound": 1.0}, 100)
    assert len(found) == opened.size
    return {thing.name for thing, _ in found}


def test_an_index_that_two_write_is_that_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sharding, "SHARD", 2)
    sources = [collection(tmp_path / who, [f"{who}{k}" for k in range(5)]) for who in "ab"]
    expected = [{f"{who}{k}.png" for k in range(5)} for who in "ab"]
    works = [
        lambda turn, source=source: write_index(source, Slow(), tmp_path / f"{turn}" / "index")
        for source in sources
    ]
    refused = []
    for turn, said in enumerate(rounds(5, *works)):
        refused += filter(None, said)
        assert "" in said
        assert held(tmp_path / f"{turn}" / "index") in expected
        assert len(list((tmp_path / f"{turn}").iterdir())) == 1
    assert refused
    assert all("Another run is writing to" in message for message in refused)


def test_an_index_is_searched_while_others_add_to_it_take_from_it_and_replace_it(
    tmp_path, monkeypatch
):
    """Each search sees one of the states that the index has had."""
    monkeypatch.setattr(sharding, "SHARD", 2)
    index, first = tmp_path / "index", [f"a{k}" for k in range(5)]
    source = collection(tmp_path / "a", first)
    more = collection(tmp_path / "b", ["b0", "b1", "b2"])
    write_index(source, Slow(), index)
    first_ones, others = {f"{name}.png" for name in first}, {f"b{k}.png" for k in range(3)}
    states = [first_ones, first_ones | others]

    def change(turn: int) -> None:
        for _ in range(5):
            for one in (
                lambda: add_to_index(more, Slow(), index),
                lambda: remove_from_index(["b*"], index),
                lambda: write_index(source, Slow(), index),
            ):
                with suppress_refusals():
                    one()

    def look(turn: int) -> None:
        from admire.tasks.collections.search import SearchSettings, search_index

        settings = SearchSettings(query="compound", top=100)
        for _ in range(50):
            found = search_index("a picture", "picture", index, settings, encoder=WordEncoder2())
            assert {thing.name for thing, _ in found.things} in states

    class WordEncoder2(WordEncoder):
        name, identity = PictureEncoder.name, PictureEncoder.identity

    def add(turn: int) -> None:
        for _ in range(10):
            with suppress_refusals():
                add_to_index(more, Slow(), index)

    @contextmanager
    def suppress_refusals() -> Iterator[None]:
        try:
            yield
        except UserError as error:
            if "Another run is writing to" not in str(error) and "called 'b*'" not in str(error):
                raise

    assert together(*(partial(one, 0) for one in (change, add, look, look))) == [""] * 4
    assert held(index) in states


def test_an_index_that_changes_while_it_is_opened_is_opened_as_it_is_then(tmp_path, monkeypatch):
    from admire.tasks.collections import index as indexing

    monkeypatch.setattr(sharding, "SHARD", 1)
    write_index(collection(tmp_path / "a", ["a0", "a1", "a2"]), Slow(), tmp_path / "index")
    real, turns = indexing._opened, []

    def opened(*arguments: Any) -> Any:
        turns.append(1)
        if len(turns) == 1:
            remove_from_index(["a0.png"], tmp_path / "index")
        return real(*arguments)

    monkeypatch.setattr(indexing, "_opened", opened)
    assert held(tmp_path / "index") == {"a1.png", "a2.png"}


def test_an_index_that_changes_before_it_is_searched_is_opened_again(tmp_path, monkeypatch):
    from admire.tasks.collections.search import SearchSettings, search_index

    class Meanwhile(PictureEncoder):
        def encode_texts(self, texts: Sequence[str], *, role: Any) -> Any:
            remove_from_index(["a0.png"], tmp_path / "index")
            return super().encode_texts(texts, role=role)

    monkeypatch.setattr(sharding, "SHARD", 1)
    write_index(collection(tmp_path / "a", ["a0", "a1", "a2"]), Slow(), tmp_path / "index")
    settings = SearchSettings(query="compound")
    found = search_index("a bird", "bird", tmp_path / "index", settings, encoder=Meanwhile())
    assert {thing.name for thing, _ in found.things} == {"a1.png", "a2.png"}


def test_an_index_is_found_though_the_process_that_replaced_it_died(tmp_path):
    """Between its two renames, at the worst moment."""
    write_index(collection(tmp_path / "a", ["a0"]), Slow(), tmp_path / "index")
    (tmp_path / "index").rename(tmp_path / ".index.admire-old")
    assert held(tmp_path / "index") == {"a0.png"}


# ------------------------------------------------------------------------- what is learnt and made


def test_two_sweeps_with_one_file_of_results_leave_whole_lines(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from heads import made

    from admire.models.head_settings import HeadTraining
    from admire.training import sweep, sweep_heads

    def outcome(data: object, job: Any) -> tuple[str, dict[str, Any]]:
        """Without a training; of a long line it takes several writes."""
        return job.key, {"validation_loss": 1.0, "scores": [0.5] * 20_000}

    monkeypatch.setattr(sweep, "_outcome", outcome)
    data = [made(compounds=12, each=1, modalities=1, seed=seed) for seed in range(2)]
    settings = [HeadTraining(seed=seed) for seed in range(16)]
    out = tmp_path / "sweep.jsonl"

    def work(who: int) -> Callable[[int], object]:
        return lambda turn: sweep_heads(data[who], settings[: 4 * turn + 4], out, processes=1)

    refused = []
    for said in rounds(4, work(0), work(1)):
        refused += filter(None, said)
        assert "" in said
    assert refused
    assert all("Another run is writing to" in message for message in refused)
    for who in range(2):
        work(who)(3)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len({(row["data"], row["job"]) for row in rows}) == len(rows) == 32


def test_two_heads_saved_into_one_folder_leave_one(tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    import torch
    from heads import SETTINGS, fresh

    from admire.models.projection import Projection, load_projection

    torch.set_num_threads(1)
    heads = []
    for seed in range(2):
        settings = replace(SETTINGS, seed=seed)
        card = {"width": 8, "encoder": {"name": "e", "identity": "e:1"}}
        heads.append(Projection(fresh(8, settings), card | {"settings": asdict(settings)}, ()))
    works = [lambda _, head=head: head.save(tmp_path / "head") for head in heads]
    for said in rounds(20, *works):
        assert said == ["", ""]
        assert load_projection(tmp_path / "head").identity in [head.identity for head in heads]


def test_a_model_is_fine_tuned_by_one_process_at_a_time(tmp_path):
    """The second would take the checkpoints of the first for its own, or remove them."""
    pytest.importorskip("datasets", reason="needs the extra 'finetune'")
    from test_models_trainer import QUICK, fitted
    from towers import save_sentence_transformer

    base = save_sentence_transformer(tmp_path / "base")

    def meanwhile() -> float:
        (said,) = together(lambda: fitted(base, tmp_path / "model", lambda: 1.0))
        assert "Another run is writing to" in said
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(base, tmp_path / "model", meanwhile, QUICK)


def test_variants_of_pictures_are_made_by_one_process_at_a_time(tmp_path):
    """Two seeds would leave a folder with variants of both."""
    pytest.importorskip("albumentations", reason="needs the extra 'augment'")
    import numpy as np
    from PIL import Image

    from admire.augment import augment_folder

    (tmp_path / "pictures").mkdir()
    for k in range(4):
        picture = np.random.default_rng(k).integers(0, 255, (40, 40, 3), np.uint8)
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{k}.png")
    expected = []
    for seed in range(2):
        augment_folder(tmp_path / "pictures", tmp_path / f"alone{seed}", per_image=3, seed=seed)
        expected.append(content_of(tmp_path / f"alone{seed}"))
    refused = []

    def work(seed: int) -> Callable[[int], object]:
        return lambda turn: augment_folder(
            tmp_path / "pictures", tmp_path / f"{turn}", per_image=3, seed=seed
        )

    for turn, said in enumerate(rounds(4, work(0), work(1))):
        refused += filter(None, said)
        assert content_of(tmp_path / f"{turn}") in expected
    assert refused
    assert all("Another run is writing to" in message for message in refused)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_captions_rewritten_into_one_file_are_those_of_one(tmp_path, monkeypatch):
    from admire.augment import captions

    class Shouting:
        name, identity, kind = "loud", "loud:1", "paraphrase"

        def rewrite(self, texts: Sequence[str]) -> list[str]:
            return [f"{text}!" for text in texts]

    monkeypatch.setattr(captions, "open_rewriter", lambda name: Shouting())
    items = [
        [
            replace(
                OWL,
                candidates=tuple(
                    replace(c, caption=f"{who} {c.caption}" * 500) for c in OWL.candidates
                ),
            )
        ]
        for who in "ab"
    ]
    works = [
        lambda turn, one=one: captions.rewrite_items(one, tmp_path / f"{turn}.csv") for one in items
    ]
    expected = []
    for number, one in enumerate(items):
        captions.rewrite_items(one, tmp_path / f"alone{number}.csv")
        expected.append((tmp_path / f"alone{number}.csv").read_bytes())
    for turn, said in enumerate(rounds(10, *works)):
        assert said == ["", ""]
        assert (tmp_path / f"{turn}.csv").read_bytes() in expected
    assert not list(tmp_path.glob(".*"))


def test_reports_written_at_the_same_time_are_whole_and_their_run_can_be_replaced(tmp_path, sets):
    run = rank(read_items(sets[0]), llms=[explains("Literal")], encoder=WordEncoder())
    folder = tmp_path / "run"
    write_run(run, folder)
    write_report([folder], tmp_path / "alone.html")

    def work(who: int) -> Callable[[int], None]:
        def note_and_write(turn: int) -> None:
            for k in range(10):
                file = folder / f"{who} {turn} {k}.html"
                file.write_text("as if it were a report")
                note_addition(file)
            write_report([folder], tmp_path / f"{turn}.html")

        return note_and_write

    for turn, said in enumerate(rounds(2, work(0), work(1))):
        assert said == ["", ""]
        size = (tmp_path / f"{turn}.html").stat().st_size
        assert size == (tmp_path / "alone.html").stat().st_size
    check_folder(folder, "run")  # none of the forty is foreign to it


def test_tables_of_senses_written_at_the_same_time_are_those_of_one(tmp_path):
    def work(sense: str) -> Callable[[int], object]:
        items = [replace(OWL, sentence=f"{sense} {k}") for k in range(200)]
        senses = [Sense(sense, float(sense == "idiomatic"), 1, 0)] * 200
        return lambda turn: write_senses(tmp_path / f"{turn}.tsv", items, senses)

    for turn, said in enumerate(rounds(10, work("idiomatic"), work("literal"))):
        assert said == ["", ""]
        items, senses = read_senses(tmp_path / f"{turn}.tsv")
        (label,) = {sense.label for sense in senses}
        assert len(items) == 200
        assert all(item.sentence.startswith(label) for item in items)


def test_the_locks_lie_in_the_cache_and_nowhere_else(tmp_path):
    with only_writer(tmp_path / "run"):
        assert list(tmp_path.iterdir()) == []
        (said,) = together(lambda: only_writer(tmp_path / "run").__enter__())
        assert f"(process {os.getpid()} on " in said
        assert {path.suffix for path in (cache_dir() / "locks").iterdir()} >= {".sqlite", ".txt"}


def test_of_those_that_come_at_the_same_moment_one_is_let_in(tmp_path):
    def work(turn: int) -> None:
        with only_writer(tmp_path / "run"):
            pass

    for said in rounds(150, work, work):
        assert "" in said
