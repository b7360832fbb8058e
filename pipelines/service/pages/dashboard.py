"""The dashboard: how a pipeline does, live."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.pages import charts as curves
from streamboost.pipelines.service.pages import tables
from streamboost.pipelines.service.pages.layout import page_of
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Panel, Tag
from streamboost.pipelines.wording import (
    NOTHING,
    amount,
    clock,
    percent,
    plural,
)

__all__ = ["Dashboard", "Overview"]

STILL = 60.0
"""Seconds without a commit after which a pipeline that runs is said to be waiting."""


class Dashboard:
    """One pipeline's panels."""

    def __init__(self) -> None:
        self._state = State()
        self._tiles = Tiles()
        with Tag("div", classes="panels"):
            self._accuracy = Panel("Accuracy", ABOUT_ACCURACY, "wide")
            self._spending = Panel("Labels against budget", "Labels, counted since the start.")
            self._throughput = Panel("Throughput", "Per second.")
            self._latency = Panel("Latency", "From reading a batch to its commit.")
            self._lag = Panel("Lag", "Messages that wait to be read.")
            self._mix = Panel("Class mix", "Share of each class.")
            self._confusion = Panel("Confusion matrix", "True classes down, predicted ones across.")
            self._features = Panel("Feature drift", ABOUT_DRIFT)
            self._steps = Panel("Steps of a batch", "Where a batch's time goes.")
            self._committee = Panel("Committee", "Trees, and when a new version began to serve.")
            self._history = Panel("Committee history", "The newest first.")
        self._letters = Letters()

    def show_state(self, view: View) -> None:
        """Show what the pipeline is doing, which also changes when nothing happens."""
        self._state.show(view)

    def show(self, view: View) -> None:
        """Show a status."""
        points, marks = view.points, view.marks
        self._tiles.show(view)
        self._accuracy.show_curves(curves.accuracy(points, marks, *_judged(view)))
        self._spending.show_curves(curves.spending(points))
        self._throughput.show_curves(curves.throughput(points))
        self._latency.show_curves(curves.latency(points))
        self._lag.show_curves(curves.lag(points))
        self._mix.show_table(tables.class_mix(view.document("classes")))
        self._confusion.show_table(tables.confusion(view.document("confusion")))
        self._features.show_table(tables.feature_drift(view.document("features").get("features")))
        self._steps.show_table(tables.latencies(view.document("latency")))
        self._committee.show_curves(curves.committee_size(points, marks))
        self._history.show_table(tables.committees(marks))
        self._letters.show(view.dead_letters)


ABOUT_ACCURACY = (
    "Share of the newest records that were predicted rightly on arrival. Honest: estimated from "
    "audits, with its 95 % interval. Naive: over the answered requests, which are the hard ones."
)
ABOUT_DRIFT = (
    "Population stability index of the newest records against those before; from 0.2 a feature "
    "counts as shifted."
)


UNSTARTED = 'It has not said anything yet: start it with "streamboost run".'


class State:
    """Says what the pipeline is doing, and tells a screen reader when that changes."""

    def __init__(self) -> None:
        with Tag("p", classes="state"):
            # The text beside it changes with every batch: too often to be read aloud.
            self._chip = Tag("span", "", "chip", role="status")
            self._text = Tag("span", "")
        self._trouble = Tag("p", "", "trouble", role="alert")
        self._trouble.set_visibility(False)

    def show(self, view: View) -> None:
        """Show a status."""
        word, text = _standing(view, time.time())
        self._chip.text = word
        self._chip.classes(replace=f"chip {word}")
        self._text.text = text
        trouble = view.document("trouble")
        self._trouble.set_visibility(bool(trouble))
        if trouble:
            self._trouble.text = f"{clock(trouble.get('time'))}: {trouble.get('text', '')}"


def _standing(view: View, now: float) -> tuple[str, str]:
    """Return the word for what the pipeline does, and what there is to say of it."""
    about = view.document("pipeline")
    if not about:
        return "silent", UNSTARTED
    word, last = str(about.get("state", "unknown")), about.get("time")
    if last is None:
        return word, "It has not committed a batch yet."
    text = f"Batch {amount(about.get('sequence'))}, committed at {clock(last)}."
    if word == "running" and now - last / 1000 > STILL:
        return "waiting", f"{text} Nothing has come since."
    return word, text


class Tiles:
    """The few figures that matter most."""

    NAMES = ("Accuracy", "Repeat last label", "Labels asked", "Open requests", "Records", "Version")

    def __init__(self) -> None:
        self._tiles: dict[str, tuple[Tag, Tag]] = {}
        with Tag("dl", classes="tiles"):
            for name in self.NAMES:
                with Tag("div", classes="tile"):
                    Tag("dt", name)
                    self._tiles[name] = Tag("dd", NOTHING, "value"), Tag("dd", "", "note")

    def show(self, view: View) -> None:
        """Show a status."""
        for name, (value, note) in zip(self.NAMES, _figures(view), strict=True):
            self._tiles[name][0].text = value
            self._tiles[name][1].text = note


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
        _honest(view.document("evaluation").get("recent") or {}),
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
            plural(int(learner.get("trees", 0)), "tree") + _doing(learner),
        ),
    ]


def _doing(learner: Mapping[str, Any]) -> str:
    if learner.get("paused"):
        return ", paused"
    return ", training" if learner.get("running") else ""


def _honest(recent: Mapping[str, Any]) -> tuple[str, str]:
    found = (recent.get("committee") or {}).get("accuracy")
    if found is None:
        return NOTHING, "too few labels tell yet"
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    return percent(found["value"]), f"{interval}, over {plural(recent['records'], 'record')}"


def _judged(view: View) -> tuple[int | None, int | None]:
    """Return how many records the accuracy is about, and how many have come."""
    whole = view.document("evaluation").get("since_start") or {}
    return whole.get("records"), view.document("ledger").get("records")


def _value(found: Any) -> float | None:
    return found.get("value") if isinstance(found, Mapping) else found


class Letters:
    """The messages that could not be used, to be opened and read."""

    def __init__(self) -> None:
        with Tag("section", classes="panel", aria_labelledby="dead-letters-title"):
            Tag("h2", "Dead letters", id="dead-letters-title")
            Tag("p", "Messages that could not be used, the newest first.", "about")
            self._empty = Tag("p", "None: every message could be used.", "summary empty")
            self._list = Tag("ul", classes="letters")
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
                        Tag("span", str(letter.get("detail", "")), "cause")
                    Tag("pre", str(letter.get("payload", "")), tabindex="0")


class Overview:
    """Several pipelines at a glance."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        with Tag("ul", classes="overview"):
            self._rows: dict[str, tuple[State, Tiles]] = {}
            for name in names:
                with Tag("li", classes="panel"):
                    with Tag("h2"):
                        Tag("a", name, href=page_of("/", name))
                    self._rows[name] = State(), Tiles()

    def show(self, name: str, view: View) -> None:
        """Show a pipeline's status."""
        for part in self._rows[name]:
            part.show(view)
