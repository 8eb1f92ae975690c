"""Tables for papers: Markdown, LaTeX with booktabs, or CSV, with a caption."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

Form = Literal["markdown", "latex", "csv"]
Format = Annotated[
    Form | None,
    Parameter(
        help="Print tables for a paper: markdown (needs the extra tables), latex (with booktabs), "
        "or csv."
    ),
]

LATEX = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
"""What LaTeX's own characters are in a text."""


def print_table(table: pd.DataFrame, caption: str, form: Form) -> None:
    """Print a table of texts, whose cells may have several lines; the caption of a CSV is logged.

    Raises:
        UserError: Markdown needs a package that is not installed.
    """
    if form == "csv":
        print(table.to_csv(index=False))
        log.info("%s", caption)
    elif form == "latex":
        styler = table.rename(columns=_latex).map(_latex).style.hide(axis="index")
        text = styler.to_latex(
            column_format="l" * len(table.columns),
            environment="table*",
            position="htbp",
            hrules=True,
            caption=_latex(caption),
        )
        # Five figures with intervals are wider than a column, and than a narrow page by a little.
        tabular = r"\makebox[\linewidth]{\footnotesize\setlength{\tabcolsep}{3pt}\begin{tabular}"
        text = text.replace(r"\begin{tabular}", tabular, 1)
        print(text.replace("\\end{tabular}\n\\end", "\\end{tabular}}\n\\end"))
    else:
        from admire.core.errors import check_extra

        check_extra("tables", "Markdown", "tabulate")
        shown = table.rename(columns=_markdown).map(_markdown)
        rows = shown.to_markdown(index=False, disable_numparse=True)
        print(f"{_markdown(caption)}\n\n{rows}\n")


def _latex(text: str) -> str:
    """Escape a text; an interval, and each further line, is below what it is of."""
    text = re.sub(r" (?=\[[+-]?\d)", "\n", str(text)).translate(LATEX)
    lines = [re.sub(r"(?<!\w)-(?=\d)", "$-$", line) for line in text.split("\n")]
    below = "".join(rf"\\{{\scriptsize {line}}}" for line in lines[1:])
    stack = rf"\begin{{tabular}}[t]{{@{{}}l@{{}}}}{lines[0]}{below}\end{{tabular}}"
    return stack if below else lines[0]


def _markdown(text: str) -> str:
    """Escape a text as GitHub reads it."""
    return re.sub(r"([\\`*_<|~])", r"\\\1", str(text)).replace("\n", "<br>")


def labels(paths: Sequence[object]) -> dict[object, str]:
    """Return short names of runs: the last parts of their paths, if these differ."""
    names = [str(path).rstrip("/").rpartition("/")[2] for path in paths]
    return dict(zip(paths, names if len({*names}) == len(names) else map(str, paths), strict=True))
