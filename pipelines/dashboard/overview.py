"""Dashboard of one pipeline with live charts and tables, and the overview of several pipelines."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui.events import GenericEventArguments

from streamboost.pipelines.dashboard.labelling_progress import AccuracyGain
from streamboost.pipelines.dashboard.panels import PANELS, Panel
from streamboost.pipelines.dashboard.status_line import StatusPanel
from streamboost.pipelines.dashboard.tables import rollback_origins
from streamboost.pipelines.dashboard.time_range import ALL, SPANS, TimeRange
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import BatchedUpdates, Tag, TimeRangeSelector
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    number_text,
    percent_text,
    time_text,
)

__all__ = ["TABLES_EVERY", "Dashboard", "PipelinesOverview"]


CHARTS_EVERY, TABLES_EVERY = 2, 6
"""Status polls between two redraws of charts, and of tables."""


class Dashboard:
    """Dashboard of the pipeline `name`: status line, key metrics, charts and tables."""

    def __init__(self, name: str) -> None:
        self._span, self._view, self._looks = ALL, StatusSnapshot(), 0
        self._drawn, self._tabled = (-1, -CHARTS_EVERY), (-1, -TABLES_EVERY)
        self._activity = StatusPanel()
        self._tiles = MetricTiles()
        self._changes = BatchedUpdates()
        self._spans = TimeRangeSelector()
        self._spans.on("chosen", self._on_range_choice)
        self._flat = Tag("p", "", "flat")
        with Tag("div", classes="panels"):
            self._panels = [Panel(*panel, self._changes, self._on_zoom) for panel in PANELS]
        self._letters = DeadLetterPanel(page_address("/dead-letters", name))

    def update(self, view: StatusSnapshot) -> None:
        """Show the status line, and redraw the charts and tables that are due."""
        self._activity.show(view)
        self._looks += 1
        if self._is_redraw_due(self._tabled, TABLES_EVERY):
            self._tabled = self._view.number, self._looks
            self._draw_panels(with_tables=True)
        elif self._is_redraw_due(self._drawn, CHARTS_EVERY):
            self._draw_panels(with_tables=False)

    def _is_redraw_due(self, last_drawn: tuple[int, int], interval: int) -> bool:
        number, look = last_drawn
        return number != self._view.number and self._looks - look >= interval

    def show_metrics(self, view: StatusSnapshot, gain: AccuracyGain | None = None) -> None:
        """Show key metrics and dead letters; `gain` is the change since the user's first label."""
        self._view = view
        self._tiles.show(view, gain)
        self._letters.show(view.dead_letters)

    def _draw_panels(self, *, with_tables: bool) -> None:
        view = self._view.in_range(self._span)
        shown = [panel for panel in self._panels if with_tables or panel.kind == "chart"]
        flat = {panel: panel.show(view, self._view) for panel in shown}
        told = [text for text in flat.values() if text]
        self._flat.text = f"Constant, so not charted: {' '.join(told)}" if told else ""
        self._spans.show(names=list(SPANS), chosen=self._chosen_range_name, told=str(self._span))
        self._changes.flush()
        self._drawn = self._view.number, self._looks

    @property
    def _chosen_range_name(self) -> str | None:
        if self._span.is_fixed:
            return None
        return next(name for name, length in SPANS.items() if length == self._span.length)

    def _on_range_choice(self, event: GenericEventArguments) -> None:
        """Show the time range that the user selected in the menu."""
        how, points = str(event.args), self._view.points
        if how in SPANS:
            self._span = TimeRange(SPANS[how])
        elif how in _STEPS and points:
            self._span = _STEPS[how](self._span, points)
        self._draw_panels(with_tables=False)

    def _on_zoom(self, event: GenericEventArguments) -> None:
        """Show the time range that the user dragged over, if it has at least `SHORTEST` ms."""
        match event.args:
            case [int() | float() as one, int() | float() as other] if (
                SHORTEST <= abs(one - other) < math.inf
            ):
                start, end = sorted((int(one), int(other)))
                self._span = TimeRange(start=start, end=end)
                self._draw_panels(with_tables=False)


SHORTEST = 2_000
"""Minimum length of a time range, in milliseconds."""

_STEPS: Mapping[str, Callable[[TimeRange, Sequence[Any]], TimeRange]] = {
    "earlier": lambda span, points: span.shifted(points, -0.5),
    "later": lambda span, points: span.shifted(points, 0.5),
    "closer": lambda span, points: span.later_half(points),
}


class MetricTiles:
    """The pipeline's key metrics, one per tile."""

    NAMES = (
        "Accuracy",
        "Baseline accuracy",
        "Labels requested",
        "Open requests",
        "Records",
        "Version",
    )
    COST = "Cost of a decision"
    """Shown if decision costs are configured and there are enough labels for an estimate."""

    def __init__(self) -> None:
        self._tiles: dict[str, tuple[Tag, Tag]] = {}
        with Tag("dl", classes="tiles"):
            for name in (*self.NAMES, self.COST):
                with Tag("div", classes="tile") as tile:
                    Tag("dt", name)
                    self._tiles[name] = Tag("dd", NOTHING, "value"), Tag("dd", "", "note")
                    if name == self.NAMES[0]:
                        self._gain = Tag("dd", "", "note gain")
        self._cost = tile
        tile.set_visibility(False)

    def show(self, view: StatusSnapshot, gain: AccuracyGain | None = None) -> None:
        """Show the metrics; `gain` is the change of accuracy since the user's first label."""
        cost = decision_cost_texts(view)
        self._cost.set_visibility(cost is not None)
        shown = [*_tile_values(view), cost or (NOTHING, "")]
        for (figure, below), (value, note) in zip(self._tiles.values(), shown, strict=True):
            figure.text, below.text = value, note
        self._gain.text = "" if gain is None else str(gain)


def decision_cost_texts(view: StatusSnapshot) -> tuple[str, str] | None:
    """Return texts of the mean cost of a decision in the sliding window, and of its interval.

    None if no costs are configured or there are too few labels.
    """
    found = (view.document("evaluation").get("recent") or {}).get("cost")
    if found is None:
        return None
    return (
        f"{found['value']:.3f}",
        f"{found['low']:.3f} to {found['high']:.3f}, 95 % interval of the mean",
    )


def _tile_values(view: StatusSnapshot) -> list[tuple[str, str]]:
    """Return the value and the note of each tile, as texts."""
    last = view.points[-1] if view.points else {}
    ledger, learner = view.document("ledger"), view.document("learner")
    records = ledger.get("records")
    asked, share = ledger.get("requests"), None
    if asked is not None and records:
        share = asked / records
    budget = view.document("pipeline").get("budget")
    return [
        _accuracy_tile(view),
        (percent_text(_metric_value(last.get("repeat_last"))), "repeats the last label"),
        (
            number_text(asked),
            ""
            if share is None
            else f"{percent_text(share)} of records, budget {percent_text(budget)}",
        ),
        (
            number_text(view.n_open_requests),
            "to be answered" if view.n_open_requests else "nothing to answer",
        ),
        (number_text(records), f"{count_text(int(learner.get('labels', 0)), 'label')} learned"),
        (
            number_text(learner.get("version") or None),
            count_text(int(learner.get("trees", 0)), "tree") + _rollback_and_training_text(view),
        ),
    ]


def _rollback_and_training_text(view: StatusSnapshot) -> str:
    learner = view.document("learner")
    before = rollback_origins(view).get(learner.get("version", 0))
    again = "" if before is None else f", rolled back to {before}"
    return again + _training_text(learner)


def _training_text(learner: Mapping[str, Any]) -> str:
    if learner.get("paused"):
        return ", paused"
    return ", training" if learner.get("running") else ""


def _accuracy_tile(view: StatusSnapshot) -> tuple[str, str]:
    found, recent = view.accuracy, view.document("evaluation").get("recent") or {}
    if found is None:
        return NOTHING, "too few labels"
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    records, labels = (
        count_text(recent["records"], "record"),
        count_text(recent["answered"], "label"),
    )
    return percent_text(found["value"]), f"{interval} (95 %); last {records}, {labels}"


def _metric_value(metric: Any) -> float | None:
    return metric.get("value") if isinstance(metric, Mapping) else metric


class DeadLetterPanel:
    """Panel of the newest dead letters; `link` is the address of the dead letters page."""

    def __init__(self, link: str) -> None:
        with Tag("section", classes="panel", aria_labelledby="dead-letters-title"):
            Tag("h2", "Dead letters", id="dead-letters-title")
            Tag("p", "Messages that could not be used, newest first.", "about")
            self._empty = Tag("p", "None: every message could be used.", "summary empty")
            self._list = Tag("ul", classes="letters")
            Tag("a", "All dead letters by reason, to fix and resend", href=link)
        self._shown: Sequence[Mapping[str, Any]] = ()

    def show(self, letters: Sequence[Mapping[str, Any]]) -> None:
        """Show `letters`; if they are unchanged, letters that the user expanded stay expanded."""
        if letters == self._shown:
            return
        self._shown = letters
        self._empty.set_visibility(not letters)
        self._list.clear()
        with self._list:
            for letter in letters:
                with Tag("li"), Tag("details"):
                    with Tag("summary"):
                        Tag("span", str(letter.get("reason")), "chip bad")
                        Tag("span", f"{letter.get('source')}, {time_text(letter.get('time'))}")
                        Tag("bdi", str(letter.get("detail", "")), "cause")
                    with Tag("pre", tabindex="0"):
                        Tag("bdi", str(letter.get("payload", "")))


class PipelinesOverview:
    """Overview of several pipelines: status line and key metrics of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        with Tag("ul", classes="overview"):
            self._rows: dict[str, tuple[StatusPanel, MetricTiles]] = {}
            for name in names:
                with Tag("li", classes="panel"):
                    with Tag("h2"):
                        Tag("a", name, href=page_address("/", name))
                    self._rows[name] = StatusPanel(), MetricTiles()

    def show(self, name: str, view: StatusSnapshot) -> None:
        """Show status line and key metrics of the pipeline `name`."""
        for part in self._rows[name]:
            part.show(view)
