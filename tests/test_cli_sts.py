import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from commands import chat_server, ended, json_of, passed, run
from sentences import GROUPS, PAIRS, TABLE_6, dev, gold, training_rows, write_benchmark
from toys import WordEncoder

from admire.encoders.cached import CachedEncoder, checked
from admire.tasks.sts.evaluation import compare, correlate
from admire.tasks.sts.pairs import count_pairs, read_pairs


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Every encoder that is asked for is WordEncoder."""
    opened = Mock(side_effect=lambda *_, **__: CachedEncoder(WordEncoder()))
    monkeypatch.setattr("admire.tasks.sts.evaluation.open_encoder", opened)
    return opened


@pytest.fixture
def files(write_table) -> tuple[Path, Path]:
    data = write_table(
        dev("1"),
        dev("2", sentence2="My sister is a dark bird."),
        dev("3", sentence1="My sister is a late sleeper.", sentence2="My sister is a dark bird."),
        dev("4", MWE1="None", sentence1="A man sits.", sentence2="A man sits down."),
        dev("5", MWE1="None", sentence1="A man sits.", sentence2="The lamp burns."),
        dev("6", Language="PT", sentence1="Um pão-duro.", sentence2="Um avarento."),
        dev("7", Language="PT", sentence1="Um pão-duro.", sentence2="Um pão velho."),
        name="dev.csv",
    )
    told = write_table(
        gold("1"), gold("2", "", "3"), gold("4", "0.9"), gold("5", "0"), gold("6"), gold("7", "0"),
        name="gold.csv",
    )  # fmt: skip
    return data, told


def test_the_command_prints_what_evaluation_gives(capsys, files, words):
    data, told = files
    out, _ = passed(capsys, "sts", data, "--gold", told, "--json", "--device", "cpu")
    assert words.call_args.args == ("e5",)
    assert words.call_args.kwargs["device"] == "cpu"
    pairs = read_pairs(data, told)
    expected = correlate(pairs, compare(pairs, checked(WordEncoder())), seed=0)
    table = pd.DataFrame(json.loads(out)).astype(expected.dtypes)
    pd.testing.assert_frame_equal(table, expected, atol=1e-8)
    wanted = list(expected.iloc[:, :4].itertuples(index=False, name=None))

    out, _ = passed(capsys, "sts", data, "--gold", told)
    line = r"\b(en|pt|all)\W+(all|idiom|sts)\W+(\d+)[^-\w]+(-?\d\.\d{3}|undefined \(all equal\))"
    assert re.findall(line, out) == [
        (language, subset, f"{n}", "undefined (all equal)" if math.isnan(rho) else f"{rho:.3f}")
        for language, subset, n, rho in wanted
    ]
    en = expected.iloc[0]
    assert f"{en.spearman:.3f} [{en.spearman_low:.3f}, {en.spearman_high:.3f}]" in out


def test_the_first_pairs_of_each_file_are_read(capsys, tmp_path, words):
    for split, first in (("dev", "A man sits."), ("test", "The lamp burns.")):
        rows = "".join(f"{first} {k}.,A man.,,{k / 9}\n" for k in range(9))
        (tmp_path / f"{split}.csv").write_text(f"S,A_c,A_i,sim\n{rows}", encoding="utf-8")
    out = tmp_path / "mine.csv"
    command = ("sts", tmp_path, "--json", "--out", out, "--limit")
    printed, err = passed(capsys, *command, 4)
    assert json.loads(printed)[0]["n"] == 2 * 4
    assert "mine.csv (8 pairs)" in err
    assert json_of(capsys, *command, 100)[0]["n"] == 2 * 9
    assert "limit cannot be 0" in ended(capsys, *command, 0)


def test_the_command_asks_a_chat_model_in_place_of_an_encoder(capsys, files, words, httpserver):
    data, told = files
    chat = ["--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1")]
    prompts = chat_server(httpserver, lambda prompt: "0.1")
    out, _ = passed(capsys, "sts", data, "--gold", told, "--json", *chat)
    assert not words.called
    assert len(prompts) == 7
    assert {row["spearman"] for row in json.loads(out)} == {None}  # all equal
    for _ in range(2):
        assert run(capsys, "sts", data, "--out", data.with_name("mine.csv"), *chat)[0] == 0
    assert len(prompts) == 7, "replies are kept"


def test_pairs_are_counted_and_the_hard_ones_of_two_runs_are_listed(
    capsys, tmp_path, write_table, words
):
    others = [row | {"S": f"今天，{row['S']}"} for row in TABLE_6]
    data = write_table(*TABLE_6, *others, name="test.csv")
    counts = json_of(capsys, "sts", data, "--count", "--json")
    assert pd.DataFrame(counts).equals(count_pairs(read_pairs(data)))
    first, second, wrong = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"
    assert run(capsys, "sts", data, "--out", first)[0] == 0
    text = first.read_text(encoding="utf-8")
    rated = pd.read_csv(first)
    first.write_text(rated.assign(Sim=[0, 0.5, 0, 0, 0.7, 0]).to_csv(index=False))
    second.write_text(rated.assign(Sim=[0, 0.59, 0, 0, 0.1, 0]).to_csv(index=False))
    words.reset_mock()
    both = ("sts", data, "--hard", first, "--hard", second)
    (hard,) = json_of(capsys, *both, "--json")
    pair = read_pairs(data)[1]
    assert list(hard.values()) == ["2", pair.mwe, pair.first, pair.second, 0.5, 0.59]
    assert pair.second in run(capsys, *both)[1]
    first.write_text(rated.assign(Sim=1).to_csv(index=False))
    assert run(capsys, *both)[1] == "There are no hard pairs.\n"
    # What is no run, or one over other pairs, ends the command.
    for content, message in (
        (text.replace("\n2,", "\n7,"), ": is about other pairs."),
        (re.sub("(?m)^3,.*", "3,ZH,fine_tune,high", text), ", row 3, Sim: cannot be 'high'"),
        ("S,A_c,A_i,sim\na,b,c,\n", ": the column 'ID' is missing"),
    ):
        wrong.write_text(content, encoding="utf-8")
        assert f"{wrong}{message}" in ended(capsys, *both, "--hard", wrong)
    assert "Choose one" in ended(capsys, *both, "--count")
    assert "(--count, --hard, --out)" in ended(capsys, *both, "--out", wrong)
    assert not words.called, "no model is opened"


def test_what_cannot_be_measured_ends_the_command_before_a_model_is_loaded(
    capsys, words, files, tmp_path
):
    data, told = files
    out = tmp_path / "submission.csv"
    for options, message in (
        (["--out", out, "--gold", told, "--seed", -1], "seed cannot be -1"),
        ([], "(--gold, --out)"),
    ):
        assert message in ended(capsys, "sts", data, *options)
    assert not words.called
    assert not out.exists()
    message = ended(capsys, "sts", data, "--gold", told, "--pooling", "cls", "--max-length", 64)
    assert "'e5' cannot be changed. Name one of sbert:…. (--pooling, --max-length)" in message


FLAGS = ["--device", "cpu", "--epochs", 2, "--batch-size", 8, "--learning-rate", 3e-3]


@pytest.mark.skipif(find_spec("datasets") is None, reason="needs the extra 'finetune'")
@pytest.mark.usefixtures("one_thread", "no_card", "tried")
def test_the_command_with_everything_gives_what_sts_then_gives(capsys, tmp_path, write_table):
    from towers import save_sentence_transformer

    pairs, scores = [], []
    for k, group in enumerate(GROUPS[12:]):
        (right,), (wrong,) = group.correct, group.incorrect
        for name, first, second in (
            ("r", group.sentence, right),
            ("w", group.sentence, wrong),
            ("x", right, wrong),
        ):
            pairs.append(dev(f"{k}{name}", MWE1=group.mwe, sentence1=first, sentence2=second))
        scores += [gold(f"{k}r"), gold(f"{k}w", "", f"{k}x")]
    told = write_table(*pairs, name="dev.csv"), write_table(*scores, name="gold.csv")
    validation = ["--validation", told[0], "--validation-gold", told[1]]
    saved = save_sentence_transformer(tmp_path / "models" / "plain")
    data = write_table(*training_rows(GROUPS[:12]), name="train.csv")
    stsb = write_benchmark(tmp_path / "sts.tsv")
    left = dev(MWE1="", sentence1=PAIRS[0].first, sentence2="x")
    out = tmp_path / "out"
    printed, err = passed(
        capsys, "train", "sentences", data, "--out", out, "--encoder", f"sbert:{saved}", *FLAGS,
        *validation, "--sts", stsb, "--mwe-tokens", "--last-layers", 2, "--keep", "last",
        "--no-shuffle", "--leave-out", write_table(left, name="left.csv"), "--json",
    )  # fmt: skip
    assert "12 groups and 11 pairs to learn from, 12 to validate" in err
    assert f"Wrote {out}" in err
    history = json.loads(printed)["validation"]
    assert [list(figures) for figures in history] == 3 * [["all", "idiom"]]
    from sentence_transformers import SentenceTransformer

    again = SentenceTransformer(str(out), device="cpu")
    assert [type(one).__name__ for one in again][1] == "WeightedLayerPooling"
    assert "IDnightowlID" in again.tokenizer.get_added_vocab()
    shared = ["sts", validation[1], "--gold", validation[3], "--device", "cpu", "--json"]
    printed, err = passed(capsys, *shared, "--encoder", f"sbert:{out}")
    found = {row["subset"]: row["spearman"] for row in json.loads(printed)}
    assert found == pytest.approx(history[-1], abs=1e-6)
