"""Whole stacks by name, and what the options of ``admire rank`` change of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import chat_server, hide, run
from conftest import admire_row
from pytest_httpserver import HTTPServer
from toys import PictureEncoder, WordEncoder

import admire
from admire import PROFILES, Scoring, Settings, UserError, read_submission
from admire.cli import app
from admire.models import find_model

# -------------------------------------------------------------------------------- the stacks


def test_embedded_is_what_settings_are_where_nothing_is_said():
    assert PROFILES["embedded"] == Settings()
    assert PROFILES["embedded"] == Settings(
        llms=("embedded",),
        encoder="e5",
        caption_encoder=None,
        device="auto",
        precision="float32",
        query="meaning",
        sense="auto",
        votes=5,
        track=None,
        scoring=Scoring(gate="soft", contrast=1.0, standardise=True),
    )


def test_paper_is_the_papers_stack():
    assert PROFILES["paper"] == Settings(
        llms=("openai:gpt-3.5-turbo", "openai:gpt-4", "openai:gpt-4o"),
        encoder="mclip:XLM-Roberta-Large-Vit-B-32",
        caption_encoder=None,
        query="meaning",
        votes=5,
        track="image",
        scoring=Scoring(
            image_weight=1.0, caption_weight=1.0, gate="hard", contrast=0.0, standardise=False
        ),
    )


def test_best_reads_captions_with_an_encoder_of_their_own():
    best = PROFILES["best"]
    assert best.caption_encoder
    assert best.caption_encoder != best.encoder
    assert best.track is None
    assert best.scoring.standardise  # of two encoders, a plain sum would be refused


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profiles_models_are_among_those_that_are_listed(profile: str):
    settings = PROFILES[profile]
    for name in (settings.encoder, settings.caption_encoder or settings.encoder):
        assert find_model(name).name == name
    for name in settings.llms:
        assert find_model(name).name in ("embedded", "openai:MODEL")


# ------------------------------------------------------------------------------- the options


@pytest.fixture
def settings_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], write_table
) -> Callable[..., Settings]:
    """The settings that ``admire rank`` ranks with, given some options."""
    data = write_table(admire_row())
    ranked: list[Settings] = []

    def stop(items: list[admire.Item], settings: Settings) -> admire.Run:
        ranked.append(settings)
        raise UserError("That is enough.")

    monkeypatch.setattr("admire.run.rank", stop)

    def settings_of(*options: str) -> Settings:
        assert run(capsys, "rank", data, *options)[2].endswith("admire: That is enough.\n")
        return ranked.pop()

    return settings_of


OPTIONS: dict[str, dict[str, Any]] = {
    "--llm openai:one": {"llms": ("openai:one",)},
    "--llm openai:one --llm gguf:two.gguf": {"llms": ("openai:one", "gguf:two.gguf")},
    "--llm-url http://localhost:8000/v1": {"llm_url": "http://localhost:8000/v1"},
    "--encoder sbert:a/b": {"encoder": "sbert:a/b", "caption_encoder": None},
    "--caption-encoder sbert:a/b": {"caption_encoder": "sbert:a/b"},
    "--encoder openclip:a/b --caption-encoder e5": {
        "encoder": "openclip:a/b",
        "caption_encoder": "e5",
    },
    "--device cpu": {"device": "cpu"},
    "--precision bfloat16": {"precision": "bfloat16"},
    "--query sentence": {"query": "sentence"},
    "--sense given": {"sense": "given"},
    "--votes 3": {"votes": 3},
    "--track caption": {"track": "caption"},
    "--track image+caption": {"track": "image+caption"},
    "--gate soft": {"scoring": {"gate": "soft"}},
    "--gate hard": {"scoring": {"gate": "hard"}},
    "--contrast 0.25": {"scoring": {"contrast": 0.25}},
    "--contrast 0": {"scoring": {"contrast": 0.0}},
    "--standardise": {"scoring": {"standardise": True}},
    "--no-standardise": {"scoring": {"standardise": False}},
    "--image-weight 2": {"scoring": {"image_weight": 2.0}},
    "--image-weight 0": {"scoring": {"image_weight": 0.0}},
    "--caption-weight 0.5": {"scoring": {"caption_weight": 0.5}},
    "--caption-weight 0": {"scoring": {"caption_weight": 0.0}},
    "--head my/head": {"head": "my/head"},
    "--prompts my/prompts": {"prompts": "my/prompts"},
    "--detector mine.json": {"detector": "mine.json"},
    "--seed 7": {"seed": 7},
    "--gate hard --contrast 0 --no-standardise --image-weight 2 --votes 1 --track image": {
        "votes": 1,
        "track": "image",
        "scoring": {"gate": "hard", "contrast": 0.0, "standardise": False, "image_weight": 2.0},
    },
}


def changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    scoring = replace(settings.scoring, **changes.get("scoring", {}))
    return replace(settings, **(changes | {"scoring": scoring}))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("options", OPTIONS)
def test_an_option_changes_of_the_profile_what_it_says_and_no_more(
    settings_of, profile: str, options: str
):
    found = settings_of("--profile", profile, *shlex.split(options))
    assert found == changed(PROFILES[profile], OPTIONS[options])


def test_every_option_of_rank_is_among_those_tried():
    parameters = typer.main.get_command(app).commands["rank"].params
    known = {name for p in parameters for name in (*p.opts, *p.secondary_opts) if name[:2] == "--"}
    tried = {word for options in OPTIONS for word in options.split() if word[:2] == "--"}
    assert known - tried == {"--out", "--profile", "--lang"}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_alone_is_taken_as_it_is(settings_of, profile: str):
    assert settings_of("--profile", profile) == PROFILES[profile]


def test_without_a_profile_the_settings_are_the_librarys_own(settings_of):
    assert settings_of() == Settings()
    assert settings_of("--lang", "pt") == Settings()  # the items' alone
    assert settings_of("--votes", "3") == Settings(votes=3)


@pytest.mark.parametrize(
    "options",
    [
        "--profile papers",
        "--profile ''",
        "--device gpu",
        "--precision int8",
        "--track images",
        "--gate firm",
        "--votes 0",
        "--sense guess",
        "--query gloss",
    ],
)
def test_a_word_that_an_option_does_not_know_is_refused(capsys, tmp_path, write_table, options):
    out = tmp_path / "run"
    arguments = ("rank", write_table(admire_row()), "--out", out, *shlex.split(options))
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert options.split()[0] in err
    assert "Traceback" not in err
    assert not out.exists()


def test_a_profile_that_is_none_is_told_those_that_are(capsys, write_table):
    code, _, err = run(capsys, "rank", write_table(admire_row()), "--profile", "papers")
    assert code == 2
    for name in ("papers", *PROFILES):
        assert name in err


# ------------------------------------------------------------------------------- whole runs


class Captions(WordEncoder):
    """As WordEncoder, of half the width."""

    name = "captions"
    identity = "captions:1"

    def encode_texts(self, texts, *, role):
        vectors = super().encode_texts(texts, role=role)
        return vectors[:, :256] + vectors[:, 256:]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Toys in place of all encoders: name, device and precision of those that were opened."""
    opened: list[tuple[str, str, str]] = []

    def open_encoder(name: str, *, device: str, precision: str) -> WordEncoder:
        opened.append((name, device, precision))
        if name.startswith("sbert:"):
            return Captions()
        return WordEncoder() if name == "e5" else PictureEncoder()

    monkeypatch.setattr("admire.run.open_encoder", open_encoder)
    return opened


@pytest.fixture
def pictured(tmp_path: Path, write_table) -> Path:
    """An idiomatic item and a literal one; the pictures show the reverse of what the captions say
    and would rank as e, d, c, b, a for the gloss."""
    captions = ["person awake late", "person awake", "person tree house", "tall tree", "night owl"]
    for name, caption in zip("abcde", reversed(captions), strict=True):
        (tmp_path / f"{name}.png").write_text(caption)
    said = {f"image{k}_caption": text for k, text in enumerate(captions, start=1)}
    return write_table(
        admire_row("night owl", **said),
        admire_row("night owl", **said, sentence="A night owl hooted.", sentence_type="literal"),
    )


def answer(prompt: str) -> str:
    if "literally" not in prompt:
        return "person awake late"
    return "Literal" if "hooted" in prompt else "Idiomatic"


def asked(server: HTTPServer) -> list[dict[str, Any]]:
    return [request.get_json() for request, _ in server.log]


@pytest.mark.parametrize("by_environment", [True, False])
def test_the_papers_profile_asks_its_three_models_and_looks_at_the_images(
    capsys, monkeypatch, tmp_path, httpserver, opened, pictured, by_environment
):
    chat_server(httpserver, answer)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    url = httpserver.url_for("/v1")
    if by_environment:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
    options = [] if by_environment else ["--llm-url", url]
    arguments = ("rank", pictured, "--out", tmp_path / "run", "--profile", "paper", *options)
    code, out, err = run(capsys, *arguments)
    assert code == 0, err

    # For each model T = 5 votes on each item, by their seeds, and a gloss of the idiomatic one.
    requests = asked(httpserver)
    models = ("gpt-3.5-turbo", "gpt-4", "gpt-4o")
    assert {request["model"] for request in requests} == set(models)
    for model in models:
        own = [request for request in requests if request["model"] == model]
        votes = [(r["seed"], "hooted" in prompt(r)) for r in own if "literally" in prompt(r)]
        assert sorted(votes) == [(seed, item) for seed in range(5) for item in (False, True)]
        glosses = [prompt(request) for request in own if "literally" not in prompt(request)]
        assert len(glosses) == 1
        assert "My sister is a night owl" in glosses[0]
    sent = {request.headers["Authorization"] for request, _ in httpserver.log}
    assert sent == {"Bearer sk-of-the-test"}

    assert opened == [("mclip:XLM-Roberta-Large-Vit-B-32", "auto", "float32")]
    idiomatic, literal = read_submission(tmp_path / "run" / "submission_en.tsv")
    assert idiomatic.order == ("e.png", "d.png", "c.png", "a.png", "b.png")
    assert (idiomatic.sentence_type, literal.sentence_type) == ("idiomatic", "literal")
    assert literal.order[0] == "a.png"
    assert "idiomatic (5:0)" in out
    assert "captions alone" not in err

    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [one["name"] for one in record["models"]["llms"]] == [f"openai:{m}" for m in models]
    assert {one["sense"] for one in record["models"]["llms"]} == {"vote"}
    assert record["models"]["encoders"] == {"image": {"name": "pictures", "identity": "pictures:1"}}
    kept = record["settings"]
    assert kept["encoder"] == "mclip:XLM-Roberta-Large-Vit-B-32"
    assert (kept["device"], kept["precision"], kept["caption_encoder"]) == ("auto", "float32", None)
    assert (kept["track"], kept["votes"]) == ("image", 5)


def prompt(request: dict[str, Any]) -> str:
    return request["messages"][0]["content"]


def test_the_papers_profile_with_an_encoder_that_is_blind_is_refused(
    capsys, monkeypatch, tmp_path, opened, pictured
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    out = tmp_path / "run"
    arguments = ("rank", pictured, "--out", out, "--profile", "paper", "--encoder", "e5")
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert "'words' reads no images. Use --track caption" in err
    assert not out.exists()


def test_the_best_profile_reads_images_and_captions_apart(
    capsys, tmp_path, httpserver, opened, pictured
):
    chat_server(httpserver, answer)
    best = PROFILES["best"]
    out = tmp_path / "run"
    arguments = ["rank", pictured, "--out", out, "--profile", "best", "--precision", "bfloat16"]
    code, _, err = run(capsys, *arguments, "--llm-url", httpserver.url_for("/v1"))
    assert code == 0, err
    assert {f"openai:{request['model']}" for request in asked(httpserver)} == set(best.llms)
    assert sorted(opened) == sorted(
        [(best.encoder, "auto", "bfloat16"), (best.caption_encoder, "auto", "bfloat16")]
    )
    record = json.loads((out / "run.json").read_text())
    assert record["models"]["encoders"] == {
        "image": {"name": "pictures", "identity": "pictures:1"},
        "caption": {"name": "captions", "identity": "captions:1"},
    }
    assert record["settings"]["caption_encoder"] == best.caption_encoder
    assert record["settings"]["precision"] == "bfloat16"
    assert record["settings"]["track"] == "image+caption"


def test_the_best_profile_with_another_encoder_reads_captions_with_it_too(
    capsys, tmp_path, httpserver, opened, pictured
):
    chat_server(httpserver, answer)
    arguments = ["rank", pictured, "--out", tmp_path / "run", "--profile", "best"]
    arguments += ["--llm-url", httpserver.url_for("/v1"), "--encoder", "openclip:a/b"]
    code, _, err = run(capsys, *arguments)
    assert code == 0, err
    assert [name for name, _, _ in opened] == ["openclip:a/b"]


def test_plain_sums_of_two_encoders_are_refused_with_one_message(
    capsys, tmp_path, httpserver, opened, pictured
):
    prompts = chat_server(httpserver, answer)
    out = tmp_path / "run"
    arguments = ["rank", pictured, "--out", out, "--profile", "best", "--no-standardise"]
    arguments += ["--llm-url", httpserver.url_for("/v1")]
    code, stdout, err = run(capsys, *arguments)
    assert (code, stdout) == (2, "")
    assert err.startswith("admire: Images and captions have encoders of their own")
    assert "Drop --no-standardise, or use one encoder." in err
    assert err.count("\n") == 1
    assert prompts == []  # nothing was paid for
    assert not out.exists()

    code, _, err = run(capsys, *arguments, "--encoder", "openclip:a/b")
    assert code == 0, err
    code, _, err = run(capsys, *arguments, "--track", "image")
    assert code == 0, err


def test_the_embedded_profiles_encoder_needs_no_torch(
    capsys, monkeypatch, tmp_path, httpserver, pictured
):
    chat_server(httpserver, answer)
    hide(monkeypatch, "torch", "open_clip", "transformers", "sentence_transformers", "PIL")
    arguments = ["rank", pictured, "--out", tmp_path / "run", "--llm", "openai:toy"]
    code, _, err = run(capsys, *arguments, "--llm-url", httpserver.url_for("/v1"))
    assert code == 0, err
    assert "'e5' reads no images: captions alone decide" in err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["models"]["encoders"].keys() == {"caption"}
