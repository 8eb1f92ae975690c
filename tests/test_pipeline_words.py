"""Visual-WSD, from the data file to the figures: a word in a phrase, and no sense to decide."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import ended, passed, run
from lexica import wordnet
from PIL import Image
from test_report_write import shown
from toys import PictureEncoder, ScriptedChat, opener, opens

from admire import Scoring, Settings, UserError, compare_runs, plan, rank, read_items
from admire.apps.report import write_report
from admire.data.settings import ItemFiles
from admire.pipeline.fusion import fuse
from admire.pipeline.run_blocks import rank_file
from admire.pipeline.run_folder import write_run
from admire.pipeline.tuning import tune

SEEN = ["money notes", "a river", "land and a river", "erosion"]
SEEN += [f"bicycle {k}" for k in range(6)]
NAMES = [f"image.{k}.png" for k in range(10)]
RIVER = '{"definitions": ["land beside a river"], "scene": "land and a river"}'
HERE = ("bank", "bank erosion"), ("bank", "bank robbery")


class PicturesThatSay(PictureEncoder):
    """As PictureEncoder, of pictures that say in their name's place what they show."""

    def encode_images(self, images):
        return self.encode_texts([SEEN[NAMES.index(one.name)] for one in images], role="document")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two items, whose best images are those of land and of a red bicycle."""
    (tmp_path / "images").mkdir()
    for name in NAMES:
        Image.new("RGB", (4, 4), "red").save(tmp_path / "images" / name)
    lines = ["\t".join((*told, *NAMES)) + "\n" for told in HERE]
    (tmp_path / "en.test.data.v1.1.txt").write_text("".join(lines))
    (tmp_path / "en.test.gold.v1.1.txt").write_text("image.2.png\nimage.5.png\n")
    return tmp_path / "en.test.data.v1.1.txt"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """Toys in place of the models that the embedded profile opens."""
    chat = ScriptedChat(lambda prompt: RIVER if '"bank erosion", "def' in prompt else "?")
    opens(monkeypatch, chat)
    encoder = PicturesThatSay()
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", opener(encoder))
    return chat


def test_a_file_is_ranked_scored_and_shown_without_a_sense(
    capsys, tmp_path, monkeypatch, data, chat
):
    senses = [("noun", "noun.object", ["bank"], f"meaning {k}") for k in range(12)]
    monkeypatch.setenv("ADMIRE_WORDNET", str(wordnet(tmp_path / "wordnet", synsets=senses)))
    out = tmp_path / "run"
    options = ("--images", tmp_path / "images", "--report", "--abstain-below", "0.9")
    printed, said = passed(capsys, "rank", data, "--out", out, *options)
    assert "idiomatic" not in printed + said

    # Asked for one meaning each, with what the dictionary says of the word; and again in vain.
    assert len(chat.prompts) == 1 + 3
    assert "meaning 0; or: meaning 1;" in chat.prompts[0]
    assert [f"meaning {k}" in chat.prompts[0] for k in (9, 10)] == [True, False]

    first, second = (out / "prediction.en.txt").read_text().splitlines()
    assert first.split("\t")[:2] == ["image.2.png", "image.1.png"]
    assert second.split("\t") == NAMES  # no words in common: all alike
    figures = {"top1": 0.5, "mrr": pytest.approx((1 + 1 / 6) / 2)}
    table = compare_runs([out])
    assert table.set_index("metric")["mean"].to_dict() == figures
    rows = [json.loads(line) for line in (out / "items.jsonl").read_text().splitlines()]
    assert [(row["word"], row["compound"], row["predicted_type"]) for row in rows] == [
        (*told, None) for told in HERE
    ]
    assert "unsure" not in rows[0]

    # The same by the submission, its images gone, and by the run.
    shutil.move(tmp_path / "images", tmp_path / "elsewhere")
    for scored in (out / "prediction.en.txt", out):
        code, printed, said = run(capsys, "score", scored, "--gold", data, "--json")
        assert (code, said) == (0, "")
        told, *_ = json.loads(printed).values()  # a run has ties, too
        assert {one["metric"]: one["mean"] for one in told} == figures

    # The page was made while the images were there.
    card, other = shown(out / "report.html")["items"]
    assert card["sentence"] == [["bank", True], [" erosion", False]]
    assert all(one["picture"] for one in card["candidates"])
    assert card["runs"][0]["readings"][0]["no_sense"] is True
    assert card["runs"][0]["readings"][0]["idiomatic"]["definitions"] == ["land beside a river"]
    assert (card["runs"][0]["loss"], other["gold"]) == (0.0, [5])


def test_the_score_is_the_mean_over_definition_scene_and_phrase(data, tmp_path):
    items = read_items(data, images=tmp_path / "images")[:1]
    for texts in (("gloss", "scene", "compound"), ("scene",)):
        # Neither the gate nor the contrast has a sense to weigh.
        for gate, contrast in (("hard", 1.0), ("soft", 0.0)):
            settings = Settings(scoring=Scoring(1, 1, gate, contrast, "item", texts))
            chat = ScriptedChat(lambda _: RIVER)
            run = rank(items, settings, llms=[chat], encoder=PicturesThatSay())
            (ranking,) = run.rankings
            columns = np.array([[row[f"image_{role}"] for role in texts] for row in ranking.parts])
            scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
            assert ranking.scores == pytest.approx(scaled.mean(axis=1))
    assert ranking.interpretations[0].meant == "land beside a river"
    assert (ranking.predicted_type, ranking.prediction.expected_item) == (None, None)


def test_a_dry_run_counts_a_meaning_an_item(data, tmp_path, chat):
    (told,) = plan(read_items(data, images=tmp_path / "images"), llms=[chat])
    assert (told.stage, told.questions, told.at_most) == ("meanings", 2, False)


def test_runs_of_v_wsd_are_fused_but_not_tuned(data, tmp_path, chat):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        rank_file(data, folder, files=ItemFiles(images=tmp_path / "images"))
    fused = fuse(folders)
    assert [one.sense.label for one in fused.rankings[0].interpretations] == [None]
    assert fused.rankings[0].interpretations[0].meant == "land beside a river"
    (written,) = write_run(fused, tmp_path / "fused")
    assert written.read_text() == (folders[0] / "prediction.en.txt").read_text()
    page = shown(write_report([*folders, tmp_path / "fused"], tmp_path / "page.html"))
    assert [run["readings"][0]["no_sense"] for run in page["items"][0]["runs"]] == [True] * 3
    with pytest.raises(UserError, match="Subtask B or V-WSD"):
        tune(folders[0])


def test_a_submission_that_does_not_fit_its_gold_is_refused(capsys, data, tmp_path):
    mine = tmp_path / "prediction.en.txt"
    for text, words in [
        ("\t".join(NAMES) + "\n", "has 1 rows for 2 gold items"),
        (2 * ("\t".join(NAMES[:9]) + "\n"), "does not name exactly the item's 10 candidates"),
        ("\t".join(NAMES) + "\n\nimage.1.png\n", "row 3, expected_order: names 1"),
    ]:
        mine.write_text(text)
        assert words in ended(capsys, "score", mine, "--gold", data)
    mine.write_text(2 * ("\t".join(NAMES) + "\n"))
    published = ("--published", "en-test")
    assert "not of V-WSD" in ended(capsys, "score", mine, "--gold", data, *published)
    (tmp_path / "en.test.gold.v1.1.txt").unlink()
    assert "has an expected_item to score" in ended(capsys, "score", mine, "--gold", data)
