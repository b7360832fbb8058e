"""Noticing that the stream has changed: River's detectors on what a committee gets wrong."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.labelled_rows.labelled import LabelledRows
from streamboost.stream.scoring import Scored, gap_of, uncalibrated
from streamboost.stream.training.schedule import Schedule

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Detector", "DriftWatch"]

_LONGEST = 4096
_CONTINUED = 1024
_WINDOW, _NEWEST = 100, 30  # KSWIN compares the newest of its window with as many older ones


class Detector:
    """Finds changes for the worse in one signal, from 0 (good) to 1 (bad), and where they began.

    It is one of River's, with River's settings. Their state cannot be read out, so the values
    since the last change are kept and a resumed detector is given them again. There are at most
    4,096: then, stopped or not, the detector is made anew from the newest 1,024. Changes that are
    no worsening are forgotten, as River's detectors then begin anew too. A change is taken to
    have begun where the cumulated sum of the values less their mean is lowest: ADWIN's window,
    which shrinks by whole buckets, may still hold many values from before.

    Parameters
    ----------
    kind
        "adwin" (Bifet & Gavaldà, 2007), "page_hinkley" (Page, 1954), which looks for rises only,
        or "kswin" (Raab et al., 2020).
    seed
        Where KSWIN draws the older values it compares.

    Examples
    --------
    >>> detector = Detector("adwin", seed=0)
    >>> found = [detector.update(i >= 500) for i in range(1000)]
    >>> [(i, n) for i, n in enumerate(found) if n is not None]
    [(511, 12)]
    """

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._seed = seed
        self._values: list[float] = []
        self._changes = self._new()

    def _new(self) -> Any:
        from river import drift

        if self._kind == "adwin":
            return drift.ADWIN()  # type: ignore[no-untyped-call]
        if self._kind == "page_hinkley":
            return drift.PageHinkley(mode="up")
        return drift.KSWIN(window_size=_WINDOW, stat_size=_NEWEST, seed=self._seed)

    def update(self, value: float) -> int | None:
        """Take the next value; return how many of the newest are of a new, worse level."""
        self._values.append(float(value))
        self._changes.update(float(value))
        if self._changes.drift_detected:
            n = self._since_change() if self._is_worse() else 0
            self.restart()
            return n or None
        if len(self._values) == _LONGEST:
            self.resume(self._values[-_CONTINUED:])
        return None

    def _is_worse(self) -> bool:
        """Whether the change just found is a rise: what it set apart as new lies above the rest."""
        if self._kind == "page_hinkley":
            return True
        if self._kind == "adwin":
            newest, whole = int(self._changes.width), self._values
        else:
            newest, whole = _NEWEST, self._values[-_WINDOW:]
        return bool(np.mean(whole[-newest:]) > np.mean(whole))

    def _since_change(self) -> int:
        """Return how many values follow the change, if it is a rise."""
        values = np.array(self._values)
        return len(values) - 1 - int(np.cumsum(values - values.mean()).argmin())

    def restart(self) -> None:
        """Forget all values."""
        self.resume([])

    def state(self) -> np.ndarray:
        """Return all that changes, float64 (n,)."""
        return np.array(self._values, dtype=np.float64)

    def resume(self, values: Iterable[float]) -> None:
        """Go on from what `state` returned for a detector of the same settings."""
        self._values = [float(value) for value in values]
        self._changes = self._new()
        for value in self._values:
            self._changes.update(value)


class DriftWatch:
    """Tells the labelled rows where drift began, by the signals that a schedule names.

    The error is that of the prediction each labelled record got on arrival; the margin that of
    each record queried, as a difference of the committee's own probabilities, which needs no
    labels. Margins of a committee trained anew are another signal, so that the margin's detector
    begins anew with it.
    """

    def __init__(self, schedule: Schedule, seeds: np.random.SeedSequence) -> None:
        self._kind = schedule.on_drift or ""
        signals = ("error", "margin") if self._kind else ()
        self._names = [name for name in signals if schedule.drift_signal in (name, "both")]
        self._version = 0
        self._rounds = 0
        self._begin(int(seeds.generate_state(1)[0]))

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._signals = {name: Detector(self._kind, seed) for name in self._names}

    @property
    def judges(self) -> bool:
        """Whether it looks at errors, so that it needs predictions of labelled records."""
        return "error" in self._signals

    def judge(self, predicted: Label, label: Label, rows: LabelledRows) -> None:
        """Take in the newest of `rows`, of class `label`, which was predicted as `predicted`."""
        n = self._signals["error"].update(predicted != label)
        if n is not None:
            rows.suspect(rows.total - n + 1)

    def watch(
        self, scored: Scored, committee: "Committee | None", rows: LabelledRows, seen: int
    ) -> None:
        """Take in records scored by `committee`, before which `seen` had been queried."""
        detector = self._signals.get("margin")
        if detector is None or committee is None or not scored.version:
            return
        self._follow(committee, detector)
        # A temperature that moves says nothing about the records: it is taken out first.
        gaps = gap_of(uncalibrated(scored).probabilities).tolist()
        for i, gap in enumerate(gaps, start=1):
            n = detector.update(1.0 - gap)
            if n is not None:
                rows.suspect(rows.first_after(seen + i - n))

    def _follow(self, committee: "Committee", detector: Detector) -> None:
        if committee.version != self._version:
            if committee.n_rounds <= self._rounds:  # an extension would have more
                detector.restart()
            self._version, self._rounds = committee.version, committee.n_rounds

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        about = {"version": self._version, "rounds": self._rounds, "seed": self._seed}
        return about, {name: detector.state() for name, detector in self._signals.items()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for a watch of the same schedule."""
        self._version, self._rounds = state["version"], state["rounds"]
        self._begin(state["seed"])
        for name, detector in self._signals.items():
            detector.resume(arrays[name])
