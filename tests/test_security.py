"""SECURITY.md: each test that it names for a promise exists."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROMISES = [
    line.strip("|").split(" | ")
    for line in (HERE.parent / "SECURITY.md").read_text(encoding="utf-8").splitlines()
    if re.search(r"\| (test_|::)", line)
]


@pytest.mark.parametrize(("promise", "names"), PROMISES, ids=lambda cell: cell.strip()[:50])
def test_the_test_of_a_promise_exists(promise: str, names: str):
    file = ""
    for name in names.strip().split(", "):
        file, _, test = (name if name.startswith("test_") else file + name).partition("::")
        content = (HERE / f"{file}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def {test or 'test_'}", content, re.MULTILINE), name
