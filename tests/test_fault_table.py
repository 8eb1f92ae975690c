"""The table of faults in README.md names tests that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


def rows() -> list[list[str]]:
    """The cells of the table's rows: fault, what the user sees, what is kept, tests."""
    faults = (HERE / "README.md").read_text(encoding="utf-8").split("## Faults", 1)[1]
    lines = [line for line in faults.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] != "fault"]


@cache
def functions_of(name: str) -> set[str]:
    tree = ast.parse((HERE / name).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_fault_names_tests_that_there_are():
    missing = []
    for fault, *cells in rows():
        assert len(cells) == 3, fault
        assert all(cells), fault
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", cells[-1])
        assert named, fault
        missing += [f"{file}::{test}" for file, test in named if test not in functions_of(file)]
    assert missing == []
    assert len(rows()) >= 40
