import pytest
from hypothesis import given as every
from hypothesis import settings
from hypothesis import strategies as st
from repeats import quickly, repeating
from toys import Replies, talk

from admire.data.items import Item
from admire.prompts import Prompts
from admire.senses import Sense, read_label, vote

ITEM = Item("night owl", "My sister is a night owl who writes at midnight.")
I, L, NEITHER = "Idiomatic", "Literal", "I cannot say."  # noqa: E741


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([I, I, L, I, L], Sense("idiomatic", 3 / 5, 3, 2, 0)),
        # A tie is literal.
        ([I, L], Sense("literal", 0.5, 1, 1, 0)),
        # What cannot be read takes no side, neither in the majority nor in the probability.
        ([I, NEITHER, NEITHER], Sense("idiomatic", 1.0, 1, 0, 2)),
        ([I, L, L, "", "both idiomatic and literal"], Sense("literal", 1 / 3, 1, 2, 2)),
        ([NEITHER, "", NEITHER], Sense(None, 0.5, 0, 0, 3)),
    ],
)
def test_the_majority_of_the_readable_votes_decides(replies: list[str], expected: Sense):
    voter = Replies(*replies)
    assert talk(vote(ITEM, Prompts(), votes=len(replies), temperature=0.7), voter) == expected


@pytest.mark.parametrize("seed", [0, 100])
def test_each_vote_has_a_seed_of_its_own(seed: int):
    # With one seed every vote would be the same and come from the cache.
    voter = Replies(*[I] * 3)
    talk(vote(ITEM, Prompts(), votes=3, temperature=0.5, seed=seed), voter)
    assert voter.sampled == [(0.5, seed), (0.5, seed + 1), (0.5, seed + 2)]
    assert {ask.text for ask in voter.questions} == {Prompts().about(ITEM, "sense")}


NAMED = {
    "idiomatic": [
        "Idiomatic",
        "Idiomático, não literal",
        "Não é literal, é idiomático.",
        "It is literal?\nNo, a person is meant.\nIdiomatic",
        "Idiomatic\nThe literal reading, a bird, does not fit.",
        "## Reason\nLiterally: a bird. Idiomatically: a person.\n\nAnswer: **Idiomatic**\n",
        "Taken literally, it is a bird.\nThe sentence is about a person.\nIdiomatic",
    ],
    "literal": [
        "Literal",
        "Resposta: Literal.",
        "Não é uma expressão idiomática, é literal.",
        "Let me think about it. Idiomatic or literal?\nThe bird sits in a tree.\nLiteral",
        "As an idiom it would be a person.\nHere it sits in a tree.\nAnswer: literal",
    ],
    # A negated sense alone is no vote: whether the other is meant is not said.
    None: ["", NEITHER, "Idiomatic or Literal", "unidiomatic", "não é usado literalmente"],
}


@pytest.mark.parametrize("label", NAMED)
def test_the_sense_that_a_reply_names(label: str | None):
    assert {*map(read_label, NAMED[label])} == {label}


@pytest.mark.parametrize(
    ("begins", "cut", "most"),
    [("It is", False, 30), ("It is", True, 12), ("Okay, it is", False, 8)],
)
def test_a_line_of_more_words_is_a_thought(begins: str, cut: bool, most: int):
    reply = f"{begins} literal" + " here" * (most - 1 - len(begins.split()))
    assert [read_label(reply + more, cut=cut) for more in ("", " now")] == ["literal", None]


WORDS = [I.lower(), L.lower(), "not", "não é", "figurado", "isn't", ":", "**", "\n", "\u2028", " "]


@settings(max_examples=50)
@every(st.text() | st.lists(st.sampled_from(WORDS)).map("".join) | repeating(*WORDS, times=3_000))
def test_every_reply_can_be_read(reply: str):
    with quickly():
        assert read_label(reply) in ("idiomatic", "literal", None)
        assert read_label(reply, [reply[:2_000]]) in ("idiomatic", "literal", None)
