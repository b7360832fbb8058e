"""Facility location: ranks records by their vectors, before a model has useful utilities."""

from collections import deque

import numpy as np

from streamboost.query.window import RankedBatch

_SIZE = 256
"""Number of newest records among which a record is ranked."""

_MOST_REQUESTED = 512
"""Number of newest requested records whose vectors are kept."""


class FacilityLocationRanker:
    """Ranks records by how well they represent recent records that no requested record represents.

    The utility of a record with vector x is the mean, over the newest 256 records v, of

        max(0, cos(x, v) - c_v),

    where c_v is the highest cosine between v and a requested record, at least 0. This is the gain
    of the facility location function, whose greedy maximization selects records that are typical
    and diverse (Wei, Iyer and Bilmes 2015). A record is ranked by its utility among those of the
    newest records.

    A request counts only after its stratum is complete, as inclusion probabilities must not depend
    on whether a stratum's point has been covered (`OnePerStratumSampler`).
    """

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, length: int) -> None:
        """Set the state to the initial one, for vectors of `length` numbers."""
        self._n_seen = 0
        self._recent = np.zeros((_SIZE, length), dtype=np.float32)  # in a ring
        self._cosines = np.zeros((_SIZE, _SIZE), dtype=np.float32)  # of the recent records
        self._covered = np.zeros(_SIZE, dtype=np.float32)  # c_v of the recent records
        self._requested = np.zeros((0, length), dtype=np.float32)
        self._pending: deque[tuple[int, np.ndarray]] = deque()  # with the stratum of the request

    def rank(self, vector: np.ndarray, n_strata: int) -> np.ndarray:
        """Add an arriving record; return its rank interval, float64 (1, 2), as `RankedBatch.ranks`.

        `vector` (d,) may have missing values, NaN, which count as 0. `n_strata` is the number of
        complete strata. If the length of the vectors has changed, the state is reset.
        """
        vector = _normalized(vector)
        if self._recent.shape[1] != len(vector):
            self._reset(len(vector))
        while self._pending and self._pending[0][0] < n_strata:
            _, requested = self._pending.popleft()
            self._requested = np.vstack([self._requested, requested])[-_MOST_REQUESTED:]
            np.maximum(self._covered, self._recent @ requested, out=self._covered)
        place = self._n_seen % _SIZE
        self._n_seen += 1
        self._recent[place] = vector
        self._covered[place] = np.max(self._requested @ vector, initial=0.0)
        self._cosines[place] = self._cosines[:, place] = self._recent @ vector
        n = min(self._n_seen, _SIZE)
        gains = np.maximum(self._cosines[:n, :n] - self._covered[:n], 0.0).mean(axis=1)
        others = np.delete(gains, place)
        return RankedBatch(np.append(others, gains[place]).astype(float), n - 1, _SIZE).ranks()

    def add_request(self, vector: np.ndarray, stratum: int) -> None:
        """Add a requested record, which counts as soon as `stratum` is complete."""
        self._pending.append((stratum, _normalized(vector)))

    def state(self) -> dict[str, np.ndarray]:
        """Return the mutable state for `resume`, as arrays by name."""
        n = min(self._n_seen, _SIZE)
        return {
            "seen": np.array([self._n_seen]),
            "pending": np.array([stratum for stratum, _ in self._pending], dtype=np.int64),
            "recent": self._recent[:n],
            "cosines": self._cosines[:n, :n],
            "covered": self._covered[:n],
            "requested": np.vstack([self._requested, *(vector for _, vector in self._pending)]),
        }

    def resume(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state to one that the method `state` returned."""
        n, length = arrays["recent"].shape
        self._reset(length)
        self._n_seen = int(arrays["seen"][0])
        self._recent[:n], self._covered[:n] = arrays["recent"], arrays["covered"]
        self._cosines[:n, :n] = arrays["cosines"]
        requested, strata = arrays["requested"], arrays["pending"].tolist()
        n = len(requested) - len(strata)
        self._requested = requested[:n]
        self._pending = deque(zip(strata, requested[n:], strict=True))


def _normalized(vector: np.ndarray) -> np.ndarray:
    """Return `vector` (d,), scaled to length 1, float32; a vector of zeros is unchanged."""
    vector = np.nan_to_num(vector.astype(np.float64), posinf=0.0, neginf=0.0)
    length = np.sqrt(vector @ vector)
    return (vector / length if length > 0.0 else vector).astype(np.float32)
