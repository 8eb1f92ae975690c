"""Whole runs with rankers that reason, and what they leave."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from judges import BEST, ITEM, WORTHS, Judge, item_of, pictured, settings
from scipy.stats import zscore
from toys import OWL, WordEncoder

from admire import Scoring, UserError, compare_runs, rank, write_run
from admire.llm import Question, Reply
from admire.pipeline.run_folder import read_cosines, read_run

REASONING: tuple[str, ...] = ("listwise", "pointwise", "pairwise")


@pytest.mark.parametrize("captions", [True, False])
@pytest.mark.parametrize("ranker", REASONING)
def test_every_ranker_puts_the_best_first_by_pictures(tmp_path, ranker, captions):
    item = pictured(tmp_path, ["dull.png", "best.png", "good.png"], captions)
    judge = Judge({"dull.png": 0.1, "good.png": 0.5, "best.png": 0.9})
    changes = {"track": "image", "image_side": 64}
    found = rank([item], settings(ranker, **changes), llms=[judge])
    assert found.rankings[0].order == ("best.png", "good.png", "dull.png")
    assert found.record["settings"]["track"] == "image"
    images = [image for question in judge.questions for image in question.images]
    assert {image.side for image in images} == {64}
    both = rank([item], settings(ranker), llms=[judge])
    assert both.record["settings"]["track"] == ("image+caption" if captions else "image")


@pytest.mark.parametrize("ranker", REASONING)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_order_in_which_the_data_list_candidates_does_not_matter(ranker, noise):
    found = []
    for order in (BEST, BEST[::-1], BEST[2:] + BEST[:2]):
        by_name = {candidate.name: candidate for candidate in ITEM.candidates}
        item = replace(ITEM, candidates=tuple(by_name[name] for name in order))
        judge = Judge(WORTHS, noise=0 if ranker == "pointwise" else noise, first=0.05)
        (ranking,) = rank([item], settings(ranker), llms=[judge]).rankings
        found.append((ranking.order, sorted(zip(order, ranking.scores, strict=True))))
    assert found[0][0] == found[1][0] == found[2][0]
    assert [name for name, _ in found[0][1]] == [name for name, _ in found[1][1]]
    assert [s for _, s in found[0][1]] == pytest.approx([s for _, s in found[1][1]], abs=1e-5)


def test_recorded_orders_stand_for_any_ranker(tmp_path):
    file = tmp_path / "orders.jsonl"
    row = {"compound": ITEM.compound, "sentence": ITEM.sentence, "sense": "literal"}
    file.write_text(json.dumps(row | {"meaning": "a bird", "order": list(BEST[::-1])}))
    for ranker in REASONING:
        found = rank([ITEM], settings(ranker, llms=(f"recorded:{file}",)))
        assert found.rankings[0].order == BEST[::-1]
        assert found.rankings[0].predicted_type == "literal"
    write_run(found, tmp_path / "run")
    again = rank([ITEM], settings("listwise", llms=(f"run:{tmp_path / 'run'}",)))
    assert again.rankings[0].order == BEST[::-1]
    both = settings("listwise", "embeddings", llms=(f"recorded:{file}",))
    assert rank([ITEM], both, encoder=WordEncoder()).rankings[0].judgements


@pytest.mark.parametrize("ranker", REASONING)
def test_a_reply_that_was_cut_off_is_asked_for_with_twice_the_tokens(ranker):
    class Verbose(Judge):
        def ask(self, question: Question) -> Reply:
            reply = super().ask(question)
            short = question.purpose == "ranking" and question.max_tokens < limit
            return replace(reply, text=reply.text[:-9], cut=True) if short else reply

    limit = {"listwise": 801, "pointwise": 61, "pairwise": 151}[ranker]
    judge = Verbose(WORTHS, logprobs=False)
    assert rank([ITEM], settings(ranker), llms=[judge]).rankings[0].order == BEST


@pytest.mark.parametrize("ranker", REASONING)
def test_an_item_of_which_nothing_can_be_read_keeps_its_candidates_equal(ranker, caplog, tmp_path):
    def spoil(text: str, question: Question, count: int) -> str:
        return "" if "lost" in question.text else text

    other = item_of([f"lost {k}" for k in range(3)], "lost cause")
    judge = Judge(WORTHS | {f"lost {k}": 0.5 for k in range(3)}, logprobs=False, spoil=spoil)
    run = rank([ITEM, other], settings(ranker, sense="vote"), llms=[judge])
    found = run.rankings
    assert found[0].order == BEST
    assert found[1].scores.tolist() == [0, 0, 0]
    write_run(run, tmp_path / "run")
    unread = {"listwise": 5, "pointwise": 3, "pairwise": 6}[ranker]
    for rankings in (found, read_run(tmp_path / "run").rankings):
        assert rankings[1].judgements[0].unread == unread
    assert caplog.text.count("no reply about 'lost cause' could be parsed") == 1


@pytest.mark.parametrize("ranker", REASONING)
def test_if_nothing_at_all_can_be_read_that_is_said_once(ranker):
    judge = Judge(WORTHS, logprobs=False, spoil=lambda *_: "I like\nB.")
    item = replace(ITEM, sentence_type="idiomatic")
    with pytest.raises(UserError, match="“I like B") as error:
        rank([item], settings(ranker, sense="given"), llms=[judge])
    assert error.value.settings == ("rankers", "llms", "llm_url")


def test_several_models_and_rankers_count_alike_after_they_are_standardised():
    up, down = Judge(WORTHS, name="up"), Judge({k: 1 - v for k, v in WORTHS.items()}, name="down")
    (ranking,) = rank([ITEM], settings("listwise"), llms=[up, down]).rankings
    assert ranking.scores == pytest.approx(np.zeros(5))
    (ranking,) = rank([ITEM], settings("listwise", "pointwise", "pairwise"), llms=[up]).rankings
    assert [one.ranker for one in ranking.judgements] == ["listwise", "pointwise", "pairwise"]
    each = zscore([judgement.scores for judgement in ranking.judgements], axis=1)
    assert ranking.scores == pytest.approx(np.mean(each, axis=0))


def test_embeddings_and_a_ranker_are_fused_and_each_is_recorded(tmp_path):
    worth = {c.caption or "": w for c, w in zip(OWL.candidates, (0.1, 0.5, 0.9), strict=True)}
    both = settings("embeddings", "listwise", scoring=Scoring.paper())
    run = rank([OWL], both, llms=[Judge(worth, sense="literal")], encoder=WordEncoder())
    write_run(run, tmp_path)
    table = pd.read_csv(tmp_path / "scores.csv")
    assert table["ranker"].tolist() == ["embeddings"] * 3 + ["listwise"] * 3
    alone = table["llm_score"].to_numpy().reshape(2, 3)
    each = (alone - alone.mean(axis=1, keepdims=True)) / alone.std(axis=1, keepdims=True)
    assert table["score"].to_numpy()[:3] == pytest.approx(each.mean(axis=0))
    assert alone[1].tolist() == [0, 1, 2]
    items, parts, encoders = read_cosines(tmp_path)
    assert (len(items), len(parts[0]), encoders) == (1, 3, 1)
    assert set(compare_runs([tmp_path])["method"]) == {"CC + listwise"}
