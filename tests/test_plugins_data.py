import json
import math
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from commands import ended, json_of, passed, run
from toys import WordEncoder, draw

import admire
from admire import Candidate, Item, UserError
from admire.core import registry
from admire.core.registry import PluginError, register
from admire.data.image_files import check_image
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.pipeline.record import source_record

RANK = ("--query", "sentence", "--track", "caption", "--encoder", "bag")
SENTENCE = "My sister is a night owl."
CAPTIONS = ("a red bicycle", "my sister", "an owl at night", "a lamp", "a sister and an owl")
NAMES = [f"{k}.png" for k in range(1, 6)]
GOLD = NAMES[::-1]


pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def data(tmp_path: Path) -> str:
    register("encoder", "bag")(WordEncoder)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "lines.txt").write_text(f"night owl\t{SENTENCE}\nowl\tThe owl is late.\n")
    for name, caption in zip(NAMES, CAPTIONS, strict=True):
        draw(folder / name, caption)

    @register("reader", "mine", takes="PATH")
    def mine(path):
        """Lines with a compound and a sentence."""
        things = [*zip(NAMES, CAPTIONS, strict=True)]
        for line in (Path(path) / "lines.txt").read_text().splitlines():
            compound, sentence = line.split("\t")
            if compound == "owl":
                shown = tuple(Candidate(n, Path(path) / n, text) for n, text in things)
                yield Item(compound, sentence, "en", shown, "literal", tuple(GOLD))
            else:
                candidates = [{"image": name, "caption": text} for name, text in things]
                row = {"compound": compound, "sentence": sentence, "expected_order": GOLD}
                yield row | {"candidates": candidates, "language": np.str_("en")}

    return f"mine:{folder}"


def hits(order, item):
    """The share of items whose best candidate is among the first two."""
    return item.best in order[:2]


def reading(*things: object, error: Exception | None = None) -> str:
    """Data that a reader of these things reads, which raises the error in the end."""

    @register("reader", "some", takes="NAME")
    def some(name):
        yield from things
        if error:
            raise error

    return "some:a name"


def row(**changes: object) -> dict[str, object]:
    row = {"compound": "owl", "sentence": "An owl.", "captions": None}
    return row | {"image1_caption": "a", "image2_caption": "b"} | changes


def test_data_named_by_a_reader_are_ranked_and_read_again_by_each_command(capsys, tmp_path, data):
    out, page = tmp_path / "run", tmp_path / "report.html"
    register("metric", "hit-at-2", heading="Hit@2", share=True)(hits)
    register("metric", "of-owls")(lambda order, item: 1.0 if item.compound == "owl" else None)
    for command in (
        ("check", data),
        ("rank", data, "--out", out, *RANK),
        ("fuse", out, out, "--out", tmp_path / "fused"),
        ("report", out, "--out", page, "--metric", "hit-at-2", "--metric", "of-owls"),
        ("submit", out, "--out", tmp_path / "out.zip"),
    ):
        told, _ = passed(capsys, *command)
        if command[0] == "check":
            assert "items: 2; candidates: 10; pictures: 10" in told
    source = json.loads((out / "run.json").read_text())["source"]
    assert source == source_record(data)
    assert source["path"] == data
    assert len(source["sha256"]) == 64
    assert ZipFile(tmp_path / "out.zip").namelist() == ["submission_EN.tsv"]
    text = page.read_text()
    assert "data:image" in text  # the pictures of the set
    assert '<abbr title="The share of items whose best candidate' in text
    assert "Hit@2" in text
    assert text.count('"of-owls":1.0') == 1
    score = ("score", out / "submission_en.tsv", "--gold", data, "--metric", "hit-at-2", "--json")
    figures = json_of(capsys, *score)[str(out / "submission_en.tsv")]
    assert figures[-1]["metric"] == "hit-at-2"
    (Path(data[5:]) / "lines.txt").write_text("owl\tAn owl.\n")
    assert "have moved or changed" in ended(capsys, "submit", out, "--out", tmp_path / "out.zip")
    # The plug-in is gone: what was made with it can still be read and scored.
    del registry._REGISTERED["reader"]["mine"]
    assert run(capsys, "score", out)[0] == 0
    assert "Unknown reader 'mine'" in run(capsys, "report", out, "--out", page)[2]
    assert "Unknown reader 'mine'" in ended(capsys, "rank", data, "--out", out)


def test_python_reads_the_same_items_and_a_path_that_exists_comes_first(
    tmp_path, data, monkeypatch
):
    first, second = admire.read_items(data)
    assert [c.image.name for c in first.candidates] == NAMES
    assert second.candidates == first.candidates
    assert (first.sentence_type, second.sentence_type) == (None, "literal")
    settings = admire.Settings(query="sentence", track="caption")
    ranked = admire.rank(data, settings, encoder=WordEncoder())
    assert [ranking.item.compound for ranking in ranked.rankings] == ["night owl", "owl"]
    assert list(iter_items(data, limit=1)) == [first]
    there = tmp_path / "mine:set.jsonl"
    shutil.copy(admire.SAMPLES / "manifest.jsonl", there)
    (tmp_path / "images").symlink_to(admire.SAMPLES / "images")
    monkeypatch.chdir(tmp_path)
    assert len(admire.read_items(there.name)) == len(admire.read_items(admire.SAMPLES))
    assert admire.read_items(f"manifest:{admire.SAMPLES}") == admire.read_items(admire.SAMPLES)


@pytest.mark.parametrize(
    ("things", "error", "words"),
    [
        ([row(), 7], None, "item 2: the reader 'some' yielded a int, not an Item or a dict."),
        ([row()], KeyError("id"), "item 2: the reader 'some' raised KeyError ('id')."),
        ([row(), row(captions=["x"], image1_caption=3)], None, "item 2 ('owl'), candidate 1"),
        ([row(sentence="x" * 4001)], None, "item 1 ('owl'), sentence: has 4,001 characters"),
        ([Item("owl", "An owl.", candidates=["a"])], None, "item 1: the reader 'some' raised Attr"),
        ([UserError("page 7 cannot be read.")], None, "page 7 cannot be read."),
        ([], None, "contains no items."),
    ],
)
def test_what_is_wrong_is_said_of_the_item(things, error, words):
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        admire.read_items(reading(*things, error=error))
    assert isinstance(caught.value, PluginError) == ("the reader" in words)


def test_bad_items_are_left_out_if_they_are_skipped(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"no picture")
    bad = Item(
        "owl", "An owl.", candidates=(Candidate("a.png", picture), Candidate("b", None, "b"))
    )
    data, faults = reading(7, row(), bad, row(compound="cat")), []
    items = list(iter_items(data, rows=RowReader(skip=faults.append, look=check_image)))
    assert [item.compound for item in items] == ["owl", "cat"]
    assert [fault.lost for fault in faults] == ["item", "candidate", "item"]


def test_the_language_is_detected_unless_it_is_given():
    german = row(sentence="Meine Schwester schläft erst um drei Uhr morgens ein.")
    data = reading(german, row(language="pt"))
    assert [item.language for item in admire.read_items(data)] == ["de", "pt"]
    assert [item.language for item in admire.read_items(data, "nl")] == ["nl", "pt"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "returned nan, not a finite number or None."),
        ("1", "returned '1', not a finite number or None."),
        (2.0, "returned 2.0, not 0, 1 or None."),
        pytest.param(10**400, "raised OverflowError", id="huge"),
        (ZeroDivisionError("none"), "raised ZeroDivisionError (none)."),
    ],
)
def test_a_metric_that_fails_is_blamed_with_its_item(value, words, data):
    @register("metric", "broken", share=value == 2.0)
    def broken(order, item):
        if isinstance(value, Exception):
            raise value
        return value if item.compound == "owl" else None

    settings = admire.Settings(query="sentence", track="caption")
    ranked = admire.rank(data, settings, encoder=WordEncoder())
    number, compound = (1, "night owl") if isinstance(value, Exception) else (2, "owl")
    place = f"the run, item {number} ('{compound}'): the metric 'broken' {words}"
    for score in (ranked.figures, lambda metrics: admire.score(ranked, metrics=metrics)):
        with pytest.raises(PluginError, match=re.escape(place)):
            score(metrics=("broken",))


def test_a_metric_has_its_figures_everywhere(capsys, tmp_path, data):
    register("metric", "hit-at-2", share=True)(hits)
    register("metric", "none")(lambda order, item: None)
    register("metric", "n")(lambda order, item: len(order))  # as a column of the table is called
    one, other = tmp_path / "one", tmp_path / "other"
    run(capsys, "rank", data, "--out", one, *RANK)
    run(capsys, "rank", data, "--out", other, *RANK[2:], "--query", "compound")
    told, _ = passed(capsys, "score", one, other, "--metric", "hit-at-2", "--metric", "ndcg5")
    assert told.count("hit-at-2") == 3
    assert "5.000" in passed(capsys, "score", one, "--metric", "n")[0]
    table = admire.compare_runs([one, other], metrics=("hit-at-2",))
    assert set(table["metric"]) >= {"top1", "hit-at-2"}
    assert "Did you mean 'hit-at-2'?" in ended(capsys, "score", one, "--metric", "hit-at-3")
    assert "no item has" in ended(capsys, "score", one, "--metric", "none")


def test_a_recipe_names_a_reader_and_a_metric(capsys, tmp_path, data):
    register("metric", "hit-at-2", share=True)(hits)
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'paper = "Ours"\ntable = "1"\ntitle = "Hits"\ncommand = "rank"\n'
        'metrics = ["top1", "hit-at-2"]\nsets.mine.files = ["mine:set"]\n'
        'settings = {query = "sentence", track = "caption", encoder = "bag"}\n'
        'rows = [{name = "one"}]\n'
    )
    out = tmp_path / "out"
    passed(capsys, "reproduce", recipe, "--data", tmp_path, "--out", out)
    assert "one,mine,hit-at-2,2,1.0" in (out / "table.csv").read_text()
