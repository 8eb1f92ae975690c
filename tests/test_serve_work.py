import logging
from collections.abc import Iterator
from typing import Any

import pytest
from commands import until
from serving import Gate, problem, serving, toy_models

from admire.apps.serve import Limits


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def test_requests_wait_their_turn_and_are_told_their_place_and_progress(gate):
    with serving(toy_models(gate), limits=Limits(asking=1)) as served:
        first = served.wait()
        first.until(place=0)
        gate.wait()
        second, third = served.wait(), served.wait(sentence="The night owl works.")
        second.until(place=1)
        third.until(place=2)
        second.leave()
        third.until(place=1)
        gate.open()
        assert first.until(done=5)["stage"] == "Asking for the sense (model scripted)"
        first.until(sense="idiomatic")
        third.until(place=0)
        assert third.until(sense="idiomatic")["sentence"] == "The night owl works."


def test_a_small_request_goes_before_large_ones_that_came_before_it(gate):
    large = [{"caption": f"person {k}"} for k in range(20)]
    with serving(toy_models(gate), limits=Limits(asking=1)) as served:
        first = served.wait(candidates=large)
        gate.wait()
        second = served.wait(candidates=large, sentence="A night owl is a bird.")
        second.until(place=1)
        third = served.wait(sentence="The night owl works.")
        third.until(place=1)
        second.until(place=2)
        gate.open()
        for client in (first, third, second):
            client.until(sense="idiomatic")


def test_who_goes_away_is_not_worked_for_and_when_too_many_wait_no_more_can(gate):
    with serving(toy_models(gate), limits=Limits(jobs=1, asking=1)) as served:
        first = served.wait()
        gate.wait()
        gone = served.wait(sentence="A night owl is a bird.")
        refused = served.rank()
        assert "The queue is full (1 jobs)" in problem(refused, 429)
        assert refused.headers["retry-after"]
        gone.leave()
        until(lambda: len(served.service.work.jobs) == 1)
        last = served.wait(sentence="The night owl works.")
        gate.open()
        for client in (first, last):
            client.until(sense="idiomatic")
        assert not any("is a bird" in prompt for prompt in gate.prompts)


def test_a_problem_is_the_last_line():
    with serving() as served:
        waiting = served.wait(candidates=[{"caption": "a"}, {"caption": " "}])
        assert waiting.until(status=422)["detail"].startswith("candidate 2")


def test_requests_that_come_at_the_end_are_refused_and_no_error_is_logged(caplog):
    with serving() as served:
        served.service.work.close()
        assert "shutting down" in problem(served.rank(), 503)
        assert served.client.get("/models").status_code == 200
        served.service.folder.rmdir()
        assert "shutting down" in problem(served.rank(), 503)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_models_load_at_the_start_and_a_request_waits_only_for_what_it_needs(gate):
    gate.free = True
    models = toy_models(gate)
    with serving(models) as served:

        def health() -> dict[str, Any]:
            return served.client.get("/healthz").json()

        gate.wait()  # it is asked while it is loaded, which is the last
        loaded = ["dictionaries", "colours", "detector"]
        told = {"status": "ok", "models": "loading", "loaded": loaded, "loading": ["toy"]}
        assert health() == told
        reading = {"llm": "toy", "sense": "idiomatic", "probability_idiomatic": 1.0}
        assert served.rank(readings=[reading]).status_code == 200
        assert health() == told
        gate.open()
        until(lambda: health()["models"] == "ready")
        assert health()["loaded"] == [*loaded, "toy"]
    assert models.opened == {"toy": 1, "colours": 1}
