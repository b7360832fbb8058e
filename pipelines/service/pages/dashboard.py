"""The dashboard: how a pipeline does, live."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.pages.layout import page_of
from streamboost.pipelines.service.pages.panels import PANELS, Panel
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Tag
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural

__all__ = ["Dashboard", "Overview"]

STILL = 60.0
"""Seconds without a commit after which a pipeline that runs is said to be waiting."""


class Dashboard:
    """One pipeline: what it does, the figures that matter most, and the panels."""

    def __init__(self) -> None:
        self._activity = Activity()
        self._tiles = Tiles()
        with Tag("div", classes="panels"):
            self._panels = [Panel(*panel) for panel in PANELS]
        self._letters = Letters()

    def show_activity(self, view: View) -> None:
        """Show what the pipeline is doing, which also changes when nothing happens."""
        self._activity.show(view)

    def show(self, view: View) -> None:
        """Show a status."""
        self._tiles.show(view)
        for panel in self._panels:
            panel.show(view)
        self._letters.show(view.dead_letters)


UNSTARTED = 'It has not said anything yet: start it with "streamboost run".'


class Activity:
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
    records, labels = plural(recent["records"], "record"), plural(recent["answered"], "label")
    return percent(found["value"]), f"{interval}; last {records}, {labels}"


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
