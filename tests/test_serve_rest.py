import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from serving import (
    LINES,
    LONGEST,
    ColourEncoder,
    drawn,
    problem,
    serving,
    shared_server,
    toy_models,
    uri,
)
from toys import ScriptedChat, explains

from admire import UserError

ROW = {
    "compound": "night owl",
    "sentence": "My sister is a night owl.",
    "candidates": [
        {"image": uri(drawn(colour="blue"))},
        {"image": uri(drawn("JPEG"), "image/jpeg;name=a.jpg"), "caption": "a person awake late"},
        {"caption": "an owl in a tree"},
    ],
}

served = shared_server(row=0.1, megabytes=0.02, megapixels=0.1, pictures=4)
PORTUGUESE = {"sentence": "Depois do casamento veio um balde de água fria."}


@pytest.fixture(scope="module")
def described(served) -> dict[str, Any]:
    return dict(served.client.get("/v1/openapi.json").json())


def check(described: dict[str, Any], schema: str, value: object) -> None:
    """Validate against one of the description's schemas."""
    whole = {"$ref": f"#/components/schemas/{schema}", "components": described["components"]}
    Draft202012Validator.check_schema(whole)
    Draft202012Validator(whole).validate(value)


def test_a_row_is_ranked_as_the_description_says(served, described, owls):
    check(described, "Row", ROW)
    answer = served.client.post("/v1/rank", json=ROW | {"profile": None})
    assert answer.status_code == 200
    told = answer.json()
    check(described, "Ranking", told)
    assert told["order"] == ["candidate2", "candidate1", "candidate3"]
    assert [one["rank"] for one in told["candidates"]] == [2, 1, 3]
    for one in told["candidates"]:
        assert sum(part["value"] for part in one["parts"]) == pytest.approx(one["score"])
    assert {part["of"] for part in told["candidates"][1]["parts"]} == {"image", "caption"}
    (reading,) = told["readings"]
    assert reading["llm"] == "explains idiomatic"
    assert reading["idiomatic"]["scenes"] == ["a lamp at night"]
    assert reading["dictionary"]["idiomatic"][0]["gloss"] == "who stays up late"
    for sure in (told, reading):
        assert "probability" not in sure
        assert (sure["probability_idiomatic"], sure["confidence"]) == (1, 1)
    assert (told["sense"], told["language"]) == ("idiomatic", "en")
    assert not list(served.service.folder.iterdir())
    *_, last = served.client.post("/v1/rank", json=ROW, headers=LINES).iter_lines()
    assert json.loads(last)["order"] == told["order"]
    assert not list(served.service.folder.iterdir())


def test_candidates_keep_their_names_and_a_sentence_without_the_compound_is_told(served, described):
    named = zip(ROW["candidates"], ("pics/a.png", "b.png", None), strict=True)
    row = ROW | {
        "sentence": "She has warm hands.",
        "candidates": [*(one | {"name": name} for one, name in named), "a text is a caption"],
        "expected_order": ["b.png", "candidate3", "a.png", "candidate4"],
    }
    check(described, "Row", row)
    told = served.client.post("/v1/rank", json=row).json()
    names = ["a.png", "b.png", "candidate3", "candidate4"]
    assert [one["name"] for one in told["candidates"]] == sorted(told["order"]) == names
    assert told["warnings"] == ["The compound “night owl” is not in the sentence."]
    assert served.client.post("/v1/rank", json=ROW).json()["warnings"] == []


def test_candidates_that_share_no_view_or_that_nothing_compares_are_told(served):
    row = ROW | {"candidates": [ROW["candidates"][0], ROW["candidates"][2]]}
    told = served.client.post("/v1/rank", json=row).json()
    assert {one["score"] for one in told["candidates"]} == {0}  # its encoder has no words for them
    assert told["warnings"] == ["The candidates have no modality in common: scores are 0."]
    captions = [{"caption": "a bird with wings"}, {"caption": "a person awake late"}]
    told = served.rank(candidates=[{"image": uri(drawn())}, *captions]).json()
    assert told["uncompared"] == told["order"][-1:] == ["candidate1"]
    warning = "Nothing compares candidate1 with the other candidates: they come last."
    assert told["warnings"] == [warning]


def test_a_sequence_stands_in_for_the_sentence(served, described):
    row = {key: ROW[key] for key in ("compound", "candidates")}
    row["sequence"] = [{"caption": "awake late"}, {"image": uri(drawn()), "caption": "a person"}]
    problem(served.client.post("/v1/rank", json=row), 422)  # five pictures in all, of four
    row["candidates"] = ROW["candidates"][1:]
    check(described, "Row", row)
    told = served.client.post("/v1/rank", json=row).json()
    check(described, "Ranking", told)
    assert "sequence" in {part["text"] for part in told["candidates"][0]["parts"]}


@pytest.mark.parametrize(
    ("row", "language"),
    [
        (PORTUGUESE, "pt"),
        (PORTUGUESE | {"language": "gl"}, "gl"),
        ({"sentence": "12 + 12", "language": " "}, "en"),
    ],
)
def test_a_language_that_nobody_says_is_that_of_the_sentence(served, row, language):
    answer = served.client.post("/v1/rank", json=ROW | row).json()
    assert answer["language"] == language
    unsaid = "The language could not be detected, so English is assumed."
    assert (unsaid in answer["warnings"]) == (language == "en")


def test_lines_are_answered_one_by_one_and_what_is_wrong_stops_no_other(described):
    content = described["paths"]["/v1/rank"]["post"]["requestBody"]["content"]
    assert content.keys() == {"application/json", "application/x-ndjson"}
    goes_on, toy = threading.Event(), explains("idiomatic")

    def reply(prompt: str) -> str:
        assert "third" not in prompt or goes_on.wait(LONGEST)
        return toy.answer(prompt)

    third = ROW | {"sentence": "The third night owl."}
    lines = [json.dumps(ROW), "{", "", json.dumps(ROW | {"compound": " "}), json.dumps(third)]
    sent = {"content": "\n".join(lines), "headers": {"Content-Type": "application/x-ndjson"}}
    with (
        serving(toy_models(ScriptedChat(reply))) as served,
        served.client.stream("POST", "/v1/rank", **sent) as answer,
    ):
        assert answer.headers["content-type"] == "application/x-ndjson"
        told = map(json.loads, answer.iter_lines())
        check(described, "Ranking", next(told))
        assert "JSON" in next(told)["detail"]
        assert next(told)["detail"] == "compound: is empty."
        goes_on.set()
        (last,) = told
        assert last["sentence"] == third["sentence"]


def test_a_row_of_a_manifest_is_ranked_as_it_is(served, described):
    row = ROW | {
        "id": 7,
        "subset": "Train",
        "language": "en",
        "sentence_type": "Idiomatic ",
        "definitions": ["a person awake late"],
        "candidates": [{"caption": "a person awake late"}, {"caption": "an owl in a tree"}],
        "expected_order": ["candidate1", "candidate2"],
    }
    assert served.client.post("/v1/rank", json=row).json()["order"] == row["expected_order"]
    known = described["components"]["schemas"]["Row"]["properties"].keys()
    assert row.keys() | {"sequence", "expected_item"} <= known


READING = {"llm": "x", "sense": "literal", "probability_idiomatic": 0}


@pytest.mark.parametrize(
    ("changes", "key", "hint"),
    [
        ({"sentense": "x"}, "'sentense'", "Did you mean 'sentence'?"),
        ({"image1_name": "x"}, "'image1_name'", "Known keys: compound, sentence, "),
        ({"candidates": [{"capton": "a"}]}, "candidates[0]: 'capton'", "Did you mean 'caption'?"),
        ({"readings": [{"bye": "given"}]}, "readings[0]: 'bye'", "Did you mean 'by'?"),
        (
            {"readings": [READING | {"literal": {"definition": ["a"]}}]},
            "readings[0].literal: 'definition'",
            "Did you mean 'definitions'?",
        ),
        (
            {"readings": [READING | {"votes": {"literally": 1}}]},
            "readings[0].votes: 'literally'",
            "Did you mean 'literal'?",
        ),
    ],
)
def test_unknown_keys_are_named_with_the_one_that_may_be_meant(served, changes, key, hint):
    for detail in served.refusals(ROW | changes):
        assert detail.startswith(f"{key} is unknown. {hint}")


def changed(k: int, **thing: object) -> dict[str, Any]:
    return {"candidates": [*ROW["candidates"][:k], thing, *ROW["candidates"][k + 1 :]]}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"sentence": " "}, 422, "sentence: is empty."),
        ({"language": "zz"}, 422, "language: 'zz' is not a language tag"),
        ({"profile": "x"}, 422, "profile: "),
        ({"candidates": ROW["candidates"][:1]}, 422, "candidates: "),
        ({"candidates": ROW["candidates"] * 2}, 422, "more than 4"),
        (changed(0), 422, "candidate 1: has neither"),
        (changed(0, caption=["a"]), 422, "candidates[0].caption: "),
        (changed(1, image="../manifest.jsonl"), 422, "candidates[1].image: is not a data URI"),
        (changed(1, image="data:image/png;base64,??"), 422, "candidates[1].image: is not base64"),
        (changed(1, image=uri(b"text")), 415, "candidates[1].image: is not a picture"),
        ({"expected_order": ["a"]}, 422, "expected_order: names 'a'"),
    ],
)
def test_errors_name_the_key_and_no_path(served, changes, status, said):
    answer = served.client.post("/v1/rank", json=ROW | changes)
    assert said in problem(answer, status)
    assert "manifest" not in answer.text
    assert str(served.service.folder) not in answer.text
    assert not list(served.service.folder.iterdir())


def test_bodies_are_json_objects_of_a_size(served):
    for content, status, said in (
        (b"{", 422, "JSON"),
        (b"[]", 422, "object"),
        (iter([b" "]), 422, "JSON"),
        (b"[" + b"1," * 100_000, 413, "0.1 MB"),
    ):
        assert said in problem(served.send(content), status)


def test_pictures_that_are_damaged_for_the_encoder_are_named_as_in_the_request(monkeypatch):
    def encode_images(_: object, images: Sequence[Path]) -> None:
        raise UserError(f"{images[-1]}: the image cannot be seen.")

    monkeypatch.setattr(ColourEncoder, "batch", 11)
    monkeypatch.setattr(ColourEncoder, "encode_images", encode_images)
    with serving() as served:
        row = ROW | {"candidates": ROW["candidates"][:1] * 11}
        told = problem(served.client.post("/v1/rank", json=row), 422)
        assert told == "candidates[10].image: the image cannot be seen."
