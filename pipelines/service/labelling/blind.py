"""Blind labelling: nothing of what the committee says of a record, until one has answered."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.queue import LabelQueue

__all__ = ["HIDDEN", "BlindMode"]

HIDDEN = "hidden"
"""The key that says of a document that the guess was taken out of it."""

_OPEN = frozenset(
    {
        *("id", "time", "features", "fields", "near"),
        *("asked", "arrived", "expires", "sequence"),
    }
)
"""The fields of an open request that a blind annotator may see: all others are hidden."""

_CLOSED = _OPEN | {"truth", "labels"}
"""The fields of a record without an open request. In a relabel request, the labels would tell what
the answer is not."""

_ANSWERED = _OPEN | {
    *("label", "probabilities", "probability", "margin", "utility", "propensity"),
    *("version", "why", "usual", "labels"),
}
"""The fields of a record with an open request for an annotator who has answered: those of the
prediction, and of the labels their own. All others are hidden: they may follow from others'
labels."""

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
    """Takes the guess out of requests, predictions and judged records, for annotators.

    Parameters
    ----------
    queue : knows who has answered what
    is_on : whether labelling is blind
    """

    def __init__(self, queue: LabelQueue, is_on: bool) -> None:
        self._queue = queue
        self._is_on = is_on

    def is_blind(self, person: User) -> bool:
        """Whether `person` sees no guess of what they have not answered."""
        return self._is_on and person.role != "operator"

    def visible_records(
        self, person: User, found: Sequence[Mapping[str, Any]], *, chosen: bool = False
    ) -> list[dict[str, Any]]:
        """Return of each record what `person` may see of it.

        `chosen` by what was predicted: then those are left out of which that is hidden.
        """
        if not self.is_blind(person):
            return [dict(one) for one in found]
        known = self._queue.answered(person, (str(one["id"]) for one in found))
        seen = [
            self._visible_record(person, one, is_known=str(one["id"]) in known) for one in found
        ]
        return [one for one in seen if not (chosen and HIDDEN in one)]

    def visible_request(self, person: User, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request without the similar records whose labels `person` may not see."""
        near = request.get("near")
        if not near or not self.is_blind(person):
            return dict(request)
        closed = [one for one in near if not self._queue.is_open(str(one["id"]))]
        return {**request, "near": closed}

    def hides_labels(self, person: User, id: str) -> bool:
        """Return whether others' labels of record `id` are hidden, as it is requested now."""
        return self.is_blind(person) and self._queue.is_open(id)

    def visible_documents(self, person: User, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the documents of the status that `person` may see."""
        hides = self.is_blind(person)
        return {name: one for name, one in found.items() if not hides or name in _DOCUMENTS}

    def visible_points(
        self, person: User, found: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the points of a run with the values that `person` may see."""
        hides = self.is_blind(person)
        return [{key: one[key] for key in one if not hides or key in _POINT} for one in found]

    def visible_dead_letters(
        self, person: User, found: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return of each dead letter the parts that `person` may see.

        Payload and detail may have the label of a record that is requested now or later.
        """
        if not self.is_blind(person):
            return [dict(one) for one in found]
        return [{key: one[key] for key in one if key in _LETTER} | {HIDDEN: True} for one in found]

    def _visible_record(
        self, person: User, found: Mapping[str, Any], *, is_known: bool
    ) -> dict[str, Any]:
        """Return what `person` may see of a record; `is_known` if they have answered."""
        is_open = self._queue.is_open(str(found["id"]))
        seen = self.visible_request(person, found)
        if not is_known:
            shown = _OPEN if is_open else _CLOSED
            return {key: value for key, value in seen.items() if key in shown} | {HIDDEN: True}
        if not is_open:
            return seen
        if "labels" in seen:
            seen["labels"] = [one for one in seen["labels"] if one[2] == person.name]
        return {key: value for key, value in seen.items() if key in _ANSWERED}
