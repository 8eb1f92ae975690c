import re
from dataclasses import replace
from html import unescape

import pytest
from cards import gallery
from toys import OWL, PAPER, WordEncoder, says

from admire import Run, UserError, rank, read_run, score, write_run
from admire.apps.cli.output import print_rankings
from admire.apps.serve import schemas
from admire.pipeline.ranking import Ranking
from admire.senses import Sense
from admire.senses.dictionary_model import NO_ENTRY
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import REPEATS, Meaning

HOSTILE = replace(
    OWL,
    compound="<script>hurt()</script>",
    sentence="She is a <script>hurt()</script>, or $5 & more.",
    expected_order=None,
)


@pytest.fixture(scope="module")
def run() -> Run:
    items = [OWL, HOSTILE, replace(OWL, sentence="A night owl flew.", sentence_type="literal")]
    return rank(items, PAPER, llms=[says("Idiomatic")], encoder=WordEncoder())


def test_tables_of_candidates_and_items_say_what_the_rankings_say(run, tmp_path):
    table = run.to_frame()
    first = run.rankings[0]
    assert tuple(table[table["item"] == 1]["candidate"]) == first.order
    assert list(table["rank"]) == [1, 2, 3] * 3
    gold = table[table["item"] == 1].set_index("candidate")["gold_rank"]
    assert dict(gold) == {"person.png": 1, "bird.png": 2, "bike.png": 3}
    assert table[table["item"] == 2]["gold_rank"].isna().all()
    scores = table[table["item"] == 1].set_index("candidate")["score"]
    assert list(scores[[c.name for c in OWL.candidates]]) == list(first.scores)

    items = run.items_frame()
    assert list(items.index) == [1, 2, 3]
    assert items.loc[1, "meaning"] == "A person who is awake late."
    assert list(items["top1"].isna()) == [False, True, False]
    figures = run.figures()
    top1 = figures[(figures["metric"] == "top1") & (figures["group"] == "all")]
    assert (top1["n"].item(), top1["mean"].item()) == (2, items["top1"].mean())

    write_run(run, tmp_path / "run")
    read = read_run(str(tmp_path / "run"))
    assert read.items_frame().drop(columns="order").equals(items.drop(columns="order"))
    for of in (run, read, tmp_path / "run"):
        assert score(of).equals(figures)
    submission = tmp_path / "run" / "submission_en.tsv"
    with_gold = [one.item for one in run.rankings if one.item.best]
    assert score(submission, gold=with_gold)["n"].max() == 2
    with pytest.raises(UserError, match="Give the gold"):
        score(submission)


def test_figures_with_the_gold_sense_are_marked(run, tmp_path):
    given = rank(
        [replace(OWL, sentence_type="idiomatic")],
        replace(PAPER, sense="given"),
        llms=[says("Idiomatic")],
        encoder=WordEncoder(),
    )
    assert "with the gold sense" in repr(given).splitlines()[0]
    (submission,) = write_run(given, tmp_path / "run")
    items = [one.item for one in given.rankings]
    for of, gold in ((given, None), (given, items), (submission.parent, None), (submission, items)):
        table = score(of, gold)
        assert table["gold_sense"].all()
        assert "sense_accuracy" not in set(table["metric"])
    assert "gold_sense" not in run.figures()


def test_figures_without_gold_say_so(run):
    blind = replace(run, rankings=run.rankings[1:2])
    assert "top1" not in blind.items_frame()
    with pytest.raises(UserError, match="expected_order"):
        blind.figures()


def test_a_run_is_told_in_five_lines_at_most(run):
    many = replace(run, rankings=run.rankings * 40)
    for one in (run, many, replace(run, rankings=())):
        lines = repr(one).splitlines()
        assert len(lines) <= 5
        assert max(map(len, lines)) <= 100
    first, second, *_ = repr(many).splitlines()
    assert first == "Run of 120 items, by says Idiomatic, words"
    assert second.startswith("  night owl (idiomatic): person.png, ")
    assert repr(many).endswith("… and 117 more")


def test_cards_in_a_notebook_have_no_script_and_end_after_twenty_items(run):
    html = replace(run, rankings=run.rankings * 40)._repr_html_()
    assert html.count("<article") == 20
    for text in ("and 100 more items", "&lt;script&gt;hurt()", "<mark>night owl</mark>"):
        assert text in html
    assert "<script" not in html
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert style.startswith(".admire {")
    assert not re.search(":root|body", style)


def test_a_card_in_a_notebook_says_what_decided_and_a_literal_use_in_its_own_words(run):
    sense, wrong = Sense("literal", 0.14, by="detector"), Meaning(("who is awake late",))
    reading = Interpretation("embedded", sense, idiomatic=wrong)
    ranking = Ranking.of(run.rankings[0].item, run.rankings[0].scores, interpretations=[reading])
    html = replace(run, rankings=(ranking,))._repr_html_()
    text = " ".join(re.sub("<[^>]*>", " ", html).split())
    assert "predicted: literal confidence 0.86 (detector) literal meaning: night owl" in text


@pytest.mark.parametrize(
    ("meaning", "label", "card", "printed"),
    [
        (
            Meaning(("an owl",), fault=REPEATS),
            "idiomatic",
            "idiomatic meaning: an owl ⚠ it only repeats the compound's words",
            "an owl ⚠ it only repeats the compound's words",
        ),
        (Meaning(fault=NO_ENTRY), "idiomatic", f"none ⚠ {NO_ENTRY}", f"⚠ {NO_ENTRY}"),
        (
            Meaning(("a bird",), unread="{}", fault="it has no definitions"),
            "literal",
            "a bird ⚠ the reply could not be used: it has no definitions",
            "a bird ⚠ the model's reply could not be used: it has no definitions",
        ),
        (Meaning(fault=NO_ENTRY), "literal", "literal meaning: night owl", ": night owl"),
    ],
)
def test_what_is_wrong_with_a_meaning_is_marked(
    run, capsys, monkeypatch, meaning, label, card, printed
):
    meant = {label: meaning}
    reading = Interpretation("a model", Sense(label, 0.5, by="detector"), **meant)
    ranking = Ranking.of(run.rankings[0].item, run.rankings[0].scores, interpretations=(reading,))
    shown = replace(run, rankings=(ranking,))
    text = " ".join(unescape(re.sub("<[^>]*>", " ", shown._repr_html_())).split())
    assert card in text
    (drawn,) = gallery([shown])["items"]
    told = drawn["runs"][0]["readings"][0][label]
    assert told.get("fault") == meaning.fault
    assert schemas.Meaning.model_validate(told).fault == meaning.fault
    terminal = {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "LINES": "50"}
    for name, value in terminal.items():
        monkeypatch.setenv(name, value)
    print_rankings([ranking], 1)
    out = " ".join(capsys.readouterr().out.split())
    assert printed in out
    assert ("⚠" in out) == ("⚠" in printed)
