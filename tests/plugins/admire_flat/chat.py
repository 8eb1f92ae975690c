"""A chat model that says the same of every compound."""

import json

from admire.core.registry import register
from admire.llm import ChatModel, Question, Reply


@register("chat", "parrot", takes="MEANING", licence="none")
class Parrot(ChatModel):
    """Calls every use idiomatic, and gives every compound the same meaning."""

    free = True

    def __init__(self, meaning: str):
        self.meaning = meaning

    def ask(self, question: Question) -> Reply:
        if question.purpose == "senses":
            return Reply("Idiomatic")
        if question.purpose == "ranking":
            return Reply("yes" if f"“{self.meaning}" in question.text else "no")
        return Reply(json.dumps({"definitions": [self.meaning]}))
