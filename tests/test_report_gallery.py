from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from cards import gallery
from judges import ITEM as JUDGED
from judges import WORTHS, Judge
from toys import OWL, PAPER, PictureEncoder, ScriptedChat, WordEncoder, explains, says

from admire import Candidate, Run, Scoring, Settings, rank, write_run
from admire.apps.report.gallery import Cards
from admire.pipeline.fusion import fuse
from admire.pipeline.ranking import Ranking
from admire.pipeline.run_folder import read_run

BOTH = Settings(sense="vote")


def only(run: Run) -> dict:
    (card,) = gallery([run])["items"]
    return card


def sums(card: dict, run: int = 0) -> np.ndarray:
    return np.sum([part["values"] for part in card["runs"][run]["parts"]], axis=0)


def runs_of_every_kind(folder: Path) -> dict[str, Run]:
    words, pictures = WordEncoder(), PictureEncoder()
    for name, text in {"bird": "an owl with wings", "person": "a person awake late"}.items():
        (folder / f"{name}.png").write_text(text)
    candidates = (
        Candidate("bird.png", folder / "bird.png", "a bird at night"),
        Candidate("person.png", folder / "person.png"),
        Candidate("bike.png", caption="a red bicycle"),
    )
    item = replace(OWL, candidates=candidates)
    plain = Scoring.paper(image_weight=0.5)
    soft = Scoring.paper(
        gate="soft", contrast=1, standardise="item", texts=Settings().scoring.texts
    )
    sequence = (Candidate("s1.png", caption="a desk"), Candidate("s2.png", caption="a clock late"))
    shown = replace(OWL, sentence="", sequence=sequence, expected_item="bird.png")
    votes = iter(["Idiomatic", "Literal", "Idiomatic", "Idiomatic", "Literal"])
    meaning = explains("").answer
    wavering = ScriptedChat(
        lambda prompt: next(votes) if "or literally" in prompt else meaning(prompt)
    )
    others = WordEncoder()
    others.name, others.identity = "others", "others:1"
    worth = {c.caption or "": w for c, w in zip(OWL.candidates, (0.1, 0.5, 0.9), strict=True)}
    judge = [Judge(worth, sense="literal")]
    several = ("embeddings", "listwise", "pointwise")
    made = {
        "baseline": rank([OWL], Settings(query="sentence"), encoder=words),
        "paper": rank(
            [item], replace(PAPER, scoring=plain), llms=[says("Idiomatic")], encoder=pictures
        ),
        "soft": rank([item], replace(BOTH, scoring=soft), llms=[wavering], encoder=pictures),
        "ensemble": rank([OWL], BOTH, llms=[explains("Literal"), says("Idiomatic")], encoder=words),
        "encoders": rank([OWL], BOTH, llms=[explains("Idiomatic")], encoder=[words, others]),
        "sequence": rank([shown], BOTH, llms=[explains("Idiomatic")], encoder=words),
        "rankers": rank([OWL], Settings(rankers=several, sense="vote"), llms=judge, encoder=words),
        "ranker": rank([JUDGED], Settings(rankers=("listwise",)), llms=[Judge(WORTHS)]),
    }
    for name in ("baseline", "ensemble"):
        write_run(made[name], folder / name)
    members = [folder / "baseline", folder / "ensemble"]
    made["fused"] = fuse(members, weights=[1, 3], method="borda")
    return made


def test_the_parts_of_a_score_sum_to_it_and_say_what_they_are_of(tmp_path):
    made = runs_of_every_kind(tmp_path)
    named = {}
    for kind, run in made.items():
        write_run(run, tmp_path / "written" / kind)
        for one in (run, read_run(tmp_path / "written" / kind)):
            card = only(one)
            assert sums(card) == pytest.approx(run.rankings[0].scores, abs=1e-6), kind
            assert card["runs"][0]["scores"] == pytest.approx(run.rankings[0].scores)
            parts = card["runs"][0]["parts"]
            assert all(any(part["values"]) for part in parts)
            named[kind] = [(part["of"], part["text"]) for part in parts]
            encoders = {part.get("encoder") for part in parts}
            assert encoders == ({"words", "others"} if kind == "encoders" else {None})
    assert named["baseline"] == [("caption", "sentence")]
    assert named["paper"] == [("image", "gloss"), ("caption", "gloss")]
    assert {("caption", "compound"), ("image", "unlike literal")} <= set(named["soft"])
    # One model takes it literally, the other as an idiom.
    assert {("caption", "compound"), ("caption", "unlike compound")} <= set(named["ensemble"])
    assert ("caption", "sequence") in named["sequence"]
    assert named["rankers"] == [("caption", "compound"), ("listwise", None), ("pointwise", None)]
    assert named["fused"] == [("run", "baseline"), ("run", "ensemble")]
    (gloss, *_) = only(made["paper"])["runs"][0]["parts"]
    # The picture has 4 of the 6 words of "A person who is awake late." It counts half.
    assert gloss["values"][1] == pytest.approx(0.5 * 4 / 24**0.5, abs=1e-6)


def test_what_a_ranker_says_stands_with_its_candidate():
    card = only(rank([JUDGED], Settings(rankers=("listwise",)), llms=[Judge(WORTHS)]))
    (judgement,) = card["runs"][0]["judgements"]
    assert (judgement["ranker"], judgement["agreement"], judgement["unread"]) == ("listwise", 1, 0)
    assert card["agreement"] == 1
    assert [one["candidate"] for one in judgement["reasons"]]
    assert all("role" in one["said"] for one in judgement["reasons"])
    card = only(rank([JUDGED], Settings(rankers=("pointwise",)), llms=[Judge(WORTHS)]))
    grades = card["runs"][0]["judgements"][0]["grades"]
    assert sorted(one["candidate"] for one in grades) == [0, 1, 2, 3, 4]
    assert sum(grades[0]["said"].values()) == pytest.approx(1, abs=0.02)


def test_runs_stand_side_by_side_on_the_same_item():
    other = replace(OWL, sentence="A night owl sat on a branch.", language="pt-br")
    turned = replace(OWL, candidates=OWL.candidates[::-1])
    words = WordEncoder()
    first = rank([OWL, OWL, other], BOTH, llms=[explains("Idiomatic")], encoder=words)
    second = rank([turned], BOTH, llms=[explains("Literal")], encoder=words)
    data = gallery([first, second], ["first", "second"])
    assert [one["name"] for one in data["runs"]] == ["first", "second"]
    assert [one["number"] for one in data["items"]] == [1, 2, 3]
    assert [one["runs"][1] is None for one in data["items"]] == [False, True, True]
    both = data["items"][0]
    names = [candidate["name"] for candidate in both["candidates"]]
    assert names == [candidate.name for candidate in OWL.candidates]
    # Both are told in the places of the first run's candidates.
    assert [names[k] for k in both["runs"][1]["order"]] == [*second.rankings[0].order]
    scores = dict(zip(names, both["runs"][1]["scores"], strict=True))
    own = second.rankings[0]
    assert scores == dict(zip([c.name for c in own.item.candidates], own.scores, strict=True))
    assert sums(both, 1) == pytest.approx(both["runs"][1]["scores"])
    assert both["agreement"] == 0  # person, bird, bike against bike, bird, person or the like


def test_runs_are_read_side_by_side_and_no_ranking_is_kept_longer_than_its_card():
    (ranking,) = rank([OWL], Settings(query="sentence"), encoder=WordEncoder()).rankings
    refs = []

    def read(keys: str) -> Iterator[tuple[str, Ranking]]:
        for key in keys:
            own = ranking.model_copy(update={"compound": key})
            refs.append(ref(own))
            yield key, own
            del own
            assert sum(ref() is not None for ref in refs) <= 10, key

    orders = "abcdefghijklmnopqrstuvw", "badc", "cabefghijklmnopqrstuvwz"
    cards = Cards([*map(read, orders)], [{}] * 3)
    items = list(cards.data(["1", "2", "3"], {})["items"])
    assert "".join(item["compound"] for item in items) == orders[0] + "z"
    assert [item["number"] for item in items] == [*range(1, 25)]
    for item in items:
        has = [item["compound"] in keys for keys in orders]
        assert [result is not None for result in item["runs"]] == has


def test_a_reading_has_what_a_dictionary_says_and_its_scene(owls):
    ranked = rank([OWL], BOTH, llms=[explains("Idiomatic")], encoder=WordEncoder())
    (reading,) = only(ranked)["runs"][0]["readings"]
    assert reading["idiomatic"]["scenes"] == ["a lamp at night"]
    assert reading["literal"]["scenes"] == ["an owl in a tree"]
    assert reading["dictionary"] == {
        "idiomatic": [{"gloss": "who stays up late", "source": "wordnet"}],
        "literal": [{"gloss": "an owl of the night", "source": "wordnet"}],
    }


def test_a_sense_that_was_given_is_no_prediction(tmp_path):
    item = replace(OWL, sentence_type="idiomatic")
    words = WordEncoder()
    predicted = rank([item], BOTH, llms=[explains("Idiomatic")], encoder=words)
    given = rank([item], replace(BOTH, sense="given"), llms=[explains("")], encoder=words)
    folders = [tmp_path / "given", tmp_path / "predicted"]
    for run, folder in zip((given, predicted), folders, strict=True):
        write_run(run, folder)
    fused = fuse(folders)
    for run, expected in (
        (predicted, (1.0, 1.0, True)),
        (given, (None,) * 3),
        (fused, (None,) * 3),
    ):
        card = only(run)
        (told,) = card["runs"]
        assert (card["sense"], told["sense"]) == ("idiomatic", "idiomatic")
        sure = (told[key] for key in ("probability_idiomatic", "confidence", "sense_right"))
        assert (*sure,) == expected
        assert ("given" in told) == (run is not predicted)


def test_a_card_says_where_no_meaning_was_found():
    def reply(prompt: str) -> str:
        return "Idiomatic" if "or literally" in prompt else "?"

    settings = Settings(sense="vote", dictionaries=("none",))
    at_a_loss = rank([OWL], settings, llms=[ScriptedChat(reply)], encoder=WordEncoder())
    assert only(at_a_loss)["runs"][0]["no_meaning"] is True
    told = rank([OWL], settings, llms=[explains("Idiomatic")], encoder=WordEncoder())
    assert "no_meaning" not in only(told)["runs"][0]
