"""Leases of records to annotators, and the choice of an annotator's next request."""

from collections.abc import Callable, Sequence
from sqlite3 import Connection
from typing import Any

from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.store import Action
from streamboost.pipelines.status.reader import StatusReader

SHORTEST = 5_000
"""Minimum milliseconds until expiry in which an annotator can answer a request in time; and maximum
milliseconds after expiry in which a running pipeline publishes it."""

OpenRequest = dict[str, Any]
"""Message of a request, with the record's further `fields`, which are not features."""


class Leases:
    """Leases of records to annotators: a record is leased to at most one session at a time.

    The methods run within a database transaction of the caller (`connection`).

    Parameters
    ----------
    requests : reader of the open requests
    lease : duration of a lease without a renewal, in milliseconds
    clock : current time, in milliseconds since 1970
    blind : whether annotators see the prediction only after they have labelled the record
    """

    def __init__(
        self, requests: StatusReader, lease: int, clock: Callable[[], int], *, blind: bool
    ) -> None:
        self._requests = requests
        self._blind = blind
        self._lease = lease
        self._clock = clock

    def lease_next(
        self, connection: Connection, person: User, ids: Sequence[str]
    ) -> OpenRequest | None:
        """Renew the lease of `person`, or lease the first free request among the record `ids`.

        Returns the request; None if no request is free.
        """
        connection.execute("DELETE FROM leases WHERE until <= ?", (self._clock(),))
        chosen = self._leased_request(connection, person) or self._find_free_request(
            connection, person, ids
        )
        if chosen is not None:
            self.lease_record(connection, person, chosen["id"])
        return chosen

    def _leased_request(self, connection: Connection, person: User) -> OpenRequest | None:
        id = self.leased_record_id(connection, person)
        request = None if id is None else self._requests.request(id)
        return None if request is None or is_answered(connection, request) else request

    def _find_free_request(
        self, connection: Connection, person: User, ids: Sequence[str]
    ) -> OpenRequest | None:
        """Return the first request for the record `ids` that is not leased, labelled or skipped.

        If there is none, return the request that `person` skipped least often, even if it expires
        soon. Requests that `person` may not label are left out. None: no request is left.
        """
        held = {id for (id,) in connection.execute("SELECT id FROM leases")}
        skipped: list[tuple[int, int, OpenRequest]] = []
        for place, id in enumerate(ids):
            request = None if id in held else self._requests.request(id)
            if request is None or person.name in request.get("excluded_annotators", ()):
                continue
            done = _read_valid_actions(connection, request)
            mine = [action for action, name in done if name == person.name]
            if "not_sure" in mine or any(action == "label" for action, _ in done):
                continue
            if self.has_seen_prediction(connection, person, request):
                continue
            if not mine and not self._is_about_to_expire(request):
                return request
            skipped.append((len(mine), place, request))
        return min(skipped)[2] if skipped else None

    def _is_about_to_expire(self, request: OpenRequest) -> bool:
        # A request that is open long after its expiry waits for a pipeline that was stopped. A
        # request that expired recently is only open because the status is not updated yet.
        expires = request.get("expires")
        return isinstance(expires, int | float) and abs(expires - self._clock()) < SHORTEST

    def lease_record(self, connection: Connection, person: User, id: str) -> None:
        """Lease the record `id` to `person`, and end their other lease."""
        connection.execute("DELETE FROM leases WHERE seat = ?", (person.seat,))
        connection.execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?)",
            (id, person.seat, self._clock() + self._lease),
        )

    def has_seen_prediction(
        self, connection: Connection, person: User, request: OpenRequest
    ) -> bool:
        """Return whether labelling is blind and `person` saw the prediction after their own label.

        This stays true if the label is undone, and for another request for the same record.
        """
        if not self._blind or person.role == "operator":
            return False
        query = "SELECT 1 FROM entries WHERE id = ? AND person = ? AND action = 'label' LIMIT 1"
        found = connection.execute(query, (request["id"], person.name))
        return found.fetchone() is not None

    def leased_record_id(self, connection: Connection, person: User) -> str | None:
        """Return the id of the record that is leased to the session of `person`, or None."""
        row = connection.execute("SELECT id FROM leases WHERE seat = ?", (person.seat,)).fetchone()
        return None if row is None else str(row[0])

    def lease_holder(self, connection: Connection, id: str) -> str | None:
        """Return the session id (`seat`) that holds the lease of record `id`, or None."""
        row = connection.execute(
            "SELECT seat FROM leases WHERE id = ? AND until > ?", (id, self._clock())
        ).fetchone()
        return None if row is None else str(row[0])


def _read_valid_actions(connection: Connection, request: OpenRequest) -> list[tuple[Action, str]]:
    return connection.execute(
        "SELECT action, person FROM entries WHERE id = ? AND sequence = ? AND stage != 'undone'",
        (request["id"], request["sequence"]),
    ).fetchall()


def is_answered(connection: Connection, request: OpenRequest) -> bool:
    """Return whether the request has a label that was not undone."""
    return any(action == "label" for action, _ in _read_valid_actions(connection, request))
