"""Whole runs against a server that checks what it gets: nothing twice, nothing lost."""

import json
import math
import re
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import ended, hide, passed, run
from conftest import admire_row
from judges import pictured
from served import CALLS, COMPOUNDS, ITEMS, answer, ranked, sums
from strict_server import SLOW, Answer, Body, StrictServer, prompt_of
from toys import WordEncoder, open_words

from admire import Settings, UserError, rank, write_run
from admire.llm.probes import NUMBER
from admire.pipeline.run_folder import read_run

FAULTS: Sequence[Sequence[int]] = [(), (429,), (), (500, 503), (SLOW,), (429, SLOW)]


def test_through_faults_each_question_is_asked_once_and_after_a_restart_none(
    capsys, tmp_path: Path, served: StrictServer, write_table
):
    served.faults = FAULTS
    data = write_table(*(admire_row(compound) for compound in COMPOUNDS))
    for priced in (2, 0):  # senses and meanings; then nothing is asked
        command = ["rank", data, "--out", tmp_path / "run", "--llm", "openai:gpt-4o"]
        out, err = passed(capsys, *command)
        assert len(served.requests) == CALLS
        lines = [line for line in err.splitlines() if "openai:gpt-4o" in line and "$" in line]
        assert (len(lines), "$" in out) == (priced, False)
    assert served.problems == []
    assert set(served.answers.values()) == {1}
    again = [fault for k in range(CALLS) for fault in FAULTS[k % len(FAULTS)] if fault != SLOW]
    assert len(served.headers) == CALLS + len(again)


def test_fresh_asks_anew_and_what_is_kept_is_listed_and_removed(
    capsys, tmp_path: Path, served: StrictServer, write_table
):
    data = write_table(*(admire_row(compound) for compound in COMPOUNDS))
    command = ["rank", data, "--out", tmp_path / "run", "--llm", "openai:gpt-4o"]
    for options, asks in (([], CALLS), (["--fresh"], CALLS), ([], 0)):
        served.requests.clear()
        _, err = passed(capsys, *command, *options)
        assert len(served.requests) == asks
        served.answer = lambda body: answer(body).replace("person", "bird")
        assert ("bird awake late" in (tmp_path / "run" / "items.jsonl").read_text()) == (
            not asks or "--fresh" in options
        )
    for options, kept in (([], 20), (["--fresh"], 0)):
        _, out, _ = run(capsys, *command, *options, "--dry-run", "--json")
        assert json.loads(out)[0]["kept"] == kept
    _, out, _ = run(capsys, "cache")
    assert re.search(r"│ e5 +│ – +│ \d+ +│ 0\.\d\d MB │", out)
    assert re.search(rf"│ openai:gpt-4o +│ {CALLS} +│ – +│", out)
    assert "'openai:gpt-4o'" in ended(capsys, "cache", "--clear", "openai:gpt-4")
    for options, removed in ((["--older-than", 1], 0), ([], CALLS)):
        _, _, err = run(capsys, "cache", "--clear", "openai:gpt-4o", *options)
        assert err == f"Removed {removed} replies and 0 vectors.\n"
    _, out, _ = run(capsys, "cache")
    assert "e5" in out
    assert "gpt" not in out


def test_a_run_tells_calls_tokens_and_prices_by_stage_and_model(served: StrictServer):
    first = ranked()
    assert sums(first, "stage") == ["senses", "meanings"]
    assert sums(first, "llm") == ["openai:gpt-4o"] * 2
    assert sums(first, "calls") == [20, 8]
    assert sums(first, "from_cache") == [0, 0]
    assert sums(first, "cached_tokens") == [4 * 20, 4 * 8]  # as the server tells
    for one in first["asked"]:
        fresh = one["prompt_tokens"] - one["cached_tokens"]
        # gpt-4o: 2.50, 1.25 and 10 dollars a million tokens
        price = 2.5 * fresh + 1.25 * one["cached_tokens"] + 10 * one["completion_tokens"]
        assert one["price_usd"] == one["price_usd_now"] == pytest.approx(price / 1e6, abs=1e-6)
        assert one["seconds"] > 0
        assert one["price_is_at_most"] is False
    again = ranked()
    assert sums(again, "from_cache") == [20, 8]
    assert sums(again, "price_usd") == sums(first, "price_usd")
    assert sums(again, "price_usd_now") == [0, 0]
    assert sums(again, "prompt_tokens") == sums(first, "prompt_tokens")


def test_without_the_extra_prices_are_unknown(monkeypatch, served: StrictServer):
    hide(monkeypatch, "genai_prices")
    assert sums(ranked(), "price_usd") == ["unknown"] * 2
    with pytest.raises(UserError, match=r"unknown \(.*'rankers': pip install") as caught:
        ranked(budget=5.0)
    assert caught.value.settings == ("budget",)


def test_as_many_questions_as_wanted_are_under_way_at_once(served: StrictServer):
    together, first = threading.Barrier(3, timeout=20), iter(range(3))

    def meeting(body: Body) -> str:
        if next(first, None) is not None:
            together.wait()
        return answer(body)

    served.answer = meeting
    parallel = ranked(parallel=3)
    assert len(served.requests) == CALLS
    assert parallel["settings"] == ranked(parallel=1)["settings"]


WORTH = defaultdict(lambda: 1, {"of best.png": 3, "of good.png": 2})


def looked(body: Body) -> str | tuple[str, list[dict[str, float]]]:
    """As :func:`answer`, of one who looks at candidates, too."""
    prompt = prompt_of(body)
    if "Which number" in prompt:
        return NUMBER
    shown = re.findall(r'Candidate (\w), caption: "(.*?)"', prompt)
    if body.get("logprobs"):
        (caption,) = re.findall(r'Caption: "(.*?)"', prompt)
        p = WORTH[caption] / 4
        return "A" if p >= 0.5 else "C", [{"A": math.log(p), "C": math.log(1 - p)}]
    if "elements" in prompt:
        best = [letter for letter, caption in sorted(shown, key=lambda one: -WORTH[one[1]])]
        role = {"elements": "a lamp", "expresses": "late hours", "role": "meant"}
        said = {"sense": "idiomatic", "literal_use": "x", "idiomatic_use": "y", "meaning": "z"}
        return json.dumps(said | {"candidates": dict.fromkeys(best, role), "order": best})
    if "better" in prompt:
        (_, first), (_, second) = shown
        better = "A" if WORTH[first] > WORTH[second] else "B"
        return json.dumps({"reason": "a lamp", "better": better})
    return answer(body)


@pytest.mark.parametrize(
    ("options", "ranking"),
    [
        (["--profile", "vision"], 5),
        (["--profile", "vision-local"], 3),
        (["--profile", "vision", "--ranker", "pairwise"], 6),
    ],
)
def test_models_that_look_are_asked_with_pictures_and_once(
    capsys, tmp_path: Path, monkeypatch, served: StrictServer, options, ranking: int
):
    served.answer, served.faults = looked, FAULTS
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_words)
    item = pictured(tmp_path, ["dull.png", "good.png", "best.png"], captions=True)
    row = {"compound": item.compound, "sentence": item.sentence}
    row["candidates"] = [{"image": one.name, "caption": one.caption} for one in item.candidates]
    data = tmp_path / "manifest.jsonl"
    data.write_text(json.dumps(row))
    if "vision-local" in options:
        options = [*options, "--llm-url", served.url]
    for name in ("one", "two"):
        passed(capsys, "rank", data, "--out", tmp_path / name, *options)
    assert served.problems == []
    assert set(served.answers.values()) == {1}
    seen = [body for body in served.requests if "image_url" in json.dumps(body)]
    assert len(seen) == 1 + ranking  # whether the model sees was asked first
    (told,) = map(json.loads, (tmp_path / "two" / "items.jsonl").read_text().splitlines())
    (judgement,) = told["judgements"]
    assert judgement["unread"] == 0
    best = sorted(zip(judgement["scores"], item.candidates, strict=True), key=lambda one: -one[0])
    assert [candidate.name for _, candidate in best] == ["best.png", "good.png", "dull.png"]
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    stages = {one["stage"]: one for one in record["asked"]}
    assert stages["ranking"]["calls"] == stages["ranking"]["from_cache"] == ranking
    if "vision-local" not in options:
        assert stages["ranking"]["price_usd"] > 0
        assert stages["ranking"]["price_usd_now"] == 0


@pytest.mark.parametrize(
    ("ranker", "tries", "questions", "nothing"),
    [
        ("embeddings", 5 + 2 * 3, 5 + 2, None),
        ("listwise", 5 * 2, 5, '{"answer": "yes"}'),
        ("pointwise", 5 + 2 * 3 + 3 * 3, 5 + 2 + 3, None),
        ("pairwise", 5 + 2 * 3 + 6 * 2, 5 + 2 + 6, '{"answer": "yes"}'),
    ],
)
def test_what_cannot_be_read_is_asked_again_once_the_server_is_repaired(
    served: StrictServer, ranker: str, tries: int, questions: int, nothing: str | None
):
    def broken(body: Body) -> Answer:
        return (nothing, [{"Hm": 0.0}]) if "pipe dream" in prompt_of(body) else looked(body)

    settings = Settings(llms=("openai:gpt-4o",), rankers=(ranker,))
    counts = []
    for served.answer in (broken, looked, looked):
        served.requests.clear()
        rank(ITEMS, settings, encoder=WordEncoder())
        counts.append(len(served.requests))
    assert counts == [3 * questions + tries, questions, 0]


@pytest.mark.parametrize(
    ("sense", "reply", "message"),
    [
        ("vote", None, "none of the 20 votes could be parsed"),
        ("vote", "Idiomatic", "none of the 8 meanings is"),
        ("given", "Banana! 🍌", "none of the 8 meanings is"),
        ("given", '{"answer": "yes"}', "none of the 8 meanings is"),
    ],
)
def test_a_run_of_which_no_reply_can_be_used_ends_with_one_message(
    capsys, tmp_path: Path, served: StrictServer, write_table, sense: str, reply, message: str
):
    served.answer = lambda body: reply
    data = write_table(*(admire_row(compound) for compound in COMPOUNDS))
    out = tmp_path / "out" / "run"
    command = ["rank", data, "--out", out, "--llm", "openai:gpt-4o", "--sense", sense]
    code, _, err = run(capsys, *command)
    assert code == 2
    assert f"admire: openai:gpt-4o: {message}" in err.splitlines()[-1]
    assert list(out.parent.iterdir()) == []


def test_unusable_meanings_are_counted_and_marked(caplog, tmp_path, served, owls):
    unread = {"night owl": '{"answer": "yes"}', "pipe dream": None}

    def reply(body: Body) -> str | None:
        prompt = prompt_of(body)
        lacking = [] if "or literally" in prompt else [name for name in unread if name in prompt]
        return unread[lacking[0]] if lacking else answer(body)

    served.answer = reply
    done = rank(ITEMS, Settings(llms=("openai:gpt-4o",)), encoder=WordEncoder())
    count = "4 of 8 meanings of openai:gpt-4o unusable ('night owl', 'pipe dream')"
    assert f"{count}; the dictionary was used for 2." in caplog.messages
    write_run(done, tmp_path / "run")
    for rankings in (done.rankings, read_run(tmp_path / "run").rankings):
        idiomatic = [ranking.interpretations[0].idiomatic for ranking in rankings]
        assert [meaning.unread for meaning in idiomatic] == ['{"answer": "yes"}', None, "", None]
        assert [bool(meaning) for meaning in idiomatic] == [True, True, False, True]
    rows = [json.loads(row) for row in (tmp_path / "run" / "items.jsonl").open()]
    marked = ["unread" in row["interpretations"][0]["literal"] for row in rows]
    assert marked == [True, False, True, False]
