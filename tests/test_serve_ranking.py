import io
import json
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from os.path import commonprefix
from pathlib import Path

import pytest
from commands import until
from judges import Judge
from serving import LONGEST, ROW, TOYS, ColourEncoder, drawn, problem, serving, toy_models, uri
from toys import Detector, ScriptedChat, explains

from admire import UserError, read_submission
from admire.apps.serve import Models
from admire.core.cache import CacheError
from admire.core.storage import cache_dir
from admire.data.items import Item
from admire.llm.chat import ServerError
from admire.llm.llama_server import shares_prefix
from admire.prompts import Prompts


def test_readings_that_are_sent_are_ranked_without_a_question():
    llm = explains("idiomatic")
    with serving(toy_models(llm)) as served:
        before = served.rank().json()
        asked = len(llm.prompts)
        as_it_was = served.rank(readings=before["readings"]).json()
        assert as_it_was["candidates"] == before["candidates"]

        literal = {"sense": "literal", "probability_idiomatic": 0, "votes": {}}
        changed = served.rank(readings=[before["readings"][0] | literal]).json()
        sure = ("sense", "probability_idiomatic", "confidence")
        assert [changed[key] for key in sure] == ["literal", 0, 1]
        detected = literal | {"probability_idiomatic": 0.14, "votes": None, "by": "detector"}
        changed = served.rank(readings=[before["readings"][0] | detected]).json()
        for told in (changed, *changed["readings"]):
            assert [told[key] for key in sure] == ["literal", 0.14, 0.86]

        edited = {"definitions": [" bird  with wings ", "", "an owl", "more"]}
        reading = before["readings"][0] | {"idiomatic": edited}
        changed = served.rank(readings=[reading]).json()
        kept = {"definitions": ["bird with wings", "an owl"], "scenes": []}
        assert changed["readings"][0]["idiomatic"] == kept
        assert changed["readings"][0]["literal"] == before["readings"][0]["literal"]
        assert changed["order"] == ["candidate1", "candidate2"] != before["order"]
        assert served.rank(readings=changed["readings"]).json()["readings"] == changed["readings"]
        assert len(llm.prompts) == asked


def test_a_sense_that_was_given_or_not_read_has_no_probability_and_no_confidence():
    none = {"probability_idiomatic": None, "confidence": None}
    with serving(toy_models(ScriptedChat(lambda prompt: "?"))) as served:
        reading = {"llm": "x", "sense": "literal", "probability_idiomatic": 0}
        given = served.rank(readings=[reading | {"by": "given"}], sentence_type="literal").json()
        assert given["sense"] == "literal"
        assert given | none == given
        assert given["readings"][0]["confidence"] is None
        unread = served.rank(readings=[reading | {"sense": None}]).json()
        assert (unread | none, unread["readings"][0] | none) == (unread, unread["readings"][0])


def test_a_language_that_the_detector_was_not_trained_on_is_told(monkeypatch):
    monkeypatch.setattr("admire.senses.open_detector", lambda path: Detector(0.7, "en", "pt-br"))
    german = {"language": None, "sentence": "Seine Schwester ist eine richtige Nachteule."}
    with serving(toy_models(changes=TOYS | {"sense": "detector"})) as served:
        for row, warned in (
            ({}, []),
            ({"language": "xe"}, []),
            ({"language": "pt"}, []),
            ({"language": "de"}, ["not trained on German, only on English and Portuguese:"]),
            (german, ["not trained on German (guessed from the sentence), only on English and"]),
        ):
            answer = served.rank(compound="Nachteule", **{"sentence": "Nachteule."} | row).json()
            assert answer["confidence"] == 0.7
            assert len(answer["warnings"]) == len(warned)
            assert all(map(str.__contains__, answer["warnings"], warned))


def test_readings_are_refused_where_a_chat_model_would_have_to_look_again():
    judge = Judge({"a bird with wings": 0.1, "a person awake late": 0.9})
    with serving(toy_models(judge, TOYS | {"rankers": ("listwise",)})) as served:
        answer = served.rank().json()
        assert answer["order"] == ["candidate2", "candidate1"]
        readings = [{"llm": "x", "sense": "literal", "probability_idiomatic": 0}]
        refused = served.rank(readings=readings)
        assert "ranks by listwise alone" in problem(refused, 422)


def test_every_model_is_opened_once():
    models = toy_models(changes={"llms": ("toy",)})  # with the encoder e5, which sees nothing
    seen = [{"image": uri(drawn(colour=colour))} for colour in ("red", "blue")]
    with serving(models) as served:
        for _ in range(2):
            served.rank()
            answer = served.rank(candidates=seen, compound="bird", sentence="a bird").json()
            assert {part["of"] for part in answer["candidates"][0]["parts"]} == {"image"}
            assert "The encoder sight recognises things and animals" in answer["warnings"][-1]
        assert models.opened == {"toy": 1, "e5": 1, "minilm": 1, "sight": 1}


def test_a_profile_that_cannot_be_opened_is_told_and_the_server_goes_on(caplog):
    with serving(Models("vision")) as served:  # no key is set
        assert "OPENAI_API_KEY" in problem(served.rank(profile="vision"), 503)
        while (state := served.client.get("/models").json())["state"] == "loading":
            pass
        assert state["state"] == "failed"
        assert "OPENAI_API_KEY" in state["message"]
        assert served.client.get("/v1/openapi.json").status_code == 200
    assert "The profile vision cannot be used" in caplog.text


def test_a_profile_is_opened_outside_the_queue_and_what_failed_is_remembered():
    models, asked, goes_on = toy_models(), [], threading.Event()

    def open_encoder(name: str, **place: str) -> ColourEncoder:
        if name not in ("colours", "minilm"):
            asked.append(name)
            assert goes_on.wait(LONGEST)
            raise UserError("The hub cannot be reached.")
        return ColourEncoder()

    models._openers = models._openers[0], open_encoder
    with serving(models) as served, ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.rank, profile="paper")
        until(lambda: asked)
        assert served.rank().status_code == 200
        goes_on.set()
        for answer in (first.result(), served.rank(profile="paper")):
            assert problem(answer, 503) == "The hub cannot be reached."
        assert len(asked) == 1


@pytest.mark.parametrize("sense", ["idiomatic", "literal"])
@pytest.mark.parametrize("hint", [(), ("slow rules",)])
def test_loading_has_a_local_model_read_how_every_prompt_begins(sense, hint):
    llm = explains("idiomatic")
    llm.free = True
    toy_models(llm).steps()["toy"]()
    later = Prompts().about(Item("red tape", "It is all red tape."), sense, hint=hint)
    shared = {commonprefix(two).rpartition("\n")[0] for two in combinations(llm.prompts, 2)}  # noqa: RUF071
    assert any(shares_prefix(lines, later) for lines in shared)


def test_what_is_not_asked_has_no_prompts_to_read():
    Models(changes={"llms": ("dictionary",)}).steps()["dictionary"]()


def test_what_a_request_fails_of_is_told_without_the_servers_paths(caplog):
    failures: list[Exception] = []

    def fail(prompt: str) -> str:
        raise failures[-1]

    with serving(toy_models(ScriptedChat(fail))) as served:
        served.client.get("/healthz")  # the server has started
        for failure, status, said in (
            (UserError(f"{served.service.folder}/x is gone."), 422, ": …/x is gone."),
            (ServerError(f"{cache_dir()}/a b/x: no space.", later=True), 503, ": …/x: no"),
            (UserError(f"{Path.home()}/m/x.js and ../y/z.js."), 422, ": …/x.js and …/z.js."),
            (UserError("file:///s/m n/x, /a/b.js or /c/d."), 422, ": file://…/x, …/b.js or …/d."),
            (CacheError(f"{cache_dir()}/r.sqlite: is full"), 503, ": …/r.sqlite: is full"),
            (UserError("/opt/m/x.gguf: see http://h/v1/x."), 422, ": …/x.gguf: see http://h/v1/x."),
            (ServerError("toy: is not an API."), 502, "'night owl': toy: is not an API."),
            (ServerError("toy: is busy.", later=True), 503, "toy: is busy."),
            (ZeroDivisionError("secret"), 500, "inside admire"),
        ):
            failures.append(failure)
            refused = served.rank()
            assert said in problem(refused, status)
            assert ("retry-after" in refused.headers) == (status == 503 and "sqlite" not in said)
            assert "secret" not in refused.text
    assert "ZeroDivisionError" in caplog.text


def test_a_run_folder_says_nothing_of_where_the_pictures_were(tmp_path: Path):
    seen = [{"image": uri(drawn(colour=colour)), "name": "a.png"} for colour in ("red", "blue")]
    with serving() as served:
        order = served.rank(candidates=seen).json()["order"]
        row, accept = ROW | {"candidates": seen}, {"Accept": "application/zip"}
        saved = served.client.post("/v1/rank", json=row, headers=accept)
        folder = str(served.service.folder)
        assert not list(served.service.folder.iterdir())
    assert saved.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(saved.content)) as archive:
        archive.extractall(tmp_path)
        assert not any(folder in archive.read(name).decode() for name in archive.namelist())
    assert json.loads((tmp_path / "run/run.json").read_text())["source"] is None
    (prediction,) = read_submission(tmp_path / "run/submission_en.tsv")
    assert sorted(prediction.order) == ["a (2).png", "a.png"]
    assert list(prediction.order) == order
