"""Which labelled records are most like another."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamboost.pipelines.status import labelled
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import is_number

__all__ = ["nearest"]


def nearest(
    features: Mapping[str, Any], others: Sequence[Status], most: int = 5
) -> list[tuple[float, Status]]:
    """Return the records of `others` whose features are the most like `features`, and how far.

    The measure is that of `labelled.nearest`: what is no number is another column of them, 1 where
    it is the same and 0 where it is not.

    >>> others = [{"id": "far", "features": {"a": 9.0}}, {"id": "near", "features": {"a": 1.0}}]
    >>> [(away, one["id"]) for away, one in nearest({"a": 1.0}, others)]
    [(0.0, 'near'), (2.0, 'far')]
    """
    wanted = {name: one for name, one in features.items() if not isinstance(one, list | dict)}
    there = [one for one in others if one.get("features")]
    if not wanted or not there:
        return []
    rows = [_row(wanted, one["features"]) for one in there]
    places, away = labelled.nearest(np.array([_row(wanted, wanted)]), np.array(rows), most)
    pairs = zip(away[0].tolist(), places[0].tolist(), strict=True)
    return [(round(far, 3), there[place]) for far, place in pairs]


def _row(wanted: Mapping[str, Any], features: Mapping[str, Any]) -> list[float]:
    return [_place(given, features.get(name)) for name, given in wanted.items()]


def _place(wanted: Any, given: Any) -> float:
    if not is_number(wanted):
        return float(given == wanted)
    return float(given) if is_number(given) else float("nan")
