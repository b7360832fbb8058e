"""Blind labelling: nothing of what the committee says of a record, until one has answered."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.queue import LabelQueue

__all__ = ["HIDDEN", "Blindfold"]

HIDDEN = "hidden"
"""The key that says of a document that the guess was taken out of it."""

_TOLD = frozenset(
    {
        *("id", "time", "features", "fields", "near"),
        *("asked", "arrived", "expires", "sequence", "not_by"),
        *("truth", "labels"),
    }
)
"""What tells of a record without telling what the committee thinks: all else is hidden."""


class Blindfold:
    """Takes the guess out of requests, predictions and judged records, for labellers.

    Parameters
    ----------
    queue : knows who has answered what
    is_on : whether labelling is blind
    """

    def __init__(self, queue: LabelQueue, is_on: bool) -> None:
        self._queue = queue
        self._is_on = is_on

    def hides_from(self, person: Person) -> bool:
        """Whether `person` sees no guess of what they have not answered."""
        return self._is_on and person.role != "operator"

    def seen_by(
        self, person: Person, found: Sequence[Mapping[str, Any]], *, chosen: bool = False
    ) -> list[dict[str, Any]]:
        """Return of each record what `person` may see of it.

        `chosen` by what was predicted: then those are left out of which that is hidden.
        """
        if not self.hides_from(person):
            return [dict(one) for one in found]
        known = self._queue.answered(person, (str(one["id"]) for one in found))
        seen = [dict(one) if str(one["id"]) in known else _without_guess(one) for one in found]
        return [one for one in seen if not (chosen and HIDDEN in one)]


def _without_guess(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key in _TOLD} | {HIDDEN: True}
