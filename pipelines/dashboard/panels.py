"""Panels of the dashboard: title, description and the function that builds the content.

To add a panel, write a function in `charts` or `tables` and add a line to `PANELS`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from streamboost.pipelines.dashboard import (
    charts,
    counts,
    drift,
    expert_weights,
    quality,
    tables,
    versions,
)
from streamboost.pipelines.dashboard.annotators import annotator_table
from streamboost.pipelines.dashboard.charts import Curves
from streamboost.pipelines.dashboard.forecast import forecast_table
from streamboost.pipelines.dashboard.tables import Table
from streamboost.pipelines.dashboard.time_range import ALL
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.dashboard.widgets import (
    BatchedUpdates,
    Chart,
    DataTable,
    Tag,
    add_heading,
    json_cells,
)
from streamboost.pipelines.status.formatting import time_text

NO_VALUES = "No values were recorded in this time range."

Kind = Literal["chart", "table"]
BuildContent = Callable[[StatusSnapshot], Curves | Table]

_ABOUT_ACCURACY = (
    "Share of the newest records predicted correctly (prequential: predicted on arrival, before "
    "the label is learned). Unbiased: weighted by the inclusion probabilities of the requested "
    "labels, with a 95 % interval. Naive: over the requested labels alone, which are the hard ones."
)
_ABOUT_CONFUSION = (
    "Rows are true classes, columns predicted ones: the share of a row's labels that was predicted "
    "as each class. Each share links to its records."
)

_ABOUT_FIELDS = (
    "Fields that first appeared after the start: they are not used unless [schema.fields] names "
    "them. Values of the wrong type count as missing."
)

_ABOUT_EXPERTS = (
    "Experts whose probabilities are combined. Weights follow the log loss of each expert's "
    "predictions before the labels arrived."
)

_ABOUT_ANNOTATORS = (
    "Disagreement: share of this annotator's recent labels that conflict with other annotators or "
    "with predictions of at least 90 %, with a 95 % interval. Relabel requests are excluded. "
    "Outvoted: recent records for which a majority chose one other class."
)

_ABOUT_FORECAST = (
    "Accuracy after more labels: a learning curve through the unbiased estimates, with 90 % "
    "intervals. Drift of the past widens them."
)

_LEARNER = " (of the learner if scorers run)"

PanelSpec = tuple[str, str, Kind, BuildContent]

_ACCURACY: PanelSpec = ("Accuracy", _ABOUT_ACCURACY, "chart", charts.accuracy_curves)

PANELS: Mapping[str, Sequence[PanelSpec]] = {
    "/": (_ACCURACY,),
    "/quality": (
        _ACCURACY,
        (
            "Classes",
            "Recall: share of a class that was found. Precision: share of predictions that are "
            "right.",
            "table",
            quality.class_table,
        ),
        ("Confusion matrix", _ABOUT_CONFUSION, "table", tables.confusion_matrix_table),
        (
            "Metrics",
            "Estimates for all records up to the newest one with a label, from requested labels "
            "weighted by inclusion probability.",
            "table",
            quality.metrics_table,
        ),
        ("Calibration", "Accuracy by predicted probability.", "table", quality.reliability_table),
        ("Expert weights", _ABOUT_EXPERTS, "table", expert_weights.expert_weight_table),
        (
            "Expert weights over time",
            "Share of each expert in the weights of a prediction.",
            "chart",
            charts.expert_weight_curves,
        ),
        (
            "Committee size",
            "Number of trees, and when a version was deployed.",
            "chart",
            charts.committee_size_curves,
        ),
        (
            "Shadow models",
            "Models that predict and learn from the same records and labels, but do not serve.",
            "table",
            expert_weights.shadow_model_table,
        ),
        (
            "Committee history",
            "Trainings, deployments, detected changes and commands, newest first.",
            "table",
            tables.committee_history_table,
        ),
    ),
    "/labelling": (
        (
            "Labels against budget",
            "Labels allowed, requested and answered since the start.",
            "chart",
            charts.label_budget_curves,
        ),
        ("Forecast", _ABOUT_FORECAST, "table", forecast_table),
        ("Annotators", _ABOUT_ANNOTATORS, "table", annotator_table),
        ("Effect of labels", versions.ABOUT_EFFECT, "table", versions.version_effect_table),
    ),
    "/drift": (
        ("Feature drift", drift.ABOUT_SHIFTS, "table", drift.feature_drift_table),
        ("Class mix", "Share of each class.", "table", tables.class_mix_table),
        ("Unknown and unreadable fields", _ABOUT_FIELDS, "table", tables.field_problem_table),
    ),
    "/operations": (
        (
            "Throughput",
            f"Records and labels per second{_LEARNER}.",
            "chart",
            charts.throughput_curves,
        ),
        ("Latency", "Time from reading a batch to its commit.", "chart", charts.latency_curves),
        (
            "Lag",
            "Messages, or bytes of line-based files, not yet read (by the learner if scorers run).",
            "chart",
            charts.lag_curves,
        ),
        ("Batch latency by stage", "Time per stage of a batch.", "table", tables.latency_table),
        (
            "Counters",
            "Records and labels since the start, by outcome.",
            "table",
            counts.counters_table,
        ),
        (
            "Scorers",
            "The worker of each partition, as of its newest batch.",
            "table",
            tables.scorer_table,
        ),
    ),
}
"""The panels of each part of the dashboard by its path, in the order of the page."""


def panel_id(title: str) -> str:
    """Return the anchor of the panel `title`.

    >>> panel_id("Feature drift")
    'feature-drift'
    """
    return title.lower().replace(" ", "-")


class Panel:
    """Panel of the dashboard: a heading, a description, a summary, and a chart or table.

    Parameters
    ----------
    title : heading
    about : description, in a sentence
    kind : "chart" or "table"
    build_content : builds the chart or table from a status
    changes : sends changes to the browser
    on_zoom : called with the first and last millisecond of a range selected by dragging
    """

    def __init__(
        self,
        title: str,
        about: str,
        kind: Kind,
        build_content: BuildContent,
        changes: BatchedUpdates | None = None,
        on_zoom: Callable[[Any], None] | None = None,
    ) -> None:
        self.kind = kind
        self._title, self._build_content, self._changes, self._on_zoom = (
            title,
            build_content,
            changes,
            on_zoom,
        )
        name = panel_id(title)
        self._section = Tag("section", classes="panel", aria_labelledby=f"{name}-title", id=name)
        with self._section:
            add_heading(title, f"{name}-title", about)
            self._summary = Tag("p", "", "summary")
            self._body = Tag("div", classes="body")
        self._chart: Chart | None = None
        self._table: DataTable | None = None

    def show(self, view: StatusSnapshot, full_view: StatusSnapshot) -> str | None:
        """Show a status; if the chart is constant, hide the panel and return a summary text.

        `full_view` is the same status with the points of all time. If a chart has values there but
        none in the time range of `view`, the chart is shown empty.
        """
        found = view.get_or_compute(self._build_content, lambda: self._build_content(view))
        if isinstance(found, Curves) and not found.times and view.span != ALL:
            found = view.get_or_compute(
                (self._build_content, "empty"), lambda: self._empty_chart(full_view)
            )
        flat = isinstance(found, Curves) and found.is_flat
        self._section.set_visibility(not flat)
        if flat:
            return f"{self._title}: {found.summary}"
        has_values = bool(found.times if isinstance(found, Curves) else found.rows)
        is_past = view.span.is_fixed and isinstance(found, Curves) and has_values
        until = f"At {time_text(view.span.end)}: " if is_past else ""
        self._summary.text = until + found.summary
        self._summary.classes(replace="summary" if has_values else "summary empty")
        is_folded = isinstance(found, Table) and not has_values
        self._section.classes(**{"add" if is_folded else "remove": "folded"})
        if not has_values and not (isinstance(found, Curves) and found.series):
            self._remove_content()
        elif isinstance(found, Curves):
            self._show_curves(found, view)
        else:
            self._show_table(found, view)
        return None

    def _empty_chart(self, full_view: StatusSnapshot) -> Curves | Table:
        """Return a chart without points, or an explanation if it has no values at any time."""
        found = self._build_content(full_view)
        return (
            found.without_values(NO_VALUES) if isinstance(found, Curves) and found.times else found
        )

    def _show_curves(self, curves: Curves, view: StatusSnapshot) -> None:
        if self._chart is None:
            with self._body:
                self._chart = Chart(self._changes)
            if self._on_zoom is not None:
                self._chart.on("zoom", self._on_zoom)
        ends = view.span.bounds(view.points)
        self._chart.show_curves(self._title, curves, ends)

    def _show_table(self, table: Table, view: StatusSnapshot) -> None:
        if self._table is None:
            with self._body:
                self._table = DataTable(self._changes)
        # All open pages share the same cells.
        self._table.show_table(
            table,
            view.get_or_compute((self._build_content, "cells"), lambda: json_cells(table.rows)),
        )

    def _remove_content(self) -> None:
        if self._table is not None or self._chart is not None:
            self._body.clear()
            self._chart = self._table = None
