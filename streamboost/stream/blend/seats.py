"""Which numbers the classes of a committee have in a blend."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamboost.stream.checks import Label, as_array

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Seats"]


class Seats(NamedTuple):
    """The numbers of the classes that a committee's columns stand for.

    Those that only the committee knows are numbered behind the others.
    """

    committee: "Committee"
    n_learned: int
    place: dict[Label, int]
    columns: np.ndarray
    """Int64 (its classes,)."""
    known: np.ndarray
    """Bool (K,), which of all classes it knows."""
    learned: np.ndarray
    """The same of those learned so far, (n_learned,)."""
    classes: np.ndarray
    """(K,), in the order of their numbers."""
    names: np.ndarray
    """The same, object (K,)."""

    @classmethod
    def of(cls, committee: "Committee", learned: dict[Label, int]) -> "Seats":
        """Return those of `committee`, beside the classes learned so far."""
        place = dict(learned)
        columns = np.array(
            [place.setdefault(label, len(place)) for label in committee.classes.tolist()],
            dtype=np.int64,
        )
        known = np.zeros(len(place), dtype=bool)
        known[columns] = True
        classes = as_array(place)
        n, names = len(learned), classes.astype(object)
        return cls(committee, n, place, columns, known, known[:n], classes, names)
