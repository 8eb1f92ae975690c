"""Long commands end as if nobody had killed them: see kills.py for how and when they are killed.

What a run leaves is compared with what an undisturbed one leaves: every file below its folder, byte
for byte but for times, and every key in its caches. So nothing half-written may stay either.

What was asked of a server: an answer that is kept is never asked for again. One that is under way
at the moment of a kill may be, whether the server has sent it or not, since no program can keep
what it has not read. So a kill costs as many questions as are under way at once, at most.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import admire_row, manifest_row
from kills import POSSIBLE, Nursery, Start, Told, kill_until_done
from served import COMPOUNDS, answer
from strict_server import StrictServer
from werkzeug import Request, Response
from werkzeug.exceptions import ClientDisconnected

from admire import SAMPLES

pytestmark = pytest.mark.skipif(not POSSIBLE, reason="needs Linux's seccomp")
slow = pytest.mark.slow

TIMES = {"started", "finished", "seconds", "asked"}
"""What of a record a kill may change: times, and what was kept."""
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
    return {name: one for name, one in found.items() if (name[:4], one) not in PROBES}


def _content(path: Path) -> object:
    """Of a file its bytes, of a record what no kill changes, of a cache its keys."""
    if path.is_dir():
        return "a folder"
    content = path.read_bytes()
    if path.name == "run.json":
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


# ----------------------------------------------------------------------------------- the commands


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    """Four items in two blocks."""
    return write_table(*(admire_row(one) for one in COMPOUNDS))


def ranking(data: Path, folder: Path) -> list[object]:
    return ["rank", data, "--out", folder / "run", "--parallel", 2, "--llm", "openai:gpt-4o"]


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=slow)])
def test_a_run_that_asks_a_server_survives_kills(killed, data, counting: Counting, kills: int):
    killed("words", partial(ranking, data), whole="run", kills=kills, **serving(counting))
    assert counting.again <= 2 * kills


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


QUICK = ("--device", "cpu", "--epochs", 3, "--learning-rate", 3e-3, "--batch-size", 8)


@slow
@needs("torch", "sentence_transformers", "datasets", "accelerate")
def test_a_sentence_encoder_survives_kills(killed, tmp_path):
    from towers import WORDS, save_sentence_transformer

    sample = SAMPLES / "chengyu.csv"
    words = [*WORDS[:4], *sorted(set(sample.read_text(encoding="utf-8")))]
    base = save_sentence_transformer(tmp_path / "base", words, by_character=True)
    command = ["train", "sentences", sample, "--objective", "simcse", "--validation", sample]
    command += ["--encoder", f"sbert:{base}", *QUICK, "--out"]
    killed("encoders", lambda folder: [*command, folder / "model"], whole="model")
