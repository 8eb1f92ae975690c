import numpy as np
import pytest
from toys import IDIOMATIC, LITERAL, OWL, WordEncoder, explains

from admire import Settings, rank
from admire.pipeline.ranking import Ranking
from admire.pipeline.score_parts import explain_first, score_parts

MEANING = rank(
    [OWL],
    Settings(sense="vote", dictionaries=("none",)),
    llms=[explains("Idiomatic", IDIOMATIC, LITERAL)],
    encoder=WordEncoder(),
).rankings[0]


def made_of(**parts: list[float]) -> Ranking:
    """The ranking of three candidates by these columns of scores.csv."""
    columns = {f"part_{name}": values for name, values in parts.items()}
    scores = np.sum([*parts.values()], axis=0)
    return Ranking.of(OWL, scores, [({}, columns)], MEANING.interpretations)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"caption_gloss": [2, 1, 0]}, "it is most like the meaning “person awake late”"),
        # a text of each track, and two of one sense, count together
        (
            {
                "image_gloss": [0.4, 0, 0],
                "caption_scene": [0.4, 0, 0],
                "caption_compound": [1, 0.5, 0],
            },
            "it is most like the meaning “person awake late”",
        ),
        (
            {"caption_gloss": [0, 1, 0], "caption_unlike_compound": [2, -2, -1]},
            "it is least like the words “night owl”",
        ),
        (
            {"caption_unlike_literal_scene": [1, 0, 2], "image_compound": [2, 2.5, 0]},
            "it is less like the literal sense “bird with wings” than “person.png”",
        ),
        (
            {"caption_compound": [1, 0, 1.5], "caption_gloss": [0, 0, -2]},
            "it is more like the words “night owl” than “person.png”",
        ),
        ({"caption_gloss": [0.5, 0, 0], "listwise": [1, 0, 0]}, "listwise puts it highest"),
        ({"sentence": [0, 0, 0]}, None),
    ],
)
def test_a_sentence_says_why_the_first_candidate_is_first(parts, reason):
    said = explain_first(made_of(**parts))
    if reason:
        assert said.startswith(f"“bird.png” is first because {reason}")
    else:
        assert said.startswith("“bike.png” and “bird.png” have the same score")


def test_runs_that_recorded_no_parts_have_none():
    ranking = Ranking.of(OWL, np.array([3.0, 2.0, 1.0]), [({"caption_gloss": 0.5}, {})])
    assert score_parts(ranking) == []
    assert explain_first(ranking) == "What the scores are made of was not recorded."
