import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import OWLS, answer, write_split
from commands import run
from toys import ScriptedChat, WordEncoder

from admire import Item
from admire.apps.report.text_reports import retrieval_report, senses_report
from admire.senses import Sense, write_senses
from admire.tasks.retrieval import RetrieveSettings, retrieve_split, write_retrieval

pytest.importorskip("matplotlib", reason="needs the extra 'report'")

BM25 = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_split(tmp_path / "owls", "test", OWLS)
    return tmp_path / "owls"


def retrieved(folder: Path, data: Path, settings: RetrieveSettings = BM25) -> Path:
    encoder = None if settings.encoder == ("bm25",) else WordEncoder()
    run = retrieve_split(str(data), settings, llm=ScriptedChat(answer), encoder=encoder)
    write_retrieval(run, folder)
    return folder


def test_runs_stand_side_by_side_with_what_a_model_understood(tmp_path, data):
    data = data.rename(tmp_path / "owls-gl")
    first = retrieved(tmp_path / "first", data)
    whole = retrieve_split(str(data), BM25)
    meaning = RetrieveSettings(encoder="words", query="meaning", sense="vote", lang="pt")
    write_split(data, "test", replace(OWLS, queries=OWLS.queries[:1]))
    second = retrieved(tmp_path / "second", data, meaning)
    shutil.rmtree(data)  # the folders are enough
    report = retrieval_report([first, second])
    assert [card["language"] for card in report.data["items"]] == ["gl", "gl"]
    both, alone = (card["runs"] for card in report.data["items"])
    assert alone[1] is None
    assert both[0]["reading"] is None
    row = whole.scores.set_index("id").loc["q1"]
    assert both[0]["figures"] == pytest.approx({key: row[key] for key in ("r_precision", "ndcg")})
    assert both[0]["loss"] == pytest.approx(1 - row["ndcg"])
    documents = {one["id"]: one for one in both[0]["documents"]}
    assert {name for name, one in documents.items() if one["relevant"]} == {"d1", "d3", "d4"}
    assert documents["d3"]["text"][1] == ("codes late", True)
    reading = both[1]["reading"]
    assert (reading["sense"], reading["probability_idiomatic"]) == ("idiomatic", 1.0)
    assert "late" in reading["gloss"]
    figures, against, groups, _, settings = report.tables
    assert [row[:2] for row in figures.rows] == [("first", "1"), ("second", "1")]
    assert "Of the items of all runs." in figures.note
    assert {row[1] for row in groups.rows} == {"idiomatic"}
    assert (against.title, against.rows[0][:2]) == ("Against first", ("second", "1"))
    difference = both[1]["figures"]["ndcg"] - both[0]["figures"]["ndcg"]
    assert against.rows[0][-1].startswith(f"{difference:+.3f}")
    assert ("Chat model", "–", "embedded") in settings.rows
    assert str(tmp_path) not in json.dumps(report.data) + str(report.tables)


USES = [
    Item("night owl", "My sister is a night owl.", "en", sentence_type="idiomatic"),
    Item("night owl", "A night owl flew off.", "en", sentence_type="literal"),
    Item("pé frio", "Ele é um pé frio.", "pt"),
]
SENSES = [Sense("literal", 0.25, 1, 4), Sense("literal", 0.1, 0, 5), Sense(None, 0.5, 0, 0, 5)]


def test_each_use_has_its_sense_and_how_wrong_it_is(tmp_path):
    write_senses(tmp_path / "a.tsv", USES, SENSES)
    write_senses(tmp_path / "b.tsv", USES[:2], [Sense("idiomatic", 1.0), SENSES[1]])
    report = senses_report([tmp_path / "a.tsv", tmp_path / "b.tsv"])
    wrong, right, unknown = report.data["items"]
    assert wrong["sentence"] == [("My sister is a ", False), ("night owl", True), (".", False)]
    assert wrong["runs"][0] == {
        "sense": "literal",
        "probability_idiomatic": 0.25,
        "confidence": 0.75,
        "votes": {"idiomatic": 1, "literal": 4, "unparsed": 0},
        "sense_right": False,
        "right": False,
        "loss": 0.75,
        "figures": {"accuracy": 0.0},
    }
    assert (wrong["agreement"], right["agreement"], unknown["agreement"]) == (0.0, 1.0, None)
    assert right["runs"][0]["loss"] == pytest.approx(0.1)
    assert (unknown["language"], unknown["sense"], unknown["runs"][1]) == ("pt", None, None)
    figures, against, _, more, files = report.tables
    assert figures.rows[0][:3] == ("a.tsv", "2", "0.500")
    assert figures.bold == {(1, 2)}
    assert against.rows[0][2] == "+0.500"
    assert not against.bold
    assert [row[:2] for row in more.rows] == [("b.tsv", "idiomatic"), ("b.tsv", "literal")]
    assert not more.bold  # one item excludes nothing
    assert ("With a sense given", "2", "2") in files.rows
    assert ("Languages", "en, pt", "en") in files.rows
    assert report.plots[0].title == "Accuracy by sense"


def test_runs_of_two_kinds_are_not_reported_together(capsys, tmp_path, data):
    folder, table = retrieved(tmp_path / "run", data), tmp_path / "senses.tsv"
    write_senses(table, USES, SENSES)
    code, _, err = run(capsys, "report", folder, table, "--out", tmp_path / "report.html")
    assert (code, "one kind" in err, (tmp_path / "report.html").exists()) == (2, True, False)
