"""Readers of files: a right file is read, any other ends in one message, soon and in little memory.

Each reader is tried on files that are nearly right, see damage.py: forty of each kind here,
and ten thousand where ``pytest -m slow`` is asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import OWLS
from conftest import admire_row, sequence_row
from damage import Harm, harmed, harms
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from toys import OWL, PAPER, ScriptedChat, WordEncoder, explains, says

import admire
from admire import Candidate, Item, UserError
from admire.augment import Rewritten, read_rewritten, write_rewritten
from admire.data.pictures import read_bytes
from admire.data.submission import Prediction, write_submission
from admire.pages.report import write_report
from admire.prompts import Prompts
from admire.runs.past_runs import (
    compare_runs,
    first_rankings,
    open_run_replies,
    read_cosines,
    read_record,
    read_run,
    score_run,
)
from admire.senses import LightDetector, open_detector, read_senses, write_senses
from admire.senses.recorded import open_replies
from admire.senses.sense import Sense
from admire.senses.uses import read_compounds, read_idiomaticity, read_uses
from admire.tasks.collections import add_to_index, open_index, remove_from_index, write_index
from admire.tasks.collections.sources import read_things
from admire.tasks.retrieval import RetrieveSettings, read_retrieval, retrieve_split, write_retrieval
from admire.tasks.retrieval.passages import read_split, write_split
from admire.tasks.sts.pairs import read_groups, read_pairs

GIB = 1 << 30


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder: what writes a right one, and all that reads it.

    Attributes:
        write: writes it into an empty folder, and returns what the readers are given.
        harm: the files to harm.
    """

    write: Callable[[Path], Path]
    reads: tuple[Callable[[Path], Any], ...]
    harm: tuple[str, ...]


def table(name: str, rows: list[dict[str, Any]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        separator = "\t" if name.endswith(".tsv") else ","
        pd.DataFrame(rows).fillna("").to_csv(folder / name, sep=separator, index=False)
        return folder / name

    return write


def lines(name: str, rows: list[dict[str, Any]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder / name

    return write


def text(name: str, content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return write


ROWS = [admire_row(), admire_row("red tape", sentence_type="literal", language="pt-br")]
MANIFEST = [
    {
        "compound": "night owl",
        "sentence": "A night owl.",
        "candidates": [{"image": "a.png", "caption": "an owl"}, {"caption": "a lamp"}],
        "expected_order": ["candidate2", "a.png"],
        "sentence_type": "idiomatic",
    },
    {
        "compound": "cold fish",
        "candidates": [{"caption": "a fish"}, {"caption": "a man"}],
        "sequence": [{"caption": "a pond"}, {"caption": "ice"}],
        "expected_item": "candidate1",
    },
]
USES = [
    {"ID": "1", "Language": "EN", "MWE": "night owl", "Target": "A night owl.", "Label": "0"},
    {"ID": "2", "Language": "PT", "MWE": "pé frio", "Target": "Um pé frio.", "Label": "1"},
]
PAIRS = [
    {"ID": "1", "Language": "EN", "MWE1": "night owl", "sentence1": "A.", "sentence2": "B."},
    {"ID": "2", "Language": "PT", "MWE1": "None", "sentence1": "C.", "sentence2": "D."},
]
PAIR_GOLD = [{"ID": "1", "sim": "", "otherID": "2"}, {"ID": "2", "sim": "0.5", "otherID": ""}]
TRAINING = [
    {
        "ID": "1",
        "Language": "EN",
        "MWE1": "night owl",
        "sentence_1": "A night owl.",
        "sentence_2": "A person.",
        "sim": sim,
        "alternative_1": "A person.",
        "alternative_2": "A bird.",
    }
    for sim in ("1", "None")
]
CHENGYU = [
    {"S": "他{画蛇添足}。", "A_c": "他多事。", "A_i": "", "sim": "1"},
    {"S": "他{画蛇添足}。", "A_c": "他多事。", "A_i": "他画蛇。", "sim": ""},
]
BENCHMARK = [
    {"split": "train", "score": "2.5", "sentence1": "An owl.", "sentence2": 'A "bird".'},
    {"split": "dev", "score": "5", "sentence1": "A lamp.", "sentence2": "A light."},
]
ASSIN = '<c><pair id="1" similarity="3.5"><t>Um.</t><h>Dois.</h></pair></c>'
REPLIES: list[dict[str, Any]] = [
    {
        "compound": "night owl",
        "sentence": "A night owl.",
        "votes_idiomatic": 4,
        "votes_literal": 1,
        "order": ["a.png", "b.png"],
        "meaning": "a person who is awake late",
        "scene": "a lamp at night",
    },
    {"compound": "night owl", "sense": "literal", "meaning": "an owl"},
]
THINGS = [{"id": "a", "image": "a.png", "caption": "an owl"}, {"id": "b", "image": "b.png"}]
TEXTS = [{"id": "a", "text": "an owl"}, {"id": "b", "text": "a lamp"}]


def image_set(folder: Path) -> Path:
    lines("manifest.jsonl", MANIFEST)(folder)
    return folder


def submission(folder: Path) -> Path:
    path = folder / "submission_en.tsv"
    order = ("a.png", "b.png")
    rows = [Prediction(one, f"A {one}.", order, "idiomatic") for one in ("night owl", "cold\nfeet")]
    write_submission(path, rows)
    return path


def run_folder(folder: Path) -> Path:
    items = [OWL, replace(OWL, compound="cold fish", sentence="A cold fish.")]
    models = [explains("Idiomatic"), explains("Literal")]
    run = admire.rank(items, replace(PAPER, meanings="both"), llms=models, encoder=WordEncoder())
    admire.write_run(run, folder / "run")
    return folder / "run"


def retrieval_run(folder: Path) -> Path:
    write_split(folder / "data", "test", OWLS)
    asked = RetrieveSettings(encoder="words", query="meaning", sense="vote")
    told = ScriptedChat(says("Idiomatic").answer)
    found = retrieve_split(str(folder / "data"), asked, llm=told, encoder=WordEncoder())
    write_retrieval(found, folder / "run")
    return folder / "run"


def benchmark(folder: Path) -> Path:
    write_split(folder, "test", OWLS)
    return folder


def index(folder: Path) -> Path:
    source = lines("texts.jsonl", TEXTS)(folder)
    write_index(source, WordEncoder(), folder / "index")
    # The names of shards are made up anew each time.
    return folder / "index"


def search(folder: Path) -> Any:
    found = open_index(folder)
    query = WordEncoder().encode_texts(["an owl"], role="query")[0]
    return found.search({"gloss": query}, {"gloss": 1.0}, 2)


def add(folder: Path) -> Any:
    copy = folder.with_name(f"{folder.name}.copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return add_to_index(text("more.txt", "a desk\n")(folder.parent), WordEncoder(), copy)


def detector(folder: Path) -> Path:
    path = folder / "detector.json"
    made = LightDetector("marked", "marked:1", np.eye(2, 4), np.zeros(2), True, {"items": 1})
    made.save(path)
    return path


def senses(folder: Path) -> Path:
    items = [OWL, Item("pé frio", "Um pé frio.", "pt", sentence_type="literal")]
    write_senses(folder / "senses.tsv", items, [Sense("idiomatic", 0.8, 4, 1), Sense(None, 0.5)])
    return folder / "senses.tsv"


def captions(folder: Path) -> Path:
    write_rewritten(folder / "captions.csv", [Rewritten("a\nb", "paraphrase", "toy", "a bird")] * 2)
    return folder / "captions.csv"


def prompts(folder: Path) -> Path:
    (folder / "sense_en.j2").write_text("{% if sentence %}{{ compound | quoted }}{% endif %}")
    return folder


def parquet(folder: Path) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra 'parquet'")
    from pyarrow import Table

    rows = [{"id": "a", "image": b"picture", "caption": "an owl"}, {"id": "b", "image": b"other"}]
    parquet.write_table(Table.from_pylist(rows), folder / "things.parquet")
    return folder / "things.parquet"


def tar(folder: Path) -> Path:
    for name in ("a.png", "a.txt", "b.png"):
        (folder / name).write_text("an owl")
    with tarfile.open(folder / "things.tar", "w") as file:
        for name in ("a.png", "a.txt", "b.png"):
            file.add(folder / name, name)
    return folder / "things.tar"


def things(path: Path) -> list[Candidate]:
    unpacked = path.parent / "unpacked"
    unpacked.mkdir(exist_ok=True)
    return list(read_things(path, unpacked))


def head(folder: Path) -> Path:
    heads = pytest.importorskip("heads", reason="needs the extra 'train'")
    from dataclasses import asdict

    from admire.models.projection import Epoch, Projection

    card = {
        "encoder": {"name": "words", "identity": "words:1"},
        "settings": asdict(heads.SETTINGS),
        "width": 8,
    }
    Projection(heads.fresh(8), card, (Epoch(1, 0.5, 0.4, None),)).save(folder / "head")
    return folder / "head"


def project(folder: Path) -> Any:
    from admire.models.projection import load_projection

    return load_projection(folder).project(np.ones((1, 8), dtype=np.float32))


def sweep(folder: Path) -> Path:
    data, one = _swept()
    from admire.training.sweep import sweep_heads

    sweep_heads(data, [one], folder / "sweep.jsonl", processes=1)
    return folder / "sweep.jsonl"


def _swept() -> Any:
    heads = pytest.importorskip("heads", reason="needs the extra 'train'")
    one = replace(heads.SETTINGS, epochs=1, soft_negatives=1, hidden=2, output=2)
    return heads.made(compounds=4, each=1, modalities=1), one


def sweep_again(path: Path) -> Any:
    from admire.training.sweep import sweep_heads

    data, one = _swept()
    return sweep_heads(data, [one], path, processes=1)


def report(path: Path) -> Any:
    return write_report([path], path.parent / "report.html")


def beside(name: str) -> Callable[[Path], Path]:
    return lambda path: path.with_name(name)


KINDS: dict[str, Kind] = {
    "AdMIRe's TSV": Kind(
        table("subtask_a_train.tsv", ROWS), (admire.read_items,), ("subtask_a_train.tsv",)
    ),
    "Subtask B's TSV": Kind(
        table("subtask_b_dev.tsv", [sequence_row(), sequence_row("red tape")]),
        (admire.read_items,),
        ("subtask_b_dev.tsv",),
    ),
    "manifest.csv": Kind(table("manifest.csv", ROWS), (admire.read_items,), ("manifest.csv",)),
    "manifest.jsonl": Kind(image_set, (admire.read_items,), ("manifest.jsonl",)),
    "submission": Kind(submission, (admire.read_submission,), ("submission_en.tsv",)),
    "Task 2A": Kind(
        table("train.csv", USES),
        (read_uses, read_idiomaticity, read_compounds),
        ("train.csv",),
    ),
    "Task 2A's gold": Kind(
        lambda folder: table("dev.csv", USES)(folder) and table("gold.csv", USES)(folder),
        (lambda path: read_uses(path.with_name("dev.csv"), path),),
        ("dev.csv", "gold.csv"),
    ),
    "compounds": Kind(text("left_out.txt", "night owl\n"), (read_compounds,), ("left_out.txt",)),
    "Task 2B": Kind(
        lambda folder: table("dev.csv", PAIRS)(folder) and table("gold.csv", PAIR_GOLD)(folder),
        (lambda path: read_pairs(path.with_name("dev.csv"), path),),
        ("dev.csv", "gold.csv"),
    ),
    "Task 2B, training": Kind(
        table("train.csv", TRAINING), (read_pairs, read_groups), ("train.csv",)
    ),
    "ChengyuSTS": Kind(table("chengyu.csv", CHENGYU), (read_pairs, read_groups), ("chengyu.csv",)),
    "STS Benchmark": Kind(table("sts.tsv", BENCHMARK), (read_pairs,), ("sts.tsv",)),
    "ASSIN": Kind(text("assin.xml", ASSIN), (read_pairs,), ("assin.xml",)),
    "IdioLink": Kind(
        benchmark,
        (lambda folder: read_split(str(folder), "test"),),
        ("test/queries.json", "test/indexes.json"),
    ),
    "replies, CSV": Kind(table("said.csv", REPLIES), (open_replies,), ("said.csv",)),
    "replies, JSONL": Kind(lines("said.jsonl", REPLIES), (open_replies,), ("said.jsonl",)),
    "senses": Kind(senses, (read_senses,), ("senses.tsv",)),
    "rewritten captions": Kind(captions, (read_rewritten,), ("captions.csv",)),
    "prompts": Kind(
        prompts, (lambda folder: Prompts(folder).about(OWL, "sense"),), ("sense_en.j2",)
    ),
    "collection, .txt": Kind(text("c.txt", "an owl\na lamp\n"), (things,), ("c.txt",)),
    "collection, .lst": Kind(text("c.lst", "a.png\nb.png\n"), (things,), ("c.lst",)),
    "collection, .csv": Kind(table("c.csv", THINGS), (things,), ("c.csv",)),
    "collection, .tsv": Kind(table("c.tsv", TEXTS), (things,), ("c.tsv",)),
    "collection, .jsonl": Kind(lines("c.jsonl", THINGS), (things,), ("c.jsonl",)),
    "collection, .parquet": Kind(parquet, (things,), ("things.parquet",)),
    "collection, .tar": Kind(tar, (things,), ("things.tar",)),
    "index": Kind(index, (search,), ("*.json", "shards/*/*", "whole/*/*")),
    "index, added to": Kind(index, (add,), ("*.json", "shards/*/*", "whole/*/*")),
    "head": Kind(head, (project,), ("head.json", "head.safetensors")),
    "detector": Kind(detector, (open_detector,), ("detector.json",)),
    "run": Kind(
        run_folder,
        (
            read_run,
            read_record,
            score_run,
            read_cosines,
            open_run_replies,
            lambda folder: first_rankings(folder, 1),
            lambda folder: compare_runs([folder]),
        ),
        ("items.jsonl", "scores.csv", "run.json"),
    ),
    "retrieval run": Kind(
        retrieval_run,
        (read_retrieval,),
        ("run.json", "queries.csv", "texts.jsonl", "qrels.trec", "run.trec"),
    ),
    "sweep": Kind(sweep, (sweep_again, report), ("sweep.jsonl",)),
}


@contextmanager
def little_memory(more: int = GIB) -> Iterator[None]:
    """In this block the process gets no more memory than it has and so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def soon(seconds: float, clock: int = signal.ITIMER_PROF) -> Iterator[None]:
    """This block may take so many seconds of the processor, or by another clock."""

    def end(*_: object) -> None:
        raise AssertionError(f"it takes more than {seconds} s")

    called = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}[clock]
    before = signal.signal(called, end)
    signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(called, before)


def check_message(error: UserError, folder: Path) -> None:
    """It names a file or folder, or a template, and nothing of Python."""
    message = str(error)
    assert str(folder) in message or message.startswith("The prompt template"), message
    for technical in ("Traceback", "<_io", " object at 0x"):
        assert technical not in message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("examples", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_harmed_file_is_read_or_refused(tmp_path: Path, name: str, examples: int):
    kind = KINDS[name]
    path = kind.write(tmp_path)
    root = path if path.is_dir() else path.parent
    there = {file for pattern in kind.harm for file in root.glob(pattern) if file.is_file()}
    right = {file: file.read_bytes() for file in sorted(there)}
    for read in kind.reads:
        assert read(path) is not None

    # Harms are small already, and the smallest of a run folder would be looked for an hour.
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(st.tuples(st.just(file), harms(file.suffix)) for file in right))
    def reading(one: tuple[Path, list[Harm]]) -> None:
        file, done = one
        file.write_bytes(harmed(right[file], file.suffix, done))
        try:
            for read in kind.reads:
                with suppress_refusal(root), soon(10):
                    read(path)
        finally:
            file.write_bytes(right[file])

    with little_memory():
        reading()


@contextmanager
def suppress_refusal(folder: Path) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        check_message(error, folder)


TOO_MUCH = ("[" * 100_000, '"\\ud800"', "9" * 5000, "1" + "0" * 400, "1e400", "NaN", '{"a": 1}')


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("manifest.jsonl", "manifest.jsonl"),
        ("replies, JSONL", "said.jsonl"),
        ("collection, .jsonl", "c.jsonl"),
        ("IdioLink", "test/queries.json"),
        ("index", "index.json"),
        ("index", "shards/00000/things.jsonl"),
        ("index, added to", ".admire.json"),
        ("head", "head.json"),
        ("detector", "detector.json"),
        ("run", "run.json"),
        ("run", "items.jsonl"),
        ("retrieval run", "run.json"),
        ("retrieval run", "texts.jsonl"),
        ("sweep", "sweep.jsonl"),
    ],
)
def test_json_that_none_of_our_writers_writes_is_read_or_refused(
    tmp_path: Path, name: str, file: str
):
    path = KINDS[name].write(tmp_path)
    root = path if path.is_dir() else path.parent
    right = (root / file).read_bytes()
    for value in TOO_MUCH:
        for place in range(4):
            harm = ("put", 0, place, value.encode())
            (root / file).write_bytes(harmed(right, Path(file).suffix, [harm]))
            for read in KINDS[name].reads[:2]:
                with suppress_refusal(root), soon(10):
                    assert "\ud800" not in repr(read(path))


# --------------------------------------------------------------------------- pipes and devices


PLACES = [
    ("subtask_a_train.tsv", "AdMIRe's TSV"),
    ("manifest.csv", "manifest.csv"),
    ("submission_en.tsv", "submission"),
    ("assin.xml", "ASSIN"),
    ("said.jsonl", "replies, JSONL"),
    ("c.txt", "collection, .txt"),
    ("c.jsonl", "collection, .jsonl"),
    ("things.tar", "collection, .tar"),
    ("things.parquet", "collection, .parquet"),
    ("index/index.json", "index"),
    ("head/head.json", "head"),
    ("detector.json", "detector"),
    ("run/items.jsonl", "run"),
    ("sense_en.j2", "prompts"),
    ("sweep.jsonl", "sweep"),
]


@pytest.mark.parametrize("instead", ["a pipe", "a device without end", "a folder"])
@pytest.mark.parametrize(("name", "kind"), PLACES)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, kind: str, instead: str):
    if (kind, instead) == ("detector", "a folder"):
        pytest.skip("a classifier is a folder; see test_senses_classifier.py")
    path = KINDS[kind].write(tmp_path)
    (tmp_path / name).unlink()
    if instead == "a pipe":
        os.mkfifo(tmp_path / name)
    elif instead == "a folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with soon(20, signal.ITIMER_REAL), little_memory(), pytest.raises(UserError) as caught:
        KINDS[kind].reads[0](path)
    check_message(caught.value, tmp_path)


def test_a_picture_that_is_a_pipe_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "a.png")
    with soon(20, signal.ITIMER_REAL), pytest.raises(UserError, match="a pipe or a device"):
        read_bytes(tmp_path / "a.png")


# ------------------------------------------------------------------------------ what would swell


def many_rows(folder: Path) -> tuple[str, Path]:
    path = index(folder)
    (vectors,) = path.glob("shards/*/caption.npy")
    claimed = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 512), }"
    head = claimed + b" " * (117 - len(claimed)) + b"\n"
    vectors.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    return "index", path


def compressed(folder: Path) -> tuple[str, Path]:
    path = index(folder)
    (moments,) = path.glob("whole/*/moments.npz")
    with zipfile.ZipFile(moments) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    claimed = b"{'descr': '<f8', 'fortran_order': False, 'shape': (20000000,), }"
    head = claimed + b" " * (117 - len(claimed)) + b"\n"
    with zipfile.ZipFile(moments, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            if name == "caption_sums.npy":
                start = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
                content = start + bytes(160_000_000)
            file.writestr(name, content)
    return "index", path


def long_number(folder: Path) -> tuple[str, Path]:
    path = index(folder)
    record = (path / "index.json").read_text()
    (path / "index.json").write_text(record.replace('"format": 2', '"format": ' + "9" * 10**6))
    return "index", path


def long_number_in_a_manifest(folder: Path) -> tuple[str, Path]:
    (folder / "manifest.jsonl").write_text('{"compound": ' + "9" * 10**6 + "}\n")
    return "manifest.jsonl", folder


def long_head(folder: Path) -> tuple[str, Path]:
    path = head(folder)
    content = (1 << 62).to_bytes(8, "little") + b"{}"
    (path / "head.safetensors").write_bytes(content)
    card = json.loads((path / "head.json").read_text())
    card["weights"] = hashlib.sha256(content).hexdigest()
    (path / "head.json").write_text(json.dumps(card))
    return "head", path


def wide_head(folder: Path) -> tuple[str, Path]:
    path = head(folder)
    card = json.loads((path / "head.json").read_text())
    card["width"] = 10**9
    (path / "head.json").write_text(json.dumps(card))
    return "head", path


def wide(folder: Path) -> tuple[str, Path]:
    (folder / "manifest.csv").write_text("compound,sentence" + ",a" * 10**7 + "\nnight owl,A.\n")
    return "manifest.csv", folder / "manifest.csv"


def wide_row(folder: Path) -> tuple[str, Path]:
    (folder / "manifest.csv").write_text("compound,sentence\nnight owl,A." + ",a" * 10**7 + "\n")
    return "manifest.csv", folder / "manifest.csv"


def sparse(folder: Path) -> tuple[str, Path]:
    """A tar file of three kilobytes with a picture of eight gigabytes, all of it a hole."""
    member = tarfile.TarInfo("a.png")
    member.type = tarfile.GNUTYPE_SPARSE
    content = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    content[386:410] = b"77777777777\0" + b"00000000000\0"
    content[483:495] = b"77777777777\0"
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content)
    (folder / "things.tar").write_bytes(content + bytes(1024))
    return "collection, .tar", folder / "things.tar"


def laughs(folder: Path) -> tuple[str, Path]:
    entities = "".join(
        f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' if k else '<!ENTITY a0 "ha">' for k in range(10)
    )
    (folder / "assin.xml").write_text(f"<!DOCTYPE c [{entities}]><c><pair><t>&a9;</t></pair></c>")
    return "ASSIN", folder / "assin.xml"


def deep_order(folder: Path) -> tuple[str, Path]:
    order = "-" * 20_000 + "1"
    return "submission", table("s.tsv", [{"compound": "a", "expected_order": order}])(folder)


def same_names(folder: Path) -> tuple[str, Path]:
    names = [f"{k}.png" for k in range(60_000)]
    row = {"compound": "a", "sentence": "a", "candidates": [{"caption": one} for one in names]}
    path = lines("c.jsonl", [row | {"expected_order": [*names, names[-1]]}])(folder)
    return "manifest.jsonl", path


@pytest.mark.parametrize(
    "write",
    [
        many_rows,
        compressed,
        long_number,
        long_number_in_a_manifest,
        long_head,
        wide_head,
        wide,
        wide_row,
        sparse,
        laughs,
        deep_order,
        same_names,
    ],
    ids=lambda write: write.__name__.replace("_", " "),
)
def test_what_would_swell_is_refused_in_little_time_and_memory(tmp_path: Path, write: Any):
    kind, path = write(tmp_path)
    (tmp_path / "other").mkdir()
    KINDS[kind].reads[0](KINDS[kind].write(tmp_path / "other"))  # packages are loaded
    with little_memory(GIB // 8), soon(10), pytest.raises(UserError) as caught:
        KINDS[kind].reads[0](path)
    check_message(caught.value, tmp_path)
    if write is compressed:
        assert "it is compressed" in str(caught.value)


# -------------------------------------------------------------------------- what no writer wrote


def put(row: Any, *keys: Any, value: Any) -> None:
    for key in keys[:-1]:
        row = row[key]
    row[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("interpretations", 0, "idiomatic", "definitions", 0), ["a", "b"]),
        (("interpretations", 0, "sense", "probability"), "likely"),
        (("interpretations", 0, "sense", "idiomatic"), None),
        (("candidates", 0, "caption"), {"a": 1}),
        (("order", 0), 1),
        (("compound",), ["night owl"]),
        (("sentence_type",), {}),
    ],
    ids=lambda one: one[-2] if isinstance(one, tuple) and len(one) > 1 else None,
)
def test_a_run_with_another_value_than_a_run_has_is_damaged(tmp_path: Path, keys, value):
    folder = run_folder(tmp_path)
    rows = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    put(rows[0], *keys, value=value)
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"run: is damaged\. Run admire rank again\."):
        read_run(folder)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("weights", 0, 0), float("nan")),
        (("biases", 0), 10**400),
        (("neutral",), "no"),
        (("card",), []),
        (("encoder",), None),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else None,
)
def test_a_detector_with_another_value_than_it_has_is_refused(tmp_path: Path, keys, value):
    path = detector(tmp_path)
    content = json.loads(path.read_text())
    put(content, *keys, value=value)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is not a detector that admire wrote"):
        open_detector(path)


def test_vectors_that_are_no_numbers_or_too_short_are_refused(tmp_path: Path):
    path = index(tmp_path)
    (vectors,) = path.glob("shards/*/caption.npy")
    for wrong in (np.ones((2, 511), dtype=np.float32), np.full((2, 512), "a")):
        np.save(vectors, wrong)
        with pytest.raises(UserError, match="its files do not belong together"):
            open_index(path)


def in_zip(content: bytes, old: bytes, new: bytes) -> bytes:
    """A zip file in which each file has something else, and the right checksums."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as file, zipfile.ZipFile(written, "w") as other:
        for name in file.namelist():
            other.writestr(name, file.read(name).replace(old, new))
    return written.getvalue()


@pytest.mark.parametrize(
    ("file", "harm", "told"),
    [
        ("moments.npz", lambda one: in_zip(one, b"False", b"Falze"), "content cannot be read"),
        ("moments.npz", lambda one: b"", "moments.npz: is damaged"),
        ("things.jsonl", lambda one: b"", "00000: is damaged (rows are missing)"),
    ],
    ids=["an array's head", "no moments", "no rows"],
)
def test_nothing_is_added_to_an_index_with_a_damaged_shard(tmp_path: Path, file, harm, told):
    path = index(tmp_path)
    (one,) = path.glob(f"shards/*/{file}")
    one.write_bytes(harm(one.read_bytes()))
    before = {one.name for one in path.rglob("*.npy")}, (path / "index.json").read_bytes()
    more = text("more.txt", "a desk\n")(tmp_path)
    with pytest.raises(UserError, match=re.escape(told)) as caught:
        add_to_index(more, WordEncoder(), path)
    check_message(caught.value, path)
    if file == "things.jsonl":
        with pytest.raises(UserError, match=re.escape(told)):
            remove_from_index(["a"], path)
        one.unlink()
        with pytest.raises(UserError, match=r"things\.jsonl: is damaged \(No such file"):
            remove_from_index(["a"], path)
    assert before == ({one.name for one in path.rglob("*.npy")}, (path / "index.json").read_bytes())


def test_what_numpy_says_of_its_own_objects_is_not_told(tmp_path: Path):
    path = index(tmp_path)
    (vectors,) = path.glob("shards/*/caption.npy")
    vectors.write_bytes(vectors.read_bytes().replace(b"False", b"Falze"))
    with pytest.raises(UserError, match=r"damaged \(its content cannot be read\)"):
        open_index(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("sources",), None),
        (("engine",), 1),
        (("whole",), "1"),
        (("shards", 0, "source"), 7),
        (("shards", 0, "name"), "../other"),
        (("shards", 0, "things"), 1.5),
    ],
    ids=lambda one: one[-1] if isinstance(one, tuple) else None,
)
def test_nothing_is_added_to_an_index_with_another_record(tmp_path: Path, keys, value):
    path = index(tmp_path)
    record = json.loads((path / "index.json").read_text())
    put(record, *keys, value=value)
    (path / "index.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"index\.copy: is no index, or damaged \("):
        add(path)
