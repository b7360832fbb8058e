"""Queue of label requests: an annotator leases one record at a time, exclusively.

An answer is durable at once, and held in the outbox for a few seconds in which it can be undone. If
the request expires earlier, the undo window ends earlier. Then the label is written to the
pipeline's labels source, and cannot be undone any more. After a crash, due labels are written at
the next start. A label may thus be written twice, which the pipeline detects, but is never lost.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import StateError
from streamboost.pipelines.service.auth.users import PROGRAM, User
from streamboost.pipelines.service.labelling.leases import Leases, OpenRequest, is_answered
from streamboost.pipelines.service.labelling.outbox import (
    MARGIN,
    LabelOutbox,
    label_message,
    set_stage,
)
from streamboost.pipelines.service.labelling.progress import (
    LabellingProgress,
    annotator_progress,
    answered_ids,
    conflicting_labels,
)
from streamboost.pipelines.service.labelling.store import (
    Action,
    EntryStage,
    LabellingEntry,
    LabellingStore,
    annotator_names,
    entries_to_write,
    insert_entry,
    newest_entries,
    newest_label,
    undoable_entries,
)
from streamboost.pipelines.service.labelling.writers import LabelWriter
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["LabelQueue", "OpenRequest"]


class LabelQueue:
    """Queue that leases open label requests to annotators and accepts their labels.

    Safe for threads and processes.

    Parameters
    ----------
    path : database file
    requests : reader of the open requests and their outcomes
    labels : writer to the labels source
    grace : undo window of a label, in milliseconds
    lease : duration of a lease without a renewal, in milliseconds
    clock : current time, in milliseconds since 1970
    mask : removes secrets from a text
    corrects : whether the pipeline lets a later label of a record replace the first one
    blind : whether annotators see the prediction only after their label

    Raises
    ------
    StateError
        By actions on a request that is closed, labelled, or leased to another session.
    DataError
        By methods with a label, if the label is invalid.
    ConfigurationError
        By methods with a label, if the labels source cannot be written to.
    """

    def __init__(
        self,
        path: Path,
        requests: StatusReader,
        labels: LabelWriter,
        *,
        grace: int = 3_000,
        lease: int = 120_000,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        mask: Callable[[str], str] = str,
        corrects: bool = True,
        blind: bool = False,
    ) -> None:
        self._corrects = corrects
        self._blind = blind
        self._store = LabellingStore(path, mask)
        self._requests = requests
        self._labels = labels
        self._grace = grace
        self._leases = Leases(requests, lease, clock, blind=blind)
        self._clock = clock
        self._delivery = LabelOutbox(self._store, requests, labels, grace, clock, mask)

    @property
    def write_error(self) -> str | None:
        """Error text of the last `write_due_labels`; None if it succeeded."""
        return self._delivery.trouble

    def lease_next(self, person: User) -> OpenRequest | None:
        """Return the request that `person` has leased, or lease the most useful free one.

        Return None if no request is left. Another call renews the lease. Requests that `person`
        skipped come last; requests marked as not sure are never returned again.
        """
        ids = self._requests.request_ids()
        with self._store.write_transaction() as connection:
            return self._leases.lease_next(connection, person, ids)

    def renew_lease(self, person: User, id: str) -> OpenRequest | None:
        """Renew the lease of record `id`; return its request, None if `person` cannot label it."""
        request = self._requests.request(id)
        with self._store.write_transaction() as connection:
            is_theirs = self._leases.lease_holder(connection, id) in (None, person.seat)
            # In another window they may have gone on to another record.
            is_theirs &= self._leases.leased_record_id(connection, person) in (None, id)
            if request is None or not is_theirs or is_answered(connection, request):
                return None
            if self._leases.has_seen_prediction(connection, person, request):
                return None
            self._leases.lease_record(connection, person, id)
        return request

    def answer(self, person: User, id: str, label: str | int) -> LabellingEntry:
        """Store a label of record `id` by `person` durably, to be written after the undo window."""
        (tidy,) = self._labels.validate([Label(id, label)])
        return self._record_action(person, id, "label", tidy.label)

    def answer_all(
        self, person: User, ids: Sequence[str], label: str | int
    ) -> list[LabellingEntry]:
        """Store one label for the records `ids`, without those that `person` may not label now."""
        (tidy,) = self._labels.validate([Label(ids[0], label)])
        now = self._clock()
        with self._store.write_transaction() as connection:
            return [
                self._insert_action(connection, person, request, "label", tidy.label, now)
                for request in self._answerable_requests(connection, person, ids)
            ]

    def answerable_requests(self, person: User, ids: Sequence[str]) -> list[OpenRequest]:
        """Return the requests for the records `ids` that `person` may label now, in this order."""
        with self._store.write_transaction() as connection:
            return self._answerable_requests(connection, person, ids)

    def _answerable_requests(
        self, connection: Connection, person: User, ids: Sequence[str]
    ) -> list[OpenRequest]:
        found = []
        for id in ids:
            with suppress(StateError):
                found.append(self._answerable_request(connection, person, id))
        return found

    def skip(self, person: User, id: str) -> LabellingEntry:
        """Release the record `id`, and offer it to `person` again after all other requests."""
        return self._record_action(person, id, "skip")

    def mark_unsure(self, person: User, id: str) -> LabellingEntry:
        """Release the record `id`, and never offer it to `person` again."""
        return self._record_action(person, id, "not_sure")

    def undo(self, person: User, group: Collection[int] = ()) -> LabellingEntry:
        """Undo the last action of the session of `person`, and lease the record to them again.

        If the number of its entry is in `group`, the other held entries of the group are undone,
        too. If labelling is blind, a record that `person` has labelled is not leased to them again.

        Raises StateError if there is no action, or if the label was written already.
        """
        with self._store.write_transaction() as connection:
            found = newest_entries(connection, 1, session_id=person.seat)
            if not found:
                raise StateError("there is nothing to undo")
            (last,) = found
            if last.stage in ("writing", "written", "late"):
                raise StateError(
                    f"the label {last.label!r} of record {last.id!r} was written already, and may "
                    f"have been learned: it could be undone for {self._grace / 1000:g} seconds"
                )
            set_stage(connection, [last.number], "undone")
            if last.number in group:
                set_stage(connection, sorted(group), "undone", "AND stage = 'held'")
            told = last.action == "label" and self._is_blind_for(person)
            if not told and self._leases.lease_holder(connection, last.id) is None:
                self._leases.lease_record(connection, person, last.id)
        return last

    def undo_seconds(self, entry: LabellingEntry) -> float:
        """Return the seconds for which the label `entry` can be undone from now."""
        expires = (self._requests.request(entry.id) or {}).get("expires")
        ends = entry.time + self._grace
        if isinstance(expires, int | float):
            ends = min(ends, int(expires) - MARGIN)
        return max(ends - self._clock(), 0) / 1000

    def release_lease(self, person: User) -> None:
        """End the lease of the session of `person`."""
        with self._store.write_transaction() as connection:
            connection.execute("DELETE FROM leases WHERE seat = ?", (person.seat,))

    def post_labels(self, person: User, labels: Sequence[Label]) -> None:
        """Write all `labels` at once, without an undo window, or none of them.

        Operators and programs may label any record. Annotators may label requested records, and
        change their own labels. Pending answers of other annotators for these records are written
        first; pending answers of the same annotator are undone.
        """
        tidy = self._labels.validate(labels)
        with self._delivery.lock():
            with self._store.write_transaction() as connection:
                if person.role != "operator":
                    for label in tidy:
                        self._require_may_label(connection, person, label.id)
                earlier, undone = _waiting_answers(connection, person, tidy)
                posted = self._insert_posted_labels(connection, person, tidy)
                set_stage(connection, _entry_numbers(earlier), "writing")
                set_stage(connection, _entry_numbers(undone), "undone")
            # Outside the transaction, as a slow labels source must not hinder other annotators.
            try:
                self._labels.append_validated([*map(label_message, earlier), *tidy])
            except Exception:
                with self._store.write_transaction() as connection:
                    set_stage(connection, _entry_numbers(posted), "undone")
                    for entry in [*earlier, *undone]:
                        set_stage(connection, [entry.number], entry.stage)
                raise
            with self._store.write_transaction() as connection:
                set_stage(connection, _entry_numbers([*earlier, *posted]), "written")

    def _insert_posted_labels(
        self, connection: Connection, person: User, labels: Sequence[Label]
    ) -> list[LabellingEntry]:
        entries = []
        for label in labels:
            request = self._requests.request(label.id)
            entry = LabellingEntry(
                number=0,
                time=self._clock(),
                person=_annotator_name(person, label),
                seat=person.seat,
                id=label.id,
                sequence=0 if request is None else request["sequence"],
                action="label",
                label=label.label,
                stage="writing",
            )
            entries.append(insert_entry(connection, entry))
        return entries

    def correct_label(self, person: User, number: int, label: str | int) -> LabellingEntry:
        """Store a corrected label for the record of the entry `number`, durably.

        Annotators may correct their own labels, operators all labels. Raises StateError if the
        record has a newer label.
        """
        if not self._corrects:
            raise StateError(
                "a correction has no effect, as the first label of a record stays: set [labels] "
                'on_conflict to "last" or "vote"'
            )
        with self._store.write_transaction() as connection:
            found = [
                entry
                for entry in newest_entries(connection, 1, below=number + 1)
                if entry.number == number
                and entry.action == "label"
                and entry.stage not in ("undone", "late")
            ]
            if not found:
                raise StateError("this answer does not exist any more: load the page again")
            (before,) = found
            if not self._may_correct(person, before):
                raise StateError(
                    f"record {before.id!r} was labelled by another annotator: ask an operator"
                    if before.person != person.name
                    else f"you saw the prediction of record {before.id!r}: ask an operator"
                )
            (tidy,) = self._labels.validate([Label(before.id, label)])
            if (since := newest_label(connection, before.id, number)) is not None:
                raise StateError(
                    f"record {before.id!r} has the newer label {since.label!r} of {since.person}: "
                    "load the page again, and change the newest answer"
                )
            entry = replace(
                before,
                time=self._clock(),
                person=person.name,
                seat=person.seat,
                label=tidy.label,
                stage="held",
            )
            return insert_entry(connection, entry)

    def correctable_entry(self, person: User, id: str, label: str | int) -> LabellingEntry | None:
        """Return the entry with the `label` of record `id`; None if `person` may not correct it.

        A label from outside this queue has the entry number 0; only operators may correct it.
        """
        if not self._corrects or self._labels.configuration_error is not None:
            return None
        with self._store.read_transaction() as connection:
            given = None if connection is None else newest_label(connection, id)
        if given is None:
            there = LabellingEntry(0, 0, "", "", id, 0, "label", label, "written")
            return there if person.role == "operator" else None
        return given if self._may_correct(person, given) else None

    def progress(self, person: User) -> LabellingProgress:
        """Return the labelling progress of `person`; the day begins at this machine's midnight."""
        now = time.localtime(self._clock() / 1000)
        midnight = time.mktime((*now[:3], 0, 0, 0, 0, 0, -1))
        with self._store.read_transaction() as connection:
            if connection is None:
                return LabellingProgress()
            return annotator_progress(connection, person.name, int(midnight * 1000))

    def answered_ids(self, person: User, ids: Iterable[str]) -> set[str]:
        """Return the subset of the record `ids` that `person` has labelled."""
        with self._store.read_transaction() as connection:
            return set() if connection is None else answered_ids(connection, person.name, ids)

    def is_open(self, id: str) -> bool:
        """Return whether the label of the record `id` is requested now."""
        return self._requests.request(id) is not None

    def conflicting_labels(self, ids: Iterable[str]) -> dict[str, list[tuple[str, str | int]]]:
        """Map the id of each record with differing labels to pairs of annotator and label."""
        with self._store.read_transaction() as connection:
            return {} if connection is None else conflicting_labels(connection, ids)

    def annotator_names(self) -> list[str]:
        """Return the sorted names of all annotators who answered, skipped or corrected a record."""
        with self._store.read_transaction() as connection:
            return [] if connection is None else annotator_names(connection)

    def history(self, limit: int = 100, below: int = 2**62) -> list[LabellingEntry]:
        """Return up to `limit` entries with a number less than `below`, the newest first."""
        with self._store.read_transaction() as connection:
            return [] if connection is None else newest_entries(connection, limit, below=below)

    def write_due_labels(self, *, at_once: bool = False) -> int:
        """Write the labels whose undo window has ended (`at_once`: all); return their number.

        If the write fails, 0 is returned, `write_error` is set, and a later call retries.
        """
        return self._delivery.write_due_labels(at_once=at_once)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._store.close()

    def _record_action(
        self, person: User, id: str, action: Action, label: str | int | None = None
    ) -> LabellingEntry:
        with self._store.write_transaction() as connection:
            request = self._answerable_request(connection, person, id)
            return self._insert_action(connection, person, request, action, label, self._clock())

    def _insert_action(
        self,
        connection: Connection,
        person: User,
        request: OpenRequest,
        action: Action,
        label: str | int | None,
        now: int,
    ) -> LabellingEntry:
        id, sequence = request["id"], request["sequence"]
        stage: EntryStage = "held" if action == "label" else "noted"
        connection.execute("DELETE FROM leases WHERE id = ?", (id,))
        entry = LabellingEntry(0, now, person.name, person.seat, id, sequence, action, label, stage)
        return insert_entry(connection, entry)

    def _answerable_request(self, connection: Connection, person: User, id: str) -> OpenRequest:
        request = self._requests.request(id)
        if request is None:
            raise StateError(f"the request for record {id!r} is closed: it expired or was answered")
        if person.name in request.get("excluded_annotators", ()):
            raise StateError(
                f"record {id!r} needs a label of another annotator: take another record"
            )
        if self._leases.lease_holder(connection, id) not in (None, person.seat):
            raise StateError(f"another annotator is labelling record {id!r}: take another record")
        if is_answered(connection, request):
            raise StateError(f"record {id!r} was answered already: take another record")
        if self._leases.has_seen_prediction(connection, person, request):
            raise StateError(f"you saw the prediction of record {id!r}: take another record")
        return request

    def _require_may_label(self, connection: Connection, person: User, id: str) -> None:
        """Raise StateError if `person` may neither label the record nor correct its label."""
        given = newest_label(connection, id)
        if given is None or not self._corrects or not self._may_correct(person, given):
            self._answerable_request(connection, person, id)

    def _may_correct(self, person: User, entry: LabellingEntry) -> bool:
        is_own = entry.person == person.name and not self._is_blind_for(person)
        return person.role == "operator" or is_own

    def _is_blind_for(self, person: User) -> bool:
        return self._blind and person.role != "operator"


def _waiting_answers(
    connection: Connection, person: User, labels: Sequence[Label]
) -> tuple[list[LabellingEntry], list[LabellingEntry]]:
    """Return the pending answers for these records: (to write first, replaced by `labels`)."""
    authors = {(label.id, _annotator_name(person, label)) for label in labels}
    ids = {label.id for label in labels}
    writing = [entry for entry in entries_to_write(connection) if entry.id in ids]
    held = [entry for entry in undoable_entries(connection) if entry.id in ids]
    replaced = [entry for entry in held if (entry.id, entry.person) in authors]
    return [*writing, *(entry for entry in held if entry not in replaced)], replaced


def _entry_numbers(entries: Iterable[LabellingEntry]) -> list[int]:
    return [entry.number for entry in entries]


def _annotator_name(person: User, label: Label) -> str:
    """Return the annotator of a posted label: its source if a program posts it, else `person`."""
    return (label.source if person == PROGRAM else None) or person.name
