"""The committees that served: two side by side, and for operators what steers the pipeline."""

import asyncio
from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

from streamboost.errors import StreamBoostError
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Sentence, Tag, show_told
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, amount, clock, estimate, percent, sentence

__all__ = ["Steering", "compared", "importances", "listed", "show_versions"]

FEATURES = 15
"""Features whose importance is compared."""

LISTED = 50
"""Versions listed: the newest."""


def show_versions(
    versions: Sequence[Status], kept: Sequence[int], pipeline: str, a: int | None, b: int | None
) -> None:
    """Show two versions side by side, the newest and the one before if none are chosen."""
    if not versions:
        with Tag("section", classes="panel"):
            Tag("p", "No committee has served yet.", "summary empty")
        return
    known = {int(one["version"]): one for one in versions}
    numbers = sorted(known)
    right = b if b in known else numbers[-1]
    before = [n for n in numbers if n < right]
    left = a if a in known else before[-1] if before else right
    with Tag("section", classes="panel whole", aria_labelledby="beside-title", id="beside"):
        Tag("h2", "Side by side", id="beside-title")
        _choose(numbers, left, right, pipeline)
        for wanted in (a, b):
            if wanted is not None and wanted not in known:
                Tag("p", f"Nothing is kept of version {wanted}.", "about")
        show_told(compared(known[left], known[right], pipeline))
    with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
        Tag("h2", "What they go by", id="weigh-title")
        Tag("p", "What the splits on each feature gain, as a share of all.", "about")
        show_told(importances(known[left], known[right]))
    with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
        Tag("h2", "All that are known", id="all-title")
        show_told(listed(versions, kept, pipeline))


def _choose(numbers: Sequence[int], left: int, right: int, pipeline: str) -> None:
    with Tag("form", classes="choose", action="/versions"):
        Tag("input", type="hidden", name="pipeline", value=pipeline)
        for name, title, chosen in (("a", "Version", left), ("b", "beside", right)):
            Tag("label", title, for_=f"version-{name}")
            with Tag("select", id=f"version-{name}", name=name):
                for number in reversed(numbers):
                    is_chosen: dict[str, Any] = {"selected": True} if number == chosen else {}
                    Tag("option", str(number), value=str(number), **is_chosen)
        Tag("button", "Compare")


def compared(a: Status, b: Status, pipeline: str) -> Table:
    """Return what two versions were made of and how they did while they served."""
    columns = [
        Column("Figure", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    rows: list[list[str | Cell]] = [
        ["Served from", *(clock(one.get("began")) for one in (a, b)), ""]
    ]
    for title, key in (("Labels learned", "labels"), ("Trees", "trees"), ("Rounds", "rounds")):
        was, now = a.get(key), b.get(key)
        rows.append([title, amount(was), amount(now), _more(was, now)])
    accuracies = (estimate(one.get("accuracy")) for one in (a, b))
    rows.append(["Accuracy", *accuracies, _points(*_values(a, b))])
    left, right = (_recalls(one) for one in (a, b))
    worse: list[tuple[bool, float, str]] = []
    for name in {**left, **right}:
        one, other = left.get(name), right.get(name)
        was, now = (None if each is None else float(each["value"]) for each in (one, other))
        if one and other and was is not None and now is not None and now < was:
            may_be_chance = was - now <= hypot(_margin(one), _margin(other))
            worse.append((may_be_chance, now - was, name))
        link = page_of("/records", pipeline, true=name, since=a["version"], wrong="true")
        rows.append(
            [
                Cell(f"Recall of {name}", link=link),
                estimate(one),
                estimate(other),
                _points(was, now),
            ]
        )
    summary = "As of the newest records that were judged while each served."
    summary += f" A class leads to its records that were mistaken since version {a['version']}."
    if worse:
        may_be_chance, change, name = min(worse)
        chance = ", which may be chance, as the intervals say" if may_be_chance else ""
        summary = f"{name} got worse most: recall {_points(0.0, change).text}{chance}. {summary}"
    elif left and right:
        summary = f"No class got worse. {summary}"
    return Table("Two versions side by side", columns, rows, summary)


def _values(a: Status, b: Status) -> tuple[float | None, float | None]:
    found = [one.get("accuracy") for one in (a, b)]
    first, second = (None if one is None else float(one["value"]) for one in found)
    return first, second


def _margin(one: Mapping[str, Any]) -> float:
    return (float(one["high"]) - float(one["low"])) / 2


def _recalls(one: Status) -> dict[str, Mapping[str, Any] | None]:
    return {str(found["label"]): found.get("recall") for found in one.get("classes") or ()}


def _points(was: float | None, now: float | None) -> Cell:
    """Return a change of shares, in points of a hundred."""
    if was is None or now is None:
        return Cell(NOTHING)
    change = 100 * (now - was)
    colour = "bad" if change < 0 else "good"
    return Cell(f"{change:+.1f} points", bar=min(abs(change) / 20, 1.0), colour=colour)


def _more(was: float | None, now: float | None) -> str:
    return NOTHING if was is None or now is None else f"{now - was:+,}"


def importances(a: Status, b: Status) -> Table:
    """Return what two versions go by, the features first that the second one goes by most."""
    left, right = (one.get("importances") or {} for one in (a, b))
    columns = [
        Column("Feature", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    names = sorted({**left, **right}, key=lambda name: -max(left.get(name, 0), right.get(name, 0)))
    most = max((*left.values(), *right.values()), default=0.0) or 1.0
    rows = [
        [
            name,
            *(
                Cell(percent(one.get(name, 0.0)), bar=one.get(name, 0.0) / most, colour="series-1")
                for one in (left, right)
            ),
            f"{100 * (right.get(name, 0.0) - left.get(name, 0.0)):+.1f} points",
        ]
        for name in names[:FEATURES]
    ]
    summary = "" if rows else "Only committees of trees tell what they go by."
    return Table("Importance of features", columns, rows, summary)


def listed(versions: Sequence[Status], kept: Sequence[int], pipeline: str) -> Table:
    """Return the versions, the newest first; those that are `kept` can serve again."""
    columns = [
        Column("Version", "words"),
        Column("Served from", "words"),
        Column("Labels"),
        Column("Trees"),
        Column("Accuracy"),
        Column("Kept", "words"),
    ]
    newest = versions[-1]["version"]
    rows: list[list[str | Cell]] = [
        [
            Cell(
                str(one["version"]),
                link=page_of("/versions", pipeline, a=one["version"], b=newest),
            ),
            clock(one.get("began")),
            amount(one.get("labels")),
            amount(one.get("trees")),
            estimate(one.get("accuracy")),
            "can serve again" if one["version"] in kept else "no",
        ]
        for one in reversed(versions[-LISTED:])
    ]
    return Table("Versions", columns, rows, f"{len(kept)} are kept whole.")


class Steering:
    """The commands an operator gives, each confirmed; whoever is none is told so.

    Parameters
    ----------
    served : the pipeline that obeys
    person : who looks
    """

    def __init__(self, served: Served, person: Person) -> None:
        self._served = served
        self._may = person.role == "operator"
        self._asked: Command | None = None
        self._shown: Any = None
        with Tag("section", classes="panel", aria_labelledby="steer-title", id="steer"):
            Tag("h2", "Steering", id="steer-title")
            self._state = Tag("p", "", "summary")
            if not self._may:
                Tag("p", "Commands are an operator's to give.", "about")
                return
            self._buttons = Tag("div", classes="actions")
            self._doubt = Tag("div", classes="doubt", role="alert")
            self._doubt.set_visibility(False)
            with self._doubt:
                self._question = Sentence("p")
                with Tag("div", classes="actions"):
                    Tag("button", "Yes, do it", type="button").on("click", self._give)
                    Tag("button", "No", type="button").on("click", self._leave)
            self._said = Sentence("p", "said", role="status", aria_live="polite")

    def show(self, view: View) -> None:
        """Show what can be told, as things are."""
        learner = view.document("learner")
        kept = [int(one["version"]) for one in learner.get("versions") or ()]
        serves, challenger = learner.get("version") or 0, learner.get("challenger") or 0
        paused, running = bool(learner.get("paused")), learner.get("running") or 0
        self._state.text = _standing(serves, running, challenger, paused=paused)
        how = (tuple(kept), serves, challenger, paused)
        if not self._may or how == self._shown:
            return
        self._shown = how
        self._buttons.clear()
        with self._buttons:
            if challenger:
                self._button(f"Promote version {challenger}", Command("promote"))
            self._button("Retrain", Command("retrain"))
            self._button(
                *(("Resume", Command("resume")) if paused else ("Pause", Command("pause")))
            )
            for number in [n for n in reversed(kept) if n not in (serves, challenger)][:5]:
                self._button(f"Roll back to {number}", Command("rollback", number))

    def _button(self, text: str, command: Command) -> None:
        Tag("button", text, type="button").on("click", lambda: self._ask(command))

    def _ask(self, command: Command) -> None:
        self._asked = command
        self._question.say(_QUESTIONS[command.command].format(command.version))
        self._doubt.set_visibility(True)
        self._said.say("")

    def _leave(self) -> None:
        self._asked = None
        self._doubt.set_visibility(False)

    async def _give(self) -> None:
        command, self._asked = self._asked, None
        self._doubt.set_visibility(False)
        if command is None or not self._may:
            return
        try:
            await asyncio.to_thread(self._served.tell, command)
        except StreamBoostError as error:
            self._said.say("{}", sentence(str(error)))
            return
        self._said.say("Queued: {}. The pipeline obeys with its next batch.", str(command))


_QUESTIONS = {
    "promote": "Let the challenger serve now, although the labels have not decided yet?",
    "rollback": "Let version {} serve again, under a new number? A training under way is given up.",
    "retrain": "Train anew, as soon as no training is under way?",
    "pause": "Keep the committee that serves, and train nothing until it is resumed?",
    "resume": "Go on training?",
}


def _standing(serves: int, running: int, challenger: int, *, paused: bool) -> str:
    text = f"Version {serves} serves" if serves else "No committee serves yet"
    if paused:
        text += ", and nothing is trained: it is paused"
    if running:
        text += f"; version {running} is being trained"
    if challenger:
        text += f"; version {challenger} is judged before it may serve"
    return f"{text}."
