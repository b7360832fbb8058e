"""Serves the labelling page: one record at a time, the most useful first, answered by a key."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from nicegui.events import GenericEventArguments

from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import StreamBoostError, UnavailableError
from streamboost.pipelines.dashboard import labelling_request
from streamboost.pipelines.dashboard.labelling_progress import (
    AccuracyGain,
    AccuracyGainTracker,
    learned_version_text,
    progress_text,
    training_text,
)
from streamboost.pipelines.dashboard.labelling_request import (
    NearestRecordsPanel,
    RequestPanel,
    SimilarClass,
    prediction_text,
    record_preview,
    request_feature_table,
)
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.dashboard.widgets import (
    AnswerButtons,
    AnsweredTable,
    BidiText,
    DataTable,
    Tag,
    event_fields,
)
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.service.labelling.store import LabellingEntry
from streamboost.pipelines.status.formatting import escape_bidi, time_text, to_sentence

HISTORY = 12
"""Number of answers in the history."""


EMPTY: Mapping[str, Any] = {"labels": ()}

LOOK = 3.0
"""Seconds between two renewals of the record's lease, which also check that it is open."""


class LabellingPage:
    """Labelling page of one annotator: a record, the classes to choose from, and past answers.

    Parameters
    ----------
    served : the pipeline whose requests are answered
    person : the annotator
    keys : keyboard key by class, the same for all annotators while `serve` runs
    """

    def __init__(self, served: ServedPipeline, person: User, keys: dict[str | int, str]) -> None:
        self._keys = keys
        self._blind = served.config.sections.serve.blind
        self._gains = AccuracyGainTracker()
        self._request: OpenRequest = {}
        self._changing: LabellingEntry | None = None
        self._changed: OpenRequest = {}
        self._is_gone = False
        self._status = served.status
        self._entries: list[LabellingEntry] = []
        self._queue = served.queue
        self._blind_mode = served.blind_mode
        self._refusal = served.labels.configuration_error
        self._classes = served.labels.allowed_labels
        self._doubt: SimilarClass | None = None
        self._find_similar = served.similar_requests
        self._similar: list[OpenRequest] = []
        self._group: list[int] = []
        self._person = person
        self._view = StatusSnapshot()
        self._turn = 0
        self._looked = 0.0
        self._id: str | None = None
        self._busy = asyncio.Lock()
        self._is_unavailable = False
        self._hint_ends = math.inf
        self._without_hint: tuple[str, ...] = ("",)
        self._progress = Tag("p", "", "state progress")
        self._desk = Tag("div", classes="desk")
        with self._desk:
            with Tag("section", classes="panel record", aria_labelledby="record-title"):
                self._record = RequestPanel(blind=self._blind)
            with Tag("div", classes="side"):
                self._make_side_panels()
            self._given_panel = Tag(
                "section", classes="panel given", aria_labelledby="features-title"
            )
            with self._given_panel:
                Tag("h2", "Features", id="features-title")
                self._legend = Tag("p", "", "about")
                self._features = DataTable()
        self._show_request(None)

    def _make_side_panels(self) -> None:
        """Create the side panels: class buttons, nearest labelled records and past answers."""
        with Tag("section", classes="panel reply", aria_labelledby="reply-title"):
            Tag("h2", "Class", id="reply-title")
            self._answers = AnswerButtons()
            self._answers.on("given", self._on_answer)
            self._said = BidiText("p", "said", role="status", aria_live="polite")
        self._near = NearestRecordsPanel()
        with Tag("section", classes="panel answered", aria_labelledby="history-title"):
            Tag("h2", "Newest answers", id="history-title")
            self._none = Tag("p", "Nothing yet.", "summary empty")
            self._history = AnsweredTable()
            self._history.on("change", self._on_correction_start)

    async def refresh(self, view: StatusSnapshot) -> None:
        """Update the page to the status `view`, and mark the record if its request has closed.

        The next record is shown only after an action of the annotator. A key pressed for one
        record therefore never answers another.
        """
        self._view = view
        if self._busy.locked():
            return
        async with self._busy:
            try:
                await self._refresh_request()
            except UnavailableError as error:  # the next refresh tries again
                self._is_unavailable = True
                self._said.show_text("{}", to_sentence(str(error)))
                return
            if self._is_unavailable:
                self._is_unavailable = False
                self._said.show_text("")

    async def _refresh_request(self) -> None:
        """Lease a request if none is shown, else renew the lease in time; update the history."""
        now = asyncio.get_running_loop().time()
        if time.monotonic() > self._hint_ends:
            self._hint_ends = math.inf
            self._said.show_text(*self._without_hint)
        if self._id is None:
            await self._show_next_request()
        elif not self._is_gone and now - self._looked >= LOOK:
            await self._renew_lease(self._id)
        await self._show_history()

    async def _renew_lease(self, id: str) -> None:
        """Renew the lease of the record `id`, and mark the record if its request has closed."""
        request = await asyncio.to_thread(self._renew_and_read_request, id)
        self._looked = asyncio.get_running_loop().time()
        if request is None:
            self._is_gone = True
        self._show_request(request or self._request)

    def _lease_next_request(self) -> OpenRequest | None:
        return self._visible_request(self._queue.lease_next(self._person))

    def _renew_and_read_request(self, id: str) -> OpenRequest | None:
        return self._visible_request(self._queue.renew_lease(self._person, id))

    def _visible_request(self, request: OpenRequest | None) -> OpenRequest | None:
        """Return the request as the annotator may see it, with the content of similar records."""
        if request is None:
            return None
        seen = self._blind_mode.visible_request(self._person, request)
        near = [
            record_preview(self._status.labelled_record(one["id"]) or {}) | one
            for one in seen.get("near") or ()
        ]
        return seen | ({"near": near} if near else {})

    async def release_lease(self) -> None:
        """Release the lease of the shown record, so that other annotators can get the record."""
        await asyncio.to_thread(self._queue.release_lease, self._person)

    async def _on_answer(self, event: GenericEventArguments) -> None:
        """Apply the answer that the annotator gave by a button or key, and show the next record.

        An answer to an earlier record is ignored.

        A new class whose name resembles a known class has to be confirmed first.
        """
        given = event_fields(event)
        async with self._busy:
            if given.get("turn") != self._turn:
                return
            self._hint_ends = math.inf
            if given.get("action") in ("change", "keep"):
                await self._start_correction(
                    self._newest_label_entry() if given["action"] == "change" else None
                )
                return
            if given.get("action") in ("similar", "close"):
                await self._show_similar_records(is_open=given["action"] == "similar")
                return
            message: tuple[str, ...] | None = None
            self._doubt = labelling_request.find_similar_class(
                given, self._known, self._view.label_type
            )
            if self._doubt is None:
                try:
                    message = await asyncio.to_thread(self._apply_answer, given)
                except StreamBoostError as error:
                    message = "{}", to_sentence(str(error))
                self._changing, self._changed, self._similar = None, {}, []
            self._turn += 1
            try:
                await self._show_next_request()
                await self._show_history()
            except UnavailableError as error:
                message = message or ("{}", to_sentence(str(error)))
                self._show_request(self._request or None)  # for an answer in the new turn
            if message is not None:  # last: whoever reads it can press the next key
                self._said.show_text(*message)

    async def _show_similar_records(self, *, is_open: bool) -> None:
        """Open the grid of similar records, or close the grid."""
        message = ""
        self._similar = []
        try:
            if is_open and self._id is not None:
                self._similar = await asyncio.to_thread(self._find_similar, self._person, self._id)
        except StreamBoostError as error:
            message = to_sentence(str(error))
        if is_open and not message and not self._similar:
            message = "No other open request is free for you."
        self._turn += 1
        self._show_request(self._request or None)
        self._said.show_text("{}", message)

    async def correct_record(self, id: str) -> None:
        """Start a correction of the record `id`, if this annotator may change its label."""
        async with self._busy:
            found = await asyncio.to_thread(self._find_correctable_entry, id)
            if found is None:
                self._said.show_text("You cannot change the label of record {}.", id)
            else:
                await self._start_correction(found)

    def _find_correctable_entry(self, id: str) -> LabellingEntry | None:
        label = (self._status.labelled_record(id) or {}).get("truth")
        return None if label is None else self._queue.correctable_entry(self._person, id, label)

    async def _on_correction_start(self, event: GenericEventArguments) -> None:
        """Start a correction of the past answer that the annotator selected."""
        number = event_fields(event).get("number")
        async with self._busy:
            await self._start_correction(
                next((e for e in self._entries if e.number == number), None)
            )

    def _newest_label_entry(self) -> LabellingEntry | None:
        """Return the newest label of this annotator that is not undone."""
        own = (entry for entry in self._entries if entry.person == self._person.name)
        return next((e for e in own if e.action == "label" and e.stage != "undone"), None)

    async def _start_correction(self, entry: LabellingEntry | None) -> None:
        """Make the next answer replace the past answer `entry`; None ends a correction."""
        self._changing, self._doubt = entry, None
        self._changed = (
            {}
            if entry is None
            else await asyncio.to_thread(self._request_from_stored_record, entry.id)
        )
        self._turn += 1
        self._show_request(self._request or None)

    def _request_from_stored_record(self, id: str) -> OpenRequest:
        """Return a stored record as a request with id, features and fields, without prediction."""
        found = self._status.request(id) or self._status.labelled_record(id) or {}
        return {"id": id} | {name: found[name] for name in ("features", "fields") if name in found}

    def _apply_answer(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        """Apply an answer; return a message, and the names to put into its ``{}``."""
        action = answer.get("action")
        if action == "undo":
            entry = self._queue.undo(self._person, self._group)
            if entry.number in self._group:
                return ("Undone: the labels of similar records.",)
            is_annotator = self._person.role != "operator"
            leaves = self._blind and is_annotator and entry.action == "label"
            others = " Other annotators will get it, as the prediction was shown." if leaves else ""
            return f"Undone: record {{}}.{others}", entry.id
        if self._changing is not None and action == "label":
            label = labelling_request.chosen_label(answer, self._view.label_type)
            id, before = self._changing.id, str(self._changing.label)
            if self._changing.number:
                label = (
                    self._queue.correct_label(self._person, self._changing.number, label).label
                    or ""
                )
            else:  # the label was not given on this page
                self._queue.post_labels(self._person, [Label(id, label, source=self._person.name)])
            return "Record {} is {} now, and was {}.", id, str(label), before
        if self._changing is not None:  # the current record is hidden during a correction
            return "Record {} is left as it is.", self._changing.id
        if self._id is None:
            return ("There is no record to answer.",)
        if self._is_gone:
            return "Record {} was answered or expired: this answer is ignored.", self._id
        if action == "skip":
            return "Skipped {}: it comes again later.", self._queue.skip(self._person, self._id).id
        if action == "not_sure":
            entry = self._queue.mark_unsure(self._person, self._id)
            return "Not sure of {}: it is left to others.", entry.id
        label = labelling_request.chosen_label(answer, self._view.label_type)
        if self._similar:
            return self._answer_similar(answer.get("ids"), label)
        entry = self._queue.answer(self._person, self._id, label)
        text, *names = prediction_text(self._request) if self._blind else ("",)
        seconds = self._queue.undo_seconds(entry)
        hint = f" Press U within {seconds:.0f} s to undo." if seconds >= 1 else ""
        said = "Record {} is {}.", entry.id, str(entry.label), *names
        self._without_hint = said[0] + f" {text}".rstrip(), *said[1:]
        self._hint_ends = time.monotonic() + seconds
        return said[0] + f"{hint} {text}".rstrip(), *said[1:]

    def _answer_similar(self, ids: Any, label: str | int) -> tuple[str, ...]:
        """Apply a label to those of the similar records whose `ids` were checked."""
        checked = {str(id) for id in ids or ()}
        # The shown record is last, so that an undo leases this record again.
        chosen = [one["id"] for one in reversed(self._similar) if one["id"] in checked]
        entries = self._queue.answer_all(self._person, chosen, label) if chosen else []
        self._group = [entry.number for entry in entries]
        refused = len(chosen) - len(entries)
        text = f"{len(entries)} record{'s are' if len(entries) != 1 else ' is'} {{}}."
        if refused:
            text += f" {refused} more: answered, expired or taken by another annotator meanwhile."
        seconds = min((self._queue.undo_seconds(entry) for entry in entries), default=0.0)
        hint = f" Press U within {seconds:.0f} s to undo." if seconds >= 1 else ""
        self._without_hint = text, str(label)
        self._hint_ends = time.monotonic() + seconds
        return text + hint, str(label)

    async def _show_next_request(self) -> None:
        if self._changing is not None:  # the current record waits until the correction ends
            self._show_request(self._request or None)
            return
        request = await asyncio.to_thread(self._lease_next_request)
        self._looked = asyncio.get_running_loop().time()
        self._is_gone = False
        self._show_request(request)

    async def _show_history(self) -> None:
        found = await asyncio.to_thread(self._read_history)
        self._entries, progress, gain, differ, learned = found
        has = None if self._is_gone else self._id is not None
        n_open = self._view.n_open_requests
        training = training_text(self._view)
        self._progress.text = progress_text(
            progress, n_open, gain, has_record=has, training=training
        )
        self._none.set_visibility(not self._entries)
        self._history.set_visibility(bool(self._entries))
        self._history.show(rows=answer_history_rows(self._entries, differ, self._person, learned))

    def _read_history(
        self,
    ) -> tuple[
        list[LabellingEntry],
        LabellingProgress,
        AccuracyGain | None,
        dict[str, list[tuple[str, str | int]]],
        dict[int, str],
    ]:
        """Return newest answers, progress, accuracy gain, disagreements and learned versions.

        Disagreements are keyed by record id. Texts on the version that learned an answer are keyed
        by the answer's number.
        """
        person, progress = self._person, self._queue.progress(self._person)
        found = self._queue.history(HISTORY)
        hidden = {one.id for one in found if self._blind_mode.hides_labels(person, one.id)}
        entries = [one for one in found if one.person == person.name or one.id not in hidden]
        differ = self._queue.conflicting_labels({one.id for one in entries} - hidden)
        learned = {
            entry.number: learned_version_text(tick, self._view.marks)
            for entry in entries
            if entry.stage == "written"
            for tick, label, source in (self._status.labelled_record(entry.id) or EMPTY)["labels"]
            if (str(entry.label), entry.person) == (str(label), source)
        }
        gain = self._gains.gain_since(progress.first, self._view)
        return entries, progress, gain, differ, learned

    def _show_request(self, request: OpenRequest | None) -> None:
        found = request or {}
        if found.get("id") != self._id:
            self._turn += 1  # answers already sent by the browser are for the record before
            self._doubt, self._similar = None, []
        self._id, self._request = found.get("id"), found
        view, changing = self._view, self._changing
        about = view.document("pipeline")
        shown = found if changing is None else self._changed
        self._desk.classes(**{"add" if self._is_gone and changing is None else "remove": "gone"})
        self._record.show(
            shown, about, self._refusal, is_correction=changing is not None, is_closed=self._is_gone
        )
        self._known = list(self._classes) or _known_classes(view)
        labelling_request.assign_keys(self._keys, self._known)
        self._known = self._known or sorted(found.get("probabilities") or ())
        self._answers.show(
            turn=self._turn,
            open=request is not None and self._refusal is None,
            gone=self._is_gone,
            choices=self._class_choices({} if changing or self._is_gone else found),
            numeric=view.label_type == "integer",
            closed=bool(self._classes),
            bulk=not self._blind_mode.is_blind(self._person),
            similar=labelling_request.similar_record_cards(self._similar),
            doubt=None if self._doubt is None else asdict(self._doubt),
            changing=None
            if changing is None
            else {
                "id": escape_bidi(changing.id),
                "label": escape_bidi(str(changing.label)),
            },
        )
        self._near.show(shown)
        self._given_panel.set_visibility(bool(shown.get("features")))
        usual = view.document("features").get("features") or ()
        table = request_feature_table(shown, usual, view.document("typical"), blind=self._blind)
        self._legend.text = escape_bidi(table.summary)
        self._features.show_table(table)

    def _class_choices(self, request: OpenRequest) -> list[dict[str, Any]]:
        found = labelling_request.class_choices(request, self._known, self._keys, blind=self._blind)
        return [asdict(one) for one in found]


def _known_classes(view: StatusSnapshot) -> list[str | int]:
    """Return the class labels that the pipeline knows, sorted, integers before texts."""
    found: set[str | int] = set(view.document("learner").get("labels_of_classes") or ())
    found |= set(view.document("classes").get("labels") or ())
    return sorted(found, key=lambda label: (isinstance(label, str), label))


_ACTIONS: dict[str, Callable[[LabellingEntry], str]] = {
    "label": lambda entry: str(entry.label),
    "skip": lambda entry: "skipped",
    "not_sure": lambda entry: "not sure",
}
_STAGES = {
    "held": "can be undone",
    "writing": "being written",
    "written": "written",
    "late": "came too late",
    "undone": "undone",
}


def _entry_state_text(entry: LabellingEntry, learned: str | None) -> str:
    return f"learned {learned}" if learned else _STAGES.get(entry.stage, "recorded")


def answer_history_rows(
    entries: Sequence[LabellingEntry],
    disagreements: Mapping[str, Sequence[tuple[str, str | int]]],
    person: User,
    learned: Mapping[int, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the rows of the table of past answers, as dicts for the browser.

    `learned` maps an answer's number to a text on the version that learned it. `disagreements` has
    the annotators and labels of each record with a disagreement. Annotators may change their own
    newest label of a record, operators every newest label. Late and undone answers cannot be
    changed.
    """
    newest: set[str] = set()
    found = []
    for entry in entries:
        is_label = entry.action == "label" and entry.stage not in ("undone", "late")
        is_theirs = person.role == "operator" or entry.person == person.name
        others = [
            f"{name}: {label}"
            for name, label in disagreements.get(entry.id, ())
            if name != entry.person
        ]
        found.append(
            {
                "number": entry.number,
                "id": escape_bidi(entry.id),
                "answer": escape_bidi(_ACTIONS[entry.action](entry)),
                "others": escape_bidi(", ".join(others)) if is_label else "",
                "person": escape_bidi(entry.person),
                "when": time_text(entry.time),
                "state": _entry_state_text(entry, learned.get(entry.number)),
                "changeable": is_label and is_theirs and entry.id not in newest,
            }
        )
        newest |= {entry.id} if is_label else set()
    return found
