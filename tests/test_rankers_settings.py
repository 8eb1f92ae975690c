from __future__ import annotations

import pytest
from commands import run

import admire
from admire import PROFILES, Scoring, Settings, UserError
from admire.models.catalogue import find_model


@pytest.mark.parametrize(
    ("make", "option", "says"),
    [
        (
            lambda: Settings(query="compund"),
            ("--query", "compund"),
            "query cannot be 'compund'. Did you mean 'compound'? "
            "There are: meaning, compound, sentence, sequence.",
        ),
        (
            lambda: Settings(abstain_below=0.5),
            ("--abstain-below", "0.5"),
            "abstain_below cannot be 0.5: it should be greater than 0.5.",
        ),
        (
            lambda: Scoring(texts=("gloss", "sceen")),
            ("--texts", "gloss,sceen"),
            "texts cannot be 'sceen'. Did you mean 'scene'? "
            "There are: gloss, gloss2, scene, literal, literal2, literal_scene, compound.",
        ),
    ],
)
def test_python_and_the_command_line_say_the_same(capsys, tmp_path, make, option, says):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value) == says
    code, out, err = run(capsys, "rank", admire.SAMPLES, "--out", tmp_path / "run", *option)
    assert (code, out, err) == (2, "", f"admire: {says} ({option[0]})\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("llms", ["openai:gpt-4o", ("embedded", 7)])
def test_chat_models_are_a_tuple_of_names(llms):
    with pytest.raises(UserError, match="llms cannot be"):
        Settings(llms=llms)


@pytest.mark.parametrize("rankers", [(), ("listwise", "listwise"), ("listwize",), "listwise"])
def test_rankers_are_a_tuple_of_known_names_each_once(rankers):
    with pytest.raises(UserError, match="rankers cannot be"):
        Settings(rankers=rankers)


def test_the_front_door_completes_in_a_notebook():
    assert set(admire.__all__) < set(dir(admire))
    assert {"rank", "Settings", "__version__"} <= set(dir(admire))
    assert admire.__version__[0].isdigit()


def test_embedded_is_what_settings_are_where_nothing_is_said():
    assert PROFILES["embedded"] == Settings()


def test_paper_is_the_papers_stack():
    assert PROFILES["paper"] == Settings(
        llms=("openai:gpt-3.5-turbo", "openai:gpt-4", "openai:gpt-4o"),
        encoder="mclip:XLM-Roberta-Large-Vit-B-32",
        caption_encoder=None,
        query="meaning",
        votes=5,
        meanings="gloss",
        dictionaries=("none",),
        track="image",
        scoring=Scoring(
            image_weight=1.0,
            caption_weight=1.0,
            gate="hard",
            contrast=0.0,
            standardise=False,
            texts=("gloss", "compound"),
        ),
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profiles_models_are_among_those_that_are_listed(profile: str):
    settings = PROFILES[profile]
    for name in (settings.encoder, settings.caption_encoder or settings.encoder):
        assert find_model(name).name == name
    for name in settings.llms:
        assert find_model(name).name in ("embedded", "openai:MODEL")
