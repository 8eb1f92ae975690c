"""The account of what was asked; whole runs are in test_run_served.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from admire.llm import ChatModel, Image, Question, Reply, Session, Usage


class Told(ChatModel):
    """A chat model that answers every question with the same reply."""

    name = identity = "told"
    sees, rates, free = True, False, True

    def __init__(self, reply: Reply):
        self.reply = reply

    def ask(self, question: Question) -> Reply:
        return self.reply


@pytest.mark.parametrize(("told", "images"), [(0, None), (255, 255)])
def test_tokens_of_images_are_unknown_where_nobody_tells_them(told: int, images: int | None):
    ledger = Session()
    llm = ledger.bind(Told(Reply("A", Usage(300, 0, 1, told))))
    llm.ask(Question(("Which?", Image(Path("a.png"))), purpose="ranking"))
    (entry,) = ledger.entries()
    record = entry.record()
    assert (record["stage"], record["image_tokens"]) == ("ranking", images)
    assert record["seconds"] is None
    assert record["prompt_tokens"] == 300


def test_one_reply_that_tells_nothing_makes_the_sum_unknown():
    ledger = Session()
    for reply in (Reply("A", Usage(300, 0, 1)), Reply("A")):
        ledger.bind(Told(reply)).ask(Question("Which?"))
    (entry,) = ledger.entries()
    assert entry.record()["prompt_tokens"] is None
    assert entry.record()["price_usd"] == 0  # in this process, so the tokens do not matter
