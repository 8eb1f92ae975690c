import pytest
from serving import problem, serving, shared_server

from admire.apps.serve.guard import is_loopback

served = shared_server()


def test_every_answer_forbids_what_the_page_does_not_need(served):
    for path in ("/", "/nowhere"):
        headers = served.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers.keys().isdisjoint({"server", "set-cookie"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "LOCALHOST:{port}"}, 200),
        ({"Host": "[::1]:{port}"}, 200),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Host": "[evil"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
    ],
)
def test_other_names_and_other_sites_are_refused(served, headers, status):
    sent = {name: value.format(port=served.port) for name, value in headers.items()}
    assert served.client.get("/v1/openapi.json", headers=sent).status_code == status


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
        assert served.client.get("/healthz").json()["status"] == "ok"  # anybody may ask
        known = ("Bearer s3cret", "bearer  s3cret")
        for credentials in (*known, "s3cret", "Basic s3cret", "Bearers3cret"):
            sent = {"Authorization": credentials}
            status = served.client.get("/v1/openapi.json", headers=sent).status_code
            assert status == (200 if credentials in known else 401)
        assert "s3cret" not in served.client.get("/?token=s3cret").text
    assert "s3cret" not in caplog.text


def test_other_errors_are_problems_too(served, monkeypatch, caplog):
    for path in ("/nowhere", "/static/app.py", "/static/..%2Fapp.py"):
        problem(served.client.get(path), 404)
    problem(served.client.delete("/v1/rank"), 405)
    monkeypatch.setattr("admire.apps.serve.app.template", lambda name: 1 / 0)
    assert "division" not in problem(served.client.get("/?token=abc"), 500)
    assert "ZeroDivisionError" in caplog.text
    assert "abc" not in caplog.text


def test_people_read_of_problems_on_a_page():
    browser = {"Accept": "text/html,*/*;q=0.8"}
    with serving(token="s3cret") as served:
        for path, status, said in (("/favicon.ico/no", 404, "nothing"), ("/", 401, "?token=")):
            answer = served.client.get(path, headers=browser)
            assert answer.status_code == status
            assert answer.headers["content-type"].startswith("text/html")
            assert said in answer.text


def test_loopback_addresses_cannot_be_reached_from_other_machines():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org", "")))
