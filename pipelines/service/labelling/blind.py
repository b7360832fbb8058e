"""Blind labelling: hides predictions of a record from annotators until they have labelled it."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.queue import LabelQueue

HIDDEN = "hidden"
"""Key of a document from which the prediction was removed."""

_OPEN = frozenset(
    {
        *("id", "time", "features", "fields", "near"),
        *("asked", "arrived", "expires", "sequence"),
    }
)
"""The fields of an open request that a blind annotator may see: all others are hidden."""

_CLOSED = _OPEN | {"truth", "labels"}
"""The fields of a record without an open request. In a relabel request, the labels would reveal
which answer is considered wrong."""

_ANSWERED = _OPEN | {
    *("label", "probabilities", "probability", "margin", "utility", "propensity"),
    *("version", "why", "usual", "labels"),
}
"""The fields of a record with an open request that an annotator sees after answering: the
prediction, and only the annotator's own labels. All other fields are hidden, as they may depend on
labels of others."""

_LETTER = frozenset({"reason", "source", "time", "size", "position"})
"""The fields of a dead letter that no label can be in."""

_DOCUMENTS = frozenset({"pipeline", "learner", "ledger", "join", "lag", "latency", "workers"})
"""The documents of the status without counts per class, which show the guess of a slow stream."""

_POINT = frozenset(
    {
        *("id", "time", "seconds", "batches", "records", "labels", "requests", "audits"),
        *("answered", "expired", "open", "budget_allowed", "lag", "version", "trees"),
    }
)
"""The values of a point that depend on no prediction."""


class BlindMode:
    """Filter that hides predictions and others' labels from annotators, if labelling is blind.

    Parameters
    ----------
    queue : label queue with the annotators' actions
    is_on : whether labelling is blind
    """

    def __init__(self, queue: LabelQueue, is_on: bool) -> None:
        self._queue = queue
        self._is_on = is_on

    def is_blind(self, person: User) -> bool:
        """Return whether predictions are hidden from `person`, until they label the record."""
        return self._is_on and person.role != "operator"

    def visible_records(
        self,
        person: User,
        records: Sequence[Mapping[str, Any]],
        *,
        selected_by_prediction: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the fields of each record that `person` may see.

        If the records were `selected_by_prediction`, records with a hidden prediction are left out.
        """
        if not self.is_blind(person):
            return [dict(one) for one in records]
        known = self._queue.answered_ids(person, (str(one["id"]) for one in records))
        seen = [
            self._visible_record(person, one, has_answered=str(one["id"]) in known)
            for one in records
        ]
        return [one for one in seen if not (selected_by_prediction and HIDDEN in one)]

    def visible_request(self, person: User, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request without similar records whose labels are hidden from `person`."""
        near = request.get("near")
        if not near or not self.is_blind(person):
            return dict(request)
        closed = [one for one in near if not self._queue.is_open(str(one["id"]))]
        return {**request, "near": closed}

    def hides_labels(self, person: User, id: str) -> bool:
        """Return whether others' labels of record `id` are hidden from `person`.

        The labels are hidden while a label of the record is requested.
        """
        return self.is_blind(person) and self._queue.is_open(id)

    def visible_documents(self, person: User, documents: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status documents; a blind annotator gets only those without class counts."""
        hides = self.is_blind(person)
        return {name: one for name, one in documents.items() if not hides or name in _DOCUMENTS}

    def visible_points(
        self, person: User, points: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the chart points; values that depend on predictions are hidden if blind."""
        hides = self.is_blind(person)
        return [{key: one[key] for key in one if not hides or key in _POINT} for one in points]

    def visible_dead_letters(
        self, person: User, letters: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the dead letters; payload and detail are hidden from a blind annotator.

        Payload and detail may have the label of a record that is requested now or later.
        """
        if not self.is_blind(person):
            return [dict(one) for one in letters]
        return [
            {key: one[key] for key in one if key in _LETTER} | {HIDDEN: True} for one in letters
        ]

    def _visible_record(
        self, person: User, record: Mapping[str, Any], *, has_answered: bool
    ) -> dict[str, Any]:
        is_open = self._queue.is_open(str(record["id"]))
        seen = self.visible_request(person, record)
        if not has_answered:
            shown = _OPEN if is_open else _CLOSED
            return {key: value for key, value in seen.items() if key in shown} | {HIDDEN: True}
        if not is_open:
            return seen
        if "labels" in seen:
            seen["labels"] = [one for one in seen["labels"] if one[2] == person.name]
        return {key: value for key, value in seen.items() if key in _ANSWERED}
