"""HTML page of the demo's results, self-contained in one file.

Colours and panels are those of the service's pages (`dashboard/static/pages.css`).
"""

from collections.abc import Sequence
from html import escape

from streamboost.pipelines.demo.compare import StrategyResult
from streamboost.pipelines.demo.curve import Axes, Point
from streamboost.pipelines.demo.table import (
    HEADINGS,
    display_name,
    forecast_text,
    result_cells,
)

_STYLE = """
:root { color-scheme: light dark;
  --page: #f6f7f8; --surface: #ffffff; --text: #1b2126; --muted: #56616c; --border: #dde1e6;
  --series-1: #1f66c7; --series-2: #b4540a; --series-3: #6d4bb5; --grey: #6c7680; }
@media (prefers-color-scheme: dark) { :root {
  --page: #131619; --surface: #1b1f24; --text: #e7eaed; --muted: #a3adb7; --border: #31373e;
  --series-1: #6cabff; --series-2: #f2a65e; --series-3: #b79cf5; --grey: #98a2ac; } }
body { margin: 0 auto; max-width: 1000px; padding: 24px 20px 48px; background: var(--page);
  color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; }
p { margin: 4px 0; color: var(--muted); overflow-wrap: anywhere; }
section { background: var(--surface); border: 1px solid var(--border); border-radius: 10px;
  padding: 18px 20px; margin-top: 18px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--border);
  font-weight: 400; }
th:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--muted); font-size: .8rem; }
svg { display: block; width: 100%; height: auto; font-size: 12px; }
svg text { fill: var(--muted); }
.grid { stroke: var(--border); }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.key { display: inline-block; width: 22px; margin: 0 6px 3px 0; border-top: 3px; }
.legend span { margin-right: 18px; white-space: nowrap; }
summary { cursor: pointer; font-size: .85rem; color: var(--muted); }
"""
_LOOKS = {
    "margin": ("--series-1", ""),
    "random": ("--series-2", "7 4"),
    "repeat_last": ("--grey", "2 4"),
    "all": ("--series-3", "12 3 2 3"),
}
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 340, 52, 16, 12, 44


def results_page(
    records: str, about: str, rows: Sequence[StrategyResult], curves: dict[str, list[Point]]
) -> str:
    """Return an HTML page with the table of results `rows`, and the learning curves.

    `records` is the name of the records, and `about` a sentence about them; the page has both as
    escaped text.
    """
    title = f"{escape(records)}, every record predicted on arrival"
    table = _table_html(HEADINGS, [result_cells(row) for row in rows])
    chart = f"<section>{_learning_curves_html(curves)}</section>" if curves else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in forecast_text(rows))
    forecast = f"<section><h2>Forecast</h2>{lines}</section>" if lines else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{title}</h1>\n"
        f"<p>{escape(about)}</p>\n<section>{table}"
        "<p>2nd half: accuracy on the later half of the records; balanced: mean over the classes."
        f"</p></section>\n{chart}\n{forecast}</main></body></html>\n"
    )


def _table_html(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in headings)
    lines = (
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _learning_curves_html(curves: dict[str, list[Point]]) -> str:
    legend = "".join(
        f'<span><i class="key" style="border-top-color: var({_LOOKS[name][0]}); '
        f'border-top-style: {"dashed" if _LOOKS[name][1] else "solid"}"></i>'
        f"{display_name(name)}</span>"
        for name in curves
    )
    points = [
        (display_name(name), f"{labels:,}", f"{accuracy:.1%}")
        for name, curve in curves.items()
        for labels, accuracy in curve
    ]
    return (
        "<h2>Accuracy over labels bought</h2>"
        "<p>Accuracy over the newest records, by the number of labels bought (logarithmic scale)."
        f'</p>\n{_learning_curves_svg(curves)}\n<p class="legend">{legend}</p>\n'
        "<details><summary>The figures</summary>"
        f"{_table_html(('strategy', 'labels', 'accuracy'), points)}</details>"
    )


def _learning_curves_svg(curves: dict[str, list[Point]]) -> str:
    axes = Axes.from_curves(curves)
    bottom = _HEIGHT - _BOTTOM
    parts = []
    steps = max(round((axes.high - axes.low) * 10), 1)
    for step in range(steps + 1):
        height = axes.low + step / 10
        y = _y_pixel_of_accuracy(axes, height)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{height:.0%}</text>')
    for tick in axes.ticks():
        x = _x_pixel_of_labels(axes, tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick:,}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">labels bought</text>')
    for name, curve in reversed(curves.items()):
        colour, dashes = _LOOKS[name]
        places = " ".join(
            f"{_x_pixel_of_labels(axes, n)},{_y_pixel_of_accuracy(axes, height)}"
            for n, height in curve
        )
        parts.append(
            f'<polyline class="curve" style="stroke: var({colour})" stroke-dasharray="{dashes}" '
            f'points="{places}"><title>{display_name(name)}</title></polyline>'
        )
    inner = "\n".join(parts)
    said = f"Accuracy over labels bought: {', '.join(display_name(name) for name in curves)}"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">\n{inner}</svg>'


def _x_pixel_of_labels(axes: Axes, n_labels: int) -> float:
    return round(_LEFT + axes.x_position(n_labels) * (_WIDTH - _LEFT - _RIGHT), 1)


def _y_pixel_of_accuracy(axes: Axes, accuracy: float) -> float:
    return round(_TOP + (1 - axes.y_position(accuracy)) * (_HEIGHT - _TOP - _BOTTOM), 1)
