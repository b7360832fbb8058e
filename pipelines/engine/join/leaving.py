"""What leaves a join as records come and time passes."""

from itertools import islice
from typing import TYPE_CHECKING

from streamboost.pipelines.engine.join.joined import Gone, run_out

if TYPE_CHECKING:
    from streamboost.pipelines.engine.join.join import Join

__all__ = ["MOST_REQUESTS", "expire_requests", "shrink_window"]

MOST_REQUESTS = 100_000
"""Requests that are open; beyond it the oldest expire, as a backlog may ask for any number."""


def expire_requests(join: "Join") -> list[str]:
    """Let the requests go whose time is over, or that are too many; return their records' ids."""
    expired = run_out(join._requests, join.expires_after, join._for_labels.moment)
    surplus = len(join._requests) - len(expired) - MOST_REQUESTS
    expired += islice(islice(join._requests, len(expired), None), max(surplus, 0))
    for id in expired:
        del join._requests[id]
        if join._pinned.pop(id, None) is not None:
            label = join._answers.pop(id, None)  # there is one where it was asked for again
            join._gone[id] = Gone(join._held_at, label, expired=label is None)
        elif id not in join._answers:
            join._lapsed.add(id)
    return expired


def shrink_window(join: "Join") -> None:
    """Let the records leave the window that were there long enough, pinning those asked about."""
    now = join._held_at
    unasked = Gone(now, None, expired=False)
    for id in join._window.leave(join.window, now):
        if id in join._requests:
            join._pinned[id] = join._window[id]
        elif id in join._answers or id in join._lapsed:
            label = join._answers.pop(id, None)
            join._gone[id] = Gone(now, label, expired=id in join._lapsed)
            join._lapsed.discard(id)
        else:
            join._gone[id] = unasked
