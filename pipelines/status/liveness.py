"""Liveness of a pipeline, from its status and the lock of its state folder."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from streamboost.pipelines.status.formatting import time_text
from streamboost.pipelines.status.reader import Status

SILENT = 15.0
"""Seconds without a heartbeat after which an idle pipeline is reported as unresponsive.

An idle pipeline sends a heartbeat every 5 s.
"""

SOON = 8.0
"""Minimum timeout in seconds before a pipeline that reports every batch is unresponsive."""

PATIENCE = 3
"""Number of usual update intervals after which a busy pipeline is reported as unresponsive."""

NEWEST = 9
"""Number of the newest updates, whose median interval is the usual one."""


def heartbeat_time(documents: Mapping[str, Any]) -> float | None:
    """Return the time of the last publication, in milliseconds since 1970; None if unknown."""
    found: float | None = (documents.get("heartbeat") or {}).get("time")
    return found or (documents.get("pipeline") or {}).get("time")


def outage_text(
    documents: Mapping[str, Any], points: Sequence[Status], now: float, *, is_running: bool
) -> str | None:
    """Return the reason why a pipeline is down at `now`, in seconds since 1970; None if it is not.

    A pipeline is down if its process ended without a stop (`is_running` is false), or sends no
    heartbeats. A replay after a restart sends none. `points` are chart points.
    """
    about = documents.get("pipeline") or {}
    if not about or about.get("state") == "stopped":
        return None
    if not is_running:
        return "process ended unexpectedly"
    beat = heartbeat_time(documents)
    if beat is None or about.get("state") == "recovering":
        return None
    is_silent = now - beat / 1000 > _heartbeat_timeout(points)
    return f"no heartbeat since {time_text(beat)}" if is_silent else None


def _heartbeat_timeout(points: Sequence[Status]) -> float:
    """Return the timeout in seconds after which a pipeline without updates is unresponsive.

    Updates are published between batches, so the timeout of a busy pipeline follows from its usual
    update interval. An idle pipeline sends heartbeats, and its last point has a rate of 0.
    """
    newest = points[-NEWEST:]
    if not newest or not newest[-1].get("records_per_second"):
        return SILENT
    usual = median(float(one.get("seconds") or 0.0) for one in newest)
    return max(PATIENCE * usual, SOON)
