"""Long commands end as if nobody had killed them: see kills.py for how and when they are killed.

What a run leaves is compared with what an undisturbed one leaves: every file below its folder, byte
for byte but for times, and every key in its caches. So nothing half-written may stay either.

What was asked of a server: an answer that is kept is never asked for again. One that is under way
at the moment of a kill may be, whether the server has sent it or not, since no program can keep
what it has not read. So a kill costs as many questions as are under way at once, at most.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import admire_row, manifest_row
from kills import POSSIBLE, Nursery, Start, Told, kill_until_done
from served import COMPOUNDS, answer
from strict_server import Body, StrictServer, prompt_of
from werkzeug import Request, Response
from werkzeug.exceptions import ClientDisconnected

from admire import SAMPLES
from admire.base.storage import MARKER, check_folder, replace_folder, temporary_folder, write_whole

pytestmark = pytest.mark.skipif(not POSSIBLE, reason="needs Linux's seccomp")
slow = pytest.mark.slow

TIMES = {"started", "finished", "seconds", "asked", "whole"}
"""What of a record a kill may change: times, what was kept, how often an index was written."""
PROBES = [("tmp/", b"blat"), ("tmp/", b"")]
START = "OpenAI-Organization"
"""The header in which the server is told which start of a command asks."""


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Callable[[str], Nursery]]:
    """Nurseries by their surroundings, each started where it is first needed."""
    begun: dict[str, Nursery] = {}

    def nursery(surroundings: str) -> Nursery:
        if surroundings not in begun:
            begun[surroundings] = Nursery(surroundings).__enter__()
        return begun[surroundings]

    yield nursery
    for one in begun.values():
        one.__exit__()


@pytest.fixture
def killed(nurseries: Callable[[str], Nursery], tmp_path: Path) -> Callable[..., Told]:
    """Kills a command and compares what it leaves, with 20 kills unless said otherwise."""

    def kill(surroundings: str, command: Callable[[Path], Sequence[object]], **more: Any) -> Told:
        nursery = nurseries(surroundings)
        told = kill_until_done(nursery, tmp_path / "runs", command, **{"left": left} | more)
        print(told)
        assert told.kills.total() == more.get("kills", 20)
        return told

    return kill


# -------------------------------------------------------------------------------- what is left


def left(folder: Path) -> dict[str, object]:
    """What lies at a place, a folder or a file.

    Python tries a temporary folder with a file of its own, of four letters, before it uses it.
    """
    places = [folder] if folder.is_file() else folder.rglob("*")
    found = {str(path.relative_to(folder)): _content(path) for path in places}
    found = {re.sub(r"(index/whole/)\d+", r"\1N", name): one for name, one in found.items()}
    return {name: one for name, one in found.items() if (name[:4], one) not in PROBES}


def _content(path: Path) -> object:
    """Of a file its bytes, of a record what no kill changes, of a cache its keys."""
    if path.is_dir():
        return "a folder"
    if path.suffix == ".txt":  # who has a lock, and since when
        return "a note"
    content = path.read_bytes()
    if path.name in ("run.json", "index.json"):
        return {name: one for name, one in json.loads(content).items() if name not in TIMES}
    if path.suffix == ".html":
        return re.sub(rb"(?s)>Seconds<.*?</table>|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", b"", content)
    if content.startswith(b"SQLite"):
        with sqlite3.connect(path) as db:
            keys = db.execute("SELECT key FROM entries ORDER BY key").fetchall()
        db.close()
        return keys
    return content


# --------------------------------------------------------------------------------- the server


class Counting(StrictServer):
    """Knows which start of a command asked what.

    Attributes:
        parallel: how many questions a start may have under way.
        starts: of the present run, for each whether it was killed.
        again: how many questions were asked again, in all.
        asked: how many questions there were, in all.
    """

    def __enter__(self) -> Counting:
        super().__enter__()
        self.parallel = 2
        self.starts: list[bool] = []
        self.again = self.asked = 0
        self._now: dict[str, list[str]] = {}
        return self

    @property
    def environ(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "sk-secret-123", "OPENAI_BASE_URL": self.url}

    def _route(self, request: Request) -> Response:
        try:
            question = request.get_data().decode()
        except ClientDisconnected:  # killed in the middle of it
            return Response(status=400)
        if request.path.endswith("/chat/completions"):
            with self._lock:
                self._now.setdefault(request.headers.get(START, ""), []).append(question)
        return super()._route(request)

    def ended(self, start: Start) -> None:
        """Put down how a start went."""
        self.starts.append(start.code is None)

    def finished(self) -> None:
        """Check a run: of all that a start asked, only what was under way is asked again."""
        asked = [self._now.get(str(number), []) for number in range(len(self.starts))]
        for number, was_killed in enumerate(self.starts):
            later = {one for some in asked[number + 1 :] for one in some}
            again = [one for one in asked[number] if one in later]
            assert len(set(asked[number])) == len(asked[number]), "twice in one start"
            assert len(again) <= (self.parallel if was_killed else 0)
            self.again += len(again)
        self.asked += sum(map(len, asked))
        self.starts.clear()
        self._now.clear()


@pytest.fixture
def counting() -> Iterator[Counting]:
    with Counting() as server:
        server.answer = answer
        yield server
        assert server.problems == []


def serving(server: Counting) -> dict[str, Any]:
    """What kill_until_done is to be told of a server."""
    return {
        "environ": lambda: server.environ | {"OPENAI_ORG_ID": str(len(server.starts))},
        "ended": server.ended,
        "finished": server.finished,
    }


# --------------------------------------------------------------------------- what a kill leaves

DIES = """
import os, signal, sys
from pathlib import Path
from admire.base.storage import mark_folder, temporary_folder, write_whole

sys.stdout.write(str(temporary_folder()))
sys.stdout.flush()
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
with write_whole(folder / sys.argv[2]) as file:
    file.write("half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def dies(tmp_path: Path, name: str) -> str:
    """A process begins a temporary folder and a file, and is killed; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, tmp_path / "folder", name],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout


def test_what_killed_processes_left_is_removed_and_what_others_are_writing_stays(
    tmp_path: Path, monkeypatch
):
    folder, tmp = tmp_path / "folder", tmp_path / "tmp"
    tmp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp))
    (temporary,) = [Path(dies(tmp_path, "senses.tsv"))]
    (partial,) = folder.iterdir()
    assert partial.read_text() == "half of it"
    assert list(tmp.iterdir()) == [temporary]
    check_folder(folder, "run")  # nothing but what a killed process left: it may be written to
    dead = partial.name.split("-")[-1]
    elsewhere = partial.with_name(f".senses.tsv.0123abcd-{dead}")
    ours = partial.with_name(partial.name.replace(dead, f"{os.getpid()}.part"))
    others = tmp / "admire-thesis", tmp / f"admire-0123abcd-{temporary.name.split('-')[2]}-x"
    for path in (elsewhere, ours):
        path.write_text("half of it")
    for path in others:
        path.mkdir()
    with write_whole(folder / "other.tsv") as file:  # once in each process is enough
        file.write("all of it")
    assert {*folder.iterdir()} == {folder / "other.tsv", elsewhere, ours}
    new = temporary_folder()
    assert {*tmp.iterdir()} == {new, *others}


def test_a_folder_of_which_only_its_marker_was_begun_is_written_to(tmp_path: Path):
    (tmp_path / "tmp").mkdir()
    dies(tmp_path, MARKER)
    with replace_folder(tmp_path / "folder", "run") as part:
        (part / "file").write_text("all of it")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [MARKER, "file"]
    marker = json.loads((tmp_path / "folder" / MARKER).read_text())
    assert marker == {"what": "run", "holds": ["file"]}


@slow
@needs("starlette", "uvicorn")
def test_the_files_of_a_server_that_was_killed_are_removed_at_the_next_start(tmp_path: Path):
    command = [sys.executable, "-m", "admire.cli", "serve", "--port", "0", "--llm", "openai:x"]
    for _ in range(2):
        started = subprocess.Popen(
            command, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}
        )
        assert started.stderr
        started.stderr.readline()
        while not list(tmp_path.glob(f"admire-*-{started.pid}-*")):
            assert started.poll() is None
        started.kill()
        started.communicate()
        assert len(list(tmp_path.iterdir())) == 1


# ----------------------------------------------------------------------------------- the commands


def table(path: Path, *rows: dict[str, str]) -> Path:
    import pandas as pd

    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).fillna("").to_csv(
        path, sep="\t" if path.suffix == ".tsv" else ",", index=False
    )
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four items in two blocks."""
    return table(tmp_path / "subtask_a_train.tsv", *(admire_row(one) for one in COMPOUNDS))


def ranking(data: Path, folder: Path, *options: object, models: int = 1) -> list[object]:
    llms = [part for name in ("gpt-4o", "gpt-4.1")[:models] for part in ("--llm", f"openai:{name}")]
    return ["rank", data, "--out", folder / "run", "--parallel", 2, *llms, *options]


def test_a_run_that_asks_a_server_survives_kills(killed, data, counting: Counting):
    killed("words", partial(ranking, data), whole="run", kills=5, **serving(counting))
    assert counting.again <= 2 * 5


@slow
@pytest.mark.parametrize("models", [1, 2])
def test_a_run_with_a_server_survives_twenty_kills(killed, data, counting: Counting, models: int):
    command = partial(ranking, data, models=models)
    told = killed("words", command, whole="run", seed=1, **serving(counting))
    print(f"{counting.asked} asked, {counting.again} of them again")
    assert counting.asked == 28 * models * (told.runs + 1) + counting.again
    assert told.deepest > 3


@slow
def test_a_run_in_processes_of_their_own_survives_kills(killed, data, counting: Counting):
    """As the test before, with ``python -m admire.cli`` for each start."""
    options = ("--query", "sentence", "--ranker", "listwise", "--shuffles", 2, "--track", "caption")
    counting.answer = listed
    command = partial(ranking, data)
    killed("words", lambda f: [*command(f), *options], afresh=True, **serving(counting))
    print(f"{counting.asked} asked, {counting.again} of them again")


def listed(body: Body) -> str:
    letters = re.findall(r"Candidate (\w), caption", prompt_of(body))
    said = {"sense": "idiomatic", "meaning": "z", "candidates": {}, "order": letters}
    return json.dumps(said)


@slow
def test_batches_survive_kills_and_no_question_is_in_two(killed, data, counting: Counting):
    def answered() -> None:
        counting.finish()

    options = serving(counting)
    command = partial(ranking, data)
    told = killed(
        "words", lambda f: [*command(f), "--batch"], waits=answered, whole="run", **options
    )
    sizes = [one["request_counts"]["total"] for one in counting.batches.values()]
    assert sum(sizes) == 28 * (told.runs + 1)


@pytest.fixture
def many(tmp_path: Path) -> list[object]:
    """Seven items in two languages, and replies that bring new columns in later blocks."""
    compounds = (*COMPOUNDS, "hot air", "big fish", "owl")
    rows, replies = [], []
    for k, compound in enumerate(compounds):
        row = manifest_row(compound, f"A {compound} again, no. {k}.")
        rows.append(row | {"language": "pt" if k % 3 == 2 else "en"})
        said = {"compound": compound, "sense": "idiomatic", "meaning": f"someone at {compound}"}
        replies.append(said)
    replies.append({"compound": "black sheep", "sense": "literal", "meaning": "a bird"})
    replies.append({"compound": "hot air", "sense": "idiomatic", "scene": 'a "lamp",\nat night'})
    for name, lines in (("manifest.jsonl", rows), ("replies.jsonl", replies)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    llm = f"recorded:{tmp_path / 'replies.jsonl'}"
    return ["rank", tmp_path / "manifest.jsonl", "--sense", "given", "--llm", llm]


@slow
def test_a_run_of_several_blocks_survives_kills_with_its_report(killed, many):
    killed("words", lambda folder: [*many, "--out", folder / "run", "--report"], kills=40)


@slow
def test_a_run_that_takes_the_place_of_another_survives_kills(killed, many, nurseries, tmp_path):
    """At any time there is a whole run, the old one or the new one; for a moment the old one is
    called otherwise, and gets its name back at the next start."""
    before = tmp_path / "before" / "run"
    before.mkdir(parents=True)
    places = {"ADMIRE_CACHE": str(tmp_path / "cache")}
    argv = [*many, "--out", before, "--seed", 1]
    made = nurseries("words").start(argv, places, tmp_path / "log")
    assert made.code == 0, made.said
    record = json.loads((before / "run.json").read_text())["settings"]["seed"]
    assert record == 1

    def command(folder: Path) -> list[object]:
        if not (folder / "begun").exists():
            shutil.copytree(before, folder / "run")
            (folder / "begun").touch()
        return [*many, "--out", folder / "run"]

    def ended(start: Start) -> None:
        places = (tmp_path / "runs" / "run" / name for name in ("run", ".run.admire-old"))
        assert any(names <= {path.name for path in place.glob("*")} for place in places)

    names = {path.name for path in before.iterdir()}
    killed("words", command, ended=ended, kills=40)


@slow
def test_a_report_survives_kills(killed, many, nurseries, tmp_path):
    run = tmp_path / "ranked"
    places = {"ADMIRE_CACHE": str(tmp_path / "cache")}
    made = nurseries("words").start([*many, "--out", run], places, tmp_path / "log")
    assert made.code == 0, made.said
    page = "pages/report.html"
    killed("words", lambda folder: ["report", run, "--out", folder / page], whole=page)


PICTURES = {
    f"{kind}/{k}.png": f"{kind} number {k} at night"
    for kind in ("owls", "people")
    for k in range(7)
}
"""Fourteen pictures in four shards; what the toy sees in each."""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for name, shows in PICTURES.items():
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pictures" / name).write_text(shows)
    return tmp_path / "pictures"


def indexing(source: Path, folder: Path) -> list[object]:
    return ["index", source, "--out", folder / "index", "--encoder", "toy"]


@slow
def test_an_index_survives_kills(killed, pictures, tmp_path):
    shards = tmp_path / "runs" / "run" / "index.unfinished" / "shards"

    def ended(start: Start) -> None:
        assert len(list(shards.glob(".*.part"))) <= 1  # however often it was killed

    killed("words", partial(indexing, pictures), ended=ended, whole="index")


@slow
def test_an_index_that_is_added_to_survives_kills(killed, pictures, nurseries, tmp_path):
    """A tar is added, whose pictures are unpacked on the way; one picture has changed."""
    before = tmp_path / "before"
    places = {"ADMIRE_CACHE": str(tmp_path / "cache")}
    made = nurseries("words").start(indexing(pictures, before), places, tmp_path / "log")
    assert made.code == 0, made.said
    with tarfile.open(tmp_path / "more.tar", "w") as tar:
        for k in range(9):
            for name, content in ((f"{k}.jpg", f"a lamp number {k}"), (f"{k}.txt", f"lamp {k}")):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content.encode()))

    def command(folder: Path) -> list[object]:
        if not (folder / "begun").exists():
            shutil.copytree(before / "index", folder / "index")
            (folder / "begun").touch()
        argv = ["index", tmp_path / "more.tar", "--out", folder / "index", "--encoder", "toy"]
        return [*argv, "--add"]

    killed("words", command)


@slow
@needs("albumentations")
def test_variants_of_pictures_survive_kills(killed, tmp_path):
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for k in range(6):
        picture = Image.fromarray(noise.integers(0, 255, (40, 60, 3), dtype=np.uint8))
        picture.save(tmp_path / "pictures" / f"owl{k}.png")
    command = ["augment", "images", tmp_path / "pictures", "--per-image", 3, "--out"]
    out = "variants"
    killed("pictures", lambda folder: [*command, folder / out], whole=out, piecewise=True)


@slow
def test_rewritten_captions_survive_kills(killed, tmp_path, counting: Counting):
    rows = [admire_row(one) for one in COMPOUNDS]
    for row in rows:
        row |= {f"image{k}_caption": f"{row['compound']} no. {k} at a desk" for k in range(1, 6)}
    data = table(tmp_path / "subtask_a_train.tsv", *rows)
    counting.parallel = 8
    counting.answer = lambda body: f"said otherwise, in {len(prompt_of(body))} letters"
    command = ["augment", "captions", data, "--by", "openai:gpt-4o", "--out"]
    options = serving(counting) | {"whole": "x.csv"}
    told = killed("words", lambda folder: [*command, folder / "x.csv"], **options)
    print(f"{counting.asked} asked, {counting.again} of them again")
    assert counting.asked == 20 * (told.runs + 1) + counting.again


FIVE = ("night owl", "bad apple", "red tape", "couch potato", "cold feet")
SMALL = ("--soft-negatives", 2, "--epochs", 3, "--llm", "openai:gpt-4o")


@pytest.fixture
def five(tmp_path: Path) -> Path:
    said = "a {} at a desk"
    rows = (admire_row(one, image1_caption=said.format(one)) for one in FIVE)
    return table(tmp_path / "subtask_a_train.tsv", *rows)


@slow
@needs("torch", "joblib")
def test_a_head_survives_kills(killed, five, counting: Counting):
    counting.parallel = 8
    command = ["train", "head", five, *SMALL, "--hidden", 8, "--output", 5, "--out"]
    options = serving(counting) | {"whole": "head"}
    killed("heads", lambda folder: [*command, folder / "head"], **options)
    print(f"{counting.asked} asked, {counting.again} of them again")


@slow
@needs("torch", "joblib")
@pytest.mark.parametrize(("processes", "kills"), [(1, 20), (2, 6)])
def test_a_sweep_survives_kills(killed, five, counting: Counting, processes: int, kills: int):
    """Its processes are killed with it; each of them takes seconds to start, so there are fewer."""
    counting.parallel = 8
    grid = ["--batch-size", 2, "--temperature", 0.1, "--dropout", 0.1]
    grid += ["--learning-rate", 1e-2, "--learning-rate", 1e-3, "--learning-rate", 1e-4]
    options = serving(counting)
    around = options.pop("environ")
    killed(
        "heads",
        lambda folder: ["sweep", five, *SMALL, *grid, "--out", folder / "sweep.jsonl"],
        left=lambda folder: {k: sorted_lines(v) for k, v in left(folder).items()},
        environ=lambda: around() | {"ADMIRE_THREADS": str(processes)},
        kills=kills,
        **options,
    )
    print(f"{counting.asked} asked, {counting.again} of them again")


def sorted_lines(content: object) -> object:
    """Heads are trained at the same time, so their results come in any order."""
    return sorted(content.splitlines()) if isinstance(content, bytes) else content


MWES = ("night owl", "red lamp", "big bird", "green desk", "blue tree", "cold feet")
AROUND = {"Previous": "before", "Next": "after", "Language": "EN"}


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A file of Task 2A."""
    uses = (
        ("a {} in the tree", "1"),
        ("the big {} is on the desk", "1"),
        ("my sister is the {} who writes", "0"),
        ("a real {} writes at midnight", "0"),
    )
    rows = [
        AROUND | {"ID": f"{k}.{mwe}", "MWE": mwe, "Target": text.format(mwe), "Label": label}
        for mwe in MWES
        for k, (text, label) in enumerate(uses)
    ]
    return table(tmp_path / "train.csv", *rows)


@slow
@needs("torch", "sklearn")
def test_a_light_detector_survives_kills(killed, labelled):
    command = ["train", "detector", labelled, "--out"]
    out = "detector.json"
    killed("heads", lambda folder: [*command, folder / out], whole=out)


finetune = needs("torch", "sentence_transformers", "datasets", "accelerate")
QUICK = ("--device", "cpu", "--epochs", 3, "--learning-rate", 3e-3, "--batch-size", 8)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from towers import save_sentence_transformer

    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "tiny")


@slow
@finetune
def test_a_classifier_survives_kills(killed, labelled, base):
    command = ["train", "classifier", labelled, "--encoder", base.with_name("tiny-parts"), *QUICK]
    command += ["--setting", "one_shot", "--max-length", 24, "--out"]
    killed("encoders", lambda folder: [*command, folder / "model"], whole="model")


@slow
@finetune
def test_a_sentence_encoder_survives_kills(killed, tmp_path):
    from towers import WORDS, save_sentence_transformer

    sample = SAMPLES / "chengyu.csv"
    words = [*WORDS[:4], *sorted(set(sample.read_text(encoding="utf-8")))]
    base = save_sentence_transformer(tmp_path / "base", words, by_character=True)
    command = ["train", "sentences", sample, "--objective", "simcse", "--validation", sample]
    command += ["--encoder", f"sbert:{base}", *QUICK, "--out"]
    killed("encoders", lambda folder: [*command, folder / "model"], whole="model")


@slow
@finetune
def test_retrievers_survive_kills(killed, base, tmp_path):
    from benchmarks import PIES, pies

    from admire.tasks.retrieval.passages import write_split

    for name, names in (("train", PIES), ("val", PIES[:4]), ("test", PIES[2:])):
        write_split(tmp_path / "data", name, pies(names))
    command = ["train", "retriever", tmp_path / "data", "--encoder", f"sbert:{base}", *QUICK]
    command += ["--soft-negatives", 2, "--hard-negatives", 2, "--seeds", 2, "--out"]
    killed("encoders", lambda folder: [*command, folder / "models"])
