"""The embedded profile with its real models: what a newcomer sees after pip install."""

from __future__ import annotations

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

from admire import SAMPLES, Settings, rank, read_items, read_submission
from admire.llm import Question, open_llm
from admire.senses import Use, open_detector

ROOT = Path(__file__).parents[1]
FORMATS = (ROOT / "docs/own-set.md").read_text(encoding="utf-8")
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text(encoding="utf-8")
]

pytestmark = pytest.mark.ci


@pytest.fixture
def embedded(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache that the demo filled."""
    monkeypatch.setenv("ADMIRE_CACHE", demo.cache)
    monkeypatch.delenv("ADMIRE_WORDNET")


def test_the_demo_ranks_the_samples_and_a_second_run_takes_seconds(demo, tmp_path):
    items = read_items(SAMPLES)
    assert all(item.compound in demo.printed for item in items)
    assert demo.seconds < 300
    first = Path(demo.folder)
    for language in ("en", "pt"):
        predictions = read_submission(first / f"submission_{language}.tsv")
        assert len(predictions) == sum(item.language == language for item in items)
    rows = [json.loads(line) for line in (first / "items.jsonl").open()]
    best = [row["order"][0] == row["expected_order"][0] for row in rows]
    assert np.mean(best) > 0.3  # chance is 0.2

    second = run_demo(tmp_path / "two", Path(demo.cache))  # of the first two
    assert second.seconds < demo.seconds / 3  # a busy machine slows both
    for name, lines in (("scores.csv", 11), ("items.jsonl", 2), ("submission_en.tsv", 3)):
        again = (tmp_path / "two" / name).read_text().splitlines()
        assert again == (first / name).read_text().splitlines()[:lines]


@pytest.mark.usefixtures("listening")
def test_ctrl_c_ends_a_run_in_every_phase_and_the_next_goes_on(demo, tmp_path):
    """While Python imports, while models are loaded, while the chat model reads."""
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    cache.mkdir()
    temporary.mkdir()
    (cache / "models").symlink_to(Path(demo.cache) / "models")
    code = "import admire.apps.cli; print(flush=True); admire.apps.cli.main()"
    command = [sys.executable, "-c", code, "rank", str(SAMPLES), "--out", str(tmp_path / "run")]
    for seconds in (0.1, 1, 2, 3, 4, 10):
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
    written = llm.ask(question)
    assert llm.inner._server().address.startswith("http://127.0.0.1:")  # others cannot ask it
    unlike = llm.ask(Question(question.parts, target="Bananas are yellow."))
    rated = llm.ask(Question(question.parts, target=written.text))
    assert [*map(sorted, rated.logprobs or ())] == [*map(sorted, written.logprobs or ())]
    told, expected, other = (
        np.mean([value for place in reply.logprobs or () for value in place.values()])
        for reply in (rated, written, unlike)
    )
    # Of a question that it has read before it reads the last token alone, and rounds otherwise.
    assert told == pytest.approx(expected, abs=0.05)
    assert other < told - 1


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_python_of_readme_and_docs_runs_as_it_stands(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    if path.stem == "serve":
        from serving import serving

        from admire.apps.serve import Models

        (block,) = blocks
        with serving(Models()) as served:
            code = block.replace("127.0.0.1:8765", f"127.0.0.1:{served.port}")
            exec(compile(code, str(path), "exec"), {})
        assert "['candidate" in capsys.readouterr().out
        return
    for block in blocks:
        exec(compile(block, str(path), "exec"), {})
    if path.parent == ROOT:
        assert len(blocks[0].strip().splitlines()) <= 12
        assert "night owl" in capsys.readouterr().out
        assert list(tmp_path.rglob("submission_en.tsv"))


@pytest.mark.usefixtures("embedded")
def test_the_readmes_manifests_are_read_as_they_stand(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs the extra 'embedded'")
    pytest.importorskip("onnxruntime", reason="needs the extra 'embedded'")  # one has no caption
    for language, name in (("csv", "manifest.csv"), ("json", "manifest.jsonl")):
        folder = tmp_path / name
        (folder / "pictures").mkdir(parents=True)
        for picture in ("desk.jpg", "owl.jpg"):
            image.new("RGB", (40, 40)).save(folder / "pictures" / picture)
        (folder / name).write_text(FORMATS.split(f"```{language}\n")[1].split("```")[0])
        run = rank(read_items(folder), Settings(query="compound"))
        assert {r.item.compound for r in run.rankings} == {"night owl"}
