from __future__ import annotations

from toys import OWL, WordEncoder, says

from admire import (
    Scoring,
    Settings,
    rank,
)
from admire.senses.sense import Sense


class Counted:
    """A detector that counts how often it is asked."""

    identity = "counted:1"
    columns = ()
    setting = None

    def __init__(self) -> None:
        self.asked: list[int] = []

    def classify(self, uses):
        self.asked.append(len(uses))
        return [Sense("literal", 0.2, 0, 1) for _ in uses]


def test_a_sense_that_no_chat_model_decides_is_decided_once(monkeypatch):
    detector, opened = Counted(), []
    monkeypatch.setattr("admire.run.open_detector", lambda path: opened.append(path) or detector)
    settings = Settings(sense="detector", detector="mine.json", meanings="gloss", scoring=Scoring())
    run = rank([OWL, OWL], settings, llms=[says("Idiomatic")] * 3, encoder=WordEncoder())
    assert detector.asked == [2]
    assert opened == ["mine.json"]
    assert [r.predicted_type for r in run.rankings] == ["literal", "literal"]
    assert len(run.rankings[0].interpretations) == 3
    assert run.record["models"]["detector"] == "counted:1"
