from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import PictureEncoder, ScriptedChat, WordEncoder

from admire import Candidate, Item, Scoring, Settings, UserError, rank, read_submission, write_run

OWL = Item(
    "night owl",
    "My sister is a night owl.",
    candidates=(
        Candidate("bird.png", caption="a bird with wings, an owl at night"),
        Candidate("person.png", caption="a person awake late"),
        Candidate("bike.png", caption="a red bicycle"),
    ),
    expected_order=("person.png", "bird.png", "bike.png"),
)
PAPER = Settings(llms=(), sense="vote", scoring=Scoring())


def says(sense: str, gloss: str = "A person who is awake late."):
    """A chat model that answers every question about the sense alike."""
    return ScriptedChat(
        lambda prompt: sense if "literally" in prompt else gloss, name=f"says {sense}"
    )


def test_an_idiomatic_sense_ranks_by_the_gloss_and_a_literal_one_by_the_compound():
    for sense, best in [("Idiomatic", "person.png"), ("Literal", "bird.png")]:
        run = rank([OWL], PAPER, llms=[says(sense)], encoder=WordEncoder())
        assert run.rankings[0].order[0] == best
        assert run.rankings[0].predicted_type == sense.lower()


def test_a_literal_sense_asks_for_no_gloss_with_a_hard_gate_and_for_one_with_a_soft():
    for gate, asked in [("hard", 5), ("soft", 6)]:
        chat = says("Literal")
        rank(
            [OWL],
            Settings(sense="vote", scoring=Scoring(gate=gate)),
            llms=[chat],
            encoder=WordEncoder(),
        )
        assert len(chat.prompts) == asked


def test_votes_are_asked_for_as_often_as_set():
    chat = says("Literal")
    settings = Settings(sense="vote", votes=3, scoring=Scoring())
    run = rank([OWL], settings, llms=[chat], encoder=WordEncoder())
    assert run.rankings[0].interpretations[0].sense.literal == 3


def test_the_ensemble_averages_the_models_scores():
    alone = [
        rank([OWL], PAPER, llms=[says(s)], encoder=WordEncoder()).rankings[0].scores
        for s in ("Idiomatic", "Literal")
    ]
    both = rank([OWL], PAPER, llms=[says("Idiomatic"), says("Literal")], encoder=WordEncoder())
    assert both.rankings[0].scores == pytest.approx(np.mean(alone, axis=0))
    assert [i.llm for i in both.rankings[0].interpretations] == ["says Idiomatic", "says Literal"]


@pytest.mark.parametrize(("query", "best"), [("compound", "bird.png"), ("sentence", "person.png")])
def test_baselines_ask_no_model(query, best):
    item = Item("night owl", "A person awake late is a night owl.", candidates=OWL.candidates)
    run = rank([item], Settings(query=query), encoder=WordEncoder())
    assert run.rankings[0].order[0] == best
    assert run.rankings[0].predicted_type is None


def test_given_senses_are_taken_as_they_are_and_missing_ones_refused():
    settings = Settings(sense="given", scoring=Scoring())
    known = Item(OWL.compound, OWL.sentence, candidates=OWL.candidates, sentence_type="literal")
    run = rank([known], settings, llms=[says("Idiomatic")], encoder=WordEncoder())
    assert run.rankings[0].predicted_type == "literal"
    with pytest.raises(UserError, match=r"'night owl'.*sentence_type"):
        rank([OWL], settings, llms=[says("Idiomatic")], encoder=WordEncoder())


def test_no_readable_vote_ranks_by_the_compound_and_says_so(caplog):
    run = rank([OWL], PAPER, llms=[says("Hard to say.")], encoder=WordEncoder())
    assert run.rankings[0].order[0] == "bird.png"
    assert run.rankings[0].predicted_type is None
    assert "no vote on 'night owl' could be read" in caplog.text


def test_no_gloss_ranks_by_the_compound_and_says_so(caplog):
    run = rank([OWL], PAPER, llms=[says("Idiomatic", gloss="")], encoder=WordEncoder())
    assert run.rankings[0].order[0] == "bird.png"
    assert "no meaning of 'night owl'" in caplog.text


def test_images_and_captions_count_as_far_as_the_encoder_reads_them(tmp_path, caplog):
    (tmp_path / "person.png").write_text("a person awake late")
    (tmp_path / "bird.png").write_text("an owl")
    item = Item(
        "night owl",
        "A night owl.",
        candidates=(
            Candidate("bird.png", tmp_path / "bird.png", "nothing"),
            Candidate("person.png", tmp_path / "person.png", "an owl"),
        ),
    )
    by_caption = rank([item], PAPER, llms=[says("Literal")], encoder=WordEncoder())
    assert by_caption.rankings[0].order[0] == "person.png"
    assert caplog.text.count("captions alone decide") == 1
    images = Settings(sense="vote", track="image", scoring=Scoring())
    by_image = rank([item], images, llms=[says("Literal")], encoder=PictureEncoder())
    assert by_image.rankings[0].order[0] == "bird.png"
    both = rank([item], PAPER, llms=[says("Idiomatic")], encoder=PictureEncoder())
    assert both.record["settings"]["track"] == "image+caption"
    assert both.rankings[0].order[0] == "person.png"


@pytest.mark.parametrize(
    ("track", "candidates", "message"),
    [
        ("image", OWL.candidates, "No candidate has images"),
        ("image+caption", OWL.candidates, "No candidate has images"),
        (
            "image",
            (Candidate("1", Path("1.png"), "a"), Candidate("2", Path("2.png"))),
            "'words' reads no images. Use --track caption",
        ),
        (
            None,
            (Candidate("1", Path("1.png")), Candidate("2", Path("2.png"))),
            "'words' reads no images; there are no captions",
        ),
    ],
)
def test_a_track_that_cannot_be_ranked_by_is_refused(track, candidates, message):
    item = Item("night owl", "A night owl.", candidates=candidates)
    with pytest.raises(UserError, match=message):
        rank([item], Settings(query="compound", track=track), encoder=WordEncoder())


def test_items_without_candidates_cannot_be_ranked():
    with pytest.raises(UserError, match=r"row 1 \('night owl'\) has no candidates"):
        rank(
            [Item("night owl", "A night owl.")],
            PAPER,
            llms=[says("Literal")],
            encoder=WordEncoder(),
        )


def test_a_model_that_fails_names_the_item_and_keeps_what_was_answered():
    from admire.llm.cached import CachedChat

    other = Item("cold feet", "He got cold feet.", candidates=OWL.candidates)
    broken = True

    def answer(prompt: str) -> str:
        if broken and "cold feet" in prompt:
            raise UserError("the server died.")
        return "Literal"

    chat = ScriptedChat(answer)
    with pytest.raises(UserError, match=r"'cold feet': the server died.*same command again"):
        rank([OWL, other], PAPER, llms=[CachedChat(chat)], encoder=WordEncoder())
    broken = False
    chat.prompts.clear()
    rank([OWL, other], PAPER, llms=[CachedChat(chat)], encoder=WordEncoder())
    assert all("cold feet" in prompt for prompt in chat.prompts)
    assert len(chat.prompts) == 5


def test_many_asks_under_way_at_once_give_the_same_run():
    items = [Item(f"owl{k}", f"An owl{k}.", candidates=OWL.candidates) for k in range(20)]

    def answer(prompt: str) -> str:
        return "Literal" if "literally" in prompt else "A person awake late."

    one = rank(items, PAPER, llms=[ScriptedChat(answer)], encoder=WordEncoder())
    many = rank(items, PAPER, llms=[ScriptedChat(answer, parallel=8)], encoder=WordEncoder())
    assert [r.order for r in one.rankings] == [r.order for r in many.rankings]
    assert [r.item for r in many.rankings] == items


def test_a_run_folder_holds_all_that_an_ablation_needs(tmp_path):
    portuguese = Item("pé frio", "Um pé frio.", "pt-br", OWL.candidates)
    models = [says("Idiomatic"), says("Literal")]
    run = rank([OWL, portuguese], PAPER, llms=models, encoder=WordEncoder())
    source = tmp_path / "items.tsv"
    source.write_text("any")
    written = write_run(run, tmp_path / "run", source)

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
    assert record["source"] == {
        "path": str(source),
        "sha256": hashlib.sha256(b"any").hexdigest(),
    }
    assert record["settings"]["scoring"]["gate"] == "hard"
    assert record["settings"]["seed"] == 0
    assert [m["name"] for m in record["models"]["llms"]] == ["says Idiomatic", "says Literal"]
    assert {m["sense"] for m in record["models"]["llms"]} == {"vote"}
    assert record["models"]["detector"] is None
    assert record["models"]["encoders"]["caption"]["identity"] == "words:1"
    assert set(record["prompts"]) >= {"sense_en.j2", "gloss_en.j2"}
    assert set(record["versions"]) >= {"admire", "python", "numpy"}
    assert set(record["seconds"]) == {"senses and meanings", "encoding and scores"}
