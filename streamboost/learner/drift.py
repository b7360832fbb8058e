"""Drift detectors of River, applied to the errors or margins of the committee."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.checks import Label
from streamboost.learner.labelled_rows import LabelledRows
from streamboost.learner.schedule import Schedule
from streamboost.predictions import Scored, remove_calibration, top_two_gap
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_LONGEST = 4096
_CONTINUED = 1024
_WINDOW, _NEWEST = 100, 30  # KSWIN compares the newest of its window with as many older values


class RiseDetector:
    """Detects rises of a signal in [0, 1], where 1 is worst, and estimates when a rise began.

    Wraps a drift detector of River with its default settings. The state of River's detector cannot
    be exported, so the values since the last change are stored, and a restored detector processes
    them again. At 4,096 values the detector is rebuilt from the newest 1,024. Other changes than
    rises also remove the stored values, because River's detectors restart then. The change is
    located where the cumulative sum of the values minus their mean is lowest. ADWIN's own window is
    not used, as it may still contain many values from before the change.

    Parameters
    ----------
    kind
        "adwin" (Bifet & Gavaldà, 2007), "page_hinkley" (Page, 1954), which detects rises only,
        or "kswin" (Raab et al., 2020).
    seed
        Seed of KSWIN's random sample of older values.

    Examples
    --------
    >>> detector = RiseDetector("adwin", seed=0)
    >>> found = [detector.update(i >= 500) for i in range(1000)]
    >>> [(i, n) for i, n in enumerate(found) if n is not None]
    [(511, 12)]
    """

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._seed = seed
        self._values: list[float] = []
        self._changes = self._create_river_detector()

    def _create_river_detector(self) -> Any:
        from river import drift

        if self._kind == "adwin":
            return drift.ADWIN()  # type: ignore[no-untyped-call]
        if self._kind == "page_hinkley":
            return drift.PageHinkley(mode="up")
        return drift.KSWIN(window_size=_WINDOW, stat_size=_NEWEST, seed=self._seed)

    def update(self, value: float) -> int | None:
        """Add a value of the signal; detect whether the signal has risen.

        Returns the estimated number of values since the rise began; None if no rise is detected.
        """
        self._values.append(float(value))
        self._changes.update(float(value))
        if self._changes.drift_detected:
            n = self._count_values_since_change() if self._is_change_a_rise() else 0
            self.restart()
            return n or None
        if len(self._values) == _LONGEST:
            self.resume(self._values[-_CONTINUED:])
        return None

    def _is_change_a_rise(self) -> bool:
        """Return whether the mean of the newest values is above the mean of all values."""
        if self._kind == "page_hinkley":
            return True
        if self._kind == "adwin":
            newest, whole = int(self._changes.width), self._values
        else:
            newest, whole = _NEWEST, self._values[-_WINDOW:]
        return bool(np.mean(whole[-newest:]) > np.mean(whole))

    def _count_values_since_change(self) -> int:
        """Return the estimated number of values from the start of the detected rise until now."""
        values = np.array(self._values)
        return len(values) - 1 - int(np.cumsum(values - values.mean()).argmin())

    def restart(self) -> None:
        """Remove all stored values, and restart the detector."""
        self.resume([])

    def state(self) -> np.ndarray:
        """Return the stored values, float64 (n,), as the state for `resume`."""
        return np.array(self._values, dtype=np.float64)

    def resume(self, values: Iterable[float]) -> None:
        """Set the state to one that `state` returned for a detector with equal settings."""
        self._values = [float(value) for value in values]
        self._changes = self._create_river_detector()
        for value in self._values:
            self._changes.update(value)


class DriftMonitor:
    """Detects drift with the signals of a `Schedule`, and marks its start in the labelled rows.

    The error signal is 1 if the prediction on arrival of a labelled record was wrong, else 0. The
    margin signal is 1 minus the difference of the two largest probabilities of each arriving
    record. It needs no labels. A retrained committee has another distribution of margins, so a
    retraining restarts the detector of margins.
    """

    def __init__(self, schedule: Schedule, seeds: np.random.SeedSequence) -> None:
        self._kind = schedule.on_drift or ""
        signals = ("error", "margin") if self._kind else ()
        self._names = [name for name in signals if schedule.drift_signal in (name, "both")]
        self._version = 0
        self._rounds = 0
        self._create_detectors(int(seeds.generate_state(1)[0]))

    def _create_detectors(self, seed: int) -> None:
        self._seed = seed
        self._signals = {name: RiseDetector(self._kind, seed) for name in self._names}

    @property
    def uses_errors(self) -> bool:
        """Whether errors are a signal, which needs the predictions of labelled records."""
        return "error" in self._signals

    def observe_error(self, predicted: Label, label: Label, rows: LabelledRows) -> None:
        """Update the error signal with the newest labelled record.

        `predicted` is the class predicted for the record, `label` its true class. If this detects a
        drift, the drift is marked in `rows`.
        """
        n = self._signals["error"].update(predicted != label)
        if n is not None:
            rows.mark_drift(rows.total - n + 1)

    def observe_margins(
        self,
        scored: Scored,
        committee: "Committee | None",
        rows: LabelledRows,
        n_earlier_records: int,
    ) -> None:
        """Update the margin signal with arriving records, and mark a detected drift in `rows`.

        `scored` are the predictions of the records, and `committee` is the deployed committee.
        `n_earlier_records` is the number of records that arrived before them.
        """
        detector = self._signals.get("margin")
        if detector is None or committee is None or not scored.version:
            return
        self._restart_if_retrained(committee, detector)
        # A changing temperature is no property of the records: use uncalibrated probabilities.
        gaps = top_two_gap(remove_calibration(scored).probabilities).tolist()
        for i, gap in enumerate(gaps, start=1):
            n = detector.update(1.0 - gap)
            if n is not None:
                rows.mark_drift(rows.first_label_after(n_earlier_records + i - n))

    def _restart_if_retrained(self, committee: "Committee", detector: RiseDetector) -> None:
        if committee.version != self._version:
            if committee.n_rounds <= self._rounds:  # an extension would have more
                detector.restart()
            self._version, self._rounds = committee.version, committee.n_rounds

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        about = {"version": self._version, "rounds": self._rounds, "seed": self._seed}
        return about, {name: detector.state() for name, detector in self._signals.items()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for a monitor with an equal schedule."""
        self._version, self._rounds = state["version"], state["rounds"]
        self._create_detectors(state["seed"])
        for name, detector in self._signals.items():
            detector.resume(arrays[name])
