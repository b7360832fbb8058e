"""Queue of label requests: each annotator leases one record at a time, and no two the same one.

An answer is durable at once, and held in the outbox for a few seconds in which it can be undone. If
the request expires earlier, the undo window ends earlier. Then the label is written to the
pipeline's labels source, and cannot be undone any more. After a crash, due labels are written at
the next start. A label may thus be written twice, which the pipeline detects, but is never lost.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import StateError
from streamboost.pipelines.service.auth.users import PROGRAM, User
from streamboost.pipelines.service.labelling.leases import (
    Leases,
    OpenRequest,
    is_answered,
)
from streamboost.pipelines.service.labelling.outbox import LabelOutbox, StatusOfRequests
from streamboost.pipelines.service.labelling.progress import (
    LabellingProgress,
    answered,
    disagreements,
    progress_of,
)
from streamboost.pipelines.service.labelling.store import (
    Action,
    EntryStage,
    LabellingEntry,
    LabellingStore,
    annotators,
    newest,
    newest_label,
    put,
)
from streamboost.pipelines.service.labelling.writers import LabelWriter

__all__ = ["LabelQueue", "OpenRequest"]


class LabelQueue:
    """Hands out the open requests, and takes the answers.

    Any number of threads may use it, and several processes.

    Parameters
    ----------
    path : its file
    requests : where the open requests are
    labels : where the labels go
    grace : how long a label is held, in milliseconds
    lease : how long a record that nobody comes back to stays with whoever has it, in milliseconds
    clock : gives the milliseconds since 1970
    mask : takes secrets out of a text
    corrects : whether the pipeline takes another label of a record in the place of the first
    blind : whether annotators are told the committee's guess only for an answer, which then stays

    Raises
    ------
    StateError
        By what answers a request that is closed, answered, or before somebody else.
    DataError
        By what gives a label that the pipeline could not read.
    ConfigurationError
        By what gives a label where the pipeline's labels cannot be written to.
    """

    def __init__(
        self,
        path: Path,
        requests: StatusOfRequests,
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
        """Why labels that are due could not be written the last time, None where all were."""
        return self._delivery.trouble

    def next(self, person: User) -> OpenRequest | None:
        """Return the request that `person` has leased, or lease the most useful free one.

        None: no request is left. Another call renews the lease. Requests that they skipped come
        last, and those that they were not sure of never return.
        """
        ids = self._requests.request_ids()
        with self._store.writing() as connection:
            return self._leases.next(connection, person, ids)

    def keep(self, person: User, id: str) -> OpenRequest | None:
        """Keep the record `id` with `person`; None: it cannot be answered by them any more."""
        request = self._requests.request(id)
        with self._store.writing() as connection:
            is_theirs = self._leases.holder(connection, id) in (None, person.seat)
            # In another window they may have gone on to another record.
            is_theirs &= self._leases.leased_record(connection, person) in (None, id)
            if request is None or not is_theirs or is_answered(connection, request):
                return None
            if self._leases.has_seen_prediction(connection, person, request):
                return None
            self._leases.assign(connection, person, id)
        return request

    def answer(self, person: User, id: str, label: str | int) -> LabellingEntry:
        """Hold the label that `person` gives the record `id`; it is durable then."""
        (tidy,) = self._labels.check([Label(id, label)])
        return self._note(person, id, "label", tidy.label)

    def skip(self, person: User, id: str) -> LabellingEntry:
        """Have the record `id` come to `person` after everything else; others may get it now."""
        return self._note(person, id, "skip")

    def mark_unsure(self, person: User, id: str) -> LabellingEntry:
        """Have the record `id` never come to `person` again; others may get it now."""
        return self._note(person, id, "not_sure")

    def undo(self, person: User) -> LabellingEntry:
        """Take back what `person` did last in this seat, and put that record before them again.

        An answer after which they were told the guess leaves the record to others.

        Raises StateError where there is nothing, or the label was written already.
        """
        with self._store.writing() as connection:
            found = newest(connection, 1, seat=person.seat)
            if not found:
                raise StateError("there is nothing to undo")
            (last,) = found
            if last.stage in ("writing", "written", "late"):
                raise StateError(
                    f"the label {last.label!r} of record {last.id!r} was written already, and may "
                    f"have been learned: it could be undone for {self._grace / 1000:g} seconds"
                )
            connection.execute(
                "UPDATE entries SET stage = 'undone' WHERE number = ?", (last.number,)
            )
            told = last.action == "label" and self._is_blinded(person)
            if not told and self._leases.holder(connection, last.id) is None:
                self._leases.assign(connection, person, last.id)
        return last

    def release(self, person: User) -> None:
        """Release the lease of `person`, who leaves the page."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM leases WHERE seat = ?", (person.seat,))

    def post(self, person: User, labels: Sequence[Label]) -> None:
        """Write `labels` at once, and keep who gave them: all of them, or none.

        They are where the pipeline reads them when this returns. Operators and programs may label
        any record; whoever else has logged in, what they might answer, or change, as well.
        """
        tidy = self._labels.check(labels)
        now = self._clock()
        # In one transaction, so that nobody else answers the same meanwhile.
        with self._store.writing() as connection:
            if person.role != "operator":
                for label in tidy:
                    self._check_open_to(connection, person, label.id)
            self._labels.deliver(tidy)
            for label in tidy:
                request = self._requests.request(label.id)
                sequence = 0 if request is None else request["sequence"]
                # A program speaks for others; whoever has logged in answers for themselves.
                name = (label.source if person == PROGRAM else None) or person.name
                entry = LabellingEntry(
                    0, now, name, person.seat, label.id, sequence, "label", label.label, "written"
                )
                connection.execute(
                    "UPDATE entries SET stage = 'undone' "
                    "WHERE id = ? AND person = ? AND stage = 'held'",
                    (label.id, name),
                )
                put(connection, entry)

    def correct(self, person: User, number: int, label: str | int) -> LabellingEntry:
        """Hold another label for the record of the entry `number`; it is durable then.

        Somebody changes what they said themselves, and an operator what anybody did; nobody what
        was changed meanwhile.
        """
        if not self._corrects:
            raise StateError(
                "nothing would come of it: the first label of a record stays, as [labels] "
                'on_conflict = "first" says'
            )
        with self._store.writing() as connection:
            found = [
                entry
                for entry in newest(connection, 1, below=number + 1)
                if entry.number == number
                and entry.action == "label"
                and entry.stage not in ("undone", "late")
            ]
            if not found:
                raise StateError("there is no such answer to change: load the page again")
            (before,) = found
            if not self._may_change(person, before):
                raise StateError(
                    f"record {before.id!r} was labelled by somebody else"
                    if before.person != person.name
                    else f"the guess for record {before.id!r} was told since: ask an operator"
                )
            (tidy,) = self._labels.check([Label(before.id, label)])
            if (since := newest_label(connection, before.id, number)) is not None:
                raise StateError(
                    f"record {before.id!r} is {since.label!r} by now, as {since.person} says: "
                    "look at the newest answer, and change that one"
                )
            entry = replace(
                before,
                time=self._clock(),
                person=person.name,
                seat=person.seat,
                label=tidy.label,
                stage="held",
            )
            return put(connection, entry)

    def correctable(self, person: User, id: str, label: str | int) -> LabellingEntry | None:
        """Return what `person` may change of what was said of the record `id`, which is a `label`.

        What was said elsewhere has no number, and is an operator's to change. None: nothing.
        """
        if not self._corrects or self._labels.refusal is not None:
            return None
        with self._store.reading() as connection:
            given = None if connection is None else newest_label(connection, id)
        if given is None:
            there = LabellingEntry(0, 0, "", "", id, 0, "label", label, "written")
            return there if person.role == "operator" else None
        return given if self._may_change(person, given) else None

    def progress(self, person: User) -> LabellingProgress:
        """Return how far `person` has come, today by this machine's clock."""
        now = time.localtime(self._clock() / 1000)
        midnight = time.mktime((*now[:3], 0, 0, 0, 0, 0, -1))
        with self._store.reading() as connection:
            if connection is None:
                return LabellingProgress()
            return progress_of(connection, person.name, int(midnight * 1000))

    def answered(self, person: User, ids: Iterable[str]) -> set[str]:
        """Return those of the records `ids` that `person` has labelled."""
        with self._store.reading() as connection:
            return set() if connection is None else answered(connection, person.name, ids)

    def is_open(self, id: str) -> bool:
        """Tell whether the label of the record `id` is requested now."""
        return self._requests.request(id) is not None

    def disagreements(self, ids: Iterable[str]) -> dict[str, list[tuple[str, str | int]]]:
        """Return who said what of those of the records `ids` that people see differently."""
        with self._store.reading() as connection:
            return {} if connection is None else disagreements(connection, ids)

    def annotators(self) -> list[str]:
        """Return the names under which anything was done, sorted."""
        with self._store.reading() as connection:
            return [] if connection is None else annotators(connection)

    def history(self, limit: int = 100, below: int = 2**62) -> list[LabellingEntry]:
        """Return the newest entries, the newest first; of those numbered under `below`."""
        with self._store.reading() as connection:
            return [] if connection is None else newest(connection, limit, below=below)

    def write_due(self, *, at_once: bool = False) -> int:
        """Write the labels that can no longer be undone, or all; return how many.

        Those that cannot be written now are written by a later call, and `write_error` says why.
        """
        return self._delivery.write_due(at_once=at_once)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._store.close()

    def _note(
        self, person: User, id: str, action: Action, label: str | int | None = None
    ) -> LabellingEntry:
        stage: EntryStage = "held" if action == "label" else "noted"
        with self._store.writing() as connection:
            request = self._answerable(connection, person, id)
            connection.execute("DELETE FROM leases WHERE id = ?", (id,))
            now = self._clock()
            entry = LabellingEntry(
                0, now, person.name, person.seat, id, request["sequence"], action, label, stage
            )
            return put(connection, entry)

    def _answerable(self, connection: Connection, person: User, id: str) -> OpenRequest:
        """Return the request for a record that `person` may answer; StateError says why not."""
        request = self._requests.request(id)
        if request is None:
            raise StateError(f"the request for record {id!r} is closed: it expired or was answered")
        if person.name in request.get("excluded_annotators", ()):
            raise StateError(f"record {id!r} is asked about again, of somebody else: take another")
        if self._leases.holder(connection, id) not in (None, person.seat):
            raise StateError(f"somebody else has record {id!r} before them: take another")
        if is_answered(connection, request):
            raise StateError(f"record {id!r} was answered already: take another")
        if self._leases.has_seen_prediction(connection, person, request):
            raise StateError(f"the guess for record {id!r} was told already: take another")
        return request

    def _check_open_to(self, connection: Connection, person: User, id: str) -> None:
        """Raise StateError where a record is not asked of `person`, nor theirs to change."""
        given = newest_label(connection, id)
        if given is None or not self._corrects or not self._may_change(person, given):
            self._answerable(connection, person, id)

    def _may_change(self, person: User, given: LabellingEntry) -> bool:
        """Tell whether `person` may change a label: an operator any, and others their own."""
        is_own = given.person == person.name and not self._is_blinded(person)
        return person.role == "operator" or is_own

    def _is_blinded(self, person: User) -> bool:
        return self._blind and person.role != "operator"
