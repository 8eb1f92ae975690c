"""The embedded profile with its real models: what a newcomer sees after pip install."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import Demo, run_demo

from admire import SAMPLES, rank, read_items, read_submission
from admire.core.storage import cache_dir
from admire.llm import Question, ask, open_llm
from admire.senses import Use, open_detector

README = Path(__file__).parents[1] / "README.md"

pytestmark = pytest.mark.ci


@pytest.fixture
def embedded(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache that the demo filled."""
    monkeypatch.setenv("ADMIRE_CACHE", demo.cache)
    monkeypatch.delenv("ADMIRE_WORDNET")


def test_the_demo_ranks_two_samples_and_a_second_run_asks_nothing(demo, tmp_path):
    items = read_items(SAMPLES)[:2]
    assert demo.printed.count("night owl") >= len(items)
    first, second = Path(demo.folder), tmp_path / "two"
    assert len(read_submission(first / "submission_en.tsv")) == len(items)
    rows = [json.loads(line) for line in (first / "items.jsonl").open()]
    for row in rows:  # the two that show the sense
        assert {*row["order"][:2]} == {*row["expected_order"][:2]}

    assert run_demo(second, Path(demo.cache)).seconds < demo.seconds / 2  # busy, both are slow
    for name in ("scores.csv", "items.jsonl", "submission_en.tsv"):
        assert (second / name).read_text() == (first / name).read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_all_samples_are_ranked_better_than_by_chance():
    run = rank(read_items(SAMPLES))
    assert np.mean([one.order[0] == one.item.best for one in run.rankings]) > 0.3  # chance is 0.2


@pytest.mark.usefixtures("listening")
def test_ctrl_c_ends_a_run_in_every_phase_and_the_next_goes_on(demo, tmp_path):
    """While Python imports, while models are loaded, while the chat model reads."""
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    cache.mkdir()
    temporary.mkdir()
    (cache / "models").symlink_to(Path(demo.cache) / "models")
    code = "import admire.apps.cli; print(flush=True); admire.apps.cli.main()"
    command = [sys.executable, "-c", code, "rank", str(SAMPLES), "--out", str(tmp_path / "run")]
    for seconds in (0.1, 2, 8):
        process = subprocess.Popen(
            command,
            env=os.environ | {"ADMIRE_CACHE": str(cache), "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()  # until then Python itself starts
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - pressed < 4  # 2 s, and some for a busy machine
        message = "Interrupted. Run the same command again to resume."
        assert (process.returncode, said.count(message)) == (130, 1)
        assert "Traceback" not in said
        assert not [path for path in tmp_path.rglob("*") if path.name.endswith("part")]
        assert {path.name for path in tmp_path.iterdir()} == {"cache", "temporary"}
        assert not [*temporary.iterdir()]
        commands = [path.read_bytes() for path in Path("/proc").glob("[1-9]*/cmdline")]
        assert not [one for one in commands if str(cache).encode() in one]  # llama.cpp's process


@pytest.mark.usefixtures("embedded")
def test_the_detector_finds_the_idiomatic_use_of_two_of_the_same_compound():
    items = read_items(SAMPLES)
    senses = open_detector().classify([Use(item) for item in items])
    probability = {
        (item.compound, item.sentence_type): sense.probability_idiomatic
        for item, sense in zip(items, senses, strict=True)
    }
    pairs = [c for c, kind in probability if kind == "literal" and (c, "idiomatic") in probability]
    assert len(pairs) >= 6
    for compound in pairs:
        assert probability[compound, "idiomatic"] > probability[compound, "literal"], compound


@pytest.mark.usefixtures("embedded")
def test_the_likelihood_of_a_reply_is_that_with_which_it_was_written():
    llm = open_llm("embedded")
    question = Question("What is a night owl? Answer in a few words.", max_tokens=12, logprobs=1)
    (written,) = ask(llm, question)
    assert llm.unbound._server().address.startswith("http://127.0.0.1:")  # others cannot ask it
    targets = "Bananas are yellow.", written.text
    unlike, rated = ask(llm, *(Question(question.parts, target=target) for target in targets))
    assert [*map(sorted, rated.logprobs or ())] == [*map(sorted, written.logprobs or ())]
    told, expected, other = (
        np.mean([value for place in reply.logprobs or () for value in place.values()])
        for reply in (rated, written, unlike)
    )
    # Of a question that it has read before it reads the last token alone, and rounds otherwise.
    assert told == pytest.approx(expected, abs=0.05)
    assert other < told - 1


@pytest.mark.usefixtures("embedded")
def test_no_reply_depends_on_what_was_asked_before():
    llm = open_llm("embedded").unbound

    def replies(lead: str, *compounds: str) -> list[str | bytes]:
        """Return what is written of compounds, and the state of the beginning, which is removed."""
        texts = [f'{lead * 6}{{"{compound}": "' for compound in compounds]
        questions = [Question(text, max_tokens=12) for text in texts]
        written = [reply.text for reply in llm.ask_together(questions)]
        (text,) = (f for f in (cache_dir() / "beginnings").rglob("*.txt") if lead in f.read_text())
        state = text.with_suffix("")
        content = state.read_bytes()
        text.unlink()
        state.unlink()
        return [*written, content]

    about = "Say in a few words what it means.\n", "night owl", "pig's ear"
    first = replies(*about)
    replies("Say in a few words what you see.\n", "cold feet", "elbow grease, and more of it")
    assert replies(*about) == first


@pytest.mark.usefixtures("embedded")
def test_the_python_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(block.strip().splitlines()) <= 12
    exec(compile(block, str(README), "exec"), {})
    assert "night owl" in capsys.readouterr().out
    assert list(tmp_path.rglob("submission_en.tsv"))
