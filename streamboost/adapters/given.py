"""What stood beside a record when it was predicted, until its label comes."""

import numpy as np

__all__ = ["Given"]

_MISSING = np.full(1, np.nan, dtype=np.float32).tobytes()


class Given:
    """Remembers rows by what they were given beside: labels may come long after predictions.

    River hands over the same features twice and says nothing else that would tell one record from
    another. Of equal records the first predicted is the first whose label comes.

    Parameters
    ----------
    size
        Records remembered; the oldest is forgotten first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._beside: dict[bytes, list[np.ndarray]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, row: np.ndarray, beside: np.ndarray) -> None:
        """Remember that `row` (1, D) was predicted with `beside` (1, n)."""
        self._beside.setdefault(_key(row), []).append(beside)
        self._count += 1
        if self._count > self._size:
            self._drop(next(iter(self._beside)), 1)

    def take(self, row: np.ndarray) -> np.ndarray | None:
        """Return, and forget, what `row` was predicted with; None if that is not known."""
        key = _key(row)
        noted = self._beside.get(key)
        if noted is None:
            return None
        first = noted[0]
        # A record may have been asked for its label and for its probabilities.
        same = next((i for i, b in enumerate(noted) if b.tobytes() != first.tobytes()), len(noted))
        self._drop(key, same)
        return first

    def _drop(self, key: bytes, n: int) -> None:
        self._count -= n
        del self._beside[key][:n]
        if not self._beside[key]:
            del self._beside[key]


def _key(row: np.ndarray) -> bytes:
    """Return the row's bytes, without columns at its end that it lacks or that joined later."""
    key = row.tobytes()
    while key.endswith(_MISSING):
        key = key[: -len(_MISSING)]
    return key
