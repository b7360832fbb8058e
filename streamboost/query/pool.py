"""Pool of the newest records, from which those of highest utility are requested together."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streamboost.query.window import UtilityWindow


class PoolChoice(NamedTuple):
    """Selected record of the pool: its id, its utility and its inclusion probability."""

    id: str
    utility: float
    propensity: float


class Pool(UtilityWindow):
    """Window of the newest records with ids, from which records may be requested later.

    Records that have a request or a known label are excluded from requests.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._ids = [""] * size
        self._excluded = np.zeros(size, dtype=bool)
        self._place: dict[str, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether the pool holds its maximum number of records."""
        return self._count == len(self._excluded)

    def admit(self, id: str, row: np.ndarray, utility: float) -> PoolChoice | None:
        """Add a record; return the record that is evicted from a full pool.

        Returns None if no record is evicted, or if the evicted record was excluded from requests.
        """
        place = self._next
        left = None
        if self.is_full:
            if not self._excluded[place]:
                left = PoolChoice(self._ids[place], float(self._utility[place]), 0.0)
            if self._place.get(self._ids[place]) == place:  # not if the id was added again
                del self._place[self._ids[place]]
        self._ids[place] = id
        self._excluded[place] = False
        self._place[id] = place
        self.push(row, utility)
        return left

    def exclude(self, ids: Iterable[str]) -> None:
        """Exclude the records `ids` from later requests; ignore ids that are not in the pool."""
        places = [self._place[id] for id in ids if id in self._place]
        self._excluded[places] = True

    def select_best(
        self, n: int, generator: np.random.Generator, *, at_random: bool
    ) -> list[PoolChoice]:
        """Select the `n` records of highest utility, and exclude them from later requests.

        Returns the selected records, oldest first, or fewer if the pool has not enough. Ties are
        broken at random. With `at_random`, utilities are ignored, as if all were tied. The
        inclusion probability is the selected share of the tied records, and 1 for records of higher
        utility.
        """
        order = self._indices_oldest_first()
        places = order[~self._excluded[order]]
        n = min(n, len(places))
        if n == 0:
            return []
        utility = self._utility[places]
        compared = np.zeros(len(places)) if at_random else utility
        threshold = np.partition(compared, -n)[-n]
        tied = np.flatnonzero(compared == threshold)
        propensity = np.where(compared > threshold, 1.0, 0.0)
        wanted = n - int(np.count_nonzero(propensity))
        propensity[generator.choice(tied, wanted, replace=False)] = wanted / len(tied)
        chosen = np.flatnonzero(propensity)
        self._excluded[places[chosen]] = True
        return [
            PoolChoice(self._ids[places[i]], float(utility[i]), float(propensity[i]))
            for i in chosen
        ]

    def ids(self) -> list[str]:
        """Return the ids of the records, oldest first."""
        return [self._ids[place] for place in self._indices_oldest_first()]

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the committee version, and the records as arrays without ids, oldest first."""
        version, arrays = super().state()
        return version, arrays | {"taken": self._excluded[self._indices_oldest_first()]}

    def resume(self, version: int, arrays: dict[str, np.ndarray]) -> None:
        """Set the state to one that the method `state` returned; call `set_ids` afterwards."""
        super().resume(version, arrays)
        self._excluded[: self._count] = arrays["taken"]

    def set_ids(self, ids: list[Any]) -> None:
        """Set the ids of the restored records, oldest first."""
        self._ids[: len(ids)] = ids
        self._place = {id: place for place, id in enumerate(ids)}
