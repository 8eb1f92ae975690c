"""Plots as SVG that takes its colours, its font and its width from the page around it."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from admire.apps.report.report import Plot
from admire.core.errors import needs_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = ("ink", "muted", "line", "idiomatic", "literal", "good", "bad")
_RUNS = tuple(f"run{k}" for k in range(1, 7))
_COLOURS = {f"#a5{k:02x}5a": f"var(--{name})" for k, name in enumerate((*_NAMES, *_RUNS))}
"""Colours that Matplotlib can draw with, and the page's custom properties that replace them."""

INK, MUTED, LINE, IDIOMATIC, LITERAL, GOOD, BAD, *RUNS = _COLOURS
MARKERS = "osD^vPX"
"""Runs differ by these as well, for people who see no difference between their colours. There is
one more of them, so that the seventh run is not like the first."""

WIDTH = 4.0
"""Of a plot, in inches. A unit of its SVG is a point; on a phone of 360 px that is about 1.1 px."""

_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a run may be called $x$
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 11),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 10.5),
    **dict.fromkeys(("legend.fontsize", "legend.title_fontsize"), 10.5),
    **dict.fromkeys(("legend.frameon", "axes.spines.top", "axes.spines.right"), False),
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    **dict.fromkeys(("axes.facecolor", "figure.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), LINE),
    "axes.labelcolor": MUTED,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


def draw(
    name: str,
    title: str,
    words: str,
    paint: Callable[[Figure], None],
    *,
    height: float = 2.8,
    views: Mapping[str, str] | None = None,
) -> Plot:
    """Return a plot that a function paints on an empty figure, by the colours of this module.

    Args:
        name: makes the ids in the SVG, so no two plots of a page may share it.
        height: in inches without the legend, beside a width of :data:`WIDTH`.
        views: what the links in the plot (``set_url``) show of the cards, by their addresses.
    """
    with needs_extra("report", "A report"):
        import matplotlib
        from matplotlib.figure import Figure

    # Matplotlib's defaults, whatever the user's own file says.
    style: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_STYLE, "svg.hashsalt": name}
    del style["backend"]
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Letters that Matplotlib's own font lacks are drawn by the page's.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return Plot(title, _for_page(file.getvalue(), title, views or {}), words)


def short(name: str, width: int = 18) -> str:
    """Return a run's name, cut in the middle to fit, without characters that cannot be shown."""
    printable = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    if len(printable) <= width:
        return printable
    end = width // 2
    return f"{printable[: width - end - 1]}…{printable[-end:]}"


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], title: str = "") -> None:
    """Draw a legend above the axes, in as many columns as fit; the figure grows by its height."""
    letters = [len(label) + 5 for label in labels]
    columns = len(labels) if sum(letters) <= 48 else 2 if 2 * max(letters) <= 46 else 1
    place: dict[str, Any] = {"loc": "outside upper left", "borderaxespad": 0, "alignment": "left"}
    figure.legend(handles, labels, ncols=columns, title=title or None, **place)
    lines = math.ceil(len(labels) / columns) + bool(title)
    figure.set_figheight(figure.get_figheight() + 0.2 * lines)


def _for_page(svg: str, title: str, views: Mapping[str, str]) -> str:
    """Matplotlib's SVG without what the page sets itself: size, font, colours, a style sheet."""
    (box,) = re.findall(r'viewBox="([^"]*)"', svg)
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href", "href")
    referred = set(re.findall(r"""(?:url\(|href=")#([^)"]+)""", body))
    body = re.sub(r' id="([^"]*)"', lambda id: id[0] if id[1] in referred else "", body)
    body = re.sub(r"font-(?:family|stretch): [^;\"]*;? ?", "", body)
    for colour, custom in _COLOURS.items():
        body = body.replace(colour, custom)
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    for view, texts in views.items():
        link = f'<a href="{escape(view)}"'
        body = body.replace(f'{link} target="_blank">', f'{link} aria-label="{escape(texts)}">')
    role = "group" if views else "img"  # nothing in an image can be reached
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="{role}" '
        f'aria-label="{escape(title)}" stroke-linejoin="round"><title>{escape(title)}</title>'
    )
    return head + body
