from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from toys import (
    OWL,
    PAPER,
    PictureEncoder,
    ScriptedChat,
    WordEncoder,
    explains,
    says,
)

from admire import Candidate, Item, Scoring, Settings, UserError, rank, read_run, write_run
from admire.apps.cli.output import print_why
from admire.pipeline.ranking import Ranking
from admire.senses import Sense
from admire.senses.interpretation import Interpretation

# Subtask B: the first candidate is nearest to the sequence, the last to the compound.
SHOWN = Item(
    "night owl",
    "",
    candidates=(
        Candidate("desk.png", caption="a woman writes at a desk"),
        Candidate("late.png", caption="a woman at a desk awake late"),
        Candidate("owl.png", caption="an owl at night"),
    ),
    sequence=(
        Candidate("sequence1", caption="a woman at a desk"),
        Candidate("sequence2", caption="the woman writes"),
    ),
)


def test_a_sequence_is_a_query_beside_the_meaning_of_the_sense_that_it_shows():
    for query, best in [("compound", "owl.png"), ("sequence", "desk.png")]:
        run = rank([SHOWN], Settings(query=query), encoder=WordEncoder())
        assert run.rankings[0].order[0] == best
        (prediction,) = run.predictions()
        assert (prediction.expected_item, prediction.sentence_type) == (best, None)

    settings = Settings(sense="vote", scoring=Scoring.paper(standardise="item"))
    chat = explains("Idiomatic", '{"definitions": ["awake late"]}')
    (ranking,) = rank([SHOWN], settings, llms=[chat], encoder=WordEncoder()).rankings
    assert ranking.order[0] == "late.png"
    assert ranking.predicted_type == "idiomatic"
    votes = [prompt for prompt in chat.prompts if "or literally" in prompt]
    assert all('Picture 2: "the woman writes"' in prompt for prompt in votes)
    # Each query is brought to one scale; they count alike.
    columns = np.array([[row["caption_sequence"], row["caption_gloss"]] for row in ranking.parts])
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    assert ranking.scores == pytest.approx(scaled.sum(axis=1))
    # The mean of the cosines with (woman, a, at, a, desk) and (the, woman, writes).
    first, second = 1 / sqrt(7), 1 / sqrt(3)
    shared = 4 * first + first + first + first + second + second  # a twice, woman, at, desk
    assert columns[0, 0] == pytest.approx(shared / (2 * sqrt(8)))


def test_pictures_of_a_sequence_are_compared_with_those_of_the_candidates(tmp_path):
    def picture(name: str, shows: str) -> Candidate:
        (tmp_path / name).write_text(shows)
        return Candidate(name, tmp_path / name)

    item = replace(
        SHOWN,
        sequence=(picture("s1.png", "woman desk"), picture("s2.png", "woman lamp")),
        candidates=(picture("a.png", "owl tree"), picture("b.png", "woman bed lamp")),
    )
    run = rank([item], Settings(query="sequence"), encoder=PictureEncoder())
    assert run.rankings[0].order == ("b.png", "a.png")


def test_pictures_may_be_in_a_folder_that_is_named(tmp_path):
    (tmp_path / "owl.png").write_text("a night owl")
    (tmp_path / "bike.png").write_text("a red bicycle")
    row = {"compound": "night owl", "sentence": "A night owl.", "images": ["bike.png", "owl.png"]}
    run = rank([row], Settings(query="compound"), images=tmp_path, encoder=PictureEncoder())
    assert run.rankings[0].order == ("owl.png", "bike.png")
    with pytest.raises(TypeError, match="unexpected argument 'encodr'"):
        rank([row], images=tmp_path, encodr=PictureEncoder())


@pytest.mark.parametrize(
    ("chat", "sense", "message"),
    [
        (says("Hard to say."), None, "no vote on 'night owl' could be parsed"),
        (says("Idiomatic", gloss=""), "idiomatic", "1 of 1 meanings of says Idiomatic unusable"),
    ],
)
def test_without_a_vote_or_a_gloss_the_compound_ranks(caplog, chat, sense, message):
    settings = replace(PAPER, votes=2)  # of so few nothing follows
    (ranking,) = rank([OWL], settings, llms=[chat], encoder=WordEncoder()).rankings
    assert (ranking.order[0], ranking.predicted_type) == ("bird.png", sense)
    assert message in caplog.text


def test_a_model_that_fails_names_the_item_and_keeps_what_was_answered():
    other = Item("cold feet", "He got cold feet.", candidates=OWL.candidates)
    broken = True

    def answer(prompt: str) -> str:
        if broken and "night owl" in prompt:
            raise UserError("the server died.")
        return "Literal"

    chat = ScriptedChat(answer)
    chat.identity = "scripted, version 1"  # so its replies are cached
    with pytest.raises(UserError, match=r"'night owl': the server died.*same command again"):
        rank([OWL, other], PAPER, llms=[chat], encoder=WordEncoder())
    broken = False
    chat.prompts.clear()
    rank([OWL, other], PAPER, llms=[chat], encoder=WordEncoder())
    assert all("night owl" in prompt for prompt in chat.prompts)
    assert len(chat.prompts) == 5


def test_an_unsure_item_has_the_order_of_either_sense(tmp_path, capsys):
    def ranked(idiomatic: int) -> Ranking:
        votes = iter(["Idiomatic"] * idiomatic + ["Literal"] * (5 - idiomatic))
        gloss = "A person who is awake late."
        chat = ScriptedChat(lambda prompt: next(votes) if "or literally" in prompt else gloss)
        run = rank([OWL], PAPER, llms=[chat], encoder=WordEncoder())
        write_run(run, tmp_path / str(idiomatic))
        return read_run(tmp_path / str(idiomatic)).rankings[0]

    unsure, literal = ranked(3), ranked(0)
    assert unsure.by_sense == {"idiomatic": unsure.order, "literal": literal.order}
    print_why(unsure)
    assert "The sense is unsure; if idiomatic: person.png; if literal: bird.png." in (
        capsys.readouterr().out
    )
    # Sure of it; and a literal use, whose idiomatic meaning no model was asked for.
    assert ranked(4).by_sense == ranked(2).by_sense == {}


def test_the_predicted_type_is_the_models_label_and_of_several_that_differ_the_votes_or_the_mean():
    def ranking(*senses: Sense) -> Ranking:
        readings = tuple(Interpretation("m", sense) for sense in senses)
        return Ranking.of(OWL, np.zeros(3), interpretations=readings)

    def predicted(*senses: Sense) -> str | None:
        return ranking(*senses).predicted_type

    mostly = Sense("idiomatic", 1.0, idiomatic=2)
    assert predicted(mostly) == "idiomatic"
    assert predicted(mostly, Sense("literal", 0.2, idiomatic=1, literal=4)) == "literal"
    # A detector casts no votes: then the mean probability decides.
    detected = Sense("idiomatic", 0.7, by="detector")
    assert predicted(detected, Sense("literal", 0.4, idiomatic=2, literal=3)) == "idiomatic"
    assert predicted(detected, Sense("literal", 0.2, idiomatic=1, literal=4)) == "literal"
    assert predicted() is None
    # The confidence is of the sense that is shown, even if votes and mean disagree.
    split = Sense("idiomatic", 0.8, idiomatic=4, literal=1), Sense("literal", 0.0, literal=2)
    assert predicted(*split) == "idiomatic"
    assert (ranking(*split).probability_idiomatic, ranking(*split).confidence) == (0.4, 0.4)


def votes(*senses: str) -> ScriptedChat:
    """A chat model that votes so, one after the other."""
    left = iter(senses)
    return ScriptedChat(
        lambda prompt: next(left) if "or literally" in prompt else "Awake late.",
        name=" ".join(senses),
    )


@pytest.mark.parametrize(
    ("chats", "below", "unsure"),
    [
        (["IIIIL"], 0.8, False),  # 0.8
        (["IIIIL"], 0.81, True),
        (["??"], 0.6, True),
        (["IIIII", "LLLLL"], 0.6, True),  # both are sure, but of different senses
        (["LLLLI", "LLLLI", "LLLLI"], 0.8, False),
    ],
)
def test_an_item_is_unsure_where_the_mean_probability_is_below_and_ranked_all_the_same(
    chats, below, unsure
):
    words = {"I": "Idiomatic", "L": "Literal", "?": "Hard to say."}
    orders = []
    for settings in (PAPER, replace(PAPER, abstain_below=below)):
        settings = replace(settings, votes=len(chats[0]))
        models = [votes(*(words[letter] for letter in chat)) for chat in chats]
        (ranking,) = rank([OWL], settings, llms=models, encoder=WordEncoder()).rankings
        orders.append((ranking.order, ranking.predicted_type))
    assert ranking.unsure == unsure
    assert ranking.prediction.unsure == unsure
    assert orders[0] == orders[1]


def test_scores_are_the_mean_over_chat_models():
    chats = [says("Idiomatic"), says("Literal"), says("Literal", "A bird.")]
    alone = [rank([OWL], PAPER, llms=[chat], encoder=WordEncoder()).rankings[0] for chat in chats]
    (ranking,) = rank([OWL], PAPER, llms=chats, encoder=WordEncoder()).rankings
    assert ranking.scores == pytest.approx(np.mean([one.scores for one in alone], axis=0))
