"""The labelling page: one record at a time, the most useful first, answered by a key."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nicegui.events import GenericEventArguments

from streamboost.connectors.messages.labels import as_text
from streamboost.errors import StreamBoostError
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.labelling.store import LabellingEntry
from streamboost.pipelines.service.pages import questions
from streamboost.pipelines.service.pages.questions import Doubt
from streamboost.pipelines.service.pages.standing import UNSTARTED
from streamboost.pipelines.service.pages.tables import Column, Table
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Answers, DataTable, Sentence, Tag
from streamboost.pipelines.wording import clock, plural, sentence

__all__ = ["LabellingDesk", "show_field"]

HISTORY = 12
"""Answers that are shown."""


LOOK = 3.0
"""Seconds between two looks whether the record is still open, which also keeps it theirs."""


class LabellingDesk:
    """What one person has before them: a record, the answers to give, and what was answered.

    Parameters
    ----------
    served : the pipeline that asks
    person : who answers
    """

    def __init__(self, served: Served, person: Person) -> None:
        self._queue = served.queue
        self._refusal = served.labels.refusal
        self._classes = served.labels.classes
        self._doubt: Doubt | None = None
        self._person = person
        self._view = View()
        self._turn = 0
        self._looked = 0.0
        self._id: str | None = None
        self._busy = asyncio.Lock()
        with Tag("div", classes="desk"):
            with Tag("section", classes="panel record", aria_labelledby="record-title"):
                self._record = Record()
            with Tag("section", classes="panel reply", aria_labelledby="reply-title"):
                Tag("h2", "What is it?", id="reply-title")
                self._answers = Answers()
                self._answers.on("given", self._given)
                self._said = Sentence("p", "said", role="status", aria_live="polite")
            self._given_panel = Tag(
                "section", classes="panel given", aria_labelledby="features-title"
            )
            with self._given_panel:
                Tag("h2", "Features", id="features-title")
                self._features = DataTable()
            with Tag("section", classes="panel answered", aria_labelledby="history-title"):
                Tag("h2", "Answered", id="history-title")
                self._none = Tag("p", "Nothing yet.", "summary empty")
                self._history = DataTable()
        self._show(None)

    async def refresh(self, view: View) -> None:
        """Keep the record, or take the next one where it is gone."""
        self._view = view
        self._record.show_open(view.open_requests)
        if self._busy.locked():
            return
        async with self._busy:
            before = self._id
            if before is None or asyncio.get_running_loop().time() - self._looked >= LOOK:
                await self._next()
            if before is not None and self._id != before:
                self._said.say("Record {} was answered or expired.", before)
            await self._show_history()

    async def leave(self) -> None:
        """Let others have the record."""
        await asyncio.to_thread(self._queue.release, self._person)

    async def _given(self, event: GenericEventArguments) -> None:
        """Take what a person chose, unless it was meant for a record that has gone.

        A class that nobody has given yet, and that looks like one of those there are, is asked
        about first.
        """
        given: Mapping[str, Any] = event.args
        async with self._busy:
            if given.get("turn") != self._turn:
                return
            self._doubt = questions.doubt_of(given, self._known, self._view.label_type)
            if self._doubt is None:
                try:
                    self._said.say(*await asyncio.to_thread(self._take, given))
                except StreamBoostError as error:
                    self._said.say("{}", sentence(str(error)))
            self._turn += 1
            await self._next()
            await self._show_history()

    def _take(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Do what was chosen; return what to say of it, with the names it says it of."""
        action = given.get("action")
        if action == "undo":
            return "Taken back: record {}.", self._queue.undo(self._person).id
        if self._id is None:
            return ("There is no record to answer.",)
        if action == "skip":
            return "Skipped {}: it comes again later.", self._queue.skip(self._person, self._id).id
        if action == "not_sure":
            entry = self._queue.not_sure(self._person, self._id)
            return "Not sure of {}: it is left to others.", entry.id
        label = questions.label_of(given, self._view.label_type)
        entry = self._queue.answer(self._person, self._id, label)
        return "Record {} is {}. U takes it back for a few seconds.", entry.id, str(entry.label)

    async def _next(self) -> None:
        request = await asyncio.to_thread(self._queue.next, self._person)
        self._looked = asyncio.get_running_loop().time()
        self._show(request)

    async def _show_history(self) -> None:
        entries = await asyncio.to_thread(self._queue.history, HISTORY)
        self._none.set_visibility(not entries)
        self._history.set_visibility(bool(entries))
        self._history.show_table(_history(entries))

    def _show(self, request: OpenRequest | None) -> None:
        found = request or {}
        if found.get("id") != self._id:
            self._turn += 1  # what is on its way was meant for another record
            self._doubt = None
        self._id = found.get("id")
        view = self._view
        about = view.document("pipeline")
        self._record.show(found, about, self._refusal)
        self._known = list(self._classes) or _known(found, view)
        self._answers.show(
            turn=self._turn,
            open=request is not None and self._refusal is None,
            choices=[asdict(one) for one in questions.choices(found, self._known)],
            numeric=view.label_type == "integer",
            closed=bool(self._classes),
            doubt=None if self._doubt is None else asdict(self._doubt),
        )
        self._given_panel.set_visibility(bool(found))
        self._features.show_table(
            questions.features(found, view.document("features").get("features") or ())
        )


class Record:
    """The record at the top of the page: what it is, why it is asked, and its further fields."""

    def __init__(self) -> None:
        self._open = Tag("p", "", "about")
        with Tag("div", aria_live="polite"):
            self._title = Sentence("h2", id="record-title")
            self._guess = Sentence("p", "guess")
            self._why = Tag("p", "", "why")
        self._fields = Tag("dl", classes="fields")
        self._shown: Mapping[str, Any] = {}

    def show_open(self, n: int) -> None:
        """Show how many requests are open."""
        self._open.text = f"{plural(n, 'request')} open, the most useful answer first" if n else ""

    def show(self, request: OpenRequest, about: Mapping[str, Any], refusal: str | None) -> None:
        """Show a request; without one, say what to do."""
        if not request:
            self._title.say("Nothing to label")
            self._guess.say("")
            self._why.text = refusal or _idle(about)
        else:
            self._title.say("Record {}", request["id"])
            self._guess.say(*_guess(request))
            reason = questions.why(request, about.get("strategy") or {})
            self._why.text = refusal or f"{reason} {questions.until(request)}".strip()
        given = request.get("features") or {}
        fields = {name: value for name, value in given.items() if questions.is_long(value)}
        fields |= request.get("fields") or {}
        if fields != self._shown:
            self._shown = fields
            self._fields.clear()
            with self._fields:
                for name, value in fields.items():
                    with Tag("dt"):
                        Tag("bdi", str(name))
                    with Tag("dd"):
                        show_field(value)


def show_field(value: Any) -> None:
    """Show the value of a field: an image, a link, or text."""
    kind = questions.kind_of(value)
    if kind == "image":
        Tag("img", src=value, alt="The image in this field")
    elif kind == "link":
        with Tag("a", href=value, rel="noreferrer noopener", target="_blank"):
            Tag("bdi", value)
    else:
        Tag("bdi", "missing" if value is None else str(value), kind)


def _guess(request: OpenRequest) -> tuple[str, ...]:
    label = as_text(request.get("label"))
    if label is None:
        return ("The committee had no guess.",)
    share = (request.get("probabilities") or {}).get(str(label))
    sure = "" if share is None else f", {100 * share:.0f} % sure"
    return f"The committee guesses {{}}{sure}.", str(label)


def _idle(about: Mapping[str, Any]) -> str:
    if not about:
        return UNSTARTED
    return "Every request is answered, or with somebody else. New ones appear here by themselves."


def _known(request: OpenRequest, view: View) -> list[str | int]:
    """Return the classes there are, as far as anybody knows."""
    found: set[str | int] = set(view.document("learner").get("labels_of_classes") or ())
    found |= set(view.document("classes").get("labels") or ())
    if not found:
        found = set(request.get("probabilities") or ())
    return sorted(found, key=lambda label: (isinstance(label, str), label))


_ACTIONS: dict[str, Callable[[LabellingEntry], str]] = {
    "label": lambda entry: str(entry.label),
    "skip": lambda entry: "skipped",
    "not_sure": lambda entry: "not sure",
}
_STAGES = {"held": "can be undone", "writing": "being written", "written": "written"}


def _history(entries: Sequence[LabellingEntry]) -> Table:
    columns = [Column(text, "words") for text in ("Record", "Answer", "Who", "When", "State")]
    rows = [
        [
            entry.id,
            _ACTIONS[entry.action](entry),
            entry.person,
            clock(entry.time),
            _STAGES.get(entry.stage, "taken back" if entry.stage == "undone" else "noted"),
        ]
        for entry in entries
    ]
    return Table("The newest answers, by everybody", columns, rows, "")
