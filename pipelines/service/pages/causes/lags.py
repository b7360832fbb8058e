"""How far a pipeline is behind, also in time, and since when it is not."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from streamboost.pipelines.service.pages.span import lag_of
from streamboost.pipelines.status.formatting import amount, clock, seconds

if TYPE_CHECKING:
    from streamboost.pipelines.service.pages.view import View

__all__ = ["in_time", "in_units", "since", "told"]

NEWEST = 9
"""Points by which the present rate goes."""

_UNITS = ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)

_IN_BYTES = "files"
"""The connector whose lag counts no messages."""


def in_units(view: "View", n: float | None) -> str:
    """Return a lag in messages, or in bytes where files of lines are all there is to read.

    Of both it is the sum, which says no more than whether something waits.
    """
    connectors = view.document("pipeline").get("connectors") or {}
    if n is None or {connectors.get(one) for one in ("source", "labels")} != {_IN_BYTES}:
        return amount(n)
    for unit, size in _UNITS:
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{amount(n)} bytes" if n else "0"


def since(points: Sequence[Mapping[str, Any]]) -> int | None:
    """Return since when nothing waits, in milliseconds; None: something does, or never did."""
    before = [one for one in points if lag_of(one)]
    if not before or lag_of(points[-1]) != 0:
        return None
    last = before[-1]["time"]
    return next(int(one["time"]) for one in points if one["time"] > last)


def in_time(view: "View") -> float | None:
    """Return the seconds that the records which wait take at the present rate, if that tells."""
    source = (view.document("pipeline").get("connectors") or {}).get("source")
    if not view.points or source == _IN_BYTES:
        return None
    lag = view.points[-1].get("lag")
    waiting = lag.get("records") if isinstance(lag, Mapping) else lag
    rates = [float(one.get("records_per_second") or 0.0) for one in view.points[-NEWEST:]]
    rate = median(rates)
    return float(waiting) / rate if waiting and rate else None


def told(view: "View") -> str:
    """Say how much waits to be read and how long that takes, or since when nothing does."""
    last = lag_of(view.points[-1])
    if last:
        left = in_time(view)
        time = seconds(None if left is None else float(f"{left:.2g}"))
        about = "" if left is None else f", about {time} at the present rate"
        return f"{in_units(view, last)} to read{about}."
    known = [one for one in view.points if lag_of(one) is not None]
    most = max(known, key=lambda one: lag_of(one) or 0.0)
    began = since(known)
    if began is None:
        return "Nothing waits to be read, nor did in all the time shown."
    return (
        f"Nothing waits to be read since {clock(began)}; in the time shown at most "
        f"{in_units(view, lag_of(most))}, at {clock(most['time'])}."
    )
