"""The dashboard: how a pipeline does, live."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui.events import GenericEventArguments

from streamboost.pipelines.service.pages.panels import PANELS, Panel
from streamboost.pipelines.service.pages.progress import Gain
from streamboost.pipelines.service.pages.span import ALL, SPANS, Span
from streamboost.pipelines.service.pages.standing import Activity
from streamboost.pipelines.service.pages.tables import rolled_back
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Changes, Spans, Tag
from streamboost.pipelines.status.formatting import NOTHING, amount, clock, percent, plural

__all__ = ["TABLES_EVERY", "Dashboard", "Overview"]


CHARTS_EVERY, TABLES_EVERY = 2, 6
"""Of so many looks at a status one draws charts, and tables too: nobody reads them faster."""


class Dashboard:
    """The pipeline `name`: what it does, the figures that matter most, and the panels."""

    def __init__(self, name: str) -> None:
        self._span, self._view, self._looks = ALL, View(), 0
        self._drawn, self._tabled = (-1, -CHARTS_EVERY), (-1, -TABLES_EVERY)
        self._activity = Activity()
        self._tiles = Tiles()
        self._changes = Changes()
        self._spans = Spans()
        self._spans.on("chosen", self._choose)
        self._flat = Tag("p", "", "flat")
        with Tag("div", classes="panels"):
            self._panels = [Panel(*panel, self._changes, self._zoom) for panel in PANELS]
        self._letters = Letters(page_of("/letters", name))

    def look(self, view: View) -> None:
        """Show what the pipeline is doing, which changes when nothing happens, and what is due."""
        self._activity.show(view)
        self._looks += 1
        if self._is_due(self._tabled, TABLES_EVERY):
            self._tabled = self._view.number, self._looks
            self._draw(tables=True)
        elif self._is_due(self._drawn, CHARTS_EVERY):
            self._draw(tables=False)

    def _is_due(self, last: tuple[int, int], every: int) -> bool:
        number, look = last
        return number != self._view.number and self._looks - look >= every

    def show(self, view: View, gain: Gain | None = None) -> None:
        """Show the figures of a status, and what somebody's labels have brought."""
        self._view = view
        self._tiles.show(view, gain)
        self._letters.show(view.dead_letters)

    def _draw(self, *, tables: bool) -> None:
        view = self._view.within(self._span)
        shown = [panel for panel in self._panels if tables or panel.draws]
        flat = {panel: panel.show(view) for panel in shown}
        told = [text for text in flat.values() if text]
        self._flat.text = f"Steady, so not drawn. {' '.join(told)}" if told else ""
        self._spans.show(names=list(SPANS), chosen=self._chosen, told=str(self._span))
        self._changes.flush()
        self._drawn = self._view.number, self._looks

    @property
    def _chosen(self) -> str | None:
        if self._span.is_fixed:
            return None
        return next(name for name, length in SPANS.items() if length == self._span.length)

    def _choose(self, event: GenericEventArguments) -> None:
        """Show another stretch of time."""
        how, points = str(event.args), self._view.points
        if how in SPANS:
            self._span = Span(SPANS[how])
        elif how in _STEPS and points:
            self._span = _STEPS[how](self._span, points)
        self._draw(tables=False)

    def _zoom(self, event: GenericEventArguments) -> None:
        """Show what somebody dragged over, if there is anything of it."""
        start, end = sorted(int(one) for one in event.args)
        if end - start >= SHORTEST:
            self._span = Span(start=start, end=end)
            self._draw(tables=False)


SHORTEST = 2_000
"""Milliseconds that are shown at least."""

_STEPS: Mapping[str, Callable[[Span, Sequence[Any]], Span]] = {
    "earlier": lambda span, points: span.moved(points, -0.5),
    "later": lambda span, points: span.moved(points, 0.5),
    "closer": lambda span, points: span.closer(points),
}


class Tiles:
    """The few figures that matter most."""

    NAMES = ("Accuracy", "Repeat last label", "Labels asked", "Open requests", "Records", "Version")
    COST = "Cost of a decision"
    """There where decisions have costs, and labels tell what they came to."""

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

    def show(self, view: View, gain: Gain | None = None) -> None:
        """Show a status, and what the labels of whoever looks have brought."""
        cost = cost_of(view)
        self._cost.set_visibility(cost is not None)
        shown = [*_figures(view), cost or (NOTHING, "")]
        for (figure, below), (value, note) in zip(self._tiles.values(), shown, strict=True):
            figure.text, below.text = value, note
        self._gain.text = "" if gain is None else str(gain)


def cost_of(view: View) -> tuple[str, str] | None:
    """Return what a decision about the newest records has cost in the mean, and its interval.

    None where nothing costs, or too few labels tell.
    """
    found = (view.document("evaluation").get("recent") or {}).get("cost")
    if found is None:
        return None
    return f"{found['value']:.3f}", f"{found['low']:.3f} to {found['high']:.3f}, in the mean"


def _figures(view: View) -> list[tuple[str, str]]:
    """Return each tile's figure and what stands below it."""
    last = view.points[-1] if view.points else {}
    ledger, learner = view.document("ledger"), view.document("learner")
    records = ledger.get("records")
    asked, share = ledger.get("requests"), None
    if asked is not None and records:
        share = asked / records
    budget = view.document("pipeline").get("budget")
    return [
        _honest(view),
        (percent(_value(last.get("repeat_last"))), "what no learning would reach"),
        (
            amount(asked),
            "" if share is None else f"{percent(share)} of records, budget {percent(budget)}",
        ),
        (
            amount(view.open_requests),
            "to be answered" if view.open_requests else "nothing to answer",
        ),
        (amount(records), f"{plural(int(learner.get('labels', 0)), 'label')} learned"),
        (
            amount(learner.get("version") or None),
            plural(int(learner.get("trees", 0)), "tree") + _doing(view),
        ),
    ]


def _doing(view: View) -> str:
    learner = view.document("learner")
    before = rolled_back(view).get(learner.get("version", 0))
    again = "" if before is None else f", rolled back to {before}"
    return again + _training(learner)


def _training(learner: Mapping[str, Any]) -> str:
    if learner.get("paused"):
        return ", paused"
    return ", training" if learner.get("running") else ""


def _honest(view: View) -> tuple[str, str]:
    found, recent = view.accuracy, view.document("evaluation").get("recent") or {}
    if found is None:
        return NOTHING, "too few labels tell yet"
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    records, labels = plural(recent["records"], "record"), plural(recent["answered"], "label")
    return percent(found["value"]), f"{interval}; last {records}, {labels}"


def _value(found: Any) -> float | None:
    return found.get("value") if isinstance(found, Mapping) else found


class Letters:
    """The messages that could not be used, to be opened and read; `link` leads to more of them."""

    def __init__(self, link: str) -> None:
        with Tag("section", classes="panel", aria_labelledby="dead-letters-title"):
            Tag("h2", "Dead letters", id="dead-letters-title")
            Tag("p", "Messages that could not be used, the newest first.", "about")
            self._empty = Tag("p", "None: every message could be used.", "summary empty")
            self._list = Tag("ul", classes="letters")
            Tag("a", "All of them, by reason, to be mended and sent again", href=link)
        self._shown: Sequence[Mapping[str, Any]] = ()

    def show(self, letters: Sequence[Mapping[str, Any]]) -> None:
        """Show these, leaving open what is open unless there are new ones."""
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
                        Tag("span", f"{letter.get('source')}, {clock(letter.get('time'))}")
                        Tag("bdi", str(letter.get("detail", "")), "cause")
                    with Tag("pre", tabindex="0"):
                        Tag("bdi", str(letter.get("payload", "")))


class Overview:
    """Several pipelines at a glance."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        with Tag("ul", classes="overview"):
            self._rows: dict[str, tuple[Activity, Tiles]] = {}
            for name in names:
                with Tag("li", classes="panel"):
                    with Tag("h2"):
                        Tag("a", name, href=page_of("/", name))
                    self._rows[name] = Activity(), Tiles()

    def show(self, name: str, view: View) -> None:
        """Show a pipeline's status."""
        for part in self._rows[name]:
            part.show(view)
