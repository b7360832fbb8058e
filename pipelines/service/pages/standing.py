"""How a pipeline stands, in one line: a word, a few figures, and how long ago that was."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from streamboost.pipelines.service.pages.causes import lags
from streamboost.pipelines.service.pages.causes.annotators import contradicted
from streamboost.pipelines.service.pages.causes.features import shifted, shifted_in_words
from streamboost.pipelines.service.pages.causes.versions import got_worse
from streamboost.pipelines.service.pages.span import total_lag
from streamboost.pipelines.service.pages.tables import named, rolled_back
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import StatusLine, Tag
from streamboost.pipelines.status.formatting import amount, clock, seconds, unbroken

__all__ = ["UNSTARTED", "Activity", "Notice", "Standing", "standing"]

STILL = 60.0
"""Seconds without a commit after which a pipeline that runs is said to be waiting."""

SILENT = 15.0
"""Seconds without a word after which a pipeline is said to be silent, to which nothing comes: it
beats every five."""

SOON = 8.0
"""Seconds below which nobody who tells of every batch is said to be silent."""

PATIENCE = 3
"""Updates that may be missing."""

NEWEST = 9
"""Updates whose usual distance says when the next one is due."""

FRESH = 60.0
"""Seconds that a trouble is shown for although batches have been committed since."""

BEAT = 4.0
"""Seconds after which the browser is told that `serve` is there, although nothing changed."""

UNSTARTED = 'It has not said anything yet: start it with "streamboost run".'

Tone = Literal["good", "warn", "bad", "grey"]


@dataclass(frozen=True, slots=True)
class Notice:
    """What somebody should know of a pipeline that runs: in a word, in a few, and where it is."""

    word: str
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The line: `age` is in seconds, None where it does not matter; `trouble` is what is wrong."""

    word: str
    tone: Tone
    parts: Sequence[str] = ()
    age: float | None = None
    trouble: str | None = None
    notices: Sequence[Notice] = ()


def standing(view: View, now: float) -> Standing:
    """Return how a pipeline stands at `now`, in seconds since the epoch."""
    about = view.document("pipeline")
    if not about:
        return Standing("Not started", "grey", (UNSTARTED,))
    state, last = str(about.get("state", "unknown")), about.get("time")
    beat = view.document("beat").get("time") or last
    age = None if beat is None else max(now - beat / 1000, 0.0)
    trouble = _trouble(view, now)
    tone: Tone = "bad" if trouble else "grey"
    if state == "stopped":
        return Standing("Stopped", tone, _since(last), None, trouble)
    if not view.runs:
        gone = "its process has ended without a word", *_since(last)
        return Standing("Silent", tone, gone, age, trouble)
    if age is not None and age > _patience(view) and state != "recovering":
        gone = f"its process says nothing since {clock(beat)}", *_since(last)
        return Standing("Silent", tone, gone, age, trouble)
    if state in ("retrying", "recovering"):
        tone = "bad" if trouble else "warn"
        return Standing(state.capitalize(), tone, _since(last), age, trouble)
    notices, pace = _notices(view), _pace(view, last, now)
    if trouble:
        return Standing("Trouble", "bad", pace, age, trouble, notices)
    if notices:
        return Standing(notices[0].word, "warn", pace, age, None, notices)
    return Standing("OK", "good", pace, age)


def _notices(view: View) -> list[Notice]:
    """Return what keeps a pipeline that runs from being OK, what somebody chose first."""
    name, found = view.document("pipeline").get("name"), []
    if view.document("learner").get("paused"):
        found.append(Notice("Paused", "training is paused", page_of("/versions", name)))
    if fell := got_worse(view):
        first, *others = fell.names
        more = f", as did {others[0] if len(others) == 1 else len(others)}" * bool(others)
        more += " other classes" * (len(others) > 1)
        link = f"{page_of('/versions', name, a=fell.version)}#since"
        found.append(Notice("Worse", f"{first} got worse{more}", link))
    if moved := shifted(view):
        link = page_of("/features", name, feature=moved[0])
        found.append(Notice("Shifted", shifted_in_words(view), link))
    if names := contradicted(view):
        more = f"; so does {names[1]}" if len(names) == 2 else f"; so do {len(names) - 1} more"
        said = f"{names[0]} labels against the others{more * (len(names) > 1)}"
        found.append(Notice("Contradicted", said, f"{page_of('/', name)}#annotators"))
    return found


def _since(last: float | None) -> tuple[str, ...]:
    return (
        ("no batch committed in this run yet",)
        if last is None
        else (f"last batch at {clock(last)}",)
    )


def _patience(view: View) -> float:
    """Return the seconds that may pass without a word, by how often it spoke while records came.

    Whoever speaks seldom has long batches, between which alone it can; once nothing comes any more
    the last point says so, and beats follow.
    """
    newest = view.points[-NEWEST:]
    if not newest or not newest[-1].get("records_per_second"):
        return SILENT
    usual = median(float(one.get("seconds") or 0.0) for one in newest)
    return max(PATIENCE * usual, SOON)


def _pace(view: View, last: float | None, now: float) -> tuple[str, ...]:
    """Return how fast records come, and how many wait."""
    if last is None:
        return ("no batch committed in this run yet",)
    point: Mapping[str, Any] = view.points[-1] if view.points else {}
    is_still = now - last / 1000 > STILL
    if is_still:
        pace = f"nothing has come since {clock(last)}"
    else:
        scored = view.document("workers").values()
        learned = float(point.get("records_per_second") or 0.0)
        rate = sum(one["rate"] for one in scored) if scored else learned
        pace = f"{amount(float(f'{rate:.2g}'))}/s"
    lag = total_lag(point.get("lag"))
    if view.unscored is not None:
        behind = () if lag is None else (f"{amount(lag)} to be read by the learner",)
        parts: tuple[str, ...] = (pace, view.unscored, *behind)
    elif is_still and lag:
        waits = f"though {lags.in_units(view, lag)} to read"
        parts = (f"nothing has been committed since {clock(last)}, {waits}",)
    elif is_still:
        parts = (pace if lag is None else f"{pace}, and nothing waits to be read",)
    else:
        told = f"lag {lags.in_units(view, lag)}{_in_time(view)}"
        parts = (pace,) if lag is None else (pace, told)
    version, again = view.document("learner").get("version"), rolled_back(view)
    return (*parts, f"version {named(version, again)}") if version in again else parts


def _in_time(view: View) -> str:
    """Say how long what waits will take, or since when nothing does."""
    left, began = lags.in_time(view), view.once("lag since", lambda: lags.since(view.points))
    if left is not None:
        return f", about {seconds(float(f'{left:.2g}'))} behind"
    return "" if began is None else f" since {clock(began)}"


def _trouble(view: View, now: float) -> str | None:
    """Return what is wrong now: until batches are committed again, and for a minute."""
    found, about = view.document("trouble"), view.document("pipeline")
    if not found:
        return None
    then = float(found.get("time") or 0.0)
    is_over = (about.get("time") or 0.0) > then and about.get("state") != "retrying"
    if is_over and now - then / 1000 > FRESH:
        return None
    return f"{clock(then)}: {found.get('text', '')}"


class Activity:
    """Shows the line, and tells a screen reader when its word changes."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._trouble = Tag("p", "", "trouble", role="alert")
        self._trouble.set_visibility(False)

    def show(self, view: View) -> None:
        """Show a status."""
        now = time.time()
        found = standing(view, now)
        said = asdict(found)
        trouble, said["parts"] = said.pop("trouble"), [unbroken(part) for part in found.parts]
        if found.age is not None:
            said["age"] = round(found.age)
        self._line.show(**said, beat=int(now / BEAT))
        self._trouble.set_visibility(trouble is not None)
        self._trouble.text = trouble or ""
