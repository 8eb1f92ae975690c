import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import ended, passed, run
from toys import OWL, PAPER, WordEncoder, explains, says

import admire
from admire import Settings, UserError, rank, read_run, write_run
from admire.core import registry
from admire.core.registry import PluginError, register
from admire.encoders import TextEncoder, open_encoder
from admire.llm import ChatModel, Question, Reply, open_llm
from admire.senses.sense import Sense
from admire.tasks.task import Result, Task

LENGTH = [len(candidate.caption) for candidate in OWL.candidates]


pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (site := tmp_path / "site").mkdir()
    look_again = registry._announced.cache_clear

    def add(name: str, value: str, distribution: str) -> None:
        (about := site / f"{distribution.replace('-', '_')}-1.0.dist-info").mkdir()
        (about / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[admire]\n{name} = {value}\n")
        monkeypatch.syspath_prepend(site)
        look_again()

    yield add
    monkeypatch.undo()
    look_again()


def length(item, reading):
    return [len(candidate.caption) for candidate in item.candidates]


def test_a_function_is_a_ranker_of_one_line():
    register("ranker", "length")(length)
    settings = admire.Settings(rankers=("length",), sense="vote")
    found = rank([OWL], settings, llms=[says("Idiomatic")]).rankings[0]
    assert found.judgements[0].scores == tuple(map(float, LENGTH))
    assert found.order[0] == OWL.candidates[int(np.argmax(LENGTH))].name


def test_names_are_listed_without_an_import_and_described_by_one_command(announce, capsys):
    announce("ranker.absent", "no_such_module:Ranker", "admire-broken")
    assert "absent" in registry.names("ranker")
    out, err = passed(capsys, "plugins", "ranker", "--json")
    listed = {row["name"]: row for row in json.loads(out)}
    assert listed["listwise"]["distribution"] == "admire-idioms"
    assert "absent" not in listed
    assert err.count("\n") == 1
    assert "'absent' of admire-broken cannot be imported (no_such_module" in err
    message = ended(capsys, "rank", admire.SAMPLES, "--ranker", "absent")
    assert "admire-broken" in message
    assert "(--ranker)" in message


def test_a_name_that_is_taken_is_refused_with_both_distributions(announce):
    announce("encoder.e5", "admire_mine:Encoder", "admire-mine")
    with pytest.raises(PluginError, match="those of admire-idioms and admire-mine"):
        open_encoder("e5")
    assert "sight" in registry.names("encoder")
    register("ranker", "listwise")(length)
    with pytest.raises(PluginError, match="Register length under another"):
        registry.find("ranker", "listwise")


def test_a_misspelt_name_is_told_the_nearest_and_all(capsys):
    register("ranker", "length")(length)
    with pytest.raises(UserError, match=r"Did you mean 'length'.*Available: embeddings, "):
        rank([OWL], admire.Settings(rankers=("lenght",)), llms=[says("Idiomatic")])
    for named in ({"encoder": "lenght"}, {"llms": ["lenght"]}):
        with pytest.raises(UserError, match=r"Unknown (encoder|chat model) 'lenght'.*Available: "):
            rank([OWL], **{"encoder": WordEncoder(), "llms": [says("Literal")]} | named)
    with pytest.raises(UserError, match="'oops' is not a kind of plug-in"):
        register("oops", "length")


@pytest.mark.parametrize(
    ("kind", "open_it", "lacks"),
    [
        ("chat", open_llm, "has no ask and no parallel and no accepts_images. Derive it from"),
        ("encoder", open_encoder, "has no encode_texts and no batch. Derive it from"),
    ],
)
def test_a_plugin_without_its_methods_is_named(kind, open_it, lacks):
    register(kind, "silent")(lambda: object())
    with pytest.raises(PluginError, match=f"'silent' {lacks}"):
        open_it("silent")


class Broken(TextEncoder):
    def encode_texts(self, texts, *, role):
        if "nan" in self.name:
            return np.full((len(texts), 3), np.nan)
        if "few" in self.name:
            return np.ones((1, 3))
        raise ValueError("out of ink")


class Refusing(ChatModel):
    def ask(self, question):
        raise ValueError("out of ink")


class Talking(ChatModel):
    def ask(self, question):
        return "Idiomatic"


def quitting_later(item, reading):
    yield [Question("?")]
    sys.exit("enough")


RANKER = "'night owl': the ranker"


class Quitting(TextEncoder, ChatModel):
    def ask(self, question):
        sys.exit()

    def encode_texts(self, texts, *, role):
        sys.exit(1)


@pytest.mark.parametrize(
    ("kind", "name", "made", "message"),
    [
        ("encoder", "nan", Broken, "encoder 'nan' returned a vector that is zero or not finite"),
        ("encoder", "few", Broken, "encoder 'few' returned vectors of shape (1, 3) for"),
        ("encoder", "ink", Broken, "the encoder 'ink' raised ValueError (out of ink)"),
        ("chat", "ink", Refusing, "'night owl': the chat model 'ink' raised ValueError"),
        ("chat", "talk", Talking, "the chat model 'talk' returned str instead of Reply."),
        ("ranker", "few", lambda *_: [1.0], f"{RANKER} 'few' returned 1 scores for 3"),
        ("ranker", "nan", lambda *_: [math.nan] * 3, f"{RANKER} 'nan' returned a score of nan"),
        ("ranker", "fail", lambda item, _: {}[item], f"{RANKER} 'fail' raised KeyError"),
        ("ranker", "quit", lambda *_: sys.exit(0), f"{RANKER} 'quit' raised SystemExit (0)"),
        ("ranker", "late", quitting_later, "the ranker 'late' raised SystemExit (enough)"),
        ("chat", "quit", Quitting, "'night owl': the chat model 'quit' raised SystemExit ("),
        ("encoder", "quit", Quitting, "the encoder 'quit' raised SystemExit (1)"),
        ("chat", "none", lambda: sys.exit(0), "the chat model 'none' raised SystemExit (0)"),
    ],
)
def test_a_plugin_that_fails_is_named_with_the_item(kind, name, made, message):
    register(kind, name)(made)
    chosen = {"encoder": name} if kind == "encoder" else {"encoder": WordEncoder()}
    chosen["llms"] = [name] if kind == "chat" else [says("Idiomatic")]
    rankers = (name,) if kind == "ranker" else ("embeddings",)
    settings = admire.Settings(rankers=rankers, sense="vote", scoring=PAPER.scoring)
    with pytest.raises(PluginError) as error:
        rank([OWL], settings, **chosen)
    assert message in str(error.value)


def test_objects_are_checked_as_plugins_are():
    for reply in (None, Reply(None), Reply("x", logprobs="x"), Reply("x", seconds="s")):
        chat = says("Idiomatic")
        chat.ask = lambda _, reply=reply: reply
        with pytest.raises(UserError, match="ScriptedChat returned"):
            rank([OWL], PAPER, llms=[chat], encoder=WordEncoder())


def test_what_a_task_returns_is_checked(capsys):
    class Own(Task):
        settings = ()

        def __init__(self, result):
            self.result = result

        def run(self, data, values):
            return self.result

    for result in (None, {}, Result(5), Result(["a"]), Result([], record=5)):
        register("task", "own")(lambda result=result: Own(result))
        assert "returned" in ended(capsys, "task", "own", "data")


def test_a_plugin_that_ends_the_process_or_prints_at_its_import_spoils_nothing(
    announce, capsys, monkeypatch, tmp_path
):
    (tmp_path / "loud_module.py").write_text("print('hello')\ndef loud(item, reading): ...\n")
    (tmp_path / "quitting_module.py").write_text("print('bye')\nraise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("loud", "quitting"):
        announce(f"ranker.{name}", f"{name}_module:{name}", f"admire-{name}")
    dry = ("rank", admire.SAMPLES, "--dry-run", "--json", "--llm", "embedded")
    for words in (("plugins", "ranker", "--json"), dry):
        code, out, err = run(capsys, *words)
        assert (code, bool(json.loads(out))) == (0, True)
        assert {"hello", "bye"} <= {*err.splitlines()}
        sys.modules.pop("loud_module")
    code, out, _ = run(capsys, "rank", "--help")
    assert (code, "Usage" in out) == (0, True)
    for words in (("plugins", "ranker"), ("rank", admire.SAMPLES, "--ranker", "quitting")):
        _, _, err = run(capsys, *words)
        assert "'quitting' of admire-quitting cannot be imported" in err
        assert "SystemExit: 0" in err
    assert run(capsys, *words)[0] == 2


@pytest.mark.parametrize("code", ["None", "0", "'text'"])
def test_what_ends_the_process_elsewhere_is_named(capsys, code):
    @register("task", "quit")
    class Quitting:
        settings = property(lambda self: exec(f"raise SystemExit({code})"))

    message = ended(capsys, "task", "quit", "data")
    assert f"line 1: ended admire (SystemExit({code if code != 'None' else ''}" in message


def test_with_skip_bad_the_items_that_a_plugin_cannot_rank_are_left_out(capsys, tmp_path):
    @register("ranker", "picky")
    def picky(item, reading):
        if item.compound == "night owl":
            raise ValueError("no owls")
        return [0.0] * len(item.candidates)

    replies = tmp_path / "replies.csv"
    items = admire.read_items(admire.SAMPLES)
    rows = [f'{item.compound},"{item.sentence}",idiomatic' for item in items]
    replies.write_text("\n".join(["compound,sentence,sense", *rows]))
    call = ("rank", admire.SAMPLES, "--ranker", "picky", "--llm", f"recorded:{replies}")
    out = tmp_path / "run"
    code, _, err = run(capsys, *call, "--out", out)
    assert (code, out.exists()) == (2, False)
    assert f"{RANKER} 'picky' raised ValueError" in err
    _, err = passed(capsys, *call, "--skip-bad", "--out", out)
    assert err.count("Skipped: “") == 2
    left = read_run(out)
    assert len(left.rankings) == left.record["items"] == len(items) - 2
    assert len(left.record["left_out"]) == 2


def test_a_run_of_a_plugin_that_is_gone_is_read_and_scored_but_not_asked_again(capsys, tmp_path):
    register("ranker", "length")(length)
    settings = admire.Settings(rankers=("length",), sense="vote")
    write_run(rank([OWL], settings, llms=[says("Idiomatic")]), tmp_path / "run")
    del registry._REGISTERED["ranker"]["length"]
    assert read_run(tmp_path / "run").rankings[0].judgements[0].ranker == "length"
    assert run(capsys, "score", tmp_path / "run")[0] == 0
    assert run(capsys, "report", tmp_path / "run", "--out", tmp_path / "r.html")[0] == 0
    message = ended(capsys, "rank", admire.SAMPLES, "--like", tmp_path / "run", "--llm", "embedded")
    assert "Unknown ranker 'length'" in message


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ([Sense("idiomatic", 2.0)], "probability_idiomatic cannot be 2.0"),
        ([Sense("idiomatic", math.nan)], "probability_idiomatic cannot be nan"),
        ([Sense("IDIOM", 0.5)], "label cannot be 'IDIOM'"),
        (["literal"], "str instead of Sense"),
        ([], "0 of 1 objects"),
        (None, "not iterable"),
    ],
)
def test_what_a_plugin_returns_is_checked_where_it_is_called(returned, why):
    class Own:
        identity = "own"
        columns = ()
        setting = None

        def classify(self, uses):
            return returned

    models = {"llms": [explains("")], "encoder": WordEncoder()}
    with pytest.raises(UserError, match=rf"Own returned .*{why}"):
        rank([OWL], Settings(sense="detector"), **models, detector=Own())
