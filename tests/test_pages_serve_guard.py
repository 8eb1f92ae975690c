from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2 as httpx
import pytest
from serving import ASKED, Served, problem, serving, toy_models

from admire.pages.serve import Limits
from admire.pages.serve.guard import Guard, is_loopback


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(limits=Limits(row=0.001)) as found:
        yield found


def test_every_answer_forbids_what_the_page_does_not_need(served):
    for answer in (served.client.get("/"), served.client.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert not answer.cookies
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost:{port}", True),
        ("[::1]:{port}", True),
        ("LOCALHOST:{port}", True),
        ("evil.example:{port}", False),
        ("127.0.0.1", False),
        ("127.0.0.1:1", False),
        ("127.0.0.1.evil.example:{port}", False),
        ("evil.example@127.0.0.1:{port}", False),
        ("127.0.0.1:port", False),
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(served, host, own):
    answer = served.client.get("/", headers={"Host": host.format(port=served.port)})
    if own:
        assert answer.status_code == 200
    else:
        problem(answer, 403)


def test_at_all_addresses_of_a_machine_each_is_its_own_but_no_name():
    guard = Guard(lambda *_: None, "0.0.0.0", 80)  # type: ignore[arg-type, return-value]
    assert guard.is_own("192.168.1.5")
    assert guard.is_own("[fd00::5]:80")
    assert not guard.is_own("my-laptop")
    named = Guard(lambda *_: None, "my-laptop", 8765)  # type: ignore[arg-type, return-value]
    assert named.is_own("My-Laptop:8765")
    assert not named.is_own("192.168.1.5:8765")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_pages_of_other_sites_are_refused(served, headers):
    for path in ("/", "/events", "/v1/openapi.json"):
        assert "other sites" in problem(served.client.get(path, headers=headers), 403)
    assert "other sites" in problem(served.client.post("/v1/rank", headers=headers), 403)


def test_the_own_page_and_links_to_it_are_let_in(served):
    own = {"Origin": f"http://127.0.0.1:{served.port}", "Sec-Fetch-Site": "same-origin"}
    assert served.client.get("/v1/openapi.json", headers=own).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert served.client.get("/", headers=link).status_code == 200


def test_who_is_unknown_is_told_to_load_the_page_again(served):
    page, other = served.visit(), served.visit()
    assert page.visitor != other.visitor
    assert len(page.visitor) == 32
    for path in ("/events", "/pictures/1", "/set.zip", "/runs/1.zip"):
        assert "Load it again" in problem(served.client.get(path), 403)
        problem(served.client.get(f"{path}?visitor={page.visitor[:-1]}"), 403)
    problem(served.client.post("/jobs", json=ASKED), 403)
    problem(served.client.delete("/jobs/1"), 403)


def test_with_a_token_only_who_knows_it_is_let_in(caplog):
    with serving(token="s3cret") as served:
        asked = {"/": 401, "/?token=wrong": 401, "/?token=s3cret": 200, "/?token=%C3%A9": 401}
        for path, status in asked.items():
            assert served.client.get(path).status_code == status
        for path in ("/v1/openapi.json", "/v1/openapi.json?token=s3cret"):
            answer = served.client.get(path)
            assert "Bearer" in problem(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        problem(served.client.post("/v1/rank", json={}), 401)
        bearer = {"Authorization": "Bearer s3cret"}
        assert served.client.get("/v1/openapi.json", headers=bearer).status_code == 200
        assert "s3cret" not in served.client.get("/?token=s3cret").text
    assert "s3cret" not in caplog.text


def test_bodies_are_json_objects_of_a_size(served):
    def send(content: bytes, kind: str = "application/json") -> httpx.Response:
        return served.client.post("/v1/rank", content=content, headers={"Content-Type": kind})

    assert "application/json" in problem(send(b"{}", "text/plain"), 415)
    problem(send(b"{"), 400)
    problem(send(b"\xff"), 400)
    problem(send(b"[" * 900), 400)
    problem(send(b"[]"), 422)
    assert "surrogate" in problem(send(b'{"compound": "\\ud800"}'), 422)
    assert "0.001 MB" in problem(send(b"[" + b"1," * 1000), 413)

    counted = problem(send(b" " * 1000 for _ in range(3)), 413)  # type: ignore[arg-type]
    assert "0.001 MB" in counted


def test_what_is_not_there_is_a_problem_too(served, monkeypatch, caplog):
    problem(served.client.get("/nowhere"), 404)
    problem(served.client.get("/static/app.py"), 404)
    problem(served.client.get("/static/..%2Fapp.py"), 404)
    problem(served.client.delete("/v1/rank"), 405)
    monkeypatch.setattr(served.service.visitors, "enter", lambda: 1 / 0)
    told = problem(served.client.get("/?token=abc"), 500)
    assert "division" not in told
    assert "ZeroDivisionError" in caplog.text
    assert "abc" not in caplog.text


def test_loopback_is_what_no_other_machine_reaches():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org", "")))


def test_the_page_is_filled_with_what_there_is(served):
    page = served.client.get("/").text
    profiles = re.findall(r"<option>(.*)</option>", page)
    assert profiles == ["embedded", "paper", "vision", "vision-local", "best"]
    assert '<option value="de">German (de)</option>' in page
    assert served.client.get("/favicon.ico").status_code == 204
    assert toy_models().profiles[0] == "embedded"
