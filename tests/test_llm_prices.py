from pathlib import Path

import pytest
from PIL import Image as Pillow
from toys import ScriptedChat

from admire.core.errors import UserError
from admire.llm import Image, Question, Session, Usage, open_llm
from admire.llm.chat import ChatModel, Price
from admire.llm.openai import THINKING_TOKENS, OpenAIChat
from admire.llm.prices import estimate, image_tokens

MILLION = Usage(prompt=1_000_000, cached=400_000, completion=100_000)


def gpt(model: str = "gpt-4o", url: str | None = None) -> ChatModel:
    return Session().bind(OpenAIChat(model, url=url, key="sk-secret-123"))


@pytest.mark.parametrize(
    ("model", "dollars"), [("gpt-4o", 0.6 * 2.5 + 0.4 * 1.25 + 1.0), ("gpt-3.5-turbo", 0.5 + 0.15)]
)
def test_a_known_models_price_is_that_of_the_list(model: str, dollars: float):
    assert gpt(model).price(MILLION) == Price(pytest.approx(dollars))


@pytest.mark.parametrize(
    "llm",
    [
        gpt("gpt-of-tomorrow"),
        gpt(url="http://localhost:8000/v1"),
        gpt(url="http://evil.example/https://api.openai.com"),
        ScriptedChat(str),
    ],
)
def test_an_unknown_price_is_none(llm: ChatModel):
    assert Session().bind(llm).price(MILLION) is None
    with pytest.raises(UserError, match=r"price of .* is unknown"):
        Session(5.0).bind(llm)


def test_what_runs_in_this_process_costs_nothing():
    embedded = open_llm("embedded")
    assert embedded.free
    assert embedded.price(MILLION) == Price(0.0)
    assert Session(5.0).bind(embedded).name == "embedded"  # no price is needed for a budget


@pytest.mark.parametrize(
    ("size", "side", "tokens"),
    [
        ((1024, 1024), 2048, 765),  # OpenAI's own examples: four tiles of 768 x 768,
        ((2048, 4096), 4096, 1105),  # and six of 768 x 1536
        ((1024, 1024), 768, 765),
        ((1024, 1024), 512, 255),
        ((300, 200), 768, 255),  # never scaled up
        ((1000, 10), 768, 425),
    ],
)
def test_an_image_counts_by_tiles_as_it_is_sent(tmp_path: Path, size, side: int, tokens: int):
    path = tmp_path / "a.png"
    Pillow.new("L", size).save(path)
    assert image_tokens(Image(path, side)) == tokens


def test_an_image_costs_a_small_model_more_tokens(tmp_path: Path):
    Pillow.new("L", (768, 768)).save(tmp_path / "a.png")
    picture = Image(tmp_path / "a.png")
    assert image_tokens(picture, "gpt-4o-mini-2024-07-18") == 2833 + 4 * 5667
    question = Question(("Which is it?", picture), max_tokens=50)
    assert estimate(question, gpt()) == Usage(prompt=8 + 3 + 765, completion=50, images=765)
    words = Question("é" * 8, max_tokens=9, schema={"a": 1}, target="an owl.")
    assert estimate(words, gpt()).prompt == 8 + 8  # 16, 8 and 7 bytes


@pytest.mark.parametrize("model", ["o3", "gpt-5", "gpt-6.1-sol"])
def test_what_a_model_may_think_is_expected_too(model: str):
    assert estimate(Question("hi", max_tokens=50), gpt(model)).completion == 50 + THINKING_TOKENS
