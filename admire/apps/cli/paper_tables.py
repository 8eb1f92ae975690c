"""Tables for papers: Markdown, LaTeX with booktabs, or CSV, with a caption."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from admire.core.errors import check_extra

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
    table = table.rename(columns=_heading)
    if form == "csv":
        print(table.to_csv(index=False))
        log.info("%s", caption)
    elif form == "latex":
        styler = table.rename(columns=_latex).map(_latex).style.hide(axis="index")
        columns, escaped = "l" * len(table.columns), _latex(caption)
        text = styler.to_latex(
            column_format=columns, environment="table*", hrules=True, caption=escaped
        )
        # Five figures with intervals are wider than a column, and than a narrow page by a little.
        small = r"\makebox[\linewidth]{\footnotesize\setlength{\tabcolsep}{3pt}\begin{tabular}"
        text = text.replace(r"\begin{tabular}", small, 1)
        print(text.replace("\\end{tabular}\n\\end", "\\end{tabular}}\n\\end"))
    else:
        check_extra("tables", "Markdown", "tabulate")
        table = table.rename(columns=_markdown).map(_markdown)
        rows = table.to_markdown(index=False, disable_numparse=True)
        print(f"{_markdown(caption)}\n\n{rows}\n")


def _heading(column: str) -> str:
    from admire.apps.report.report import describe_figure

    group, colon, name = column.rpartition(":")
    own = {"run": "Run", "group": "Items", "row": "Row", "set": "Set"}
    return group + colon + " " * bool(colon) + (own.get(name) or describe_figure(name)[0])


def _latex(text: str) -> str:
    """Escape a text; an interval, and each further line, is below what it is of."""
    text = re.sub(r" (?=\[[+-]?\d)", "\n", str(text)).translate(LATEX)
    first, *lines = re.sub(r"(?<!\w)-(?=\d)", "$-$", text).split("\n")
    below = "".join(rf"\\{{\scriptsize {line}}}" for line in lines)
    return rf"\begin{{tabular}}[t]{{@{{}}l@{{}}}}{first}{below}\end{{tabular}}" if below else first


def _markdown(text: str) -> str:
    """Escape a text as GitHub reads it."""
    return re.sub(r"([\\`*_<|~])", r"\\\1", str(text)).replace("\n", "<br>")
