"""Dashboard pages of a pipeline, with live charts and tables; overview of all pipelines."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui.events import GenericEventArguments

from streamboost.pipelines.dashboard.drift import drift_tile_texts
from streamboost.pipelines.dashboard.labelling_progress import (
    AccuracyGain,
    effect_text,
    progress_text,
    training_text,
)
from streamboost.pipelines.dashboard.panels import PANELS, Panel, panel_id
from streamboost.pipelines.dashboard.quality import lowest_recall, misclassified_records_address
from streamboost.pipelines.dashboard.status_line import Notice, PipelineStatus, StatusPanel
from streamboost.pipelines.dashboard.tables import rollback_origins
from streamboost.pipelines.dashboard.time_range import ALL, SPANS, TimeRange
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import (
    AnchorRedirects,
    BatchedUpdates,
    Tag,
    TimeRangeSelector,
    add_heading,
)
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    estimate_text,
    number_text,
    percent_text,
    time_text,
    with_no_break_spaces,
)

__all__ = [
    "OVERVIEW",
    "TABLES_EVERY",
    "Dashboard",
    "PipelinesOverview",
    "anchor_redirects",
    "budget_text",
    "decision_cost_texts",
    "next_steps",
]

OVERVIEW = "/"
"""Path of the overview."""

MOST_STEPS = 5
"""Maximum number of next steps, so that the overview fits a screen."""

RECENT_MS = 3_600_000
"""Dead letters of this time before the last commit mean that messages are being lost now."""

CHARTS_EVERY, TABLES_EVERY = 2, 6
"""Status polls between two redraws of charts, and of tables."""


class Dashboard:
    """One page of the dashboard of the pipeline `name`: status line, charts and tables.

    `path` is the page's path, which selects its panels. The overview also has key metrics and next
    steps.
    """

    def __init__(self, name: str, path: str) -> None:
        self._span, self._view, self._looks = ALL, StatusSnapshot(), 0
        self._drawn, self._tabled = (-1, -CHARTS_EVERY), (-1, -TABLES_EVERY)
        self._activity = StatusPanel()
        self._tiles = MetricTiles() if path == OVERVIEW else None
        self._requests = OpenRequestsPanel(name) if path == "/labelling" else None
        self._changes = BatchedUpdates()
        self._spans = TimeRangeSelector()
        self._spans.on("chosen", self._on_range_choice)
        self._spans.set_visibility(any(kind == "chart" for _, _, kind, _ in PANELS[path]))
        self._flat = Tag("p", "", "flat")
        with Tag("div", classes="panels glance" if path == OVERVIEW else "panels"):
            self._panels = [Panel(*panel, self._changes, self._on_zoom) for panel in PANELS[path]]
            self._steps = NextStepsPanel() if path == OVERVIEW else None
        operations = path == "/operations"
        self._letters = DeadLetterPanel(page_address("/dead-letters", name)) if operations else None
        if path == OVERVIEW:
            AnchorRedirects().show(moved=anchor_redirects(name))

    def update(self, view: StatusSnapshot) -> None:
        """Show the status line, and redraw the charts and tables that are due."""
        status = self._activity.show(view)
        if self._steps is not None:
            self._steps.show(next_steps(view, status))
        self._looks += 1
        if self._is_redraw_due(self._tabled, TABLES_EVERY):
            self._tabled = self._view.number, self._looks
            self._draw_panels(with_tables=True)
        elif self._is_redraw_due(self._drawn, CHARTS_EVERY):
            self._draw_panels(with_tables=False)

    def _is_redraw_due(self, last_drawn: tuple[int, int], interval: int) -> bool:
        number, look = last_drawn
        return number != self._view.number and self._looks - look >= interval

    def show_metrics(
        self, view: StatusSnapshot, progress: LabellingProgress, gain: AccuracyGain | None = None
    ) -> None:
        """Show metrics, open requests or dead letters, if this page has them.

        `progress` is the user's labelling progress, and `gain` the change of accuracy since the
        user's first label.
        """
        self._view = view
        if self._tiles is not None:
            self._tiles.show(view, gain)
        if self._requests is not None:
            shown = progress_text(progress, view.n_open_requests, gain)
            self._requests.show(shown, effect_text(view))
        if self._letters is not None:
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
    "earlier": lambda span, points: span.shift(points, -0.5),
    "later": lambda span, points: span.shift(points, 0.5),
    "closer": lambda span, points: span.later_half(points),
}


def anchor_redirects(pipeline: str) -> dict[str, str]:
    """Map the anchor of each panel that is not on the overview to the panel's address."""
    parts = PANELS.items()
    found = {panel_id(title): path for path, panels in parts for title, *_ in panels}
    here = {panel_id(title) for title, *_ in PANELS[OVERVIEW]}
    return {id: page_address(path, pipeline) for id, path in found.items() if id not in here}


class MetricTiles:
    """The pipeline's key metrics, one per tile."""

    NAMES = (
        "Accuracy",
        "Lowest recall",
        "Feature drift",
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
                    with Tag("dd", classes="value"):
                        value = Tag("a", NOTHING)
                    self._tiles[name] = value, Tag("dd", "", "note")
                    if name == self.NAMES[0]:
                        self._gain = Tag("dd", "", "note gain")
        self._cost = tile
        tile.set_visibility(False)

    def show(self, view: StatusSnapshot, gain: AccuracyGain | None = None) -> None:
        """Show the metrics; `gain` is the change of accuracy since the user's first label."""
        cost = decision_cost_texts(view)
        self._cost.set_visibility(cost is not None)
        shown = [*_metric_tile_contents(view), (*(cost or (NOTHING, "")), None)]
        for (figure, below), (value, note, link) in zip(self._tiles.values(), shown, strict=True):
            figure.text, below.text = value, note
            figure.set_attributes(href=link)
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


Tile = tuple[str, str, str | None]
"""Value and note of a tile, and the address of its details."""


def _metric_tile_contents(view: StatusSnapshot) -> list[Tile]:
    ledger, learner = view.document("ledger"), view.document("learner")
    name = view.document("pipeline").get("name")
    n_open = view.n_open_requests
    return [
        (*_accuracy_tile(view), page_address("/quality", name)),
        _lowest_recall_tile(view),
        (*drift_tile_texts(view), page_address("/drift", name)),
        (number_text(ledger.get("requests")), budget_text(view), page_address("/labelling", name)),
        (
            number_text(n_open),
            "to be answered" if n_open else "nothing to answer",
            page_address("/label", name) if n_open else None,
        ),
        (
            number_text(ledger.get("records")),
            f"{count_text(int(learner.get('labels', 0)), 'label')} learned",
            page_address("/records", name),
        ),
        (
            number_text(learner.get("version") or None),
            _version_note(view),
            f"{page_address('/labelling', name)}#effect-of-labels",
        ),
    ]


def budget_text(view: StatusSnapshot) -> str:
    """Describe the labels left of those allowed so far, and the budget."""
    budget, left = view.document("pipeline").get("budget"), view.n_labels_left
    if left is None:
        return ""
    allowed = int(view.document("ledger")["allowed"])
    share = "" if budget is None else f"; budget {percent_text(budget)}"
    return f"{left:,} left of {allowed:,}{share}"


def _lowest_recall_tile(view: StatusSnapshot) -> Tile:
    found = lowest_recall(view)
    if found is None:
        return NOTHING, "too few labels", None
    label, recall, period = found
    interval = f"{100 * recall['low']:.1f} to {100 * recall['high']:.1f}"
    link = misclassified_records_address(view, label)
    return percent_text(recall["value"]), f"class {label} {period}: {interval} (95 %)", link


def _version_note(view: StatusSnapshot) -> str:
    """Describe the active version: its trees, a rollback, and the time of the next training."""
    learner = view.document("learner")
    text = count_text(int(learner.get("trees", 0)), "tree")
    if (before := rollback_origins(view).get(learner.get("version", 0))) is not None:
        text += f", rolled back to {before}"
    if learner.get("paused"):
        return f"{text}, paused"
    if learner.get("running"):
        return f"{text}, training"
    due = training_text(view)
    return f"{text}; {due}" if due else text


def _accuracy_tile(view: StatusSnapshot) -> tuple[str, str]:
    found, recent = view.accuracy, view.document("evaluation").get("recent") or {}
    if found is None:
        return NOTHING, "too few labels"
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    used = f"from {recent['answered']:,} labels in the newest {number_text(recent.get('records'))}"
    return percent_text(found["value"]), f"{interval} (95 %), {used} records"


class OpenRequestsPanel:
    """Panel with the labelling progress, and a link to the labelling page of `pipeline`."""

    def __init__(self, pipeline: str) -> None:
        with Tag(
            "section", classes="panel", aria_labelledby="open-requests-title", id="open-requests"
        ):
            Tag("h2", "Open requests", id="open-requests-title")
            self._progress = Tag("p", "", "summary")
            with Tag("dl", classes="fields"), Tag("div"):
                Tag("dt", "Labels take effect")
                self._effect = Tag("dd", "")
            with Tag("p"):
                Tag("a", "Label records", "button", href=page_address("/label", pipeline))

    def show(self, progress: str, effect: str) -> None:
        """Show the texts `progress`, and `effect`: when new labels take effect."""
        self._progress.text, self._effect.text = progress, effect


class NextStepsPanel:
    """Panel of the actions that a pipeline needs, the most urgent first."""

    def __init__(self) -> None:
        with Tag("section", classes="panel", aria_labelledby="next-steps-title", id="next-steps"):
            Tag("h2", "Next steps", id="next-steps-title")
            self._list = Tag("ol", classes="steps")
        self._shown: Sequence[Notice] | None = None

    def show(self, steps: Sequence[Notice]) -> None:
        """Show `steps`, each as a link and its reason."""
        if steps == self._shown:
            return
        self._shown = steps
        self._list.clear()
        with self._list:
            for step in steps:
                with Tag("li"):
                    with Tag("a", href=step.link):
                        Tag("bdi", step.action)
                    Tag("bdi", with_no_break_spaces(step.text), "cause")
            if not steps:
                Tag("li", "None: the pipeline is well, and no request is open.", "cause")


_DOWN = {
    "Unresponsive": "Check the process",
    "Stopped": "Start the pipeline",
    "Not started": "Start the pipeline",
}
"""Action for each status of a pipeline that does not run."""


def next_steps(view: StatusSnapshot, status: PipelineStatus) -> list[Notice]:
    """Return the actions that the pipeline needs, the most urgent first (`URGENCY`)."""
    name, steps = view.document("pipeline").get("name"), list(status.notices)
    if status.error is not None:
        link = page_address("/operations", name)
        steps.append(Notice("Error", status.error, link, "Fix the error"))
    elif action := _DOWN.get(status.word):
        link = page_address("/operations", name)
        steps.append(Notice(status.word, status.parts[0], link, action))
    if n := view.n_open_requests:
        reason = f"{count_text(n, 'request')} {'waits' if n == 1 else 'wait'} for a label"
        steps.append(Notice("Open requests", reason, page_address("/label", name), "Label records"))
    if n := int(view.document("join").get("dead_letters") or 0):
        link, last = page_address("/dead-letters", name), _newest_dead_letter_time(view)
        reason = f"{count_text(n, 'message')} could not be used"
        word = "Dead letters"
        if last and last > (view.document("pipeline").get("time") or 0.0) - RECENT_MS:
            word, reason = "Rejected messages", f"{reason}, the last at {time_text(last)}"
        steps.append(Notice(word, reason, link, "Fix and resend messages"))
    if (worst := lowest_recall(view)) and worst[1]["value"] < 1:
        label, recall, period = worst
        reason = f"class {label} has the lowest recall {period}: {estimate_text(recall)}"
        link = misclassified_records_address(view, label)
        action = f"Review the mistakes of class {label}"
        steps.append(Notice("Lowest recall", reason, link, action))
    return sorted(steps, key=lambda step: step.urgency)[:MOST_STEPS]


def _newest_dead_letter_time(view: StatusSnapshot) -> float | None:
    """Return the time of the newest dead letter in milliseconds since the epoch; None if none."""
    return max((letter.get("time") or 0.0 for letter in view.dead_letters), default=None)


class DeadLetterPanel:
    """Panel of the newest dead letters; `link` is the address of the dead letters page."""

    def __init__(self, link: str) -> None:
        with Tag("section", classes="panel", aria_labelledby="dead-letters-title"):
            about = "Messages that could not be used, newest first."
            add_heading("Dead letters", "dead-letters-title", about)
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
