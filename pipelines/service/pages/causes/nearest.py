"""Which labelled records are most like another."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.status.reader import Status

__all__ = ["nearest"]


def nearest(
    features: Mapping[str, Any],
    others: Sequence[Status],
    usual: Mapping[str, Mapping[str, Any]],
    most: int = 5,
) -> list[tuple[float, Status]]:
    """Return the records of `others` whose features are the most like `features`, and how far.

    The distance is the mean over the features: of numbers by how many standard deviations they
    differ (by `usual`, the features' figures by their names; at most 3), of all else 0 where they
    are the same and 1 where they are not.

    >>> others = [{"id": "far", "features": {"a": 9.0}}, {"id": "near", "features": {"a": 1.5}}]
    >>> [(away, one["id"]) for away, one in nearest({"a": 1.0}, others, {"a": {"deviation": 0.5}})]
    [(1.0, 'near'), (3.0, 'far')]
    """
    names = [name for name, value in features.items() if not isinstance(value, list | dict)]
    if not names:
        return []
    scales = {name: (usual.get(name) or {}).get("deviation") or 0.0 for name in names}
    found = [
        (sum(_apart(features[n], one["features"].get(n), scales[n]) for n in names) / len(names), i)
        for i, one in enumerate(others)
        if one.get("features")
    ]
    return [(round(away, 3), others[i]) for away, i in sorted(found)[:most]]


def _apart(a: Any, b: Any, scale: float) -> float:
    if _is_number(a) and _is_number(b) and scale:
        return float(min(abs(a - b) / scale, 3.0))
    return float(a != b)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
