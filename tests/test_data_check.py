import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import json_of, passed, run
from toys import draw, open_pictures, open_words

from admire import SAMPLES
from admire.data.check import SetCounts, check_set
from admire.data.image_files import check_image
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.pipeline.run_folder import read_run

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'report'")


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"e5": open_words}
    open_encoder = "admire.rankers.run_encoders.open_encoder"
    monkeypatch.setattr(open_encoder, lambda name, **_: own.get(name, open_pictures)(name))


def item(*candidates: dict[str, str], **more: Any) -> dict[str, Any]:
    row = {"compound": "night owl", "sentence": "A night owl.", "sentence_type": "literal"}
    return row | {"candidates": list(candidates)} | more


@pytest.fixture
def bad_set(tmp_path: Path) -> Path:
    """Five items, of which only the last has no fault, and two rows that are none."""
    folder = tmp_path / "set"
    folder.mkdir()
    draw(folder / "owl.png", "an owl")
    draw(folder / "lamp.png", "a lamp")
    (folder / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    (folder / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "empty.png").write_bytes(b"")
    Image.new("F", (8, 8)).save(folder / "float.tif")
    Image.effect_noise((64, 64), 99).save(folder / "half.png")
    os.truncate(folder / "half.png", 2000)
    (folder / "link.png").symlink_to(folder / "nowhere.png")
    (tmp_path / "far.png").write_bytes((folder / "owl.png").read_bytes())
    (folder / "far.png").symlink_to(tmp_path / "far.png")
    owl, lamp = {"image": "owl.png"}, {"image": "lamp.png"}
    gold = ["lamp.png", "photo.heic", "owl.png", "gone.png"]
    gone = {"image": "gone.png", "caption": "a bicycle"}
    rows = [
        item(owl, lamp, {"image": "photo.heic"}, gone, expected_order=gold),
        item(owl, lamp, {"image": "../far.png"}, {"image": "far.png"}, {"image": "link.png"}),
        item(*({"image": name} for name in BAD_PICTURES), owl),
        item(owl, lamp, sentence=""),
        item(owl, lamp, sentence="A night owl. " * 400),
        item(owl, lamp),
    ]
    lines = [*map(json.dumps, rows), '{"compound": ', "[]"]
    (folder / "manifest.jsonl").write_text("\n".join(lines))
    return folder


BAD_PICTURES = ("drawing.svg", "empty.png", "float.tif", "half.png")
FAULTS = [
    ("row 1", "photo.heic", "Save it as PNG or JPEG"),
    ("row 1", "candidate 4: has a caption but no image: 'gone.png'"),
    ("row 2", "'../far.png' is outside the folder"),
    ("row 2", "'link.png' is not in"),
    ("row 3", "drawing.svg", "Save it as PNG or JPEG"),
    ("row 3", "empty.png", "is empty"),
    ("row 3", "float.tif", "floating-point"),
    ("row 3", "half.png", "truncated"),
    ("row 3", "fewer than two candidates are left"),
    ("row 4", "sentence: is empty"),
    ("row 5", "sentence: has 5,200 characters"),
    ("row 7: is not JSON (Expecting value, character 14)",),
    ("row 8: is not a JSON object",),
]
LOST = ["candidate", "picture", *["candidate"] * 6, *["item"] * 5]


def test_a_set_is_read_again_without_what_its_faults_spoil(bad_set: Path):
    read = partial(iter_items, bad_set)
    *_, items = check_set(read, partial(SetCounts, bad_set), lambda counts: True, check_image)
    first, second, last = again = list(items())
    assert again == list(read(rows=RowReader(look=check_image, skip=lambda fault: None)))
    names = [[candidate.name for candidate in one.candidates] for one in (first, second, last)]
    both = ["owl.png", "lamp.png"]
    assert names == [[*both, "gone.png"], [*both, "far.png"], both]
    assert (first.candidates[2].image, first.candidates[2].caption) == (None, "a bicycle")
    assert first.expected_order == ("lamp.png", "owl.png", "gone.png")


def test_check_prints_all_faults_counts_and_links_and_ends_with_2(capsys, bad_set: Path):
    code, out, err = run(capsys, "check", bad_set)
    assert code == 2
    assert f"{len(FAULTS)} problems" in err
    assert "gone.png" not in err  # it is among the faults
    assert "--images FOLDER" in err
    *lines, counts, links = out.splitlines()
    for line, words in zip(lines, FAULTS, strict=True):
        assert [word for word in words if word not in line] == []
    assert "items: 3; candidates: 8; pictures: 7; captions: 1; gold answers: 1" in counts
    assert links.endswith(str(bad_set.parent / "far.png"))
    _, out, err = run(capsys, "check", bad_set, "--json")
    assert "--images" not in err
    told = json.loads(out)
    assert [fault["lost"] for fault in told["faults"]] == LOST


def test_a_whole_set_has_no_faults_and_captions_need_no_pictures(capsys, monkeypatch, bad_set):
    code, out, _ = run(capsys, "check", SAMPLES)
    assert (code, out.splitlines()[0]) == (0, "No problems.")
    manifest = bad_set / "manifest.jsonl"
    row = json.dumps(item({"image": "a.png", "caption": "an owl"}, {"caption": "a lamp"}))
    manifest.write_text(row)
    assert run(capsys, "check", bad_set)[0] == 0
    (bad_set / "a.png").touch()
    manifest.write_text(json.dumps(item({"image": "owl.png"}, {"image": "lamp.png"})))
    assert "sees things and animals" in run(capsys, "check", bad_set)[2]
    manifest.write_text(row)
    monkeypatch.setattr("admire.pipeline.run_blocks.check_header", None)  # no picture is opened
    out = bad_set.parent / "run"
    passed(capsys, "rank", bad_set, "--query", "compound", "--out", out)


@pytest.mark.parametrize("none", ["No candidates", "1 items without candidates"])
def test_check_says_that_a_set_without_candidates_is_for_sense(capsys, tmp_path, none):
    rows = [item({"caption": "an owl"}, {"caption": "a lamp"})] * none.startswith("1") + [item()]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, _ = run(capsys, "check", tmp_path / "x.jsonl")
    assert (code, out.splitlines()[0]) == (0, f"{none}: for admire sense, not for admire rank.")


def test_rank_refuses_a_bad_set_before_any_model_and_skip_bad_goes_on(
    capsys, monkeypatch, tmp_path, bad_set: Path
):
    def rank(*options: object) -> tuple[int, str, str]:
        arguments = ("rank", bad_set, "--query", "compound", "--encoder", "sight")
        return run(capsys, *arguments, "--out", tmp_path / "run", *options)

    with monkeypatch.context() as patch:
        patch.setattr("admire.pipeline.run_blocks.RankingPipeline", None)
        code, _, err = rank()
    assert code == 2
    for words in (*FAULTS[:7], *FAULTS[9:]):  # pictures are not decoded, for it takes time
        assert any(all(word in line for word in words) for line in err.splitlines())
    assert err.endswith(" (--images, --skip-bad)\n")
    assert not (tmp_path / "run").exists()

    code, _, err = rank("--skip-bad", "--report")
    assert code == 0, err
    skipped = [line for line in err.splitlines() if "Skipped" in line]
    assert [line.rpartition(": the ")[2] for line in skipped] == [f"{lost}." for lost in LOST]
    made = read_run(tmp_path / "run")
    assert [len(one.order) for one in made.rankings] == [3, 3, 2]
    assert len(made.record["left_out"]) == len(FAULTS)
    assert "data:image/webp" in (tmp_path / "run" / "report.html").read_text()


def test_check_says_which_captions_an_encoder_reads_in_parts(capsys, tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="needs the extra 'embedded'")
    row = item({"caption": "A lamp is on. " * 80}, {"caption": "an owl"})
    (tmp_path / "manifest.jsonl").write_text(json.dumps(row))
    out, _ = passed(capsys, "check", tmp_path)
    assert "the 256 tokens that minilm reads: 1 of 2 captions, read in parts" in out
    told = json_of(capsys, "check", tmp_path, "--encoder", "minilm", "--json")
    assert [row["longer"] for row in told["long_texts"]] == [1]
