import base64
from pathlib import Path
from urllib.parse import quote

import pytest
from chats import KEY, PASSWORD, TOKEN, refusal
from commands import run
from conftest import admire_row
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer
from toys import OWL, WordEncoder, said

from admire import Settings, UserError, rank, write_run
from admire.llm.address import Address, redact
from admire.llm.openai import OpenAIChat

SHOWN = "http://host:8000/v1"


@pytest.mark.parametrize(
    "url",
    [
        f"  {SHOWN}/\n",
        f"HTTP://user:{PASSWORD}@host:8000/v1",
        f"\thttp://user:{PASSWORD}@host:8000/v1",
        f"http://{PASSWORD}@host:8000/v1",
        f"http://user:{quote(PASSWORD + '/?#@', safe='')}@host:8000/v1?key={TOKEN}",
        f"http://user:@host:8000/v1?a=&key={quote(TOKEN + ' &')}#{TOKEN}",
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str):
    address = Address.parse(url)
    assert address.shown == SHOWN
    assert not {PASSWORD[:4], TOKEN[:4]} & {repr(address)[k : k + 4] for k in range(400)}
    echoed = redact(f"{url} said no", address.secrets)
    assert PASSWORD not in echoed
    assert TOKEN not in echoed


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://user:pa{sign}{PASSWORD}@host/v1" for sign in "/?#@\\ \t"),
        f"http://user:pa://{PASSWORD}@host/v1",
        f"user:{PASSWORD}@host/v1",
        f"//user:{PASSWORD}@host/v1",
        f"https:///user:{PASSWORD}@host",
        f"http:user:{PASSWORD}@host",
        f"ftp://user:{PASSWORD}@host/v1",
        f"http://user:{PASSWORD}@host:port/v1",
        f"http://user:{PASSWORD}@[host/v1",
        f"nonsense?key={PASSWORD}",
        f"http:///v1#{PASSWORD}",
        f"user:{PASSWORD}://x@host",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(url: str):
    with pytest.raises(UserError, match="address") as caught:
        Address.parse(url)
    assert caught.value.settings == ("llm_url",)
    assert PASSWORD not in str(caught.value)
    assert "user" not in str(caught.value).replace("user name", "")


PARTS = st.text("abz09/?#@:% \\[]é", min_size=8, max_size=12)


@given(PARTS, PARTS, st.sampled_from(["http", "HTTPS", "ftp", "h ttp", ""]))
def test_no_text_that_might_be_a_password_is_shown(user: str, password: str, scheme: str):
    try:
        shown = Address.parse(f"{scheme}://{user}:{password}@host/v1").shown
    except UserError as error:
        shown = str(error)
    assert password not in shown
    assert user not in shown


def test_what_a_server_repeats_of_its_request_is_not_told(httpserver: HTTPServer):
    user = "an-unusual-name"
    login = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()

    def repeat(request):
        return refusal(400, f"{request.url} {dict(request.headers)}")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(repeat)
    url = f"http://{user}:{PASSWORD}@127.0.0.1:{httpserver.port}/v1?key={TOKEN}"
    with pytest.raises(UserError) as caught:
        said(OpenAIChat("tiny", url=url, retries=0), "hi")
    assert httpserver.log[0][0].headers["Authorization"] == f"Basic {login}"
    for secret in (user, login, PASSWORD, TOKEN):
        assert secret not in str(caught.value) + str(caught.value.__cause__)


def test_short_secrets_are_removed_where_they_are_words():
    secrets = Address.parse("http://me:x@host/v1?v=1").secrets
    assert redact("me@host, some x, 11 1", secrets) == "***@host, some ***, 11 ***"


ELSEWHERE = "https://gateway.example/v1"


@pytest.mark.parametrize("form", ["config", "like", "recipe", "recipe's set", "training"])
def test_an_address_in_a_file_gets_the_key_only_if_the_user_names_it(
    capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write_table, form: str
):
    data = str(write_table(admire_row()))
    command = ["rank", data, "--dry-run"]
    file = tmp_path / "from_a_stranger.toml"
    setting = f'llm_url = "{ELSEWHERE}"\n'
    if form == "config":
        file.write_text(f'llms = ["openai:tiny"]\n{setting}')
        command += ["--config", str(file)]
    elif form == "like":
        file = tmp_path / "run"
        settings = Settings(llms=("openai:tiny",), llm_url=ELSEWHERE, query="compound")
        write_run(rank([OWL], settings, encoder=WordEncoder()), file)
        command += ["--like", str(file)]
    elif form == "training":
        file.write_text(setting)
        command = ["config", "train", "head", "--config", str(file)]
    else:
        place = "sets.all.settings" if form == "recipe's set" else "settings"
        file.write_text(
            'paper = "P"\ntable = "T"\ntitle = "t"\ncommand = "rank"\nmetrics = ["top1"]\n'
            f'[{place}]\n{setting}[sets.all]\nfiles = ["{Path(data).name}"]\n'
            '[[rows]]\nname = "a"\n'
        )
        command = ["reproduce", str(file), "--data", str(tmp_path), "--dry-run"]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, _, err = run(capsys, *command)
    assert code == 2, err
    assert f"{ELSEWHERE}, and your key" in err
    assert str(file) in err
    assert "--llm-url" in err
    monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE + "/")
    assert "your key" not in run(capsys, *command)[2]
    monkeypatch.delenv("OPENAI_BASE_URL")
    if command[0] == "rank":
        assert "your key" not in run(capsys, *command, "--llm-url", ELSEWHERE)[2]
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "your key" not in run(capsys, *command)[2]
