"""Disks that are full, read-only, gone or damaged, and files of other versions of admire."""

from __future__ import annotations

import json
import logging
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import chat_server, run
from conftest import admire_row
from disks import Disk, small_disk
from pytest_httpserver import HTTPServer
from test_runs_run_blocks import files as files_of_run
from toys import IDIOMATIC, LITERAL, OWL, PictureEncoder, ScriptedChat, WordEncoder, explains

from admire import Settings, UserError, compare_runs, rank, read_items, write_run
from admire.base.cache import Cache
from admire.base.storage import cache_dir
from admire.models.encoders import Vectors
from admire.models.encoders.cached import CachedEncoder
from admire.models.llm import Question, Reply
from admire.models.llm.cached import CachedChat
from admire.pages.report import write_report
from admire.runs.fusion import fuse
from admire.runs.past_runs import read_run
from admire.runs.run_blocks import rank_file
from admire.senses.sense import Sense, write_senses
from admire.tasks.collections import open_index, write_index
from admire.tasks.collections import shards as sharding

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep", "hot air", "big fish")


@pytest.fixture(autouse=True)
def toy_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.runs.run_folder.BLOCK", 2)
    monkeypatch.setattr(sharding, "SHARD", 2)
    monkeypatch.setattr(logging.getLogger("admire"), "handlers", [])  # of another test's command
    monkeypatch.setattr(
        "admire.rankers.embeddings.open_encoder", lambda *_, **__: CachedEncoder(WordEncoder())
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "32m") as one:
        yield one


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    rows = [admire_row(name, sentence=f"The {name} again. " + 90 * "So. ") for name in COMPOUNDS]
    return write_table(*rows)


@pytest.fixture
def asked(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a server was asked for meanings."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    return chat_server(
        httpserver, lambda prompt: IDIOMATIC if "idiom of the sentence" in prompt else LITERAL
    )


def ranking(data: Path, out: Path) -> list[object]:
    wanted = ["--llm", "openai:gpt-4o", "--sense", "given", "--parallel", "1"]
    return ["rank", data, "--out", out, *wanted]


def told(said: str, *words: object) -> str:
    """The one message in which a command ended."""
    assert "Traceback" not in said
    message = said.strip().splitlines()[-1]
    assert message.startswith("admire: ")
    assert said.count("admire: ") == 1
    for word in words:
        assert str(word) in message
    return message


# ----------------------------------------------------------------------------------- full disks


@pytest.mark.parametrize(
    ("what", "left"),
    [("run folder", 0), ("run folder", 12), ("cache", 0), ("cache", 60), ("both", 100)],
)
def test_a_run_on_a_full_disk_goes_on_when_there_is_space(
    capsys, monkeypatch, tmp_path, disk: Disk, data, asked, what: str, left: int
):
    assert run(capsys, *ranking(data, tmp_path / "peer"))[0] == 0
    count = len(asked)
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "cache"))
    if what != "run folder":
        monkeypatch.setenv("ADMIRE_CACHE", str(disk.place / "cache"))
    out = (tmp_path if what == "cache" else disk.place) / "runs" / "one"
    asked.clear()
    disk.fill(left * 1024)
    code, _, said = run(capsys, *ranking(data, out))
    assert code == 2
    told(said, disk.place, "pace")
    assert not out.exists()
    assert not list(disk.place.rglob("*.part"))
    disk.free()
    code, _, said = run(capsys, *ranking(data, out))
    assert code == 0, said
    assert files_of_run(out).keys() == files_of_run(tmp_path / "peer").keys()
    for name in ("scores.csv", "items.jsonl", "submission_en.tsv"):
        assert (out / name).read_bytes() == (tmp_path / "peer" / name).read_bytes()
    # What was being answered when the cache was full could not be kept.
    assert len(asked) <= count + (what != "run folder")
    assert max(Counter(asked).values()) <= 1 + (what != "run folder")


def test_a_file_that_may_not_grow_ends_a_run_as_a_full_disk_does(
    capsys, monkeypatch, tmp_path, data, asked
):
    """Where nothing may be mounted: a limit on the size of files."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = tmp_path / "run"
    run(capsys, *ranking(data, tmp_path / "peer"))  # the cache has all that is needed
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        code, _, _ = run(capsys, *ranking(data, out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 2
    assert not out.exists()
    count = len(asked)
    assert run(capsys, *ranking(data, out))[0] == 0
    assert len(asked) == count
    assert (out / "scores.csv").read_bytes() == (tmp_path / "peer" / "scores.csv").read_bytes()


# ---------------------------------------------------------------------------- what writes elsewhere


def pictures(folder: Path, count: int = 5) -> Path:
    folder.mkdir(exist_ok=True)
    for k in range(count):
        (folder / f"{k}.png").write_text(f"a picture of {k}")
    return folder


def make_index(place: Path, elsewhere: Path) -> None:
    write_index(pictures(elsewhere / "pictures"), PictureEncoder(), place)


def make_fused(place: Path, elsewhere: Path) -> None:
    if not (elsewhere / "run").exists():
        run = rank(
            [replace(OWL, language="en")] * 9, llms=[explains("Literal")], encoder=WordEncoder()
        )
        write_run(run, elsewhere / "run")
    write_run(fuse([elsewhere / "run"] * 2), place)


def make_report(place: Path, elsewhere: Path) -> None:
    make_fused(elsewhere / "fused", elsewhere)
    write_report([elsewhere / "fused"], place)


def make_senses(place: Path, elsewhere: Path) -> None:
    write_senses(place, [OWL] * 500, [Sense("literal", 0.0, 0, 5)] * 500)


def make_rewrites(place: Path, elsewhere: Path) -> None:
    from admire.augment import captions

    class Long:
        name, identity, kind = "long", "long:1", "paraphrase"

        def rewrite(self, texts: Sequence[str]) -> list[str]:
            return [text * 2000 for text in texts]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captions, "open_rewriter", lambda name: Long())
        captions.rewrite_items([OWL], place, ["long"])


def make_variants(place: Path, elsewhere: Path) -> None:
    pytest.importorskip("albumentations", reason="needs the extra 'augment'")
    from PIL import Image

    from admire.augment import augment_folder, contact_sheet

    source = elsewhere / "photos"
    if not source.exists():
        source.mkdir()
        for k in range(3):
            noise = np.random.default_rng(k).integers(0, 255, (60, 60, 3), np.uint8)
            Image.fromarray(noise).save(source / f"{k}.png")
    augment_folder(source, place)
    contact_sheet(source, place, 1)


def make_head(place: Path, elsewhere: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from heads import SETTINGS, fresh

    from admire.models.projection import Projection

    card = {"width": 2000, "encoder": {"name": "e", "identity": "e:1"}}
    Projection(fresh(2000), card | {"settings": asdict(SETTINGS)}, ()).save(place)


def make_sweep(place: Path, elsewhere: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from heads import made

    from admire.models.head_settings import HeadTraining
    from admire.training import sweep, sweep_heads

    def outcome(data: object, job: Any) -> tuple[str, dict[str, Any]]:
        """Without a training."""
        return job.key, {"validation_loss": 1.0, "scores": [0.5] * 1000}

    data = made(compounds=12, each=1, modalities=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "_outcome", outcome)
        sweep_heads(data, [HeadTraining(seed=seed) for seed in range(3)], place, processes=1)


MAKERS: dict[str, Callable[[Path, Path], None]] = {
    "index": make_index,
    "fused run": make_fused,
    "report.html": make_report,
    "senses.tsv": make_senses,
    "rewrites.csv": make_rewrites,
    "variants": make_variants,
    "head": make_head,
    "sweep.jsonl": make_sweep,
}


def tree(place: Path) -> dict[str, bytes]:
    """What is there, but for times."""
    every = [place, *place.rglob("*")]
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in every
        if path.is_file() and path.name not in ("run.json", "report.html")
    }


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_on_a_full_disk_is_made_when_there_is_space(tmp_path, disk: Disk, name: str):
    make, place = MAKERS[name], disk.place / "results" / name
    make(tmp_path / "peer" / name, tmp_path)
    for left in (0, 2200 if name == "index" else 8):
        disk.fill(left * 1024)
        with pytest.raises(UserError, match="Free space on the disk") as caught:
            make(place, tmp_path)
        assert str(place.parent) in str(caught.value)
        if name not in ("variants", "sweep.jsonl"):  # they grow piece by piece
            assert not place.exists()
        assert not [path for path in disk.place.rglob("*part*") if not path.is_dir()]
    disk.free()
    make(place, tmp_path)
    assert tree(place) == tree(tmp_path / "peer" / name)
    assert {path.name for path in place.parent.iterdir()} == {name}


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_there_stays_whole_on_a_disk_that_is_read_only(tmp_path, disk: Disk, name: str):
    make, place = MAKERS[name], disk.place / name
    with disk.read_only(), pytest.raises(UserError, match="Read-only file system") as caught:
        make(place, tmp_path)
    assert str(place) in str(caught.value)
    make(place, tmp_path)
    before = tree(place)
    if name not in ("variants", "sweep.jsonl"):  # nothing is left to be done there
        with disk.read_only(), pytest.raises(UserError, match="Read-only file system"):
            make(place, tmp_path)
    assert tree(place) == before


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_in_the_place_of_the_folder_above_is_told(tmp_path, name: str):
    (tmp_path / "file").write_text("years of work")
    with pytest.raises(UserError) as caught:
        MAKERS[name](tmp_path / "file" / name, tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "years of work"


@pytest.mark.slow
def test_a_model_that_does_not_fit_onto_the_disk_is_trained_again_from_its_checkpoint(tmp_path):
    pytest.importorskip("datasets", reason="needs the extra 'finetune'")
    from test_models_trainer import fitted
    from towers import save_sentence_transformer

    base = save_sentence_transformer(tmp_path / "base")
    with small_disk(tmp_path / "disk", "64m") as disk:
        figures = fitted(base, disk.place / "peer", lambda: 1.0)
        size = sum(path.stat().st_size for path in disk.place.rglob("*") if path.is_file())
        shutil.rmtree(disk.place / "peer")
        for left in (0, size // 3, size, 2 * size):
            disk.fill(left)
            with pytest.raises(UserError, match=r"model.*cannot be written .*Free space"):
                fitted(base, disk.place / "model", lambda: 1.0)
            assert not (disk.place / "model").exists()
        disk.free()
        assert fitted(base, disk.place / "model", lambda: 1.0) == figures
        assert [path.name for path in disk.place.iterdir()] == ["model"]


def test_a_full_disk_for_temporary_files_is_told_with_what_to_set(tmp_path, monkeypatch):
    class Full(sqlite3.Connection):
        def executemany(self, *arguments: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("database or disk is full")

        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql.startswith("INSERT"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(
        "admire.tasks.collections.building.sqlite3.connect",
        lambda path, **more: connect(path, **more, **({} if path else {"factory": Full})),
    )
    with pytest.raises(UserError, match=r"disk is full.*set TMPDIR"):
        make_index(tmp_path / "index", tmp_path)


# --------------------------------------------------------------------------- gone in the middle


def disturb(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Do something between the second block of a run and the third."""
    from admire.runs import run_blocks

    real, turns = run_blocks.rank_block, []

    def disturbed(*arguments: Any, **named: Any) -> Any:
        turns.append(1)
        if len(turns) == 3:
            what()
        return real(*arguments, **named)

    monkeypatch.setattr(run_blocks, "rank_block", disturbed)


@pytest.mark.parametrize("gone", ["run folder", "cache", "data"])
def test_what_goes_away_under_a_run_is_named_and_the_same_command_goes_on(
    capsys, monkeypatch, tmp_path, data, asked, gone: str
):
    assert run(capsys, *ranking(data, tmp_path / "peer"))[0] == 0
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "cache"))
    out, content = tmp_path / "runs" / "one", data.read_bytes()
    there = {"run folder": out.parent, "cache": tmp_path / "cache", "data": data}[gone]
    with monkeypatch.context() as patch:
        disturb(patch, lambda: shutil.rmtree(there) if there.is_dir() else there.unlink())
        code, _, said = run(capsys, *ranking(data, out))
    assert code == 2
    told(said, there)
    assert not out.exists()
    data.write_bytes(content)
    asked.clear()
    assert run(capsys, *ranking(data, out))[0] == 0
    assert (out / "scores.csv").read_bytes() == (tmp_path / "peer" / "scores.csv").read_bytes()
    assert len(asked) <= {"run folder": 2 * 2, "cache": 2 * 2, "data": 2 * 2}[gone]


def test_pictures_that_go_away_while_they_are_indexed_are_not_left_out_silently(tmp_path):
    source = pictures(tmp_path / "pictures")
    write_index(source, PictureEncoder(), tmp_path / "peer")

    class Careless(PictureEncoder):
        def encode_images(self, images: Sequence[Path]) -> Vectors:
            found = super().encode_images(images)
            shutil.rmtree(source, ignore_errors=True)
            return found

    with pytest.raises(UserError, match="pictures: has gone while it was indexed"):
        write_index(source, Careless(), tmp_path / "index")
    assert not (tmp_path / "index").exists()
    pictures(source)
    write_index(source, PictureEncoder(), tmp_path / "index")
    assert found_in(tmp_path / "index") == found_in(tmp_path / "peer")


def found_in(index: Path) -> list[tuple[str, float]]:
    opened = open_index(index)
    (query,) = WordEncoder().encode_texts(["a picture of 3"], role="query")
    found = opened.search({"compound": query}, {"compound": 1.0}, 10)
    return [(thing.name, score) for thing, score in found]


@pytest.mark.parametrize("gone", ["index", "index/shards/00001"])
def test_an_index_that_goes_away_while_it_is_open_is_named(tmp_path, gone: str):
    make_index(tmp_path / "index", tmp_path)
    opened = open_index(tmp_path / "index")
    shutil.rmtree(tmp_path / gone)
    (query,) = WordEncoder().encode_texts(["a picture of 3"], role="query")
    with pytest.raises(UserError, match=r"index/shards/.*: cannot be read any more.*search again"):
        opened.search({"compound": query}, {"compound": 1.0}, 10)


# ------------------------------------------------------------------------------ a damaged cache


def filled(path: Path) -> dict[str, bytes]:
    """A cache with entries of many lengths, those of a page and more among them."""
    dice = random.Random(0)
    entries = {f"{k:064x}": dice.randbytes(dice.choice((0, 9, 100, 1500, 5000))) for k in range(60)}
    cache = Cache(path)
    for key, value in entries.items():
        cache.put(key, value)
    cache.close()
    return entries


def harmed(content: bytes, dice: random.Random) -> bytes:
    """With some bytes changed, zeroed or cut off."""
    changed, at = bytearray(content), dice.randrange(len(content))
    match dice.randrange(5):
        case 0:
            changed[at] ^= 1 << dice.randrange(8)
        case 1:
            for _ in range(20):
                changed[dice.randrange(len(content))] = dice.randrange(256)
        case 2:
            changed[at : at + 512] = bytes(len(changed[at : at + 512]))
        case 3:
            changed[at : at + 64] = dice.randbytes(len(changed[at : at + 64]))
        case 4:
            del changed[at:]
    return bytes(changed)


def check_damage(folder: Path, seeds: range) -> Counter[str]:
    """What becomes of a cache of which the files are harmed: never a wrong entry."""
    folder.mkdir()
    path = folder / "cache.sqlite"
    entries = filled(path)
    whole = {path: path.read_bytes()}
    live = Cache(path)  # with a log beside it
    live.put("more", b"more")
    logged = {one: one.read_bytes() for one in folder.iterdir()}
    live.close()
    entries["more"] = b"more"
    came: Counter[str] = Counter()
    for seed in seeds:
        dice = random.Random(seed)
        for one in folder.iterdir():
            one.unlink()
        files = logged if dice.random() < 0.3 else whole
        harm = dice.choice(list(files))
        for one, content in files.items():
            one.write_bytes(harmed(content, dice) if one == harm else content)
        cache = None
        try:
            cache = Cache(path)
            for key, value in entries.items():
                found = cache.get(key)
                assert found in (None, value), seed
                came["right" if found is not None else "missing"] += 1
            cache.put("new", b"new")
            assert cache.get("new") in (None, b"new")
        except UserError as error:
            said = str(error)
            came["refused" if str(path) in said and "remove the file" in said else said] += 1
        finally:
            if cache is not None:
                cache.close()
    return came


def test_a_damaged_cache_gives_right_entries_or_none_or_is_named(tmp_path):
    came = check_damage(tmp_path / "cache", range(250))
    assert came.keys() == {"right", "missing", "refused"}
    assert min(came["right"], came["missing"], came["refused"]) > 20


@pytest.mark.slow
def test_a_damaged_cache_at_ten_thousand_places(tmp_path):
    came = check_damage(tmp_path / "cache", range(1000, 11_000))
    assert came.keys() == {"right", "missing", "refused"}


def test_a_reply_that_was_changed_on_the_disk_is_asked_for_again(caplog):
    llm = ScriptedChat(lambda prompt: "literal", name="said")
    question = Question("Idiomatically or literally?")
    assert CachedChat(llm).ask(question).text == "literal"
    db = sqlite3.connect(cache_dir() / "replies.sqlite")
    db.execute("UPDATE entries SET value = replace(value, 'literal', 'liberal')")
    db.commit()
    db.close()
    chat = CachedChat(llm)
    for _ in range(2):
        assert chat.ask(question).text == "literal"
    assert len(llm.prompts) == 2
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "replies.sqlite: is damaged. What is not as it was written is computed" in warning


def test_an_entry_of_another_key_is_none_of_this_ones(tmp_path):
    """As where the disk has given the page of another time or place."""
    cache = Cache(tmp_path / "cache.sqlite")
    cache.put_all({"one": b"1", "two": b"2"})
    db = sqlite3.connect(tmp_path / "cache.sqlite")
    for table, column in (("entries", "value"), ("digests", "digest")):
        db.execute(
            f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE key = 'two')"
        )
    db.commit()
    assert (cache.get("one"), cache.get("two")) == (None, b"2")


def test_a_cache_with_a_damaged_schema_is_named(tmp_path):
    path = tmp_path / "cache.sqlite"
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"PRIMARY KEY, value", b"PRIMARY \xebEY, value"))
    with pytest.raises(UserError, match=r"cache\.sqlite: the cache cannot be used"):
        Cache(path)


# -------------------------------------------------------------------------------- other versions


def test_entries_of_older_versions_are_read_and_older_versions_read_ours(tmp_path):
    """Older ones know one table, and nothing of digests."""
    path = tmp_path / "cache.sqlite"
    old = sqlite3.connect(path)
    old.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB)")
    old.execute("INSERT INTO entries VALUES ('theirs', ?)", (b"1",))
    old.commit()
    cache = Cache(path)
    assert cache.get("theirs") == b"1"
    cache.put("ours", b"2")
    old.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", ("later", b"3"))
    old.commit()
    assert old.execute("SELECT value FROM entries WHERE key = 'ours'").fetchone() == (b"2",)
    assert cache.get("later") == b"3"


def test_a_reply_of_a_newer_version_is_read():
    llm = ScriptedChat(lambda prompt: "literal", name="said")
    chat = CachedChat(llm)
    reply = chat.keep("key", Reply("literal"))
    record = json.loads(chat._cache.get("key")[1:])
    more = record | {"temper": 1, "usage": {"prompt": 1, "completion": 2, "cached": 0, "new": 5}}
    chat._cache.put("newer", b"\x1e" + json.dumps(more).encode())
    kept = chat.kept("newer")
    assert kept.text == reply.text
    assert kept.kept


def change_rows(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "items.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def a_run(tmp_path: Path, data: Path) -> Path:
    ranked = rank(read_items(data), llms=[explains("Literal")], encoder=WordEncoder(), source=data)
    write_run(ranked, tmp_path / "run")
    return tmp_path / "run"


def older(folder: Path) -> None:
    """Without what was added to run folders one after the other."""

    def change(row: dict[str, Any]) -> None:
        for name in ("candidates", "sequence", "expected_item", "judgements"):
            del row[name]

    change_rows(folder, change)
    record = json.loads((folder / "run.json").read_text())
    for name in ("rankers", "shuffles", "image_side"):
        record["settings"].pop(name, None)
    (folder / "run.json").write_text(json.dumps(record))
    lines = [line.split(",") for line in (folder / "scores.csv").read_text().splitlines()]
    column = lines[0].index("ranker")
    for cells in lines:
        del cells[column]
    (folder / "scores.csv").write_text("".join(",".join(cells) + "\n" for cells in lines))


def newer(folder: Path) -> None:
    """With more in every place."""

    def change(row: dict[str, Any]) -> None:
        row["more"] = {"new": 1}
        row["candidates"][0]["more"] = 1
        for reading in row["interpretations"]:
            reading["more"] = reading["sense"]["more"] = reading["literal"]["more"] = 1

    change_rows(folder, change)
    record = json.loads((folder / "run.json").read_text())
    record["more"] = record["settings"]["more"] = {"new": 1}
    (folder / "run.json").write_text(json.dumps(record))
    lines = (folder / "scores.csv").read_text().splitlines()
    lines = [f"{line},{'1' if k else 'more'}" for k, line in enumerate(lines)]
    (folder / "scores.csv").write_text("\n".join(lines) + "\n")
    (folder / "more.bin").write_bytes(b"\xff")


@pytest.mark.parametrize("change", [older, newer])
def test_a_run_folder_of_another_version_is_read_compared_fused_and_shown(
    tmp_path, a_run: Path, change: Callable[[Path], None]
):
    before, figures = read_run(a_run), compare_runs([a_run])["mean"].tolist()
    change(a_run)
    after = read_run(a_run)
    assert [one.order for one in after.rankings] == [one.order for one in before.rankings]
    assert compare_runs([a_run])["mean"].tolist() == figures
    assert [one.order for one in fuse([a_run, a_run]).rankings] == [
        one.order for one in before.rankings
    ]
    assert write_report([a_run], tmp_path / "report.html").stat().st_size > 10_000


def test_an_unfinished_run_of_another_version_starts_anew(monkeypatch, tmp_path, data, caplog):
    (tmp_path / "replies.jsonl").write_text(
        json.dumps({"compound": "night owl", "sense": "literal", "meaning": "a bird"})
    )
    settings = Settings(llms=(f"recorded:{tmp_path / 'replies.jsonl'}",), sense="given")
    data.write_text(data.read_text().replace("idiomatic", "literal"))
    for name in COMPOUNDS[1:]:
        row = {"compound": name, "sense": "literal", "meaning": "a thing"}
        with (tmp_path / "replies.jsonl").open("a") as file:
            file.write("\n" + json.dumps(row))
    caplog.set_level("INFO", "admire")
    with monkeypatch.context() as patch:
        disturb(patch, lambda: (_ for _ in ()).throw(UserError("stop")))
        with pytest.raises(UserError, match="4 of 6 items are ranked"):
            rank_file(data, tmp_path / "run", settings)
    path = tmp_path / "run.unfinished" / "run.json"
    record = json.loads(path.read_text())
    record["versions"] = dict.fromkeys(record["versions"], "0.0")
    path.write_text(json.dumps(record))
    rank_file(data, tmp_path / "run", settings)
    assert "starts anew" in caplog.text
    assert len(read_run(tmp_path / "run").rankings) == 6


def test_an_index_of_a_newer_version_asks_for_a_newer_admire(tmp_path):
    make_index(tmp_path / "index", tmp_path)
    path = tmp_path / "index" / "index.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"more": 1}))
    assert len(found_in(tmp_path / "index")) == 5
    path.write_text(json.dumps(record | {"format": 3}))
    with pytest.raises(UserError, match=r"newer version of admire \(format 3.*Update admire, or"):
        open_index(tmp_path / "index")


def test_a_head_and_a_sweep_of_other_versions_are_read_or_refused_by_name(tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from admire.models.projection import load_projection

    make_head(tmp_path / "head", tmp_path)
    path = tmp_path / "head" / "head.json"
    card = json.loads(path.read_text())
    path.write_text(json.dumps(card | {"more": {"new": 1}}))
    assert load_projection(tmp_path / "head").identity
    card["settings"]["layers"] = 3  # of which nobody here knows what it does
    path.write_text(json.dumps(card))
    with pytest.raises(UserError, match=r"head: the head cannot be read .*Train it again"):
        load_projection(tmp_path / "head")
    make_sweep(tmp_path / "sweep.jsonl", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "sweep.jsonl").read_text().splitlines()]
    newer = "".join(json.dumps(row | {"more": 1}) + "\n" for row in rows)
    (tmp_path / "sweep.jsonl").write_text(newer)
    make_sweep(tmp_path / "sweep.jsonl", tmp_path)
    assert (tmp_path / "sweep.jsonl").read_text() == newer  # nothing was trained again
