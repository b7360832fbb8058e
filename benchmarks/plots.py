"""Plots of benchmarks' figures, for the documentation: panels of curves, one colour a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["curves"]

Points = tuple[Sequence[float], ...]
"""x and y; or x, y, and the least and the most y."""

GREY = "#808080"
"""Reads on a light page and on a dark one."""


def curves(
    path: Path,
    panels: Mapping[str, Mapping[str, Points]],
    x: str,
    y: str,
    *,
    log: bool = False,
    level: float | None = None,
    bottom: float | None = None,
) -> None:
    """Draw a panel for each title, with a curve for each name, into an SVG file.

    `level` draws a line across, where a curve should be. `bottom` is the least y of all panels.
    """
    mpl.rcParams |= {"svg.hashsalt": "streamboost", "svg.fonttype": "none", "font.size": 9}
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.2 * columns + 0.4, 2.6 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    names = list(dict.fromkeys(name for each in panels.values() for name in each))
    for axis, (title, each) in zip(axes, panels.items(), strict=False):
        for name, (xs, ys, *bounds) in each.items():
            colour = f"C{names.index(name)}"
            axis.plot(xs, ys, "o-", color=colour, label=name, markersize=3, linewidth=1.2)
            if bounds:
                axis.fill_between(xs, *bounds, color=colour, alpha=0.15, linewidth=0)
        if level is not None:
            axis.axhline(level, color=GREY, linewidth=0.8, linestyle="--")
        if bottom is not None:
            axis.set_ylim(bottom=bottom)
        axis.set_title(title, fontsize=9, color=GREY)
        axis.set(xlabel=x, ylabel=y, xscale="log" if log else "linear")
        axis.tick_params(colors=GREY)
        for part in (axis.xaxis.label, axis.yaxis.label, *axis.spines.values()):
            part.set_color(GREY)
    for axis in axes[len(panels) :]:
        axis.remove()
    handles = {h.get_label(): h for axis in axes[: len(panels)] for h in axis.get_lines()}
    shown = {name: handles[name] for name in names}
    figure.legend(
        shown.values(), shown, loc="outside lower center", ncols=4, frameon=False, labelcolor=GREY
    )
    figure.savefig(path, transparent=True, metadata={"Date": None})
