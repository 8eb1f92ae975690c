from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import LONGEST, Gate, problem, serving, toy_models

from admire.pages.serve import Limits


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.open()


def test_a_second_request_waits_its_turn_and_is_told_its_place(gate):
    with serving(toy_models(gate)) as served:
        first, second, third = (served.visit().listen() for _ in range(3))
        jobs = [first.start()]
        first.until("place", job=jobs[0], place=0)
        gate.wait()
        jobs += [second.start(), third.start()]
        second.until("place", job=jobs[1], place=1)
        third.until("place", job=jobs[2], place=2)
        assert second.delete(f"/jobs/{jobs[1]}").status_code == 204
        third.until("place", job=jobs[2], place=1)
        gate.open()
        told = first.until("progress", done=5)
        assert told["what"] == "Asking for the sense (model scripted)"
        assert first.until("result")["job"] == jobs[0]
        third.until("place", place=0)
        assert third.until("result")["job"] == jobs[2]
        problem(second.delete(f"/jobs/{jobs[2]}"), 404)  # another's
        problem(second.delete("/jobs/unknown"), 404)


def test_a_stream_that_is_opened_again_goes_on_and_ends_the_one_before():
    with serving() as served:
        page = served.visit()
        job = page.start()  # before anybody listens
        page.listen()
        page.until("result", job=job)
        before = page.heard
        page.listen()
        while before.get(timeout=LONGEST)[0] != "end":
            pass
        page.ranked()


def test_models_are_loaded_when_the_first_page_is_there():
    models = toy_models()
    with serving(models, limits=Limits(patience=10 * LONGEST)) as served:
        page = served.visit()
        assert not models.opened
        page.listen().until("models", state="ready")
        assert models.opened == {"toy": 1, "colours": 1}
    models = toy_models()
    with serving(models, limits=Limits(patience=0.01)) as served:
        while not models.opened:  # nobody comes
            served.client.get("/v1/openapi.json")
