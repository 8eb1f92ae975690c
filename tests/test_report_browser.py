from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks import OWLS, write_split
from browser import PHONE, barriers, decoded, overflow
from cards import gallery
from toys import ScriptedChat, WordEncoder

from admire import SAMPLES, Item, Run, Settings, rank, read_items, write_run
from admire.apps.report import write_report
from admire.apps.report.report import Report, render
from admire.metrics.judgements import correct_gold
from admire.metrics.metrics import BEST_DCG, dcg
from admire.pipeline.ranking import Ranking
from admire.prompts import quoted
from admire.senses import Sense, write_senses
from admire.tasks.retrieval import RetrieveSettings, retrieve_split, write_retrieval

pytest.importorskip("matplotlib", reason="needs the extra 'report'")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra 'test')")
pytestmark = pytest.mark.ci
expect = playwright.expect

if TYPE_CHECKING:
    from browser import Look
    from playwright.sync_api import Locator, Page

HOSTILE = {
    "compound": "<script>hurt = 1</script>",
    "sentence": "She said <script>hurt = 1</script> & left.</script><script>hurt = 2</script>",
    "candidates": [
        {"caption": "<img src=x onerror='hurt = 3'> \" ' </li>"},
        {"image": "images/night_owl_2.png", "caption": "&lt;b&gt; {{ 7 * 7 }} ${hurt = 4}"},
        {"caption": "Twice the same. " * 12},
        {"caption": "Twice the same. " * 12},
    ],
}
NO_MEANING = '{"answer": "<script>hurt = 5</script>"}'

IS_UNCOVERED = """element => {
  const {left, top} = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(left + 5, top + 5));
}"""
EDGES = """element => {
  const {left, right} = element.getBoundingClientRect();
  return [left, right];
}"""


@dataclass
class Reported:
    """Two runs of the samples and of a hostile item, and the report of both."""

    runs: list[Run]
    path: Path

    @property
    def address(self) -> str:
        return self.path.as_uri()

    def where(self, is_wanted: Callable[[Ranking, Ranking], object]) -> set[int]:
        both = zip(*(run.rankings for run in self.runs), strict=True)
        return {number for number, pair in enumerate(both, start=1) if is_wanted(*pair)}


def knowing(items: list[Item], *, tells_senses: bool) -> ScriptedChat:
    """A chat model that knows the samples, but for two senses and what a fat cat is.

    Of the hostile item it gives no meaning. If it does not tell senses, it takes all for idiomatic.
    Of some items it is not sure.
    """
    mistaken = items[3].sentence, items[4].sentence
    best = {}
    for item in items:
        captions = {one.name: one.caption for one in item.candidates}
        order = item.expected_order or [item.candidates[0].name]
        place = -1 if item.compound == "fat cat" else 0
        best[item.compound, item.sentence_type] = captions[order[place]]

    votes = Counter[str]()

    def answer(prompt: str) -> str:
        if "or literally" in prompt:
            (item,) = (one for one in items if quoted(one.sentence) in prompt)
            is_idiom = (item.sentence_type == "idiomatic") != (item.sentence in mistaken)
            votes[item.sentence] += 1
            is_unsure = votes[item.sentence] <= items.index(item) % 3
            return "Idiomatic" if (is_idiom or not tells_senses) != is_unsure else "Literal"
        sense = "idiomatic" if "idiom of the sentence" in prompt else "literal"
        compound = max((one.compound for one in items), key=lambda name: prompt.rfind(quoted(name)))
        if compound == HOSTILE["compound"]:
            return NO_MEANING
        return json.dumps({"definitions": [best.get((compound, sense), "a thing")], "scene": ""})

    return ScriptedChat(answer, name="knowing" if tells_senses else "credulous")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    folder = tmp_path_factory.mktemp("reported")
    data = folder / "set"
    shutil.copytree(SAMPLES, data)
    with (data / "manifest.jsonl").open("a") as file:
        file.write(json.dumps(HOSTILE) + "\n")
    items = read_items(data)
    runs = []
    for tells_senses in (True, False):
        chat = knowing(items, tells_senses=tells_senses)
        settings = Settings(sense="vote", abstain_below=0.75)
        run = rank(items, settings, llms=[chat], encoder=WordEncoder(), source=data)
        write_run(run, folder / chat.name)
        runs.append(run)
    write_report([folder / "knowing", folder / "credulous"], folder / "report.html")
    return Reported(runs, folder / "report.html")


@pytest.fixture
def page(reported: Reported, look: Look) -> Page:
    return ready(look(reported.address))


def ready(page: Page) -> Page:
    page.locator("html[data-ready]").wait_for(state="attached")
    return page


def numbers(page: Page) -> list[int]:
    return page.locator("#cards > li").evaluate_all("all => all.map(one => +one.dataset.number)")


def card(page: Page, number: int) -> Locator:
    page.wait_for_function(
        """number => {
          const place = document.querySelector(`#cards > li[data-number="${number}"]`);
          if (!place) return false; // a filter has not shown it yet
          const before = place.getBoundingClientRect().top;
          place.scrollIntoView({block: "center"});
          return place.firstChild && Math.abs(place.getBoundingClientRect().top - before) < 1;
        }""",
        arg=number,
    )
    return page.locator(f"#cards > li[data-number='{number}'] > article.card")


def check_narrow(page: Page) -> None:
    page.set_viewport_size(PHONE["viewport"])
    assert overflow(page) <= 0
    assert barriers(page) == []


def is_right(ranking: Ranking) -> bool:
    return ranking.order[0] == ranking.item.best


def is_sense_right(ranking: Ranking) -> bool:
    return ranking.predicted_type == ranking.item.sentence_type


def has_gold(ranking: Ranking) -> bool:
    return ranking.item.best is not None


def agree(a: Ranking, b: Ranking) -> bool:
    return (a.order[0], a.predicted_type) == (b.order[0], b.predicted_type)


def test_the_wrong_items_come_first_and_each_filter_keeps_what_it_says(reported, page):
    every = reported.where(lambda a, b: True)
    wrong = reported.where(lambda a, b: has_gold(a) and not is_right(a))
    first = numbers(page)
    assert set(first) == every
    assert set(first[: len(wrong)]) == wrong

    expected = {
        ("#filter-sense", "literal"): lambda a, b: a.item.sentence_type == "literal",
        ("#filter-language", "pt"): lambda a, b: a.item.language == "pt",
        ("#filter-place", "2"): lambda a, b: has_gold(a) and a.order.index(a.item.best) == 1,
        ("#filter-outcome", "right"): lambda a, b: is_right(a),
        ("#filter-outcome", "wrong"): lambda a, b: has_gold(a) and not is_right(a),
        ("#filter-outcome", "sense-wrong"): lambda a, b: has_gold(a) and not is_sense_right(a),
        ("#filter-outcome", "ranking-wrong"): lambda a, b: is_sense_right(a) and not is_right(a),
        ("#filter-outcome", "unsure"): lambda a, b: a.interpretations[0].sense.confidence < 0.75,
        ("#filter-agree", "agree"): agree,
        ("#filter-agree", "differ"): lambda a, b: not agree(a, b),
        ("#filter-agree", "first-differs"): lambda a, b: a.order[0] != b.order[0],
        ("#filter-agree", "sense-differs"): lambda a, b: a.predicted_type != b.predicted_type,
        ("#filter-agree", "outcome-differs"): lambda a, b: is_right(a) != is_right(b),
    }
    for (field, value), is_wanted in expected.items():
        page.locator(field).select_option(value)
        assert set(numbers(page)) == reported.where(is_wanted), (field, value)
        if value == "unsure":
            expect(page.locator(".run-1 .unsure").first).to_have_text("unsure")
            known = reported.where(lambda a, b: has_gold(a) and a.unsure)
            told = f"knowing: {len(known)} of {len(every) - 1} items are unsure (below 0.75)."
            expect(page.get_by_text(told)).to_be_attached()
        page.locator("#clear").click()
        assert numbers(page) == first


def test_a_view_is_found_by_words_sorted_and_linked(reported: Reported, page: Page, look: Look):
    rankings = reported.runs[0].rankings
    sorts: dict[str, Callable[[Ranking], float]] = {
        "confidence": lambda one: abs(one.interpretations[0].sense.probability_idiomatic - 0.5),
        "margin": lambda one: one.margin,
        "loss": lambda one: dcg(one.order, one.item) or BEST_DCG,
    }
    for sort, value in sorts.items():
        page.locator("#sort").select_option(sort)
        values = [round(value(rankings[number - 1]), 6) for number in numbers(page)]
        assert values == sorted(values), sort
        assert len(set(values)) > 1
    page.locator("#sort").select_option("number")
    every = numbers(page)
    assert every == sorted(every)
    page.locator("#reversed").check()
    assert numbers(page) == every[::-1]
    page.locator("#search").fill("cold feet")
    page.locator("#filter-sense").select_option("literal")
    page.locator("#run").select_option("1")
    expect(page.locator("#count")).to_have_text("1 of 15 items")
    assert numbers(page) == [4]
    linked = page.evaluate("location.href")

    other = ready(look(linked, own=(reported.address,)))
    assert numbers(other) == [4]
    assert other.locator("#search").input_value() == "cold feet"
    assert other.locator("#reversed").is_checked()
    page.go_back()
    page.go_back()
    assert page.locator("#filter-sense").input_value() == ""
    assert numbers(page) == [4, 3]
    page.goto(reported.address + "#item=7")
    assert numbers(ready(page)) == [7]


def test_a_card_shows_both_runs_with_their_pictures_side_by_side(reported: Reported, page: Page):
    both = card(page, 2)
    knowing, credulous = both.locator(".run").all()
    assert knowing.locator(".predicted").inner_text().startswith("predicted: literal")
    assert credulous.locator(".predicted").inner_text().startswith("predicted: idiomatic")
    assert both.locator(".gold-sense").inner_text() == "gold: literal"
    assert both.locator(".differs").count() == 1
    ranking = reported.runs[0].rankings[1]
    names = [one.name for one in ranking.item.candidates]
    places = [names.index(name) for name in ranking.order]
    shown = knowing.locator(".candidate").evaluate_all("all => all.map(one => +one.dataset.place)")
    assert shown == places
    gold = knowing.locator(f".candidate[data-place='{names.index(ranking.item.best)}'] .gold")
    assert "gold 1" in gold.inner_text()
    assert both.locator(".sentence mark").first.inner_text() == "night owl"
    left, right = (run.evaluate(EDGES) for run in (knowing, credulous))
    assert left[1] <= right[0] + 1
    assert decoded(both.locator("img")) == 10


def test_equal_scores_and_the_first_without_gold_are_marked(page: Page):
    shown = card(page, 15).locator(".run").first
    expect(shown.locator(".candidate.first")).to_have_count(1)
    expect(shown.locator(".candidate").first).to_have_class(re.compile("first"))
    tied = shown.locator(".candidate:has(.tied)")
    assert tied.locator(".file").all_inner_texts() == ["candidate3", "candidate4"]
    expect(card(page, 2).locator(".candidate.first")).to_have_count(0)
    name = card(page, 2).locator(".file").first
    name.click()
    assert page.evaluate("getSelection().toString().trim()") == name.inner_text()


def test_a_click_on_a_plot_shows_its_items_and_they_become_a_table(reported: Reported, page: Page):
    page.locator("#head > summary").click()
    page.locator("#plots > summary").click()
    page.get_by_role("link", name="knowing, idiomatic items taken as literal").click()
    expect(page.locator("#cards article").first).to_be_in_viewport()
    for name, is_wanted in {
        "knowing, idiomatic items taken as literal": lambda a, b: (
            (a.item.sentence_type, a.predicted_type) == ("idiomatic", "literal")
        ),
        "knowing, probability 0.4 to 0.5": lambda a, b: (
            has_gold(a) and 0.4 <= a.probability_idiomatic < 0.5
        ),
    }.items():
        wanted = reported.where(is_wanted)
        page.get_by_role("link", name=f"{name}: {len(wanted)}", exact=True).focus()
        page.keyboard.press("Enter")
        expect(card(page, max(wanted))).to_be_visible()
        expect(page.locator("#count")).to_contain_text(f"{len(wanted)} of 15")
        assert set(numbers(page)) == wanted
    with page.expect_download() as download:
        page.locator("#csv").click()
    with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["number"]) for row in rows] == numbers(page)
    rankings = [reported.runs[1].rankings[int(row["number"]) - 1] for row in rows]
    assert [row["sentence"] for row in rows] == [one.item.sentence for one in rankings]
    assert [row["credulous: order"] for row in rows] == [" ".join(one.order) for one in rankings]
    p = [float(row["credulous: probability_idiomatic"]) for row in rows]
    assert p == [one.probability_idiomatic for one in rankings]
    assert [float(row["credulous: confidence"]) for row in rows] == [max(q, 1 - q) for q in p]


def test_judgements_survive_a_reload_and_become_a_file_to_correct_gold(reported, look, monkeypatch):
    monkeypatch.setattr("admire.apps.report.write.draw_plots", lambda _: ())
    path = write_report([reported.path.parent / "knowing"], reported.path.with_name("judged.html"))
    page = ready(look(path.as_uri(), own=(path.as_uri(), reported.address)))
    save = page.locator("#save")
    expect(save).to_be_hidden()
    first, second = reported.runs[0].rankings[:2]
    of_first = card(page, 1).get_by_role("group", name="Your judgement")
    of_first.get_by_label("agree", exact=True).check()
    of_second = card(page, 2).get_by_role("group", name="Your judgement")
    expect(of_second.get_by_label("Best candidate")).to_be_hidden()
    of_second.get_by_label("disagree").check()
    of_second.get_by_label("Right sense").select_option("idiomatic")
    of_second.get_by_label("Best candidate").select_option(second.order[2])
    of_second.get_by_label("Note").fill("He is <awake>, I think.")
    expect(save).to_have_text("Save 2 judgements")
    page.reload()
    with ready(page).expect_download() as download:
        save.click()
    items = [one.item for one in reported.runs[0].rankings]
    found = correct_gold(items, Path(download.value.path()), "the run")
    assert (found.judged, found.items[2:]) == (2, items[2:])
    assert found.items[0].best == first.order[0]
    assert (found.items[1].best, found.items[1].sentence_type) == (second.order[2], "idiomatic")
    of_second = card(page, 2).get_by_role("group", name="Your judgement")
    expect(of_second.get_by_label("Note")).to_have_value("He is <awake>, I think.")
    expect(of_second.get_by_label("Right sense")).to_have_value("idiomatic")
    of_second.get_by_label("Note").fill("")
    of_second.get_by_label("none").check()
    expect(save).to_have_text("Save 1 judgement")
    page.goto(reported.address)  # of other runs, which keep their own
    expect(ready(page).locator("#save")).to_be_hidden()
    expect(card(page, 1).get_by_label("agree with credulous")).to_be_visible()


def test_pictures_open_large_and_keys_do_what_the_mouse_does(reported: Reported, page: Page):
    first, second, *_ = numbers(page)
    for key, number in [("j", first), ("j", second), ("k", first)]:
        page.keyboard.press(key)
        focused = page.locator(f"li[data-number='{number}'] > article")
        expect(focused).to_be_focused()
        heading = focused.locator("h3")
        expect(heading).to_be_in_viewport()
        assert heading.evaluate(IS_UNCOVERED)

    page.keyboard.press("Enter")
    picture = page.locator("dialog#picture")
    expect(picture).to_be_visible()
    ranking = reported.runs[0].rankings[first - 1]
    captions = {one.name: one.caption for one in ranking.item.candidates}
    expect(picture.locator(".large-caption")).to_have_text(captions[ranking.order[0]])
    page.keyboard.press("ArrowRight")
    expect(picture.locator(".large-caption")).to_have_text(captions[ranking.order[1]])
    page.keyboard.press("Escape")
    expect(picture).to_be_hidden()
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("jk?")
    expect(page.locator("#search")).to_have_value("jk?")
    expect(page.locator("#count")).to_contain_text("0 of 15 items")
    page.locator("#search").fill("")

    thumbnail = card(page, first).locator(".run").first.locator("button.picture").nth(2)
    thumbnail.click()
    expect(picture.locator(".large-caption")).to_have_text(captions[ranking.order[2]])
    small, large = (one.locator("img").evaluate(EDGES) for one in (thumbnail, picture))
    assert large[1] - large[0] > small[1] - small[0]
    picture.locator(".close").click()
    expect(thumbnail).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out(reported: Reported, look: Look, scheme: str):
    page = ready(look(reported.address, color_scheme=scheme))
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", paper)[:3]))
    assert brightness < 200 if scheme == "dark" else brightness > 600
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    page.get_by_label("disagree with all").first.check()
    assert barriers(page) == []
    page.keyboard.press("?")
    assert barriers(page, "dialog[open]") == []
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert barriers(page, "dialog[open]") == []


def test_it_fits_a_phone(reported: Reported, look: Look):
    page = ready(look(reported.address, **PHONE))
    expect(page.locator("#cards article .compound").first).to_be_in_viewport()
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    page.get_by_label("disagree with all").first.check()
    assert overflow(page) <= 0
    text = card(page, 15).locator("button.text").last
    assert text.evaluate("one => one.offsetWidth > 0.8 * one.closest('.card').offsetWidth")
    assert text.locator("span").evaluate("one => one.scrollHeight <= one.clientHeight")
    card(page, 15).locator("button.picture").first.click()
    expect(page.locator("dialog#picture")).to_be_visible()
    assert overflow(page) <= 0


def test_print_has_all_cards_of_the_view(reported: Reported, look: Look):
    page = ready(look(reported.address + "#language=en", own=(reported.address,)))
    page.evaluate(
        "addEventListener('beforeprint', () => {"
        " printed = document.querySelectorAll('article.card').length; })"
    )
    page.pdf()
    assert page.evaluate("printed") == len(numbers(page)) == 9


def test_linked_pictures_are_read_from_their_files(reported, look, monkeypatch):
    monkeypatch.setattr("admire.apps.report.write.draw_plots", lambda _: ())
    folder = reported.path.parent
    page = write_report([folder / "knowing"], folder / "linked.html", images="link")
    page = ready(look(page.as_uri(), own=(page.as_uri(), (folder / "set").as_uri())))
    assert decoded(card(page, 1).locator("img")) == 5


def test_queries_are_shown_with_the_documents_that_were_found(tmp_path: Path, look: Look):
    write_split(tmp_path / "owls", "test", OWLS)
    settings = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6)
    write_retrieval(retrieve_split(str(tmp_path / "owls"), settings), tmp_path / "bm25")
    page = ready(look(write_report([tmp_path / "bm25"], tmp_path / "report.html").as_uri()))
    query = card(page, 1)
    assert query.locator(".sentence").inner_text() == "A night owl codes late."
    assert query.locator(".document").count() == 6
    assert query.locator(".document.relevant").count() == 3
    page.locator("#search").fill("flew off")
    assert numbers(page) == [2]
    check_narrow(page)


def test_sentences_are_shown_with_their_senses(tmp_path: Path, look: Look):
    items = [replace(item, candidates=()) for item in read_items(SAMPLES)[:3]]
    senses = [Sense("idiomatic", 0.9, 5, 0), Sense("idiomatic", 0.6, 3, 2), Sense("literal", 0.2)]
    write_senses(tmp_path / "senses.tsv", items, senses)
    page = ready(look(write_report([tmp_path / "senses.tsv"], tmp_path / "report.html").as_uri()))
    assert numbers(page) == [3, 2, 1]  # wrong ones by how wrong they are
    assert card(page, 2).locator(".probability").inner_text() == "confidence 0.60"
    assert card(page, 3).locator(".probability").inner_text() == "confidence 0.80"  # literal
    page.locator("#filter-outcome").select_option("right")
    assert numbers(page) == [1]
    check_narrow(page)


def test_thousands_of_items_scroll_and_are_filtered_at_once(reported, tmp_path, look):
    data = gallery(reported.runs, ["knowing", "credulous"])
    copies = [item for _ in range(134) for item in data["items"]]
    data["items"] = [item | {"number": k} for k, item in enumerate(copies, start=1)]
    (tmp_path / "report.html").write_text("".join(render(Report("Many", "ranking", (), (), data))))
    page = ready(look((tmp_path / "report.html").as_uri()))
    assert len(numbers(page)) == 2010
    drawn = page.locator("article.card")
    assert drawn.count() < 100
    page.keyboard.press("End")
    last = page.locator("#cards > li").last.locator("article.card")
    last.wait_for()
    assert drawn.count() < 200
    took = page.evaluate(
        """() => {
          const field = document.querySelector("#filter-outcome");
          const started = performance.now();
          field.value = "wrong";
          field.dispatchEvent(new Event("change", {bubbles: true}));
          document.body.offsetHeight;
          return performance.now() - started;
        }"""
    )
    wrong = reported.where(lambda a, b: has_gold(a) and not is_right(a))
    assert len(numbers(page)) == 134 * len(wrong)
    assert took < 1000  # ms; a tenth of it on a quiet machine
