import pandas as pd
import pytest
from benchmarks import PIES, pies, write_split

from admire import reproduce_table
from admire.apps.reproduce.recipe import read_recipe, recipe_names
from admire.apps.reproduce.results import Cell, draw_pictures
from admire.encoders.training_settings import FitSettings

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate", "pytorch_metric_learning"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from towers import save_sentence_transformer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")


@pytest.mark.parametrize("paper", ["he", "ynu-hpcc"])
def test_the_papers_have_one_rate_for_all_weights(paper):
    recipes = [read_recipe(name) for name in recipe_names() if name.startswith(f"{paper}:")]
    rows = [recipe.settings_of(row) for recipe in recipes for row in recipe.rows]
    rates = {row.get("learning_rate", FitSettings().learning_rate) for row in rows}
    rates |= {row["token_rate"] for row in rows if row.get("mwe_tokens")}
    assert rates == {2e-5}


def test_a_table_of_several_seeds_has_deviations_and_a_run_folder_of_each(tmp_path):
    for split, names in (("train", PIES), ("val", PIES[:4]), ("test", PIES[2:])):
        write_split(tmp_path / "idiolink", split, pies(names))
    encoder = f"sbert:{save_sentence_transformer(tmp_path / 'plain')}"
    recipe = tmp_path / "mine.toml"
    settings = f'encoder = "{encoder}", seeds = 2, seed = 3, epochs = 1, learning_rate = 5e-3'
    recipe.write_text(
        'paper = "P"\ntable = "T"\ntitle = "t"\ncommand = "train retriever"\n'
        'metrics = ["r_precision", "ndcg", "sense documents:ndcg"]\npicture = "points"\n'
        'sets.sentence.settings = { query = "sentence", split = "test" }\n'
        'sets.sentence.files = ["for_rows_of_other_tasks.tsv"]\n'
        f'rows = [{{ name = "a", settings = {{ {settings}, keep = "last", batch_size = 6 }},'
        " published = { sentence = [50.0, 60.0, 12.3456] } }]\n"
    )
    out = tmp_path / "out"
    table = reproduce_table(recipe, str(tmp_path / "idiolink"), out).set_index("metric")
    folders = (out / "a" / "sentence" / f"seed-{seed}" / "run" for seed in (3, 4))
    types = [pd.read_csv(folder / "types.csv", index_col="documents") for folder in folders]
    figures = [table.loc["sense", "ndcg"] for table in types]
    row = table.loc["sense documents:ndcg"]
    assert row["ours"] == pytest.approx(sum(figures) / 2)
    assert row["deviation"] == pytest.approx(abs(figures[0] - figures[1]) / 2)
    page = (out / "table.html").read_text(encoding="utf-8")
    assert f"{row['ours']:.3f} ± {row['deviation']:.3f}" in page
    assert "paper 12.3456" in page
    pytest.importorskip("matplotlib", reason="needs the extra 'report'")
    assert page.count("<svg") == 3
    assert f"a: sentence {row['ours']:.1f}." in page


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("uor-ncl:figure-2", ["GPT-3.5 + LABSE-14", "GPT-4 + LABSE-14", "GPT-4o + LABSE-14"]),
        ("uor-ncl:figure-4", ["Top-1 by epoch: K", "Top-1 by epoch: τ", "Top-1 by epoch: dropout"]),
    ],
)
def test_the_figures_of_uor_ncl_are_drawn_from_the_epochs_of_the_heads(tmp_path, name, titles):
    pytest.importorskip("matplotlib", reason="needs the extra 'report'")
    recipe = read_recipe(name)
    file = tmp_path / "epochs.csv"
    file.write_text(
        "epoch,training,validation,top1\n1,3.0,2.5,0.25\n2,2.0,2.0,0.5\n3,1.0,2.2,0.4\n"
    )
    cells = [Cell(recipe.name_of(row), "EN", ran=True, epochs=file) for row in recipe.rows]
    plots = draw_pictures(recipe, cells)
    assert [plot.title for plot in plots] == titles
    for said in (
        ("3.000 to 1.000", "lowest at epoch 2 (2.000), at the end 2.200", "0.500, at the end 0.400")
        if name.endswith("2")
        else ("0.500, at the end 0.400 of 3 epochs",)
    ):
        assert all(said in plot.words for plot in plots)
    assert draw_pictures(recipe, cells[:0]) == ()
