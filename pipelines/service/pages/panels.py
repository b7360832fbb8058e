"""The dashboard's panels: each a title, what it shows in a sentence, and what finds that.

A new one is a function in `charts` or `tables`, and a line in `PANELS`.
"""

from collections.abc import Callable
from typing import Any

from streamboost.pipelines.service.pages import charts, tables, voices
from streamboost.pipelines.service.pages.causes import fates, features, figures
from streamboost.pipelines.service.pages.causes.annotators import annotators
from streamboost.pipelines.service.pages.charts import Curves
from streamboost.pipelines.service.pages.tables import Table
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Changes, Chart, DataTable, Tag, cells
from streamboost.pipelines.status.formatting import clock

__all__ = ["PANELS", "Panel"]

Find = Callable[[View], Curves | Table]

_ABOUT_ACCURACY = (
    "Share of the newest records that were predicted rightly on arrival. Honest: estimated from "
    "the labels asked for, each by its chance of being asked for, with its 95 % interval. Naive: "
    "over these labels alone, which are the hard ones."
)
_ABOUT_CONFUSION = "True classes down, predicted ones across; a number leads to its records."

_ABOUT_DRIFT = (
    "Population stability index of the newest records against those before; from 0.2 a feature "
    "counts as shifted."
)

_ABOUT_FIELDS = (
    "Fields that came after the first records, from which nothing is learned unless "
    "[schema.fields] names them; and values of another kind than their field's, taken as missing."
)

_ABOUT_EXPERTS = (
    "Whose probabilities make the prediction, by weights that follow what each said of records "
    "before their labels came."
)

_ABOUT_ANNOTATORS = (
    "Against the others: of the newest records' labels, those that more voices contradict than "
    "confirm, with the 95 % interval; voices are other people, and a prediction that was 90 % sure "
    "on arrival. What was asked again, as its label looked wrong, is not compared. Outvoted: on so "
    "many of the newest records more people said one other thing."
)

_LEARNER = ", by the learner where scoring is apart"

PANELS: tuple[tuple[str, str, Find], ...] = (
    ("Accuracy", _ABOUT_ACCURACY, charts.accuracy),
    ("Labels against budget", "Labels, counted since the start.", charts.spending),
    ("Throughput", f"Per second{_LEARNER}.", charts.throughput),
    ("Latency", "From reading a batch to its commit.", charts.latency),
    (
        "Lag",
        f"What waits to be read{_LEARNER}: messages, and bytes of files of lines.",
        charts.lag,
    ),
    (
        "Records and labels",
        "What became of them since the start, and whether anything is lost or waits.",
        fates.fates,
    ),
    ("Class mix", "Share of each class.", tables.class_mix),
    ("Confusion matrix", _ABOUT_CONFUSION, tables.confusion),
    ("Figures", "Estimated for all records, from the labels asked for.", figures.figures),
    ("Calibration", "Predictions by the probability they were given.", figures.calibration),
    (
        "Classes",
        "Recall: found of what there is. Precision: right of what is named.",
        figures.by_class,
    ),
    ("Feature drift", _ABOUT_DRIFT, features.feature_drift),
    ("Fields", _ABOUT_FIELDS, tables.fields),
    ("Steps of a batch", "Where a batch's time goes.", tables.latencies),
    ("Experts", _ABOUT_EXPERTS, voices.experts),
    ("Experts over time", "Each one's share of the weight in predictions.", charts.voices),
    ("Rivals", "Models of River's that see the same records and labels.", voices.rivals),
    ("Annotators", _ABOUT_ANNOTATORS, annotators),
    ("Scorers", "Who scores each partition, as of its newest batch.", tables.workers),
    ("Committee", "Trees, and when a new version began to serve.", charts.committee_size),
    ("Committee history", "The newest first.", tables.committees),
)
"""In the order in which they stand; the first is as wide as the page."""


class Panel:
    """One part of the dashboard: a heading, what it comes to in a sentence, and the picture.

    Parameters
    ----------
    title : its heading
    about : what is shown, in a sentence
    find : finds what is shown
    changes : tells the browser of what changes
    on_zoom : told the first and last millisecond of what somebody drags over
    """

    def __init__(
        self,
        title: str,
        about: str,
        find: Find,
        changes: Changes | None = None,
        on_zoom: Callable[[Any], None] | None = None,
    ) -> None:
        self._title, self._find, self._changes, self._on_zoom = title, find, changes, on_zoom
        name = title.lower().replace(" ", "-")
        self._section = Tag("section", classes="panel", aria_labelledby=f"{name}-title", id=name)
        with self._section:
            Tag("h2", title, id=f"{name}-title")
            Tag("p", about, "about")
            self._summary = Tag("p", "", "summary")
            self._body = Tag("div", classes="body")
        self._chart: Chart | None = None
        self._table: DataTable | None = None

    @property
    def draws(self) -> bool:
        """Whether it is one of curves."""
        return self._find.__module__ == charts.__name__

    def show(self, view: View) -> str | None:
        """Show a status; where there is nothing to see of it return that in a sentence instead."""
        found = view.once(self._find, lambda: self._find(view))
        flat = isinstance(found, Curves) and found.is_flat
        self._section.set_visibility(not flat)
        if flat:
            return f"{self._title}: {found.summary}"
        is_there = bool(found.times if isinstance(found, Curves) else found.rows)
        is_past = view.span.is_fixed and isinstance(found, Curves)
        until = f"By {clock(view.span.end)}: " if is_past else ""
        self._summary.text = until + found.summary
        self._summary.classes(replace="summary" if is_there else "summary empty")
        is_folded = isinstance(found, Table) and not is_there
        self._section.classes(**{"add" if is_folded else "remove": "folded"})
        if not is_there:
            self._clear()
        elif isinstance(found, Curves):
            self._show_curves(found, view)
        else:
            self._show_table(found, view)
        return None

    def _show_curves(self, curves: Curves, view: View) -> None:
        if self._chart is None:
            with self._body:
                self._chart = Chart(self._changes)
            if self._on_zoom is not None:
                self._chart.on("zoom", self._on_zoom)
        ends = view.span.ends(view.points)
        self._chart.show_curves(self._title, curves, ends)

    def _show_table(self, table: Table, view: View) -> None:
        if self._table is None:
            with self._body:
                self._table = DataTable(self._changes)
        # Whoever else looks is shown the same cells.
        self._table.show_table(table, view.once((self._find, "cells"), lambda: cells(table.rows)))

    def _clear(self) -> None:
        if self._table is not None or self._chart is not None:
            self._body.clear()
            self._chart = self._table = None
