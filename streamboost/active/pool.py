"""The pool: the newest records, of which the best are asked for together."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streamboost.active.window import UtilityWindow

__all__ = ["Chosen", "Pool"]


class Chosen(NamedTuple):
    """A record of the pool to ask for: its id, its utility, and its chance of being chosen."""

    id: str
    utility: float
    propensity: float


class Pool(UtilityWindow):
    """The window's records with their ids, and which of them there is no use in asking for.

    Taken are those that were asked for and those whose label is known without.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._ids = [""] * size
        self._taken = np.zeros(size, dtype=bool)
        self._place: dict[str, int] = {}

    @property
    def full(self) -> bool:
        """Whether as many records have come as the pool holds."""
        return self._count == len(self._taken)

    def admit(self, id: str, row: np.ndarray, utility: float) -> Chosen | None:
        """Add a record; return the one it pushes out, unless that was taken."""
        place = self._next
        left = None
        if self.full:
            if not self._taken[place]:
                left = Chosen(self._ids[place], float(self._utility[place]), 0.0)
            if self._place.get(self._ids[place]) == place:  # not if the id has come again
                del self._place[self._ids[place]]
        self._ids[place] = id
        self._taken[place] = False
        self._place[id] = place
        self.push(row, utility)
        return left

    def take(self, ids: Iterable[str]) -> None:
        """Ask for none of `ids` from now on; ids that are not in the pool change nothing."""
        places = [self._place[id] for id in ids if id in self._place]
        self._taken[places] = True

    def choose(self, n: int, generator: np.random.Generator, *, at_random: bool) -> list[Chosen]:
        """Take the `n` records of the highest utility, oldest first, those that tie by lot.

        With `at_random` all of them tie. A record's propensity is 1, or the share of the tied
        records that are chosen.
        """
        order = self._order()
        places = order[~self._taken[order]]
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
        self._taken[places[chosen]] = True
        return [
            Chosen(self._ids[places[i]], float(utility[i]), float(propensity[i])) for i in chosen
        ]

    def ids(self) -> list[str]:
        """Return the ids, oldest first."""
        return [self._ids[place] for place in self._order()]

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the version and the records but for their ids, oldest first."""
        version, arrays = super().state()
        return version, arrays | {"taken": self._taken[self._order()]}

    def resume(self, version: int, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `state` returned; `name` follows."""
        super().resume(version, arrays)
        self._taken[: self._count] = arrays["taken"]

    def name(self, ids: list[Any]) -> None:
        """Give the resumed records their ids, oldest first."""
        self._ids[: len(ids)] = ids
        self._place = {id: place for place, id in enumerate(ids)}
