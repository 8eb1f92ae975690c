import pytest
from commands import run

import admire
from admire import PROFILES, Scoring, Settings, UserError
from admire.apps.catalogue import find_model


@pytest.mark.parametrize(
    ("make", "option", "says"),
    [
        (
            lambda: Settings(query="compund"),
            ("--query", "compund"),
            "query cannot be 'compund'. Did you mean 'compound'? "
            "Choose from: meaning, compound, sentence, sequence.",
        ),
        (lambda: Settings(abstain_below=0.5), ("--abstain-below", "0.5"), "greater than 0.5"),
        (lambda: Scoring(texts=("gloss", "sceen")), ("--texts", "gloss,sceen"), "'scene'?"),
    ],
)
def test_python_and_the_command_line_say_the_same(capsys, tmp_path, make, option, says):
    with pytest.raises(UserError) as error:
        make()
    assert says in str(error.value)
    code, out, err = run(capsys, "rank", admire.SAMPLES, "--out", tmp_path / "run", *option)
    assert (code, out, err) == (2, "", f"admire: {error.value} ({option[0]})\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("llms", ["openai:gpt-4o", ("embedded", 7)])
def test_chat_models_are_a_tuple_of_names(llms):
    with pytest.raises(UserError, match="llms cannot be"):
        Settings(llms=llms)


@pytest.mark.parametrize("rankers", [(), ("listwise", "listwise"), "listwise"])
def test_rankers_are_a_tuple_of_names_each_once(rankers):
    with pytest.raises(UserError, match="rankers cannot be"):
        Settings(rankers=rankers)


def test_the_front_door_completes_in_a_notebook():
    assert set(admire.__all__) < set(dir(admire))
    assert {"rank", "Settings", "__version__"} <= set(dir(admire))
    assert admire.__version__[0].isdigit()


def test_embedded_is_what_settings_are_where_nothing_is_said():
    assert PROFILES["embedded"] == Settings()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profiles_models_are_among_those_that_are_listed(profile: str):
    settings = PROFILES[profile]
    for name in filter(None, (*settings.encoder, settings.caption_encoder)):
        assert find_model(name).name == name
    for name in settings.llms:
        assert find_model(name).name in ("embedded", "openai:MODEL")


def test_settings_of_another_type_are_refused():
    with pytest.raises(UserError, match=r"cannot be {}: it should be an instance of Settings"):
        admire.rank_one("big owl", "A big owl.", captions=["an owl", "a red bicycle"], settings={})
