"""Consumer lag of a pipeline, in messages or bytes and in seconds at the present rate."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from streamboost.pipelines.dashboard.time_range import lag_of
from streamboost.pipelines.status.formatting import duration_text, number_text, time_text

if TYPE_CHECKING:
    from streamboost.pipelines.dashboard.view import View

__all__ = ["in_time", "in_units", "since", "told"]

NEWEST = 9
"""Number of the newest points that give the present rate (their median)."""

_UNITS = ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)

_IN_BYTES = "files"
"""The connector whose lag is in bytes."""


def in_units(view: "View", n: float | None) -> str:
    """Format a lag in messages, or in bytes if both sources are files of lines.

    If only one source is files, the lag is a sum of messages and bytes, shown as a plain number.
    """
    connectors = view.document("pipeline").get("connectors") or {}
    if n is None or {connectors.get(one) for one in ("source", "labels")} != {_IN_BYTES}:
        return number_text(n)
    for unit, size in _UNITS:
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{number_text(n)} bytes" if n else "0"


def since(points: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the time in ms since when the lag is 0; None if it is not, or always was."""
    before = [one for one in points if lag_of(one)]
    if not before or lag_of(points[-1]) != 0:
        return None
    last = before[-1]["time"]
    return next(int(one["time"]) for one in points if one["time"] > last)


def in_time(view: "View") -> float | None:
    """Return the lag in seconds at the present rate; None if the rate or the lag is unknown."""
    source = (view.document("pipeline").get("connectors") or {}).get("source")
    if not view.points or source == _IN_BYTES:
        return None
    lag = view.points[-1].get("lag")
    waiting = lag.get("records") if isinstance(lag, Mapping) else lag
    rates = [float(one.get("records_per_second") or 0.0) for one in view.points[-NEWEST:]]
    rate = median(rates)
    return float(waiting) / rate if waiting and rate else None


def told(view: "View") -> str:
    """Describe the lag and the time to catch up, or since when the lag is 0."""
    last = lag_of(view.points[-1])
    if last:
        left = in_time(view)
        time = duration_text(None if left is None else float(f"{left:.2g}"))
        about = "" if left is None else f", about {time} to catch up at the present rate"
        return f"Lag {in_units(view, last)}{about}."
    known = [one for one in view.points if lag_of(one) is not None]
    most = max(known, key=lambda one: lag_of(one) or 0.0)
    began = since(known)
    if began is None:
        return "Lag 0 in the whole time range."
    return (
        f"Lag 0 since {time_text(began)}; largest lag in the time range: "
        f"{in_units(view, lag_of(most))}, at {time_text(most['time'])}."
    )
