from __future__ import annotations

import math

import pytest
from commands import run

import admire
from admire import Scoring, Settings, UserError


@pytest.mark.parametrize(
    ("make", "option", "says"),
    [
        (
            lambda: Settings(query="compund"),
            ("--query", "compund"),
            "query cannot be 'compund'. Did you mean 'compound'? "
            "There are: meaning, compound, sentence.",
        ),
        (
            lambda: Scoring(gate="sfot"),
            ("--gate", "sfot"),
            "gate cannot be 'sfot'. Did you mean 'soft'? There are: hard, soft.",
        ),
        (
            lambda: Settings(track="captions"),
            ("--track", "captions"),
            "track cannot be 'captions'. Did you mean 'caption'? "
            "There are: image, caption, image+caption.",
        ),
        (
            lambda: Settings(votes=0),
            ("--votes", "0"),
            "votes cannot be 0: it is a whole number of at least 1.",
        ),
        (
            lambda: Scoring(contrast=math.inf),
            ("--contrast", "inf"),
            "contrast cannot be inf: it is a number of at least 0.",
        ),
    ],
)
def test_python_and_the_command_line_say_the_same(capsys, tmp_path, make, option, says):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value) == says
    code, out, err = run(capsys, "rank", admire.SAMPLES, "--out", tmp_path / "run", *option)
    assert (code, out, err) == (2, "", f"admire: {says} ({option[0]})\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("llms", ["openai:gpt-4o", ("embedded", 7)])
def test_chat_models_are_a_tuple_of_names(llms):
    with pytest.raises(UserError, match="tuple of"):
        Settings(llms=llms)


def test_the_front_door_completes_in_a_notebook():
    assert set(admire.__all__) < set(dir(admire))
    assert {"rank", "Settings", "__version__"} <= set(dir(admire))
    assert admire.__version__[0].isdigit()
