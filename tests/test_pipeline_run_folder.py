import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from judges import Judge
from PIL import Image
from scipy.stats import kendalltau
from toys import OWL, PAPER, WordEncoder, explains, says

from admire import (
    Candidate,
    Item,
    Scoring,
    Settings,
    UserError,
    agreement,
    compare_runs,
    rank,
    read_items,
    read_submission,
    write_run,
)
from admire.metrics.item_figures import score_items
from admire.pipeline.ranking import used_gold_sense
from admire.pipeline.run_folder import open_run, read_cosines, read_record, read_run
from admire.pipeline.scoring import judged_track, summarise_run
from admire.pipeline.tuning import tune
from admire.senses.dictionaries import open_dictionaries


def test_a_run_folder_holds_all_that_an_ablation_needs(tmp_path):
    portuguese = Item("pé frio", "Um pé frio.", "pt-br", OWL.candidates)
    models = [says("Idiomatic"), says("Literal")]
    source = tmp_path / "manifest.csv"
    source.write_text("any")
    run = rank([OWL, portuguese], PAPER, llms=models, encoder=WordEncoder(), source=tmp_path)
    written = write_run(run, tmp_path / "run")

    assert [path.name for path in written] == ["submission_en.tsv", "submission_pt-br.tsv"]
    submission = read_submission(written[0])
    assert [p.order for p in submission] == [run.rankings[0].order]
    assert [p.sentence for p in submission] == [OWL.sentence]

    scores = pd.read_csv(tmp_path / "run" / "scores.csv", keep_default_na=False)
    assert len(scores) == 2 * 2 * 3  # items, models, candidates
    owl = scores[(scores["item"] == 1) & (scores["candidate"] == "person.png")].set_index("llm")
    idiomatic = owl.loc["says Idiomatic"]
    # gloss: a person who is awake late; caption: a person awake late: 4 shared of 6 and 4 words
    assert float(idiomatic["caption_gloss"]) == pytest.approx(4 / 24**0.5, abs=1e-6)
    assert idiomatic["llm_score"] == float(idiomatic["caption_gloss"])
    assert idiomatic["votes_idiomatic"] == 5
    assert idiomatic["gloss"] == "A person who is awake late."
    assert owl["score"].nunique() == 1
    best = scores[(scores["item"] == 1) & (scores["rank"] == 1)]["candidate"].unique()
    assert best.tolist() == [run.rankings[0].order[0]]

    lines = (tmp_path / "run" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    assert first["order"] == list(run.rankings[0].order)
    assert first["expected_order"] == list(OWL.expected_order or ())
    assert first["interpretations"][0]["sense"]["idiomatic"] == 5
    assert "pé frio" in lines[1]

    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["source"] == {"path": str(tmp_path), "sha256": hashlib.sha256(b"any").hexdigest()}
    assert (record["settings"]["scoring"]["gate"], record["settings"]["seed"]) == ("hard", 0)
    llms = [(model["name"], model["sense"]) for model in record["models"]["llms"]]
    assert llms == [("says Idiomatic", "vote"), ("says Literal", "vote")]
    assert record["models"]["detector"] is None
    assert record["models"]["encoders"]["caption"][0]["identity"] == "words:1"
    assert set(record["prompts"]) >= {"sense_en.j2", "gloss_en.j2"}
    assert set(record["versions"]) >= {"admire-idioms", "python", "numpy"}
    assert set(record["seconds"]) == {"senses and meanings", "encoding and scores"}


def test_a_run_read_again_is_the_run_that_was_written(tmp_path):
    half = replace(OWL, candidates=(*OWL.candidates[:2], Candidate("bike.png", Path("bike.png"))))
    sequence = (Candidate("sequence1", caption="a desk"), Candidate("s2.png", caption="a clock"))
    shown = replace(OWL, sentence="", sequence=sequence, expected_item="bird.png")
    worths = {caption.caption or "": 0.5 for caption in OWL.candidates}
    for item, rankers, llm in (
        (half, ("embeddings",), explains("Literal")),
        (shown, ("embeddings", "listwise", "pointwise"), Judge(worths)),
    ):
        settings = Settings(rankers=rankers, sense="vote", track="caption")
        run = rank([item], settings, llms=[llm], encoder=WordEncoder())
        write_run(run, tmp_path / "run")
        found = read_run(tmp_path / "run")
        assert found.record == json.loads(json.dumps(run.record))
        (read,), (made,) = found.rankings, run.rankings
        things = [replace(one, image=None) for one in item.candidates]
        assert read.item == replace(item, candidates=tuple(things))
        assert read.scores.tolist() == made.scores.tolist()
        assert read.interpretations == made.interpretations
        assert read.parts == tuple(
            {name: cell for name, cell in part.items() if cell not in ("", None) and cell == cell}
            for part in made.parts
        )
        assert read.model_dump(mode="json") == made.model_dump(mode="json")


def test_equal_scores_are_marked(tmp_path):
    alike = replace(OWL, candidates=(*OWL.candidates, Candidate("b.png", caption="a red bicycle")))
    items = [OWL, replace(alike, expected_order=None)]
    folder = tmp_path / "run"
    write_run(rank(items, PAPER, llms=[says("Idiomatic")], encoder=WordEncoder()), folder)
    rows = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    assert "tied" not in rows[0]
    assert rows[1]["tied"] == ["b.png", "bike.png"]
    assert summarise_run(folder).tied == 1
    assert read_run(folder).rankings[1].tied == ("b.png", "bike.png")


def test_what_dictionaries_said_is_kept(tmp_path, owls):
    settings, folder = Settings(sense="vote", track="caption"), tmp_path / "run"
    run = rank([OWL], settings, llms=[explains("Idiomatic")], encoder=WordEncoder())
    write_run(run, folder)
    (made,) = run.rankings[0].interpretations
    (known,) = made.known.idiomatic
    assert (known.gloss, known.source) == ("who stays up late", "wordnet")
    assert read_run(folder).rankings[0].interpretations == (made,)
    (replay,) = open_run(str(folder))
    again = rank([OWL], settings, llms=[replay], encoder=WordEncoder()).rankings[0]
    assert again.scores.tolist() == run.rankings[0].scores.tolist()

    (opened,) = open_dictionaries(settings.dictionaries)
    named = [{"name": "wordnet", "identity": opened.identity}]
    assert read_record(folder)["models"]["dictionaries"] == named
    assert set(compare_runs([folder])["dictionaries"]) == {"wordnet"}


def test_a_run_of_subtask_b_leaves_its_submission_and_is_compared_but_not_tuned(tmp_path):
    shown = Item(
        "night owl",
        "",
        candidates=OWL.candidates,
        sentence_type="idiomatic",
        sequence=(Candidate("sequence1", caption="a person awake"),),
        expected_item="person.png",
    )
    run = rank([shown], Settings(sense="vote"), llms=[explains("Literal")], encoder=WordEncoder())
    (path,) = write_run(run, tmp_path / "run")
    (prediction,) = read_submission(path)
    assert (prediction.expected_item, prediction.sentence_type) == ("person.png", "literal")
    row = json.loads((tmp_path / "run" / "items.jsonl").read_text())
    assert row["sequence"] == [{"name": "sequence1", "caption": "a person awake"}]
    assert (row["expected_item"], row["predicted_type"]) == ("person.png", "literal")
    table = compare_runs([tmp_path / "run"])
    figures = table[table["group"] == "all"].set_index("metric")["mean"].to_dict()
    assert figures == {"item_accuracy": 1.0, "sense_accuracy": 0.0}
    with pytest.raises(UserError, match="Subtask B"):
        tune(tmp_path / "run")


def test_each_row_of_admire_2_is_ordered_in_its_place(shared, tmp_path):
    source = shared / "admire2" / "submission_Turkish.tsv"
    items = read_items(source)
    run = rank(items, Settings(query="compound"), encoder=WordEncoder(), source=source)
    (path,) = write_run(run, tmp_path / "run")
    assert path.name == source.name
    predictions = read_submission(path)
    for item, prediction in zip(items, predictions, strict=True):
        assert (prediction.compound, prediction.sentence) == (item.compound, item.sentence)
        assert sorted(prediction.order) == sorted(one.name for one in item.candidates)
    # Once there is gold, each row is scored against its own.
    gold = [replace(i, expected_order=p.order) for i, p in zip(items, predictions, strict=True)]
    assert score_items(gold, predictions, "mine")["top1"].mean() == 1.0


CORUJA = Item(
    "coruja",
    "Ela é uma coruja.",
    "pt",
    (Candidate("a.png", caption="uma coruja"), Candidate("b.png", caption="uma pessoa")),
    "idiomatic",
    ("b.png", "a.png"),
)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """The compound as query finds the bird, the gloss the person."""
    folders = [tmp_path / "baseline", tmp_path / "gloss"]
    items = [replace(OWL, sentence_type="idiomatic"), CORUJA]
    write_run(rank(items, Settings(query="compound"), encoder=WordEncoder()), folders[0])
    chat = says("Idiomatic", "A person awake late, uma pessoa.")
    settings = Settings(llms=("a", "b"), sense="vote", meanings="gloss", scoring=Scoring.paper())
    write_run(rank(items, settings, llms=[chat, chat], encoder=WordEncoder()), folders[1])
    return folders


def test_runs_are_compared_item_by_item_with_the_first_on_the_items_that_both_have(runs, caplog):
    folder, gloss = (read_run(run) for run in runs)
    table = compare_runs([runs[0], gloss])
    shown = table[(table["metric"] == "top1") & (table["group"] == "all")]
    assert shown["run"].tolist() == [str(runs[0])] * 2 + ["run 2"] * 2
    assert shown["difference"].isna().tolist() == [True, True, False, False]
    assert shown[["difference", "shared"]].iloc[-1].tolist() == [1.0, 1.0]
    assert not caplog.messages

    part = replace(gloss, rankings=gloss.rankings[:1])
    table = compare_runs([folder, part]).set_index(["run", "language", "group", "metric"])
    assert table.loc[("run 2", "en", "all", "top1"), ["difference", "shared"]].tolist() == [1, 1]
    warning = "The runs share 1 of their 2 items (run 2 lacks 1). Only these are compared."
    assert caplog.messages == [warning]


def test_two_runs_agree_so_far_without_gold(runs, caplog):
    baseline, gloss = (read_run(run) for run in runs)
    tau = []
    for rankings in zip(baseline.rankings, gloss.rankings, strict=True):
        ranks = [[one.order.index(name) for name in sorted(one.order)] for one in rankings]
        tau.append(kendalltau(*ranks).statistic)
    table = agreement(runs[0], gloss).set_index("metric")
    assert table.loc["same_first", ["n", "mean"]].tolist() == [2, 0]
    assert table.loc["kendall_tau", ["n", "mean"]].tolist() == [2, pytest.approx(np.mean(tau))]
    submission = runs[1] / "submission_pt.tsv"
    table = agreement(gloss, submission).set_index("metric")
    assert table[["n", "mean"]].to_numpy().tolist() == [[1, 1], [1, 1]]
    assert "The runs share 1 of their 2 items" in caplog.messages[-1]
    with pytest.raises(UserError, match=r"share 0 of their 2 items .*Name runs of the same items"):
        agreement(runs[1] / "submission_en.tsv", submission)


def test_runs_are_compared_by_language_with_their_settings(runs: list[Path]):
    table = compare_runs(runs)
    shown = table[(table["metric"] == "top1") & (table["group"] == "all")]
    columns = ["run", "language", "method", "llm", "encoder", "n", "mean", "scoring.contrast"]
    assert shown[columns].to_numpy().tolist() == [
        [str(runs[0]), "en", "compound", "–", "words", 1, 0.0, 1.0],
        [str(runs[0]), "pt", "compound", "–", "words", 1, 0.0, 1.0],
        [str(runs[1]), "en", "CC", "a + b", "words", 1, 1.0, 0.0],
        [str(runs[1]), "pt", "CC", "a + b", "words", 1, 1.0, 0.0],
    ]
    assert set(table["metric"]) == {"top1", "dcg", "corr_official", "corr_rank"}
    assert not {"llms", "scoring"} & set(table.columns)
    assert {"seed", "head", "votes", "scoring.standardise"} <= set(table.columns)


@pytest.mark.parametrize(
    ("change", "method"),
    [
        ({"track": "image"}, "CI"),
        ({"track": "image+caption", "head": "h"}, "CIC-F"),
        ({"query": "sentence", "track": "image"}, "sentence"),
    ],
)
def test_a_method_has_the_papers_name(runs: list[Path], change: dict[str, str], method: str):
    path = runs[1] / "run.json"
    record = json.loads(path.read_text())
    record["settings"].update(change)
    path.write_text(json.dumps(record))
    assert set(compare_runs(runs[1:])["method"]) == {method}


def test_a_run_is_judged_in_the_track_of_all_that_it_saw(tmp_path, runs: list[Path]):
    things = []
    for one in OWL.candidates:
        Image.new("RGB", (64, 64)).save(tmp_path / one.name)
        things.append(replace(one, image=tmp_path / one.name))
    settings = Settings(rankers=("embeddings", "listwise"), sense="given")
    judge = Judge({one.name: 0.5 for one in things})
    item = replace(OWL, candidates=tuple(things), sentence_type="idiomatic")
    run = rank([item], settings, llms=[judge], encoder=WordEncoder())
    assert run.record["settings"]["track"] == "caption"  # of the embeddings
    assert run.record["saw"] == ["image", "caption"]
    captions = read_record(runs[1])
    fused = {"fused": [{"record": captions}, {"record": run.record}]}
    found = [judged_track(record) for record in (captions, run.record, fused)]
    assert found == ["caption", "image+caption", "image+caption"]
    assert [used_gold_sense(one) for one in (captions, run.record, fused)] == [False, True, True]


@pytest.mark.parametrize("name", ["run.json", "items.jsonl"])
def test_a_damaged_or_missing_file_of_a_run_is_named(runs: list[Path], name: str):
    path = runs[1] / name
    path.write_text(path.read_text()[:40])
    with pytest.raises(UserError, match=rf"{name}"):
        compare_runs(runs)
    path.unlink()
    with pytest.raises(UserError, match=f"{name}: cannot be read"):
        compare_runs(runs)


def test_scores_with_more_rows_of_one_candidate_are_named(runs: list[Path]):
    path = runs[1] / "scores.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, *lines[-1:]]))  # one candidate has more rows than the others
    for read in (read_run, read_cosines):
        with pytest.raises(UserError, match=r"scores\.csv: is damaged"):
            read(runs[1])


@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        ("items.jsonl", '"order": ["person.png", ', '"order": [', "items.jsonl.*row 1"),
        ("items.jsonl", '_idiomatic": 1.0', '_idiomatic": "1"', "row 1, interpretations"),
        ("scores.csv", "person.png", "someone.png", r"scores\.csv"),
        ("scores.csv", "1.0,", "one,", r"scores\.csv"),
        ("run.json", '"saw"', '"sees"', r"run\.json, saw: is missing"),
        (
            "run.json",
            'ardise": "no"',
            'ardise": "encoder"',
            r"ardise: .* no\. Run admire rank again",
        ),
        ("run.json", 'ardise": "no"', 'ardise": true', r"ardise: .* no\. Run admire rank again"),
        ("run.json", '"votes": ', '"votes": -', r"run\.json, settings\.votes: cannot be -"),
        ("run.json", '"items": 2', '"items": 3', r"items\.jsonl: .*has 2 of the 3 items"),
        ("run.json", '"version": 1', '"version": 2', r"run\.json: has format 2, but this"),
    ],
)
def test_what_does_not_fit_is_named(runs: list[Path], name: str, old: str, new: str, where: str):
    path = runs[1] / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=where):
        read_run(runs[1])
