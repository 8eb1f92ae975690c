"""What the recipes' trained rows learn with: the optimiser's groups, and several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import PIES, pies, write_split
from sentences import GROUPS, training_rows, write_benchmark

from admire import reproduce_table
from admire.apps.reproduce.pictures import draw_pictures
from admire.apps.reproduce.recipe import Recipe, Row, read_recipe, recipe_names
from admire.apps.reproduce.results import Cell
from admire.apps.reproduce.rows import prepare, task_of

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate", "pytorch_metric_learning"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from towers import save_sentence_transformer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

TRAINED = ("train sentences", "train classifier", "train retriever")
UNLIKE = ("encoder", "keep", "query", "instruction_format", "seeds", "last_layers")
"""Settings by which rows differ that the optimiser does not depend on."""


def trained_rows() -> dict[str, tuple[Recipe, Row, str, str]]:
    """The recipes' trainings, each with a set and its recipe's name; like ones once."""
    rows: dict[str, tuple[Recipe, Row, str, str]] = {}
    for name in recipe_names():
        recipe = read_recipe(name)
        for row in recipe.rows if name.partition(":")[0] != "uor-ncl" else ():
            if row.run and recipe.command_of(row) in TRAINED:
                settings = {n: v for n, v in recipe.settings_of(row).items() if n not in UNLIKE}
                place = recipe.sets_of(row)[0]
                rows.setdefault(f"{recipe.command_of(row)} {settings}", (recipe, row, place, name))
    return {
        f"{name}, {recipe.name_of(row)}": (recipe, row, place, name)
        for recipe, row, place, name in rows.values()
    }


ROWS = trained_rows()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sbert:{save_sentence_transformer(tmp_path_factory.mktemp('models') / 'plain')}"


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    for split, names in (("train", PIES), ("val", PIES[:4]), ("test", PIES[2:])):
        write_split(tmp_path / "idiolink", split, pies(names))
    return tmp_path / "idiolink"


class Stopped(Exception):  # noqa: N818
    """Raised at the optimiser's first step."""


@pytest.mark.parametrize("key", ROWS)
def test_each_trained_row_begins_with_these_groups_of_weights(
    monkeypatch, tmp_path, write_table, encoder, benchmark, key
):
    recipe, row, place, name = ROWS[key]
    job = prepare(recipe, row, place, None, name)
    groups = write_table(*training_rows(GROUPS), name="train.csv")
    sts = write_benchmark(tmp_path / "sts.tsv")
    columns = {"Language": "EN", "Setting": "zero_shot", "Previous": "", "Next": ""}
    uses = write_table(
        *(
            columns
            | {"ID": f"{k}", "MWE": "night owl", "Target": "a night owl", "Label": f"{k % 2}"}
            for k in range(8)
        ),
        name="uses.csv",
    )
    from_pairs = job.options.get("objective") in ("regression", "classification", "cosent")
    data = {
        "train sentences": sts if from_pairs else groups,
        "train classifier": uses,
        "train retriever": benchmark,
    }[job.command]
    small: dict[str, Any] = {"encoder": encoder, "validation_gold": None, "batch_size": 4}
    small["validation"] = uses if job.command == "train classifier" else sts
    small |= {"mwes": (groups,), "sts": (sts,), "leave_out": (), "drop_dense": False}
    options = job.options | {k: v for k, v in small.items() if k in job.options} | {"batch_size": 4}
    seen: list[list[tuple[float, float, int]]] = []

    def step(self: torch.optim.Optimizer, *_: object, **__: object) -> None:
        seen.append(
            [
                (group["initial_lr"], group["weight_decay"], len(group["params"]))
                for group in self.param_groups
            ]
        )
        raise Stopped

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(Stopped):
        task_of(job.command).train([data], options | {"out": tmp_path / "out"})
    (found,) = seen
    print(key, found)
    rate, decay = options.get("learning_rate", 2e-5), options.get("weight_decay", 0.01)
    assert [group[:2] for group in found[:2]] == [(rate, decay), (rate, 0.0)]
    # Norms and biases never decay, and neither do the vectors of tokens where some are added: with
    # decay those of old tokens, which get no gradients, would not stay.
    own = [(options["token_rate"], 0.0, 1)] if options.get("mwe_tokens") else []
    assert found[2:] == own
    paper = name.partition(":")[0]
    if paper in ("he", "ynu-hpcc"):
        assert rate == 2e-5
        assert {group[0] for group in found} == {2e-5}, "the papers have one rate for all weights"


def test_a_table_of_several_seeds_has_deviations_and_a_run_folder_of_each(
    tmp_path, encoder, benchmark
):
    recipe = tmp_path / "mine.toml"
    settings = f'encoder = "{encoder}", seeds = 2, seed = 3, epochs = 1, learning_rate = 5e-3'
    recipe.write_text(
        'paper = "P"\ntable = "T"\ntitle = "t"\ncommand = "train retriever"\n'
        'metrics = ["r_precision", "ndcg", "sense documents:ndcg"]\npicture = "points"\n'
        'sets.sentence.settings = { query = "sentence", split = "test" }\n'
        f'rows = [{{ name = "a", settings = {{ {settings}, keep = "last", batch_size = 6 }},'
        " published = { sentence = [50.0, 60.0, 12.3456] } }]\n"
    )
    out = tmp_path / "out"
    table = reproduce_table(recipe, str(benchmark), out).set_index("metric")
    figures = [
        float(line.split(",")[2])
        for seed in (3, 4)
        for line in (out / "a" / "sentence" / f"seed-{seed}" / "run" / "types.csv")
        .read_text()
        .splitlines()
        if line.startswith("sense,")
    ]
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
