"""The page of ``admire serve``, used as people use it."""

from __future__ import annotations

import base64
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import PHONE, barriers, decoded, overflow
from commands import until
from serving import Served, drawn, serving
from toys import ScriptedChat, WordEncoder, opener

from admire import SAMPLES, Settings, rank, read_items
from admire.apps.serve import Limits, Models
from admire.pipeline.run_folder import read_run

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra 'test')")
pytestmark = pytest.mark.ci
expect = playwright.expect

if TYPE_CHECKING:
    from browser import Look
    from playwright.sync_api import FilePayload, Locator, Page

LATE, BIRD = read_items(SAMPLES)[:2]
"""Night owl as an idiom and literally, with the same five pictures."""
IDIOM = "a young woman smiles at her laptop"
PICTURES = 12
THING = "a brown owl with yellow eyes on a branch"


class Owlish(ScriptedChat):
    """A chat model that knows night owls, and can be held in the middle of its work."""

    def __init__(self) -> None:
        super().__init__(self.reply, name="owlish")
        self.is_free = threading.Event()
        self.is_free.set()

    def reply(self, prompt: str) -> str:
        assert self.is_free.wait(timeout=30)
        if "or literally" in prompt:
            return "Literal" if BIRD.sentence in prompt else "Idiomatic"
        if prompt.endswith("Meaning:"):
            return IDIOM
        meaning = IDIOM if "idiom of the sentence" in prompt else THING
        return f'{{"definitions": ["{meaning}"], "scene": ""}}'


@pytest.fixture(scope="module")
def chat() -> Owlish:
    return Owlish()


@pytest.fixture(scope="module")
def site(chat: Owlish) -> Iterator[Served]:
    openers = {"open_llms": lambda *_, **__: [chat], "open_encoder": opener(WordEncoder())}
    models = Models(changes={"sense": "vote"}, **openers)
    with serving(models, limits=Limits(pictures=PICTURES, asking=1)) as site:
        yield site


@pytest.fixture
def page(site: Served, look: Look) -> Page:
    return look(site.address)


def pictures() -> list[Path]:
    return [candidate.image for candidate in LATE.candidates if candidate.image]


def uploads(contents: dict[str, bytes]) -> list[FilePayload]:
    return [{"name": n, "mimeType": "image/png", "buffer": b} for n, b in contents.items()]


def choose(page: Page) -> None:
    page.locator("#files").set_input_files(pictures())


def drop(page: Page) -> None:
    files = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in pictures()]
    dragged = page.evaluate_handle(
        """files => {
          const dragged = new DataTransfer();
          for (const [name, content] of files) {
            const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
            dragged.items.add(new File([bytes], name, {type: "image/png"}));
          }
          return dragged;
        }""",
        files,
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": dragged})


def fill(page: Page, give: Callable[[Page], None] = choose) -> None:
    """Fill the form in with the sample pictures of night owl and their captions."""
    give(page)
    for field, candidate in zip(page.locator(".tile-caption").all(), LATE.candidates, strict=True):
        field.fill(candidate.caption or "")
    page.locator("#sentence").fill(LATE.sentence)
    page.locator("#compound").fill("night owl")
    expect(page.locator("#rank")).to_have_attribute("aria-disabled", "false")


def first_place(page: Page) -> Locator:
    """The candidate that the result has first."""
    return page.locator("#result .candidate").first


def rank_form(page: Page) -> None:
    page.locator("#rank").click()
    expect(page.locator("#result .predicted")).to_have_text("predicted: idiomatic")


def rank_literally(page: Page) -> None:
    page.locator("#by-hand-literal").check()
    page.locator("#again").click()
    expect(page.locator("#result .predicted")).to_have_text("given: literal")


def test_from_an_empty_form_to_a_saved_set_that_rank_reads(page, chat, tmp_path, owls):
    expect(page.locator("#models")).to_have_attribute("data-state", "ready", timeout=60_000)
    expect(page.locator("#rank")).to_have_attribute("aria-disabled", "true")
    fill(page, drop)

    chat.is_free.clear()
    page.locator("#rank").click()
    expect(page.locator("#status")).to_contain_text("0 of ")
    expect(page.locator("#progress")).to_be_visible()
    chat.is_free.set()
    expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
    expect(page.locator("#waiting")).to_be_hidden()
    expect(first_place(page)).to_have_attribute("data-place", "0")
    assert decoded(page.locator("#result img")) == 5
    expect(page.locator("#meaning-idiomatic")).to_have_value(IDIOM)
    expect(page.locator("#result .meanings")).to_contain_text("who stays up late (wordnet)")

    asked = len(chat.prompts)
    rank_literally(page)
    expect(first_place(page)).to_have_attribute("data-place", "4")
    page.locator("#by-hand-idiomatic").check()
    page.locator("#meaning-idiomatic").fill("a red bicycle on the pavement\na brick wall")
    page.locator("#again").click()
    expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
    expect(first_place(page)).to_have_attribute("data-place", "2")
    expect(page.locator("#result .meanings")).to_contain_text("a brick wall")
    assert len(chat.prompts) == asked

    page.locator("#sentence").fill(BIRD.sentence)
    page.locator("#rank").click()
    expect(page.locator("#result .sentence")).to_contain_text("barn roof")
    expect(page.locator("#earlier .earlier")).to_have_count(3)
    unpack(page, "#save-set", tmp_path / "set")
    lines = (tmp_path / "set" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    by_hand, as_ranked = map(json.loads, lines)
    assert by_hand["sentence_type"] == "idiomatic"
    assert by_hand["definitions"] == ["a red bicycle on the pavement", "a brick wall"]
    assert as_ranked.keys().isdisjoint({"sentence_type", "definitions"})
    saved = read_items(tmp_path / "set")
    assert [item.sentence for item in saved] == [LATE.sentence, BIRD.sentence]
    for item in saved:
        images = [one.image.read_bytes() for one in item.candidates if one.image]
        assert images == [path.read_bytes() for path in pictures()]
        assert [one.caption for one in item.candidates] == [one.caption for one in LATE.candidates]
    settings = Settings(sense="vote")
    run = rank(saved, settings, llms=[chat], encoder=WordEncoder(), source=tmp_path / "set")
    assert [ranking.predicted_type for ranking in run.rankings] == ["idiomatic", "literal"]

    unpack(page, "#save-run", tmp_path / "run")
    (ranking,) = read_run(next((tmp_path / "run").rglob("run.json")).parent).rankings
    assert (ranking.item.sentence, ranking.predicted_type) == (BIRD.sentence, "literal")


def unpack(page: Page, link: str, folder: Path) -> None:
    """Download what a link leads to, and unpack it."""
    with page.expect_download() as download:
        page.locator(link).click()
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(folder)


def test_what_is_no_fit_picture_is_refused_and_names_are_no_paths(site, page, tmp_path):
    files, tiles = page.locator("#files"), page.locator("#candidates > .tile[data-state=ready]")
    bombs = {"notes.png": b"not a picture at all", "black.png": drawn(size=(8000, 8000))}
    files.set_input_files(uploads(bombs))
    refused = page.locator("#refused")
    for name in bombs:
        expect(refused).to_contain_text(name)
    expect(page.locator("#candidates > .tile")).to_have_count(0)

    good = pictures()[0].read_bytes()
    hostile = "<img src=x onerror=hurt=1>.png"
    files.set_input_files(uploads({"../../../evil.png": good, hostile: good}))
    expect(tiles).to_have_count(2)
    expect(page.locator(".tile-name").last).to_have_text(hostile)
    assert page.evaluate("typeof hurt") == "undefined"
    for field in page.locator(".tile-caption").all():
        field.fill("An owl.")
    page.locator("#sentence").fill(LATE.sentence)
    page.locator("#compound").fill("night owl")
    rank_form(page)
    unpack(page, "#save-set", tmp_path)
    names = [candidate.name for candidate in read_items(tmp_path)[0].candidates]
    assert names == ["pictures/evil.png", "pictures/img_src_x_onerror_hurt_1_.png"]

    files.set_input_files(uploads({f"{k}.png": good for k in range(20)}))
    expect(refused).to_contain_text("19.png")
    expect(tiles).to_have_count(PICTURES)


def test_a_second_tab_waits_its_turn_and_a_closed_one_stops_its_work(site, chat, look):
    first, second = look(site.address), look(site.address)
    fill(first)
    fill(second)
    chat.is_free.clear()
    chat.prompts.clear()
    first.locator("#rank").click()
    until(lambda: chat.prompts)
    second.locator("#rank").click()
    expect(second.locator("#status")).to_contain_text("Next in the queue")
    first.close()
    until(lambda: len(site.service.work.jobs) == 1)
    chat.is_free.set()
    expect(second.locator("#result .predicted")).to_contain_text("idiomatic")


@pytest.mark.parametrize("window", [{}, {"color_scheme": "dark"}, PHONE])
def test_nothing_keeps_people_out(site: Served, look: Look, window: dict[str, Any]):
    page = look(site.address, **window)
    expect(page.locator(".example").last).to_be_visible()
    assert barriers(page) == []
    assert overflow(page) <= 0
    page.locator("#files").set_input_files(uploads({"notes.png": b"no picture"}))
    expect(page.locator("#refused")).to_be_visible()
    fill(page)
    rank_form(page)
    assert overflow(page) <= 0
    page.locator("#again").click()
    expect(page.locator("#earlier .earlier")).to_have_count(1)
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert barriers(page) == []
    page.locator("#result button.picture").first.click()
    expect(page.locator("dialog#picture")).to_be_visible()
    assert barriers(page) == []


def test_an_example_is_filled_in_and_ranked_by_one_click_or_key(page: Page):
    examples, shown = page.locator(".example"), page.locator("#result .sentence")
    assert decoded(examples.locator("img")) == 15
    for _ in range(2):  # to the first one, after the summary
        page.keyboard.press("Tab")
    expect(examples.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(shown).to_have_text(LATE.sentence)
    expect(page.locator("#result .predicted")).to_have_text("predicted: idiomatic")
    expect(page.locator("#result .probability")).to_have_text("confidence 1.00")
    assert decoded(page.locator("#result img")) == 5
    assert "gold" not in page.locator("main").inner_text().lower()  # nobody gave any
    expect(page.locator("#examples")).not_to_have_attribute("open")
    expect(page.locator("#rank")).to_be_focused()

    page.locator("#examples > summary").click()
    examples.nth(1).click()  # in place of another example, without a question
    expect(shown).to_have_text(BIRD.sentence)
    expect(page.locator("#result .predicted")).to_have_text("predicted: literal")
    page.locator("#examples > summary").click()
    examples.nth(2).click()
    expect(page.locator("#language option:checked")).to_have_text("Portuguese (guessed)")
    expect(page.locator("#earlier .earlier")).to_have_count(2)

    page.locator("#sentence").fill("A sentence of my own.")
    page.locator("#examples > summary").click()
    page.once("dialog", lambda dialog: dialog.dismiss())
    examples.first.click()
    expect(page.locator("#sentence")).to_have_value("A sentence of my own.")
    page.once("dialog", lambda dialog: dialog.accept())
    examples.first.click()
    expect(page.locator("#sentence")).to_have_value(LATE.sentence)
    expect(shown).to_have_text(LATE.sentence)
    page.reload()
    expect(shown).to_have_text(LATE.sentence)
    expect(page.locator("#examples")).not_to_have_attribute("open")


def test_a_result_has_an_address(site: Served, page: Page, look: Look):
    page.locator(".example").first.click()
    expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
    rank_literally(page)
    expect(page.locator("#result .probability")).to_have_count(0)

    other = page.context.new_page()  # another tab of this browser
    other.goto(page.url)
    expect(other.locator("#outcome-title")).to_contain_text("by hand: literal sense given")
    assert decoded(other.locator("#result img")) == 5
    page.locator("#earlier .earlier > summary").click()
    page.get_by_text("Open again").click()
    expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
    expect(page.locator("#earlier .earlier")).to_have_count(1)
    page.go_back()
    expect(page.locator("#result .predicted")).to_contain_text("literal")
    expect(page.locator("#earlier .earlier")).to_have_count(1)

    lost = look(f"{site.address}#0123")
    expect(lost.locator("#lost")).to_contain_text("no longer has the result at this address")
    assert barriers(lost) == []


def test_a_reload_keeps_results_and_form(page: Page, chat: Owlish):
    fill(page)
    for k in range(2):
        page.locator("#rank").click()
        expect(page.locator("#earlier .earlier")).to_have_count(k)
        expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
        expect(page.locator("#waiting")).to_be_hidden()
    shown, places = page.locator("#result .candidate"), "all => all.map(one => one.dataset.place)"
    order = shown.evaluate_all(places)
    page.reload()
    expect(page.locator("#result .predicted")).to_contain_text("idiomatic")
    expect(page.locator("#result .probability")).to_have_text("confidence 1.00")
    assert order == shown.evaluate_all(places)
    expect(page.locator("#earlier .earlier")).to_have_count(1)
    assert decoded(page.locator("#result img, .tile img")) == 10
    asked = len(chat.prompts)
    rank_literally(page)
    assert len(chat.prompts) == asked
    expect(page.locator("#sentence")).to_have_value(LATE.sentence)
    rank_form(page)


def test_profiles_that_lack_their_key_are_grey(look: Look, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(Models, "steps", lambda _: {})  # else a hub would be asked
    with serving(Models("paper")) as served:
        page = look(served.address)
        grey = page.locator("#profile option:disabled")
        expect(grey).to_have_count(3)
        told = grey.evaluate_all("all => all.map(one => one.text)")
        assert told == [f"{name} (needs OPENAI_API_KEY)" for name in ("paper", "vision", "best")]
