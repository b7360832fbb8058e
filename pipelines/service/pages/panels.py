"""The dashboard's panels: each a title, what it shows in a sentence, and what finds that.

A new one is a function in `charts` or `tables`, and a line in `PANELS`.
"""

from collections.abc import Callable

from streamboost.pipelines.service.pages import charts, tables
from streamboost.pipelines.service.pages.charts import Curves, Series, Unit
from streamboost.pipelines.service.pages.rivals import rivals
from streamboost.pipelines.service.pages.tables import Column, Table
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Chart, DataTable, Tag
from streamboost.pipelines.wording import amount, clock, percent, seconds

__all__ = ["PANELS", "Panel", "as_table"]

TABLE_ROWS = 12
"""Rows that say the same as a chart."""

Find = Callable[[View], Curves | Table]

_ABOUT_ACCURACY = (
    "Share of the newest records that were predicted rightly on arrival. Honest: estimated from "
    "the labels asked for, each by its chance of being asked for, with its 95 % interval. Naive: "
    "over these labels alone, which are the hard ones."
)
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
    "Who gave labels: how often others said the same of the same record, and how often a confident "
    "prediction had on its arrival, where nobody else was asked."
)

PANELS: tuple[tuple[str, str, Find], ...] = (
    ("Accuracy", _ABOUT_ACCURACY, charts.accuracy),
    ("Labels against budget", "Labels, counted since the start.", charts.spending),
    ("Throughput", "Per second.", charts.throughput),
    ("Latency", "From reading a batch to its commit.", charts.latency),
    ("Lag", "Messages that wait to be read.", charts.lag),
    ("Class mix", "Share of each class.", tables.class_mix),
    ("Confusion matrix", "True classes down, predicted ones across.", tables.confusion),
    ("Feature drift", _ABOUT_DRIFT, tables.feature_drift),
    ("Fields", _ABOUT_FIELDS, tables.fields),
    ("Steps of a batch", "Where a batch's time goes.", tables.latencies),
    ("Experts", _ABOUT_EXPERTS, tables.experts),
    ("Rivals", "Models of River's that see the same records and labels.", rivals),
    ("Annotators", _ABOUT_ANNOTATORS, tables.annotators),
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
    find : finds what is shown; curves have the same in a table that can be opened
    """

    def __init__(self, title: str, about: str, find: Find) -> None:
        self._title, self._find = title, find
        name = title.lower().replace(" ", "-")
        with Tag("section", classes="panel", aria_labelledby=f"{name}-title", id=name):
            Tag("h2", title, id=f"{name}-title")
            Tag("p", about, "about")
            self._summary = Tag("p", "", "summary")
            self._body = Tag("div", classes="body")
        self._chart: Chart | None = None
        self._table: DataTable | None = None

    def show(self, view: View) -> None:
        """Show a status."""
        found = self._find(view)
        table = as_table(self._title, found) if isinstance(found, Curves) else found
        self._summary.text = table.summary
        self._summary.classes(replace="summary" if table.rows else "summary empty")
        if not table.rows:
            self._clear()
        elif isinstance(found, Curves):
            self._show_curves(found, table)
        else:
            self._show_table(table)

    def _show_curves(self, curves: Curves, table: Table) -> None:
        if self._chart is None:
            with self._body:
                self._chart = Chart()
                with Tag("details", classes="as-table"):
                    Tag("summary", "The same as a table")
                    self._table = DataTable()
        self._chart.show(spec=curves.spec(), label=f"Chart. {curves.summary}")
        self._show_table(table)

    def _show_table(self, table: Table) -> None:
        if self._table is None:
            with self._body:
                self._table = DataTable()
        self._table.show_table(table)

    def _clear(self) -> None:
        if self._table is not None:
            self._body.clear()
            self._chart = self._table = None


def as_table(title: str, curves: Curves) -> Table:
    """Return the same in a few rows, the newest first; none where there are no curves."""
    n = len(curves.times)
    kept = sorted({round(i * (n - 1) / (TABLE_ROWS - 1)) for i in range(TABLE_ROWS)}) if n else []
    in_words = _IN_WORDS[curves.unit]
    columns = [Column("Time", "words"), *(Column(one.name) for one in curves.series)]
    rows = [
        [clock(curves.times[i]), *(_in_row(one, i, in_words) for one in curves.series)]
        for i in reversed(kept)
    ]
    return Table(title, columns, rows, curves.summary)


_IN_WORDS: dict[Unit, Callable[[float | None], str]] = {
    "percent": percent,
    "count": amount,
    "seconds": seconds,
}


def _in_row(series: Series, i: int, in_words: Callable[[float | None], str]) -> str:
    text = in_words(series.values[i])
    if series.low is None or series.high is None or series.low[i] is None:
        return text
    return f"{text} ({in_words(series.low[i])} to {in_words(series.high[i])})"
