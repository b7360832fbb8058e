"""Consumer lag of a pipeline, in messages or bytes and in seconds at the present rate."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from streamboost.pipelines.dashboard.time_range import point_lag
from streamboost.pipelines.status.formatting import duration_text, number_text, time_text

if TYPE_CHECKING:
    from streamboost.pipelines.dashboard.view import StatusSnapshot

NEWEST = 9
"""Number of the newest points that give the present rate (their median)."""

_UNITS = ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)

_IN_BYTES = "files"
"""The connector whose lag is in bytes."""


def lag_text(view: "StatusSnapshot", lag: float | None) -> str:
    """Format a lag in messages, or in bytes if records and labels are read from files.

    If only one of the two is read from files, the lag is shown as a number without a unit.
    """
    connectors = view.document("pipeline").get("connectors") or {}
    if lag is None or {connectors.get(one) for one in ("source", "labels")} != {_IN_BYTES}:
        return number_text(lag)
    for unit, size in _UNITS:
        if lag >= size:
            return f"{lag / size:.3g} {unit}"
    return f"{number_text(lag)} bytes" if lag else "0"


def zero_lag_since(points: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the time in milliseconds at which the lag became 0.

    None if the lag is not 0 now, or if it was never positive.
    """
    before = [one for one in points if point_lag(one)]
    if not before or point_lag(points[-1]) != 0:
        return None
    last = before[-1]["time"]
    return next(int(one["time"]) for one in points if one["time"] > last)


def seconds_to_catch_up(view: "StatusSnapshot") -> float | None:
    """Return the seconds to process all waiting records at the present rate; None if unknown."""
    source = (view.document("pipeline").get("connectors") or {}).get("source")
    if not view.points or source == _IN_BYTES:
        return None
    lag = view.points[-1].get("lag")
    waiting = lag.get("records") if isinstance(lag, Mapping) else lag
    rates = [float(one.get("records_per_second") or 0.0) for one in view.points[-NEWEST:]]
    rate = median(rates)
    return float(waiting) / rate if waiting and rate else None


def lag_summary(view: "StatusSnapshot") -> str:
    """Describe the current lag and the time to catch up, or since when the lag is 0."""
    last = point_lag(view.points[-1])
    if last:
        left = seconds_to_catch_up(view)
        time = duration_text(None if left is None else float(f"{left:.2g}"))
        about = "" if left is None else f", about {time} to catch up at the present rate"
        return f"Lag {lag_text(view, last)}{about}."
    known = [one for one in view.points if point_lag(one) is not None]
    most = max(known, key=lambda one: point_lag(one) or 0.0)
    began = zero_lag_since(known)
    if began is None:
        return "Lag 0 in the whole time range."
    return (
        f"Lag 0 since {time_text(began)}; largest lag in the time range: "
        f"{lag_text(view, point_lag(most))}, at {time_text(most['time'])}."
    )
