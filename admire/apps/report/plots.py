"""Plots of a report's cards, the tables of numbers that they draw, and SVG that fits its page."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from admire.apps.report.report import OTHER_FIGURES, Plot, describe_figure
from admire.core.errors import needs_extra
from admire.metrics.figures import GROUPS, RISKS, at_coverages, item_metrics, risk_curve, summarise
from admire.metrics.metrics import BEST_DCG, calibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 10  # of probabilities
FEW = 5  #: bins of fewer items are not joined by a line

SENSES = ("idiomatic", "literal")
DECIDED = ["sentence_type", "probability_idiomatic"]
"""Columns that an item of :func:`result_table` needs for its probability to be compared."""

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

DASHES: tuple[Any, ...] = ("solid", (0, (4, 2)), (0, (1, 1)), (0, (4, 1, 1, 1)))
"""Line styles, for people who cannot distinguish the runs' colours."""


def draw_plots(data: Mapping[str, Any]) -> tuple[Plot, ...]:
    """Return the plots of a report's data, except those without numbers; see ``docs/report.md``."""
    runs, cases = [run["name"] for run in data["runs"]], result_table(data)
    metrics = [name for name in (*item_metrics(cases), *OTHER_FIGURES) if name in cases]
    return (
        *(
            _figure_plot(runs, cases.dropna(subset=metric), metric)
            for metric in metrics
            if not metric.startswith("corr_") and cases[metric].notna().any()
        ),
        *_reliability(runs, cases),
        *_risk_coverage(runs, cases),
        *_confusion(runs, cases),
    )


def result_table(data: Mapping[str, Any]) -> pd.DataFrame:
    """Return the results: a row for each run and item, with unknown values None or NaN.

    ``run`` is its place in the data, ``sentence_type`` gold, and ``candidates`` how many there are,
    or how many documents are shown. Items that some run lacks are left out, unless all are such.
    """
    rows = [
        {
            "shared": None not in item["runs"],
            "run": run,
            "sentence_type": item["sense"],
            "predicted_type": None if result.get("given") else result.get("sense"),
            "probability_idiomatic": result.get("probability_idiomatic"),
            "right": result.get("right"),
            "candidates": len(item.get("candidates") or result.get("documents", ())),
            **{metric: (result["figures"] or {}).get(metric) for metric in data["metrics"]},
        }
        for item in data["items"]
        for run, result in enumerate(item["runs"])
        if result is not None
    ]
    numbers = ("probability_idiomatic", *data["metrics"])
    names = ("run", "sentence_type", "predicted_type", "right", "candidates", *numbers)
    shared = [row for row in rows if row["shared"]]
    table = pd.DataFrame(shared or rows, columns=list(names), dtype=object)
    return table.astype(dict.fromkeys(numbers, float) | {"run": int, "candidates": int})


def by_run(table: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return the rows of each run, by its place in the data."""
    return {int(run): table[table["run"] == run] for run in sorted(set(table["run"]))}


def reliability(cases: pd.DataFrame) -> pd.DataFrame:
    """Return how often the idiomatic sense is the true one, by the probability that it was given.

    A row has ``run``, ``bin`` (from 0), ``n``, ``predicted`` (the mean) and ``observed`` (a share).
    """
    decided = cases.dropna(subset=DECIDED)
    bins = np.minimum((decided["probability_idiomatic"] * BINS).astype(int), BINS - 1)
    binned = decided.assign(bin=bins, observed=decided["sentence_type"] == "idiomatic")
    return binned.groupby(["run", "bin"], as_index=False).agg(
        n=("observed", "size"),
        predicted=("probability_idiomatic", "mean"),
        observed=("observed", "mean"),
    )


def risk_curves(cases: pd.DataFrame) -> pd.DataFrame:
    """Return :func:`risk_curve` for each run that has probabilities, with the column ``run``.

    ``top1_risk`` is NaN if the best candidate of some item is unknown.
    """
    tables = [
        risk_curve(part.assign(top1=part["right"].astype(float))).assign(run=run)
        for run, part in by_run(cases).items()
        if part["probability_idiomatic"].notna().any()
    ]
    return pd.concat(tables) if tables else pd.DataFrame({"run": []})


def confusion(cases: pd.DataFrame) -> pd.DataFrame:
    """Return how many items of each sense were taken as which, or as ``none``, by run."""
    labelled = cases.dropna(subset="sentence_type")
    predicts = labelled.groupby("run")["predicted_type"].transform("count") > 0
    labelled = labelled[predicts]
    predicted = labelled["predicted_type"].fillna("none")
    runs = sorted(set(labelled["run"]))
    columns = [*SENSES, *(["none"] if (predicted == "none").any() else [])]
    counts = pd.crosstab([labelled["run"], labelled["sentence_type"]], predicted)
    index = pd.MultiIndex.from_product([runs, SENSES], names=["run", "sentence_type"])
    return counts.reindex(index=index, columns=columns, fill_value=0)


CHANCES: Mapping[str, Callable[[Any], Any]] = {
    "top1": lambda places: places == 1,
    "item_accuracy": lambda places: places == 1,
    "mrr": lambda places: 1 / places,
    "dcg": lambda places: (3 + 1) / np.log2(places + 1),  # of the two best candidates
}
"""Figures of an item, by the places from 1 at which its best candidate can stand."""


def chance(cases: pd.DataFrame, metric: str) -> float | None:
    """Return the mean figure of random orders; None if it is not defined."""
    counted = cases[cases[metric].notna() & (cases["candidates"] > 0)]
    if counted.empty or metric not in CHANCES:
        return None
    means = counted["candidates"].map(lambda n: CHANCES[metric](np.arange(1, n + 1)).mean())
    return float(means.mean())


def _figure_plot(runs: Sequence[str], cases: pd.DataFrame, metric: str) -> Plot:
    name, expected = describe_figure(metric)[0], chance(cases, metric)
    name = name if metric == "ndcg" else name[0].upper() + name[1:]
    summaries = {run: summarise(part, columns=[metric]) for run, part in by_run(cases).items()}
    summary = pd.concat(summaries.values())
    sizes = summary.groupby("group")["n"].max()
    groups = [group for group in GROUPS if group in sizes]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        step = min(0.24, 0.72 / len(summaries))
        handles = []
        for place, (run, rows) in enumerate(summaries.items()):
            at = np.array([groups.index(group) for group in rows["group"]], float)
            handles.append(
                axes.errorbar(
                    rows["mean"],
                    at + step * (place - (len(summaries) - 1) / 2),
                    xerr=np.array([rows["mean"] - rows["low"], rows["high"] - rows["mean"]]),
                    fmt=MARKERS[run % len(MARKERS)],
                    color=RUNS[run % len(RUNS)],
                    elinewidth=2,
                )
            )
        axes.set_yticks(range(len(groups)), [f"{group}\nn = {sizes[group]}" for group in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.tick_params(left=False)
        axes.grid(axis="x")
        if metric == "dcg":
            least = float(np.nanmin(summary[["low", "mean"]].to_numpy(float)))
            axes.set_xlim(min(2.0, least) - 0.1, BEST_DCG + 0.05)
        elif summary["mean"].between(0, 1).all():
            axes.set_xlim(-0.02, 1.02)
        axes.locator_params(axis="x", nbins=6)
        if expected:
            axes.axvline(expected, color=MUTED, linestyle=":")
            style: dict[str, Any] = {"color": MUTED, "fontsize": 10, "va": "bottom", "ha": "center"}
            axes.text(expected, 1, "chance", transform=axes.get_xaxis_transform(), **style)
        if len(runs) > 1:
            legend(figure, handles, [short(runs[run]) for run in summaries])

    words = f"{name}, mean and 95 % interval; the table Figures has the numbers."
    words += f" The dotted line is chance, {expected:.3f}." if expected else ""
    by = "usage" if metric in ("r_precision", "ndcg") else "sense"
    title = f"{name} by {by}" if metric != "sense_accuracy" else "Accuracy of the sense"
    height = 0.5 + len(groups) * max(0.6, 0.16 * len(runs))
    return draw(f"figures-{metric}", title, words, paint, height=height)


def _reliability(runs: Sequence[str], cases: pd.DataFrame) -> Iterator[Plot]:
    bins = reliability(cases)
    if bins.empty:
        return
    bins_of, decided = by_run(bins), by_run(cases.dropna(subset=DECIDED))
    errors = {}
    for run, part in decided.items():
        is_idiomatic = part["sentence_type"] == "idiomatic"
        errors[run] = calibration_error(part["probability_idiomatic"], is_idiomatic, BINS)
    each = ", ".join(f"{runs[run]} {error:.3f}" for run, error in errors.items())
    words = (
        "How often the idiomatic sense is the true one, by the probability that it was given; "
        "on the dotted line both agree. Below: how many items have such a probability; bins of "
        f"fewer than {FEW} have a hollow mark and no line. Expected calibration error: {each}."
    )
    views = {
        _bin_view(run, k): f"{short(runs[run], 60)}, probability {k / BINS:.1f} to "
        f"{(k + 1) / BINS:.1f}: {n}"
        for run, k, n in bins[["run", "bin", "n"]].itertuples(index=False)
    }

    def paint(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], color=MUTED, linestyle=":", linewidth=1.2)
        lines = []
        width = 0.9 / BINS / len(bins_of)
        for place, (run, part) in enumerate(bins_of.items()):
            colour = RUNS[run % len(RUNS)]
            under = _under(place, len(bins_of))
            style: dict[str, Any] = {"marker": MARKERS[run % len(MARKERS)], "color": colour}
            style["markersize"] = 5.5 + 1.5 * under
            many = part["n"] >= FEW
            observed = part["observed"].where(many)  # a gap ends the line
            lines += above.plot(part["predicted"], observed, linewidth=1.6 + under, **style)
            few = part[~many]
            above.plot(few["predicted"], few["observed"], linestyle="", fillstyle="none", **style)
            at = (part["bin"] + 0.5) / BINS + width * (place - (len(bins_of) - 1) / 2)
            below.bar(at, part["n"], width * 0.92, color=colour)
            # A bar of one item among many can hardly be hit, so its whole column is the link.
            columns = below.bar(at, bins["n"].max(), width * 0.92, color=colour, alpha=0.12)
            for column, k in zip(columns, part["bin"], strict=True):
                column.set_url(_bin_view(run, k))
        above.set(ylabel="share idiomatic", xlim=(-0.02, 1.02), ylim=(-0.04, 1.04))
        above.tick_params(bottom=False, left=False)
        above.grid()
        below.set(xlabel="probability of the idiomatic sense", ylabel="items")
        below.locator_params(axis="y", integer=True)
        below.tick_params(bottom=False, left=False)
        below.grid(axis="y")
        if len(runs) > 1:
            labels = [f"{short(runs[run], 12)} {error:.3f}" for run, error in errors.items()]
            legend(figure, lines, labels, "expected calibration error:")
        else:
            legend(figure, lines, [f"expected calibration error {errors[0]:.3f}"])

    title = "Reliability of the sense probability"
    yield draw("reliability", title, words, paint, height=3.2, views=views)


def _bin_view(run: int, place: int) -> str:
    return f"#run={run}&probability={place / BINS:.1f}"


def _under(place: int, lines: int) -> int:
    """Return how much thicker a line is than the last, so that no later one hides it."""
    return max(0, min(3, lines - 1) - place)


def _risk_coverage(runs: Sequence[str], cases: pd.DataFrame) -> Iterator[Plot]:
    curves = risk_curves(cases)
    if curves.empty:
        return
    ranked = (cases["candidates"] > 0).any() and curves["top1_risk"].notna().all()
    drawn = list(RISKS)[: 2 if ranked else 1]
    words = [
        "Share of wrong items if only those with the surest senses are answered; at the right, all "
        "are."
    ]
    lines_of = by_run(curves)
    for run, curve in lines_of.items():
        half = at_coverages(curve, (0.5,)).iloc[0]
        widths = np.diff(curve["coverage"], prepend=0.0)
        each = (
            f"{RISKS[risk]} {curve[risk].iloc[-1]:.3f} of all, {half[risk]:.3f} of the surest "
            f"{half['items']:.0f}, area {(widths * curve[risk]).sum():.3f}"
            for risk in drawn
        )
        words.append(f"{runs[run]}: {'; '.join(each)}.")

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
        for panel, risk in zip(panels, drawn, strict=True):
            lines = []
            for place, (run, curve) in enumerate(lines_of.items()):
                lines += panel.step(
                    [0.0, *curve["coverage"]],
                    [curve[risk].iloc[0], *curve[risk]],
                    where="pre",
                    color=RUNS[run % len(RUNS)],
                    linestyle=DASHES[run % len(DASHES)],
                    linewidth=1.6 + _under(place, len(lines_of)),
                )
            panel.set_xlim(-0.02, 1.02)
            panel.set_ylim(bottom=-0.02)
            plain(panel, RISKS[risk])
        panels[-1].set_xlabel("share of the items, the surest first")
        if len(runs) > 1:
            legend(figure, lines, [short(runs[run]) for run in lines_of])

    title = "Errors by how many are answered"
    yield draw("risk-coverage", title, " ".join(words), paint, height=1.2 + 1.2 * len(drawn))


def _confusion(runs: Sequence[str], cases: pd.DataFrame) -> Iterator[Plot]:
    counts = confusion(cases)
    if counts.empty or not counts.drop(columns="none", errors="ignore").to_numpy().any():
        return
    there = list(dict.fromkeys(counts.index.get_level_values("run")))
    words, views = [], {}
    for run in there:
        rows = []
        for true in SENSES:
            predicted = dict(counts.loc[(run, true)].items())
            items = f"{true} items taken as"
            rows.append(f"{items} {', '.join(f'{name} {n}' for name, n in predicted.items())}")
            for name, n in predicted.items():
                views[_cell_view(run, true, name)] = f"{short(runs[run], 60)}, {items} {name}: {n}"
        words.append(f"{runs[run]}: {'; '.join(rows)}.")
    columns = 1 if "none" in counts else min(2, len(there))
    lines = math.ceil(len(there) / columns)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
        for panel in panels.flat[len(there) :]:
            panel.set_axis_off()
        for panel, run in zip(panels.flat, there, strict=False):
            _confusion_panel(panel, counts.loc[run], run)
            if len(runs) > 1:
                panel.set_title(short(runs[run], 14))
        figure.supxlabel("predicted", fontsize=11, color=MUTED)
        figure.supylabel("true", fontsize=11, color=MUTED)

    height = 0.6 + lines * (1.9 if columns == 1 else 1.45)
    title = "Confusion of the senses"
    yield draw("confusion", title, " ".join(words), paint, height=height, views=views)


def _cell_view(run: int, true: str, predicted: str) -> str:
    return f"#run={run}&sense={true}&taken={predicted}"


def _confusion_panel(axes: Axes, counts: pd.DataFrame, run: int) -> None:
    """Counts in cells; a fuller cell has more of its row."""
    from matplotlib.patches import Rectangle

    for y, true in enumerate(counts.index):
        total = max(1, int(counts.loc[true].sum()))
        for x, predicted in enumerate(counts.columns):
            n = int(counts.loc[true, predicted])
            colour = GOOD if true == predicted else BAD
            cell = Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, alpha=0.45 * n / total)
            cell.set_url(_cell_view(run, true, predicted) if n else None)
            axes.add_patch(cell)
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=LINE))
            axes.text(x, y, str(n), ha="center", va="center", fontsize=13)
    axes.set(xlim=(-0.5, len(counts.columns) - 0.5), ylim=(len(counts) - 0.5, -0.5))
    axes.set_xticks(range(len(counts.columns)), list(counts.columns))
    axes.set_yticks(range(len(counts)), list(counts.index))
    axes.tick_params(bottom=False, left=False)
    axes.spines[:].set_visible(False)


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
        height: in inches without the legend.
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


def plain(axes: Axes, label: str) -> None:
    """Draw a grid in place of ticks, with few lines for the values of a label."""
    axes.set_ylabel(label)
    axes.locator_params(axis="y", nbins=5)
    axes.tick_params(bottom=False, left=False)
    axes.grid()


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
