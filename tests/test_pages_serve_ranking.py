from __future__ import annotations

import io
import json
from itertools import combinations

import pytest
from judges import Judge
from PIL import Image
from serving import ASKED, TOYS, ColourEncoder, drawn, problem, serving, toy_models
from toys import ScriptedChat, explains

from admire import UserError
from admire.data.items import Item
from admire.models.llm.local import alike, beginning
from admire.pages.serve import Limits, Models
from admire.prompts import Prompts
from admire.tasks.collections import write_index

CAPTIONS = ASKED["candidates"]


@pytest.fixture
def llm() -> ScriptedChat:
    return explains("idiomatic")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"compound": " "}, "compound: is empty."),
        ({"language": "English!"}, "language: 'English!' is not a language tag."),
        ({"candidates": CAPTIONS[:1]}, "candidates: "),
        ({"candidates": CAPTIONS * 26}, "candidates: "),
        ({"candidates": [*CAPTIONS, {}]}, "candidate 3: "),
        ({"profile": "strongest"}, "profile: is none of embedded, paper,"),
        ({"kind": "sort"}, "'sort'"),
        ({"kind": "search", "text": "a", "span": "a"}, "--index"),
        ({"kind": "search", "text": "a", "span": "a", "top": 0}, "top: "),
        ({"by_hand": {"of": "x", "meanings": {"other": "a"}}}, "by_hand.meanings"),
    ],
)
def test_what_cannot_be_ranked_is_told_by_its_key(page, changes, said):
    told = problem(page.post("/jobs", json=ASKED | changes), 422)
    assert said in told
    assert "/" not in told
    assert "jsonl" not in told


@pytest.fixture(scope="module")
def page():
    with serving() as served:
        yield served.visit()


def test_what_people_say_by_hand_is_ranked_without_a_question(llm):
    with serving(toy_models(llm)) as served:
        page = served.visit().listen()
        first, before = page.ranked()
        asked = len(llm.prompts)

        def by_hand(of: str, **said: object) -> tuple[str, dict]:
            meanings = {"idiomatic": None, "literal": None}
            job, item = page.ranked(by_hand={"of": of, "sense": None, "meanings": meanings} | said)
            return job, item["runs"][0]

        _, as_it_was = by_hand(first)
        assert as_it_was["scores"] == before["runs"][0]["scores"]
        second, literal = by_hand(first, sense="literal")
        assert (literal["sense"], literal["probability"]) == ("literal", 0)

        edited = {"idiomatic": " bird  with wings \n\nan owl\nmore", "literal": ""}
        third, changed = by_hand(second, sense="idiomatic", meanings=edited)
        said = changed["readings"][0]
        given = ["bird with wings", "an owl"]  # a definition a line, and nothing of the model's
        assert said["idiomatic"] == {"definitions": given, "scenes": []}
        assert said["literal"] == before["runs"][0]["readings"][0]["literal"]

        _, kept = by_hand(third)
        assert kept["readings"] == changed["readings"]
        assert len(llm.prompts) == asked

        problem(page.post("/jobs", json=ASKED | {"by_hand": {"of": "unknown"}}), 404)


def test_a_result_is_opened_by_its_address_as_long_as_somebody_has_it(llm):
    with serving(toy_models(llm), limits=Limits(grace=1)) as served:
        page = served.visit().listen()
        ids = [page.add(drawn(colour=colour)).json()["id"] for colour in ("red", "blue")]
        first, _ = page.ranked(candidates=[{"picture": one} for one in ids])
        job, item = page.ranked(by_hand={"of": first, "sense": "literal"})
        other = served.visit().listen()
        answer = other.get(f"/results/{job}").json()
        assert answer["item"]["runs"] == item["runs"]
        assert answer["body"]["by_hand"]["sense"] == "literal"
        page.close()
        while page.visitor in served.service.visitors:
            served.client.get("/healthz")
        pictures = [one["picture"] for one in answer["item"]["candidates"]]
        assert [served.client.get(one).status_code for one in pictures] == [200, 200]
        _, again = other.ranked(by_hand={"of": job, "sense": "idiomatic"})
        assert again["runs"][0]["sense"] == "idiomatic"
        assert other.get(f"/results/{job}").status_code == 200
        assert "Rank again" in problem(other.get(f"/results/{first}"), 404)


def test_by_hand_is_refused_where_a_chat_model_would_have_to_look_again():
    judge = Judge({"a bird with wings": 0.1, "a person awake late": 0.9})
    with serving(toy_models(judge, TOYS | {"rankers": ("listwise",)})) as served:
        page = served.visit().listen()
        job, item = page.ranked()
        assert item["runs"][0]["order"] == [1, 0]
        page.start(by_hand={"of": job, "sense": "literal"})
        refused = page.problem()
        assert refused["status"] == 422
        assert "ranks by listwise alone" in refused["detail"]


def test_every_model_is_opened_once(llm):
    models = toy_models(llm, {"llms": ("toy",)})  # with the encoder e5, which sees nothing
    with serving(models) as served:
        pages = [served.visit().listen() for _ in range(2)]
        for page in pages:
            page.ranked()
            ids = [page.add(drawn(colour=c)).json()["id"] for c in ("red", "blue")]
            seen = [{"picture": one} for one in ids]
            for _ in range(2):
                _, item = page.ranked(candidates=seen, compound="bird", sentence="a bird")
                assert {part["of"] for part in item["runs"][0]["parts"]} == {"image"}
        assert models.opened == {"toy": 1, "e5": 1, "sight": 1}


def test_a_profile_that_cannot_be_opened_is_told_and_the_server_goes_on(caplog):
    with serving(Models("vision")) as served:  # no key is set
        page = served.visit().listen()
        assert "OPENAI_API_KEY" in page.until("models", state="failed")["said"]
        page.start(profile="vision")
        told = page.problem()
        assert told["status"] == 503
        assert "OPENAI_API_KEY" in told["detail"]
        late = served.visit().listen()
        late.until("models", state="failed")
        assert served.client.get("/v1/openapi.json").status_code == 200
    assert "The profile vision cannot be used" in caplog.text


@pytest.mark.parametrize("sense", ["idiomatic", "literal"])
@pytest.mark.parametrize("hint", [(), ("slow rules",)])
def test_loading_has_a_local_model_read_how_every_prompt_begins(llm, sense, hint):
    llm.free = True
    toy_models(llm).load()
    later = Prompts().about(Item("red tape", "It is all red tape."), sense, hint=hint)
    shared = {beginning(two).rpartition("\n")[0] for two in combinations(llm.prompts, 2)}
    assert any(alike(lines, later) for lines in shared)


def test_what_a_job_fails_of_is_told_without_the_servers_paths(llm, caplog):
    failures: list[Exception] = []

    def fail(prompt: str) -> str:
        raise failures[-1]

    with serving(toy_models(ScriptedChat(fail))) as served:
        page = served.visit().listen()
        for failure, status, said in (
            (UserError(f"{served.service.folder}/x is gone."), 422, "…/x is gone."),
            (ZeroDivisionError("secret"), 500, "inside admire"),
        ):
            failures.append(failure)
            page.start()
            told = page.problem()
            assert told["status"] == status
            assert said in told["detail"]
            assert "secret" not in json.dumps(told)
    assert "ZeroDivisionError" in caplog.text


def test_pictures_are_found_and_only_who_searched_gets_them(tmp_path):
    folder = tmp_path / "collection"
    folder.mkdir()
    for name, colour in (("bird.png", "blue"), ("bicycle.png", "red"), ("gone.png", "red")):
        Image.new("RGB", (2000, 10), colour).save(folder / name)
    (folder / "bird.txt").write_text("A bird with wings.")
    write_index(folder, ColourEncoder(), tmp_path / "index")
    (folder / "gone.png").unlink()
    with serving(toy_models(explains("literal"), index=tmp_path / "index")) as served:
        page, other = served.visit().listen(), served.visit().listen()
        asked = {"kind": "search", "text": "A bird with wings.", "span": "bird", "top": 3}
        answer = page.post("/jobs", json=asked)
        told = page.until("result", job=answer.json()["job"])
        assert told["found"]["sense"] == "literal"
        assert told.keys() == {"job", "found"}
        item = told["found"]["item"]
        shown = [item["candidates"][place] for place in item["runs"][0]["order"]]
        assert (shown[0]["name"], shown[0]["caption"]) == ("bird.png", "A bird with wings.")
        address = shown[0]["picture"]
        assert [bool(one["picture"]) for one in shown] == [
            one["name"] != "gone.png" for one in shown
        ]
        copy = served.client.get(address)
        assert copy.headers["content-type"] == "image/webp"
        with Image.open(io.BytesIO(copy.content)) as picture:
            assert picture.size == (shown[0]["width"], shown[0]["height"]) == (1024, 5)
        problem(served.client.get(address.replace(page.visitor, other.visitor)), 404)
