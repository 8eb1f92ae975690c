"""Long commands end as if nobody had killed them.

Each is killed twice and then left alone. What it leaves is compared with what an undisturbed one
leaves: every file below its folder, byte for byte but for times, and every key in its caches. So
nothing half-written may stay either.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import admire_row
from served import COMPOUNDS, answer
from strict_server import Body, StrictServer

from admire import SAMPLES

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
slow = pytest.mark.slow

TIMES = {"started", "finished", "seconds", "asked"}
"""What of a record a kill may change: times, and what was kept."""
SCRIPT = Path(__file__).parent / "fakes" / "killed.py"


def left(folder: Path) -> dict[str, object]:
    """What lies below a folder."""
    return {str(path.relative_to(folder)): _content(path) for path in folder.rglob("*")}


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


def start(folder: Path, changes: int, toys: str, arguments: Sequence[object]) -> subprocess.Popen:
    """Start a command that may write below this folder alone."""
    surroundings = {"ADMIRE_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, SCRIPT, str(folder), str(changes), toys, *map(str, arguments)],
        env=os.environ | surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen, code: int | None = 0) -> str:
    """Wait for a command, which ends with this code, or as it should or killed; what it said."""
    said, _ = process.communicate(timeout=300)
    assert process.returncode in ((0, -signal.SIGKILL) if code is None else (code,)), said
    return said


def killed_and_ended(
    folder: Path, toys: str, command: Callable[[Path], Sequence[object]], whole: str
) -> None:
    """Run a command undisturbed, and then with two kills at moments that a seed draws.

    Args:
        whole: what is written, by its name in the folder: whenever the command is killed, it is not
            there, or it is as it is in the end.
    """
    said = ended(start(folder, 0, toys, command(folder)))
    changes = int(said.rpartition("changes: ")[2])
    wanted, end = left(folder), left(folder / whole)
    shutil.rmtree(folder)
    rng = random.Random(0)
    for moment in (rng.randint(1, changes // 3), rng.randint(1, changes // 2), 0):
        process = start(folder, moment, toys, command(folder))
        ended(process, 0 if not moment else None)
        if process.returncode and (folder / whole).exists():
            assert left(folder / whole) == end
    assert left(folder) == wanted


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
    ended(process := start(folder, 0, "words", command))
    wanted, count = left(folder), asked.total()
    shutil.rmtree(folder)
    asked.clear()
    moments |= {count // 4, count // 2 + 3}
    for code in (-signal.SIGKILL, -signal.SIGKILL, 0):
        ended(process := start(folder, 0, "words", command), code)
    assert left(folder) == wanted
    assert asked.total() <= count + 2 * len(moments)
    assert strict.problems == []


@slow
def test_a_sentence_encoder_survives_kills(tmp_path: Path):
    for package in ("torch", "sentence_transformers", "datasets", "accelerate"):
        pytest.importorskip(package, reason="needs the extra 'train'")
    from towers import WORDS, save_sentence_transformer

    sample = SAMPLES / "chengyu.csv"
    words = [*WORDS[:4], *sorted(set(sample.read_text(encoding="utf-8")))]
    base = save_sentence_transformer(tmp_path / "base", words, by_character=True)
    command = ["train", "sentences", sample, "--objective", "simcse", "--validation", sample]
    command += ["--encoder", f"sbert:{base}", "--device", "cpu", "--epochs", "3"]
    command += ["--learning-rate", "3e-3", "--batch-size", "8", "--out"]
    killed_and_ended(tmp_path / "here", "encoders", lambda f: [*command, f / "model"], "model")
