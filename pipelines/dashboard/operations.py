"""Operator commands on the versions page (promote, roll back, retrain, pause) and their results."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from streamboost.errors import StreamBoostError
from streamboost.pipelines.dashboard.tables import rollback_origins, version_text
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.dashboard.widgets import BidiText, Tag
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.status.formatting import (
    count_text,
    duration_text,
    time_text,
    to_sentence,
)
from streamboost.pipelines.status.reader import Status

OFFERED = 5
"""Versions to roll back to: the newest."""

NEWEST = 10
"""Most recent promotions, whose intervals give the usual time between versions."""

NAMED = 5
"""Classes and features named in a warning."""

REFUSED = 10_000
"""Milliseconds of commits after which a command without an effect is reported as refused."""


class OperationsPanel:
    """Panel with buttons for operator commands. Other roles see only the pipeline's state.

    Parameters
    ----------
    served : the pipeline that the commands are sent to
    person : the user of the page
    """

    def __init__(self, served: ServedPipeline, person: User) -> None:
        self._served = served
        self._may = person.role == "operator"
        self._pending_command: Command | None = None
        self._given: tuple[Command, int, float] | None = None
        self._view = StatusSnapshot()
        self._shown: Any = None
        self._chosen: Sequence[int] = ()
        self._known: dict[int, Status] = {}
        with Tag("section", classes="panel", aria_labelledby="steer-title", id="steer"):
            Tag("h2", "Operator commands", id="steer-title")
            self._state = Tag("p", "", "summary")
            if not self._may:
                Tag("p", "Only operators can give commands.", "about")
                return
            self._buttons = Tag("div", classes="actions")
            self._doubt = Tag("div", classes="doubt", role="alert")
            self._doubt.set_visibility(False)
            with self._doubt:
                self._question = BidiText("p")
                with Tag("div", classes="actions"):
                    self._yes = Tag("button", "Yes, do it", type="button")
                    self._yes.on("click", lambda: self._send_command(pause_first=False))
                    self._keep = Tag("button", "Pause training, and do it", type="button")
                    self._keep.on("click", lambda: self._send_command(pause_first=True))
                    Tag("button", "No", type="button").on("click", self._cancel_command)
            self._said = BidiText("p", "said", role="status", aria_live="polite")

    def set_rollback_versions(
        self, chosen_versions: Sequence[int], known_versions: Iterable[Status]
    ) -> None:
        """Set the versions for which `show` offers a rollback first.

        `known_versions` are all versions, which `rollback_warnings` compares.
        """
        self._chosen, self._known = (
            chosen_versions,
            {int(one["version"]): one for one in known_versions},
        )

    def show(self, view: StatusSnapshot) -> None:
        """Show the available commands for the status, and the result of the last command."""
        self._view, learner = view, view.document("learner")
        kept = [int(one["version"]) for one in learner.get("versions") or ()]
        serves, challenger = learner.get("version") or 0, learner.get("challenger") or 0
        paused = bool(learner.get("paused"))
        self._state.text = pipeline_summary(view)
        self._show_command_result(view)
        how = (tuple(kept), serves, challenger, paused)
        if not self._may or how == self._shown:
            return
        self._shown = how
        self._buttons.clear()
        with self._buttons:
            if challenger:
                self._add_command_button(f"Promote version {challenger}", Command("promote"))
            self._add_command_button("Retrain", Command("retrain"))
            self._add_command_button(
                *(("Resume", Command("resume")) if paused else ("Pause", Command("pause")))
            )
            others = [number for number in kept if number not in (serves, challenger)]
            for number in rollback_versions(others, self._chosen):
                self._add_command_button(f"Roll back to {number}", Command("rollback", number))

    def _add_command_button(self, text: str, command: Command) -> None:
        classes = "danger" if command.command == "rollback" else ""
        button = Tag("button", text, classes, type="button")
        button.on("click", lambda: self._ask_confirmation(command))

    def _ask_confirmation(self, command: Command) -> None:
        self._pending_command = command
        question, is_rollback = _QUESTIONS[command.command], command.command == "rollback"
        lasts = rollback_duration_text(self._view) if is_rollback else ""
        asked = question.format(version=command.version, lasts=lasts)
        lacks = (
            rollback_warnings(self._view, self._known, command.version) if command.version else []
        )
        names = [name for _, *names in lacks for name in names]
        self._question.show_text(" ".join((asked, *(text for text, *_ in lacks))), *names)
        paused = bool(self._view.document("learner").get("paused"))
        self._keep.set_visibility(is_rollback and not paused)
        for part in (self._doubt, self._yes, self._keep):
            part.classes(**{"add" if is_rollback else "remove": "danger"})
        self._doubt.set_visibility(True)
        self._said.show_text("")

    def _cancel_command(self) -> None:
        self._pending_command = None
        self._doubt.set_visibility(False)

    async def _send_command(self, *, pause_first: bool) -> None:
        command, self._pending_command = self._pending_command, None
        self._doubt.set_visibility(False)
        if command is None or not self._may:
            return
        newest = max((int(mark["id"]) for mark in self._view.marks), default=0)
        try:
            for one in (Command("pause"), command) if pause_first else (command,):
                await asyncio.to_thread(self._served.send_command, one)
        except StreamBoostError as error:
            self._said.show_text("{}", to_sentence(str(error)))
            return
        self._given = command, newest, 1000 * time.time()
        self._said.show_text("Queued: {}. It is applied with the next batch.", str(command))

    def _show_command_result(self, view: StatusSnapshot) -> None:
        """Show the result of the last command, or that the pipeline rejected the command."""
        if self._given is None:
            return
        command, newest, when = self._given
        done = command_result_text(view, command, newest)
        late = (view.document("pipeline").get("time") or 0.0) - when > REFUSED
        if done is not None:
            self._said.show_text("{}", done)
        elif late:
            refused = "{} was rejected: later batches did not apply it. See the pipeline's log."
            self._said.show_text(refused, str(command))
        if done is not None or late:
            self._given = None


def command_result_text(view: StatusSnapshot, command: Command, after_event: int) -> str | None:
    """Describe the result of a command; return None if the command has not been applied yet.

    `after_event` is the number (`id`) of the newest event when the command was sent.
    """
    later = [mark for mark in view.marks if mark["id"] > after_event]
    done = [m for m in later if m["kind"] == "command" and m.get("text") == str(command)]
    if not done:
        return None
    said = f"Done at {time_text(done[-1]['time'])}: {command}."
    if command.command == "rollback":
        again = rollback_origins(view)
        now = [v for v, before in again.items() if before == command.version]
        if now:
            said += f" Version {version_text(max(now), again)} is active since then."
    return said


def rollback_duration_text(view: StatusSnapshot) -> str:
    """Say how long a version stays active after a rollback to that version."""
    if view.document("learner").get("paused"):
        return "Training is paused: it stays active until training is resumed"
    times = [int(mark["time"]) for mark in view.marks if mark["kind"] == "promoted"][-NEWEST:]
    if len(times) < 3:
        return "It stays active until the next training ends, unless training is paused"
    usual = median(b - a for a, b in pairwise(times)) / 1000
    return (
        "It stays active until the next training ends, unless training is paused: new versions "
        f"came about every {duration_text(usual)}, the last one at {time_text(times[-1])}"
    )


def rollback_versions(
    retained_versions: Sequence[int], chosen_versions: Sequence[int]
) -> list[int]:
    """Return the retained versions to offer for a rollback: the chosen ones, then the newest.

    >>> rollback_versions(range(40, 60), (42, 58, 12))
    [58, 42, 59, 57, 56, 55, 54]
    """
    newest = sorted(retained_versions, reverse=True)
    others = [number for number in newest if number not in chosen_versions]
    return [number for number in newest if number in chosen_versions] + others[:OFFERED]


def rollback_warnings(
    view: StatusSnapshot, known_versions: Mapping[int, Status], version: int
) -> list[tuple[str, ...]]:
    """Return sentences on what is lost by a rollback from the active version to `version`.

    Each sentence is a text, followed by the names to put into its ``{}``.
    """
    serves, again = int(view.document("learner").get("version") or 0), rollback_origins(view)
    old, new = known_versions.get(version), known_versions.get(serves)
    if old is None or new is None:
        return []
    was, now = (again.get(number, number) for number in (version, serves))
    if was == now:
        return [(f"It is identical to the active version {serves}.",)]
    began = known_versions.get(was, old)["began"]
    told: list[tuple[str, ...]] = []
    fewer = int(new["labels"]) - int(old["labels"])
    if fewer > 0:
        told.append((f"It learned from {count_text(fewer, 'label')} fewer than version {serves}.",))
    classes = [one for one in new["knows"] if one not in old["knows"]]
    told += _named_items_sentence(classes, "class", "classes", "It has not learned")
    drifts = [
        mark for mark in view.marks if mark["kind"] == "drift" and was < mark["version"] <= now
    ]
    if drifts:
        told.append((f"Drift was detected after it, last at {time_text(drifts[-1]['time'])}.",))
    shifted = [
        one["name"]
        for one in view.document("features").get("features") or ()
        if (one.get("began") or 0) > began
    ]
    told += _named_items_sentence(shifted, "feature", "features", "Shifted since it became active:")
    columns = int(new["features"]) - int(old["features"])
    if columns > 0:
        told.append((f"It lacks {count_text(columns, 'newer column')}.",))
    return told


def _named_items_sentence(
    names: Sequence[str], singular: str, plural_form: str, opening: str
) -> list[tuple[str, ...]]:
    """Return a sentence with at most `NAMED` names, as a text and its names; empty without names.

    The sentence starts with `opening` and the noun, in its `singular` or its `plural_form`.
    """
    if not names:
        return []
    shown = names[:NAMED]
    places = ", ".join("{}" for _ in shown)
    rest = f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
    return [(f"{opening} {singular if len(names) == 1 else plural_form} {places}{rest}.", *shown)]


_QUESTIONS = {
    "promote": "Promote the challenger now, before its evaluation has ended?",
    "rollback": "Roll back to version {version} (as a new version)? {lasts}. A running training "
    "is discarded.",
    "retrain": "Start another training as soon as no training is running?",
    "pause": "Keep the active version, and pause training until it is resumed?",
    "resume": "Resume training?",
}


def pipeline_summary(view: StatusSnapshot) -> str:
    """Summarize the active version, the training state and the last rollback."""
    learner = view.document("learner")
    serves, running = learner.get("version") or 0, learner.get("running") or 0
    text = "No version is active yet"
    if serves:
        text = f"Version {version_text(serves, rollback_origins(view))} is active"
    if learner.get("paused"):
        text += "; training is paused"
    if running:
        text += f"; version {running} is being trained"
    if learner.get("challenger"):
        text += f"; version {learner['challenger']} is being evaluated"
    return f"{text}.{_last_rollback_text(view)}"


def _last_rollback_text(view: StatusSnapshot) -> str:
    again = rollback_origins(view)
    if not again:
        return ""
    number = max(again)
    served = [mark for mark in view.marks if mark["kind"] == "promoted"]
    began = next(mark for mark in served if mark["version"] == number)
    later = served[served.index(began) + 1 :]
    until = (
        f", until version {later[0]['version']} at {time_text(later[0]['time'])}" if later else ""
    )
    at = f"{number} at {time_text(began['time'])}"
    return f" Last rollback: version {again[number]} redeployed as {at}{until}."
