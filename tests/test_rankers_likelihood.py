from dataclasses import replace

import numpy as np
import pytest
from chats import completion, serve
from judges import Judge, pictured, settings
from toys import OWL, explains

from admire import UserError, rank, read_run, write_run
from admire.llm import ChatModel, Question, Reply, open_llm
from admire.llm.probes import DIGITS, NUMBER

LIKELIHOODS = {
    "person awake late": (-3.0, -1.0, -4.0),
    "late worker": (-2.0, -2.5, -5.0),
    "a lamp at night": (-2.0, -3.0, -4.0),
    "night owl": (-0.5, -3.0, -2.5),
}
"""Of each text, after each of the candidates of OWL."""


class Reader(ChatModel):
    """Tells the likelihoods above, of two tokens that differ by one; and what OWL means."""

    name, identity = "reader", "reader, version 1"
    parallel = 1
    accepts_images = False
    scores_text = True

    def __init__(self, sense: str):
        self.explains = explains(sense)
        self.rated: list[tuple[str, str]] = []

    def ask(self, question: Question) -> Reply:
        if not question.target:
            return self.explains.ask(question)
        (place,) = [k for k, c in enumerate(OWL.candidates) if str(c.caption) in question.text]
        self.rated.append((OWL.candidates[place].name, question.target))
        mean = LIKELIHOODS[question.target][place]
        return Reply(question.target, logprobs=({"a": mean - 0.5}, {"b": mean + 0.5}))


def test_likelihoods_are_compared_as_similarities_are(tmp_path):
    reader = Reader("Idiomatic")
    run = rank([OWL], settings("likelihood", meanings="meant"), llms=[reader])
    rows = np.array(list(LIKELIHOODS.values()))
    differences = rows - rows.mean(axis=1, keepdims=True)
    own = rows.std(axis=1, keepdims=True)
    first, second, scene, compound = differences / np.hypot(own, own.mean() / 4)
    expected = (first + second + scene) / 3 - compound
    (judgement,) = run.rankings[0].judgements
    assert judgement.scores == pytest.approx(expected)
    assert run.rankings[0].order == ("person.png", "bike.png", "bird.png")
    assert judgement.answers[1].likelihoods == pytest.approx(
        {"gloss": -1.0, "gloss2": -2.5, "scene": -3.0, "compound": -3.0}
    )
    write_run(run, tmp_path / "run")
    assert read_run(tmp_path / "run").rankings[0].judgements[0].answers == judgement.answers


def test_of_a_literal_use_the_compound_alone_is_rated():
    reader = Reader("Literal")
    run = rank([OWL], settings("likelihood", meanings="meant"), llms=[reader])
    assert run.rankings[0].order == ("bird.png", "bike.png", "person.png")
    assert reader.rated == [(candidate.name, "night owl") for candidate in OWL.candidates]


def test_a_model_that_sees_is_shown_the_pictures(tmp_path):
    item = replace(pictured(tmp_path, ["a.png", "b.png"]), sentence_type="literal")

    class Seeing(Reader):
        accepts_images = True

        def ask(self, question: Question) -> Reply:
            if question is DIGITS:
                return Reply(NUMBER)
            if not question.target:
                return super().ask(question)
            (image,) = question.images
            assert image.side == 64
            return Reply("x", logprobs=({"x": -1.0 if image.path.name == "b.png" else -2.0},))

    given = settings("likelihood", sense="given", image_side=64)
    assert rank([item], given, llms=[Seeing("")]).rankings[0].order == ("b.png", "a.png")


def test_models_that_tell_no_probability_of_a_text_are_refused_before_any_is_asked():
    judge = Judge({})
    with pytest.raises(UserError, match="judge cannot return the probability of a given text") as e:
        rank([OWL], settings("likelihood"), llms=[judge])
    assert e.value.settings == ("rankers", "llms")
    assert not judge.questions


def test_a_server_that_turns_out_to_tell_none_is_refused_and_its_reply_not_kept(httpserver):
    serve(httpserver, completion("x"))
    item = replace(OWL, sentence_type="literal")
    given, counts = settings("likelihood", sense="given"), []
    for _ in range(2):
        llm = open_llm("openai:tiny", url=httpserver.url_for("/v1"))
        with pytest.raises(UserError, match=r"returns no log-probabilities.*gguf:PATH"):
            rank([item], given, llms=[llm])
        counts.append(len(httpserver.log))
    assert 0 < counts[0] < counts[1]
