import ast
import json
import shutil
from unittest.mock import Mock
from zipfile import ZipFile

import pandas as pd
import pytest
from commands import ended, json_of, passed, run
from conftest import admire_row
from toys import open_words

from admire.rankers import run_encoders

pytestmark = pytest.mark.usefixtures("words")
NAMES = (
    "Chinese Georgian Greek Igbo Kazakh Norwegian Portuguese-Brazil Portuguese-Portugal Russian "
    "Serbian Slovak Slovenian Spanish-Ecuador Turkish Uzbek"
)
CODES = "ZH KA EL IG KK NO PT-BR PT-PT RU SR SK SL ES-EC TR UZ"


def read(file) -> pd.DataFrame:
    return pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False)


def test_fifteen_blind_files_become_one_zip(capsys, monkeypatch, tmp_path, write_table, shared):
    monkeypatch.setattr(run_encoders, "open_encoder", opened := Mock(side_effect=open_words))
    for name in NAMES.split():
        rows = [admire_row(sentence=f"A night owl, {k}.", expected_order="") for k in (1, 2)]
        write_table(*rows, name=f"blind/submission_{name}.tsv")
    for real in (shared / "admire2").glob("*.tsv"):
        shutil.copy(real, tmp_path / "blind")
    out, archive = tmp_path / "run", tmp_path / "submission.zip"
    _, err = passed(capsys, "rank", tmp_path / "blind", "--query", "compound", "--out", out)
    assert [call.args for call in opened.call_args_list] == [("e5",), ("minilm",)]
    for _ in range(2):
        _, err = passed(capsys, "submit", out, "--out", archive, "--without-sense")
    assert "has no file for" not in err
    with ZipFile(archive) as files:
        found = {name: read(files.open(name)) for name in files.namelist()}
    assert sorted(found) == sorted(f"submission_{code}.tsv" for code in CODES.split())
    for name, code in zip(NAMES.split(), CODES.split(), strict=True):
        blind = read(tmp_path / f"blind/submission_{name}.tsv")
        handed = found[f"submission_{code}.tsv"]
        assert list(handed) == ["compound", "sentence", "expected_order"]
        assert handed[["compound", "sentence"]].equals(blind[["compound", "sentence"]])
        for order, (_, row) in zip(handed["expected_order"], blind.iterrows(), strict=True):
            names = [row[f"image{k}_name"] for k in range(1, 6)]
            assert sorted(ast.literal_eval(order)) == sorted(names)
    assert len(found["submission_TR.tsv"]) == 180


def test_a_run_finds_its_data_from_any_folder(capsys, tmp_path, monkeypatch, write_table):
    write_table(admire_row(), name="blind/submission_Turkish.tsv")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "rank", "blind", "--query", "compound", "--out", "run")[0] == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(capsys, "submit", "../run")[0] == 0
    code, _, err = run(capsys, "report", "../run")
    assert (code, "--data" in err) == (0, False), err
    assert (tmp_path / "run" / "report.html").is_file()
    assert "(--out)" in ended(capsys, "report", "../run", "../run")


@pytest.mark.usefixtures("wide")
def test_a_run_over_languages_is_scored_by_language_and_by_their_mean(
    capsys, tmp_path, write_table
):
    first, last = (
        {"expected_order": str([f"{letter}.png" for letter in order])}
        for order in ("dabce", "eabcd")  # the compound finds the owl, d
    )
    write_table(admire_row(**first), admire_row("big owl", **first), name="gold/a_tr.tsv")
    write_table(admire_row(**last), name="gold/a_uz.tsv")  # what the Turkish file has, too
    gold, out = tmp_path / "gold", tmp_path / "run"
    assert run(capsys, "rank", gold, "--query", "compound", "--out", out)[0] == 0
    told = json_of(capsys, "score", out, "--gold", gold, "--json")
    table = pd.DataFrame(told["languages"][str(out)])
    assert table.loc[table["metric"] == "top1", "mean"].tolist() == [1.0, 0.0, 0.5]
    macro = table[table["group"] == "macro"].set_index("metric")["mean"]
    published = ("--published", "admire2")
    _, printed, _ = run(capsys, "score", out, "--gold", gold, *published, "--json")
    (board,) = json.loads(printed)["published"][str(out)]
    assert [place["mean"] for place in board["places"]] == [0.5, macro["ndcg5"]]
    assert f"By language, {out}" in run(capsys, "score", out, "--gold", gold)[1]
