import pytest
from hypothesis import example, given
from repeats import quickly, repeating

from admire.llm.thoughts import without_thoughts

OBJECT = '{"meaning": "a </think> b"}'


@pytest.mark.parametrize(
    "reply",
    [
        "<think>Is it literal?</think>",
        "\n<think>\n\n</think>\n\n",
        '<think time="3">literal</think>',
        "<think>The word </think> may occur. Perhaps literal.</think>",
        "<think>a</think>\n<think>b, literal</think>",
        "literal?\n</think>\n\n",
        '<think>{"sense": "literal"} or {</think>',
        "<thought>literal it is</thought>\n",
        "<thinking>literal</thinking>\n",
        "<reasoning>literal</reasoning>",
        "<seed:think>literal</seed:think>",
        "[THINK]literal[/THINK]",
        "◁think▷literal◁/think▷",
        "<|START_THINKING|>literal<|END_THINKING|>",
        "<|begin_of_thought|>literal<|end_of_thought|>",
        "<|channel>thought\nliteral\n<channel|>",
        "<|channel|>analysis<|message|>literal<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>commentary<|message|><|end|><|start|>assistant<|channel|>final<|message|>",
        "analysisWe need one word. literal would be odd.assistantfinal",
        "Here is my thought process: literal? Here is my response:",
    ],
)
def test_the_answer_is_what_comes_after_the_thoughts(reply: str):
    for answer in ("Idiomatic", f"```json\n{OBJECT}\n```", OBJECT):
        assert without_thoughts(reply + answer) == answer
    assert without_thoughts(f"{reply}<|START_RESPONSE|>Idiomatic<|END_RESPONSE|>") == "Idiomatic"
    assert without_thoughts(f"{reply}<answer>\nIdiomatic</answer>") == "Idiomatic"


@pytest.mark.parametrize(
    "reply",
    [
        "<think>",
        " <think>Perhaps literal",
        "<think>a</think>\n<think>b, literal",
        "<thinking>literal\n\nIdiomatic",
        "[THINK]literal",
        "<|channel|>analysis<|message|>literal<|end|>",
        "<|channel>thought\nliteral",
        "analysisWe need one word: literal",
        "Here is my thought process: literal",
    ],
)
def test_thoughts_that_do_not_end_have_no_answer(reply: str):
    assert without_thoughts(reply) is None


@pytest.mark.parametrize(
    "reply",
    ["", " Idiomatic ", "analysis of a thing", "The assistant final exam", OBJECT, "I think so."],
)
def test_other_replies_stay_as_they_are(reply: str):
    assert without_thoughts(reply) == reply


def test_thoughts_after_an_answer_are_left_out():
    assert without_thoughts("Idiomatic\n<think>hm, literal").strip() == "Idiomatic"


PIECES = ("<think>", "</think>", "{", "}", '"', "analysisA", "assistantfinal", "a ", "<|")


@given(repeating(*PIECES, " \n", "\xa0", "<answer>\t", "<|channel> ", times=9_000))
@example("</think>" + " " * 40_000 + "x")
@example("</think>x" + "<answer> " * 9_000 + "x")
def test_every_reply_is_read_in_linear_time(reply: str):
    with quickly():
        without_thoughts(reply * 3)
