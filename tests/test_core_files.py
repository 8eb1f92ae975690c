import os
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from admire.core.errors import UserError
from admire.core.files import add_table, numbered_rows, path_inside, read_table

PARTS = ("a", "..", ".", "", "out", "in", "up", "/", "\\", "C:", "\0", " ", "~", "a.png", "é")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    folder = place / "set"
    (folder / "a" / "a").mkdir(parents=True)
    (place / "secret.png").write_text("secret")
    (folder / "a.png").write_text("picture")
    for name, target in (("out", place / "secret.png"), ("in", "a"), ("a/up", ".."), ("up", "..")):
        (folder / name).symlink_to(target)
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PARTS), max_size=6), st.booleans(), st.booleans())
@example(["a", "up", "up", "secret.png"], False, False)
@example(["in", "..", "..", "secret.png"], False, True)
def test_a_path_is_inside_or_refused(folder: Path, parts: list[str], absolute: bool, follow: bool):
    name = "/".join([str(folder)] * absolute + parts)
    try:
        path = path_inside(folder, name, follow_links=follow)
    except UserError:
        return
    assert path == os.path.normpath(path)
    assert not os.path.isabs(path)
    assert path.split(os.sep)[0] != ".."
    if not follow:
        assert (folder / path).resolve().is_relative_to(folder)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        *(("a.png", "a.png"), ("./a//a.png", "a/a.png"), ("a/../a.png", "a.png")),
        *(("{folder}/a.png", "a.png"), ("{folder}/a/../a.png", "a.png"), ("in/x", "in/x")),
        *(("...", "..."), ("..a", "..a"), ("a:b.png", "a:b.png"), ("AC\\DC.png", "AC\\DC.png")),
        *(("gone/x.png", "gone/x.png"), ("x" * 1000, "x" * 1000)),
        *((name, "is outside") for name in ("..", "../a.png", "a/../../secret.png", "/etc/passwd")),
        *((name, "is outside") for name in ("{folder}/../secret.png", "{folder}2/a.png", "//a")),
        *(
            (name, "is outside")
            for name in ("..\\a", "a\\..\\..\\a", "C:\\a", "C:..\\a", "\\\\s\\a")
        ),
        *((name, "is a link out of") for name in ("out", "up/secret.png", "a/up/up/x")),
        *((name, "cannot be the name") for name in ("", " ", "a\0.png")),
    ],
)
def test_names_stay_in_the_folder(folder: Path, name: str, inside: str):
    name = name.format(folder=folder)
    if " " not in inside:
        assert path_inside(folder, name, follow_links=False) == inside
        return
    with pytest.raises(UserError, match=inside):
        path_inside(folder, name, follow_links=False)
    if "link" in inside:
        assert path_inside(folder, name, follow_links=True) == os.path.normpath(name)


def test_a_folder_may_itself_be_a_link(folder: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(folder)
    for name in (folder / "a.png", tmp_path / "link" / "a.png", "a.png"):
        assert path_inside(tmp_path / "link", str(name), follow_links=False) == "a.png"


HEAD = "compound\tsentence\timage1_name\timage1_caption\n"
JOINED = {
    "last cells": 'a\tb\tc\t"d\ne\tf\tg\th\ni\tj\tk\t"l\nm\tn\to\tp\n',
    "cells in the middle": 'a\t"b\tc\td\ne\tf\tg\th\ni\t"j\tk\tl\nm\tn\to\tp\n',
    "beside a quoted cell": 'a\t"b\tc\td\ne\tf\tg\th\ni\t"j"\tk\tl\nm\tn\to\tp\n',
    "closed where a cell ends": 'a\t"b\tc\td\ne\tf\tg\th\ni\tj"\tk\tl\nm\tn\to\tp\n',
    "three of them": 'a\t"b\tc\td\ne\tf\tg\th\ni\t"j\tk\tl\nm\t"n\to\tp\n',
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", ["\t", ",", ";"])
@pytest.mark.parametrize("rows", JOINED.values(), ids=JOINED)
def test_no_row_vanishes_in_a_cell_whose_quotation_mark_is_not_closed(
    tmp_path: Path, rows: str, separator: str, end: str
):
    path = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    first = f'x\t"""Night owl"" is what they call me"\t\t"two\nlines"\n\t\t\t\n\n{rows}'
    text = (HEAD + first).replace("\t", separator).replace("\n", end)
    path.write_text(text, encoding="utf-8", newline="")
    column = "image1_caption" if rows.startswith("a\tb") else "sentence"
    with pytest.raises(UserError, match=rf"t\..sv, row 3, {column}: .* rows 3 to 5 are one"):
        read_table(path, ("compound",))


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ('5" and 6"\tb', ['5" and 6"', "b"]),
        ('"a\tb"\t"two\nlines"', ["a\tb", "two\nlines"]),
        ('"a\n\tb"\t"c"', ["a\n\tb", "c"]),  # all quoted, as programs write them
        ('"""So,"" he said,\nand left, at once"\tb', ['"So," he said,\nand left, at once', "b"]),
        ('"Night owl" is me\tb', "row 1: a cell begins with a quotation mark and does not end"),
        ('a\t"b\t"c', "row 1: a cell begins"),
        ('a\t"b\nc', r"row 1: a cell begins .*, so rows 1 to 2 are one"),
    ],
)
@pytest.mark.parametrize("separator", ["\t", ","])
def test_a_quotation_mark_that_begins_a_cell_ends_it(tmp_path: Path, row, cells, separator):
    path = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    path.write_text(f"x\ty\n{row}\n".replace("\t", separator), encoding="utf-8")
    if isinstance(cells, str):
        with pytest.raises(UserError, match=cells):
            read_table(path, ())
    else:
        expected = [cell.replace("\t", separator) for cell in cells]
        assert read_table(path, ()).to_numpy().tolist() == [expected]


CELLS = st.text(st.sampled_from('a"\t,; \n\r'), max_size=6)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=3), st.sampled_from("\t,"))
def test_a_table_that_was_written_is_read_back_cell_for_cell(tmp_path: Path, rows, separator):
    path = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    table = pd.DataFrame([(*row, "x") for row in rows], columns=["a", "b", "c", "d"])
    with path.open("w", encoding="utf-8", newline="") as file:
        add_table(file, table, separator=separator)
    assert read_table(path, ()).to_numpy().tolist() == table.to_numpy().tolist()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_spreadsheets_write_is_read(tmp_path: Path, encoding: str):
    path = tmp_path / "t.CSV"
    path.write_bytes("id;text\r\n;\r\n1;Schön – 夜\r\n ;\t\r\n".encode(encoding))
    table = read_table(path, ("id",))
    assert (table.to_numpy().tolist(), [*table.index]) == ([["1", "Schön – 夜"]], [1])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_tables_of_every_kind_have_the_same_cells_and_numbers(tmp_path: Path, suffix: str):
    for package in ("openpyxl", "pyarrow"):
        pytest.importorskip(package, reason="needs the extra 'tables'")
    path = tmp_path / f"t{suffix}"
    table = pd.DataFrame({"id": [1, None, 3], "text": ["Schön – 夜", None, "a\nb"]}, dtype=object)
    if suffix == ".csv":
        table.to_csv(path, index=False)
    elif suffix == ".parquet":
        table.astype({"id": "Int64"}).to_parquet(path)
    else:
        with pd.ExcelWriter(path) as book:
            table.to_excel(book, sheet_name="1", index=False, startrow=2)
            pd.DataFrame({"id": ["x"]}).to_excel(book, sheet_name="Zwei #2", index=False)
        sheet = read_table(path.with_name("t.xlsx#Zwei #2"), ("id",))
        assert sheet.to_numpy().tolist() == [["x"]]
        with pytest.raises(UserError, match=r"t\.xlsx#3: .*'3' not found"):
            read_table(path.with_name("t.xlsx#3"), ())
    read = read_table(path, ("id",))
    assert read.to_numpy().tolist() == [["1", "Schön – 夜"], ["3", "a\nb"]]
    assert [number for number, _ in numbered_rows(read)] == [1, 3]
    with pytest.raises(
        UserError, match=r"the column 'compound' is missing\. The file has: id, text"
    ):
        read_table(path, ("compound",))
    path.write_bytes(b"PK")
    if suffix != ".csv":
        with pytest.raises(UserError, match=r"not a Parquet file|as an Excel file"):
            read_table(path, ())


def test_windows_1252_is_told_how_to_save_it(tmp_path: Path):
    (tmp_path / "t.csv").write_bytes("id\n1\nSchön\n".encode("cp1252"))
    with pytest.raises(UserError, match=r"row 2: is not UTF-8 .* 'CSV UTF-8'"):
        read_table(tmp_path / "t.csv", ())


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (" Compound,x", "'compound' is missing. Rename ' Compound'"),
        ("x,y", "'compound' is missing. The file has: x, y"),
        ("compound,x,compound", "'compound' appears twice"),
    ],
)
def test_a_column_that_is_needed_is_there_once(tmp_path: Path, header: str, message: str):
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n"[: -3 if header.count(",") < 2 else None])
    with pytest.raises(UserError, match=message):
        read_table(tmp_path / "t.csv", ("compound",))
