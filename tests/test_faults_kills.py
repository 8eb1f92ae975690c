"""A run that was killed twice leaves what an undisturbed one leaves.

That is every file below its folder, byte for byte but for times, and every key in its caches.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import admire_row
from served import COMPOUNDS, answer
from strict_server import Body, StrictServer

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")

TIMES = {"started", "finished", "seconds", "asked"}
"""What of a record a kill may change: times, and what was kept."""
SCRIPT = Path(__file__).parent / "fakes" / "killed.py"


def left(folder: Path) -> dict[Path, object]:
    return {path: _content(path) for path in folder.rglob("*")}


def _content(path: Path) -> object:
    """Of a file its bytes, of a record what no kill changes, of a cache its keys."""
    if path.is_dir():
        return "a folder"
    content = path.read_bytes()
    if path.name == "run.json":
        return {name: one for name, one in json.loads(content).items() if name not in TIMES}
    if content.startswith(b"SQLite"):
        with sqlite3.connect(path) as db:
            keys = db.execute("SELECT key FROM entries ORDER BY key").fetchall()
        db.close()
        return keys
    return content


def start(folder: Path, arguments: Sequence[object]) -> subprocess.Popen:
    """Start a command that may write below this folder alone."""
    surroundings = {"ADMIRE_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | surroundings)


@pytest.mark.ci
def test_a_run_that_asks_a_server_survives_kills(strict: StrictServer, write_table, tmp_path: Path):
    """An answer that is kept is never asked for again; one under way at a kill may be."""
    data = write_table(*(admire_row(one) for one in COMPOUNDS))
    folder = tmp_path / "run"
    model = ["--llm", "openai:gpt-4o", "--llm-url", strict.url, "--parallel", 2]
    command = ["rank", data, "--out", folder / "run", *model]
    asked: Counter[str] = Counter()
    moments: set[int] = set()

    def answer_or_kill(body: Body) -> str:
        asked[json.dumps(body)] += 1
        if asked.total() in moments:
            process.kill()
        return answer(body)

    strict.answer = answer_or_kill
    process = start(folder, command)
    assert process.wait(300) == 0
    wanted, count = left(folder), asked.total()
    shutil.rmtree(folder)
    asked.clear()
    moments |= {count // 4, count // 2 + 3}
    for code in (-signal.SIGKILL, -signal.SIGKILL, 0):
        process = start(folder, command)
        assert process.wait(300) == code
    assert left(folder) == wanted
    assert asked.total() <= count + 2 * len(moments)
    assert strict.problems == []
