"""A real ranking by sight, through the command line, with a checkpoint trained on the spot.

No hub can be reached here, so this very small CLIP stands in for a downloaded one: it has learnt
shapes and colours from drawings, and has to tell combinations that it was never shown.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sight

SETS = 6
"""Image sets for each held-out combination and language."""


@pytest.fixture(scope="module")
def openclip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sight.train(tmp_path_factory.mktemp("sight") / "openclip")


@pytest.fixture(scope="module")
def image_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Held-out combinations, each among pictures of the same shape and of the same colour."""
    folder = tmp_path_factory.mktemp("shapes")
    rng = random.Random(7)
    rows = []
    for colour, shape in sight.HELD_OUT:
        for language, compound in zip(("en", "pt"), sight.names(colour, shape), strict=True):
            for _ in range(SETS):
                near = [(colour, s) for s in sight.SHAPES if s != shape]
                near_too = [(c, shape) for c in sight.COLOURS if c != colour]
                shown = [(colour, shape), *rng.sample(near, 2), *rng.sample(near_too, 2)]
                rng.shuffle(shown)
                row = {"compound": compound, "sentence": f"{compound}?", "language": language}
                for k, combination in enumerate(shown, start=1):
                    name = f"{len(rows)}_{k}.png"
                    sight.draw(*combination, rng).save(folder / name)
                    row[f"image{k}_name"] = name
                    if combination == (colour, shape):
                        row["shown"] = name
                rows.append(row)
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


def orders(run: Path) -> list[list[str]]:
    return [json.loads(line)["order"] for line in (run / "items.jsonl").read_text().splitlines()]


@pytest.mark.ci
def test_the_right_picture_of_a_combination_never_seen_comes_first(
    openclip_folder: Path, image_set: Path, tmp_path: Path
):
    out = tmp_path / "run"
    command = (
        f"rank {image_set} --encoder openclip:{openclip_folder} --track image --query compound "
        f"--device cpu --out {out}"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "admire.apps.cli", *command.split()],
        capture_output=True,
        encoding="utf-8",
        cwd=Path(__file__).parents[1],
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    assert sum("Looking at " in line for line in lines) == 1  # other packages log as well
    with (image_set / "manifest.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = [order[0] == row["shown"] for order, row in zip(orders(out), rows, strict=True)]
    for language in ("en", "pt"):
        hits = [hit for hit, row in zip(first, rows, strict=True) if row["language"] == language]
        assert sum(hits) / len(hits) >= 0.9
