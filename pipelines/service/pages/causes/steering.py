"""What an operator tells a pipeline from the page of its versions, and what became of that."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from streamboost.errors import StreamBoostError
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages.tables import named, rolled_back
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Sentence, Tag
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.status.formatting import clock, plural, seconds, sentence
from streamboost.pipelines.status.reader import Status

__all__ = ["Steering", "lacking", "lasting", "obeyed", "offered", "standing"]

OFFERED = 5
"""Versions to roll back to: the newest."""

NEWEST = 10
"""Versions whose distance says when the next one is to be expected."""

NAMED = 5
"""Classes and features named in a warning."""

REFUSED = 10_000
"""Milliseconds of commits after which a command that entered no batch is said to be refused."""


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
        self._given: tuple[Command, int, float] | None = None
        self._view = View()
        self._shown: Any = None
        self._chosen: Sequence[int] = ()
        self._known: dict[int, Status] = {}
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
                    yes = Tag("button", "Yes, do it", type="button")
                    yes.on("click", lambda: self._give(pause=False))
                    self._keep = Tag("button", "Pause training, and do it", type="button")
                    self._keep.on("click", lambda: self._give(pause=True))
                    Tag("button", "No", type="button").on("click", self._leave)
            self._said = Sentence("p", "said", role="status", aria_live="polite")

    def choose(self, chosen: Sequence[int], known: Iterable[Status]) -> None:
        """Offer to roll back to these versions, too; `known` is what there is to warn by."""
        self._chosen, self._known = chosen, {int(one["version"]): one for one in known}

    def show(self, view: View) -> None:
        """Show what can be told, as things are, and what became of what was told last."""
        self._view, learner = view, view.document("learner")
        kept = [int(one["version"]) for one in learner.get("versions") or ()]
        serves, challenger = learner.get("version") or 0, learner.get("challenger") or 0
        paused = bool(learner.get("paused"))
        self._state.text = standing(view)
        self._follow(view)
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
            others = [number for number in kept if number not in (serves, challenger)]
            for number in offered(others, self._chosen):
                self._button(f"Roll back to {number}", Command("rollback", number))

    def _button(self, text: str, command: Command) -> None:
        Tag("button", text, type="button").on("click", lambda: self._ask(command))

    def _ask(self, command: Command) -> None:
        self._asked = command
        question, is_rollback = _QUESTIONS[command.command], command.command == "rollback"
        lasts = lasting(self._view) if is_rollback else ""
        asked = question.format(version=command.version, lasts=lasts)
        lacks = lacking(self._view, self._known, command.version) if command.version else []
        names = [name for _, *names in lacks for name in names]
        self._question.say(" ".join((asked, *(text for text, *_ in lacks))), *names)
        paused = bool(self._view.document("learner").get("paused"))
        self._keep.set_visibility(is_rollback and not paused)
        self._doubt.set_visibility(True)
        self._said.say("")

    def _leave(self) -> None:
        self._asked = None
        self._doubt.set_visibility(False)

    async def _give(self, *, pause: bool) -> None:
        command, self._asked = self._asked, None
        self._doubt.set_visibility(False)
        if command is None or not self._may:
            return
        newest = max((int(mark["id"]) for mark in self._view.marks), default=0)
        try:
            for one in (Command("pause"), command) if pause else (command,):
                await asyncio.to_thread(self._served.tell, one)
        except StreamBoostError as error:
            self._said.say("{}", sentence(str(error)))
            return
        self._given = command, newest, 1000 * time.time()
        self._said.say("Queued: {}. The pipeline obeys with its next batch.", str(command))

    def _follow(self, view: View) -> None:
        """Say once it is so that the pipeline obeyed, or that it seems not to."""
        if self._given is None:
            return
        command, newest, when = self._given
        done = obeyed(view, command, newest)
        late = (view.document("pipeline").get("time") or 0.0) - when > REFUSED
        if done is not None:
            self._said.say("{}", done)
        elif late:
            refused = "{} was not obeyed, though batches came since: the pipeline's log says why."
            self._said.say(refused, str(command))
        if done is not None or late:
            self._given = None


def obeyed(view: View, command: Command, after: int) -> str | None:
    """Say what came of a command since the mark numbered `after`; None: nothing yet."""
    later = [mark for mark in view.marks if mark["id"] > after]
    done = [m for m in later if m["kind"] == "command" and m.get("text") == str(command)]
    if not done:
        return None
    said = f"Done at {clock(done[-1]['time'])}: {command}."
    if command.command == "rollback":
        again = rolled_back(view)
        now = [v for v, before in again.items() if before == command.version]
        if now:
            said += f" Version {named(max(now), again)} serves since."
    return said


def lasting(view: View) -> str:
    """Say how long a version will serve that is rolled back to."""
    if view.document("learner").get("paused"):
        return "Training is paused: it serves until that is resumed"
    times = [int(mark["time"]) for mark in view.marks if mark["kind"] == "promoted"][-NEWEST:]
    if len(times) < 3:
        return "It serves until the next training ends, unless training is paused"
    usual = median(b - a for a, b in pairwise(times)) / 1000
    return (
        "It serves until the next training ends, unless training is paused: new versions came "
        f"every {seconds(usual)} or so, the last one at {clock(times[-1])}"
    )


def offered(kept: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """Return the versions to roll back to: of those kept the chosen ones, and the newest others.

    >>> offered(range(40, 60), (42, 58, 12))
    [58, 42, 59, 57, 56, 55, 54]
    """
    newest = sorted(kept, reverse=True)
    others = [number for number in newest if number not in chosen]
    return [number for number in newest if number in chosen] + others[:OFFERED]


def lacking(view: View, known: Mapping[int, Status], version: int) -> list[tuple[str, ...]]:
    """Return what a version lacks that the one has that serves: sentences, with names in them."""
    serves, again = int(view.document("learner").get("version") or 0), rolled_back(view)
    old, new = known.get(version), known.get(serves)
    if old is None or new is None:
        return []
    was, now = (again.get(number, number) for number in (version, serves))
    if was == now:
        return [(f"It is what serves already, as version {serves}.",)]
    began = known.get(was, old)["began"]
    told: list[tuple[str, ...]] = []
    fewer = int(new["labels"]) - int(old["labels"])
    if fewer > 0:
        told.append((f"It learned from {plural(fewer, 'label')} fewer than version {serves}.",))
    classes = [one for one in new["knows"] if one not in old["knows"]]
    told += _named(classes, "class", "classes", "It has not learned")
    drifts = [
        mark for mark in view.marks if mark["kind"] == "drift" and was < mark["version"] <= now
    ]
    if drifts:
        told.append((f"Drift came after it, the last time at {clock(drifts[-1]['time'])}.",))
    shifted = [
        one["name"]
        for one in view.document("features").get("features") or ()
        if (one.get("began") or 0) > began
    ]
    told += _named(shifted, "feature", "features", "Shifted since it began to serve:")
    columns = int(new["features"]) - int(old["features"])
    if columns > 0:
        told.append((f"It knows nothing of {plural(columns, 'column')} that came later.",))
    return told


def _named(names: Sequence[str], one: str, more: str, said: str) -> list[tuple[str, ...]]:
    """Return a sentence with the first of `names`, which are of one thing or of more."""
    if not names:
        return []
    shown = names[:NAMED]
    places = ", ".join("{}" for _ in shown)
    rest = f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
    return [(f"{said} {one if len(names) == 1 else more} {places}{rest}.", *shown)]


_QUESTIONS = {
    "promote": "Let the challenger serve now, although the labels have not decided yet?",
    "rollback": "Let version {version} serve again, under a new number? {lasts}. A training under "
    "way is given up.",
    "retrain": "Train anew, as soon as no training is under way?",
    "pause": "Keep the committee that serves, and train nothing until it is resumed?",
    "resume": "Go on training?",
}


def standing(view: View) -> str:
    """Say which committee serves, what becomes of it, and what the last rollback came to."""
    learner = view.document("learner")
    serves, running = learner.get("version") or 0, learner.get("running") or 0
    text = "No committee serves yet"
    if serves:
        text = f"Version {named(serves, rolled_back(view))} serves"
    if learner.get("paused"):
        text += ", and nothing is trained: it is paused"
    if running:
        text += f"; version {running} is being trained"
    if learner.get("challenger"):
        text += f"; version {learner['challenger']} is judged before it may serve"
    return f"{text}.{_last_rollback(view)}"


def _last_rollback(view: View) -> str:
    again = rolled_back(view)
    if not again:
        return ""
    number = max(again)
    served = [mark for mark in view.marks if mark["kind"] == "promoted"]
    began = next(mark for mark in served if mark["version"] == number)
    later = served[served.index(began) + 1 :]
    until = f", until version {later[0]['version']} at {clock(later[0]['time'])}" if later else ""
    at = f"{number} at {clock(began['time'])}"
    return f" The last rollback let version {again[number]} serve again as {at}{until}."
