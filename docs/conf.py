"""The documentation site: the READMEs where they lie, and the reference from docstrings.

$ sphinx-build -W --keep-going -c docs . build/site
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic.dataclasses import is_pydantic_dataclass
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "admire"
author = "The admire developers"
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
myst_fence_as_directive = ["mermaid"]
mermaid_width, mermaid_height, mermaid_fullscreen = "min(100%, 34rem)", "auto", False
root_doc = "docs/index"
include_patterns = ["**.md", "docs/reference.rst"]
exclude_patterns = ["build", "**/node_modules", ".*"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
python_maximum_signature_line_length = 80
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # tables in what a console shows

html_theme = "furo"
html_title = "admire"
html_copy_source = False

autodoc_default_options = {"members": True, "undoc-members": True, "no-value": True}
autodoc_member_order = "bysource"
napoleon_use_ivar = True


def setup(app: Sphinx) -> None:
    app.connect("source-read", list_public_names)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", check_docstring)
    app.connect("autodoc-process-docstring", list_settings, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", without_options)
    app.connect("build-finished", redirect)


def list_public_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Name all that a module makes public; ``automodule`` leaves out other modules' constants."""
    if docname == "docs/reference":
        source[0] = re.sub(r"^\.\. public:: (\S+)$", directives, source[0], flags=re.MULTILINE)


def directives(line: re.Match[str]) -> str:
    module = import_module(line[1])
    kinds = ((name, kind(getattr(module, name))) for name in module.__all__)
    return "\n".join(f".. auto{kind}:: {line[1]}.{name}" for name, kind in kinds)


def kind(thing: object) -> str:
    return "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "data"


def skip_fields(app: Sphinx, kind: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Skip fields: a class's docstring describes them."""
    return skip or not (inspect.isroutine(obj) or isinstance(obj, property))


def check_docstring(
    app: Sphinx, kind: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Warn of a public name without a docstring. That of a constant stands where it is defined."""
    if kind == "data":
        short = name.rpartition(".")[2]
        homes = [n for n in sys.modules if n.startswith("admire.")]
        same = [n for n in homes if vars(sys.modules[n]).get(short) is obj]
        docs = [ModuleAnalyzer.for_module(n).find_attr_docs().get(("", short)) for n in same]
        lines[:] = next(filter(None, docs), [])
    if not any(lines):
        logging.getLogger(__name__).warning("%s has no docstring.", name)


def list_settings(
    app: Sphinx, kind: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """List a settings class's fields, which describe themselves."""
    if is_pydantic_dataclass(obj):
        lines.append("Attributes:")
        for field, info in obj.__pydantic_fields__.items():
            if info.description:
                lines.append(f"    {field}: {' '.join(info.description.split())}")


def without_options(
    app: Sphinx, kind: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str]:
    """Show a settings class's fields without their command-line options."""
    if is_pydantic_dataclass(obj):
        parameters = inspect.signature(obj).parameters.values()
        signature = f"({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"
    return signature, returns


def redirect(app: Sphinx, exception: Exception | None) -> None:
    page = '<meta http-equiv="refresh" content="0; url=docs/index.html">'
    (app.outdir / "index.html").write_text(page, encoding="utf-8")
