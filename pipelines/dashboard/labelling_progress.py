"""Shows labelling progress: the labels of a person and the change in accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.status.formatting import rough_duration_text
from streamboost.pipelines.status.reader import Status

_RATE_WINDOW_MS = 3_600_000
"""Length of the time range for the label rate, in milliseconds."""

Estimate = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccuracyGain:
    """A change of the accuracy, and the half-width of its 95 % interval, both from 0 to 1.

    >>> print(AccuracyGain(0.041, 0.032))
    accuracy +4 points (± 3) since your first label
    >>> print(AccuracyGain(-0.012, 0.03))
    no clear change in accuracy since your first label (-1 point, ± 3)
    """

    change: float
    margin: float

    @classmethod
    def between(cls, before: Estimate, now: Estimate) -> "AccuracyGain":
        """Return the change from the accuracy estimate `before` to the estimate `now`.

        The margins are combined as for independent estimates. This is an upper bound: records that
        both estimates cover make the difference more precise.
        """
        margins = ((one["high"] - one["low"]) / 2 for one in (before, now))
        return cls(now["value"] - before["value"], hypot(*margins))

    def __str__(self) -> str:
        points, margin = round(100 * self.change), round(100 * self.margin)
        unit = "point" if abs(points) == 1 else "points"
        if abs(self.change) <= self.margin:
            size = f"{points:+d} {unit}, ± {margin}"
            return f"no clear change in accuracy since your first label ({size})"
        return f"accuracy {points:+d} {unit} (± {margin}) since your first label"


class AccuracyGainTracker:
    """Computes the change of accuracy since an annotator's first label."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._before: Estimate | None = None

    def gain_since(self, first_label_time: int | None, view: StatusSnapshot) -> AccuracyGain | None:
        """Return the change of accuracy up to `view`; None if an accuracy is unknown.

        `first_label_time` is in milliseconds since 1970. The baseline is the newest accuracy at
        that time. Without one, it is the first accuracy after that time.
        """
        if first_label_time is None or view.accuracy is None:
            return None
        if self._before is None or first_label_time != self._first:
            self._first = first_label_time
            self._before = _accuracy_at_time(first_label_time, view.points)
        return None if self._before is None else AccuracyGain.between(self._before, view.accuracy)


def training_text(view: StatusSnapshot) -> str:
    """Describe when new labels take effect: the number of labels until the next training, and time.

    The time follows from the label rate of the last hour. Returns an empty text if training is
    paused or off.
    """
    left = view.document("learner").get("until_training")
    if left is None:
        return ""
    if left <= 1:
        return "the next label starts a training"
    text = f"next training after {left:,} more labels"
    if (seconds := seconds_per_label(view)) is not None:
        text += f", in about {rough_duration_text(left * seconds)}"
    return text


def effect_text(view: StatusSnapshot) -> str:
    """Describe when new labels take effect in the committee, and in the other experts."""
    parts = [training_text(view) or "no training while it is paused"]
    if view.document("experts").keys() - {"committee"}:
        parts.append("the other experts learn each label at once")
    return "; ".join(parts)


def seconds_per_label(view: StatusSnapshot) -> float | None:
    """Return the mean time between labels in the last hour; None without labels in that time."""
    if not view.points:
        return None
    newest = view.points[-1]["time"]
    recent = [point for point in view.points if point["time"] > newest - _RATE_WINDOW_MS]
    n_labels = sum(point.get("labels") or 0 for point in recent)
    seconds = sum(point.get("seconds") or 0.0 for point in recent)
    return seconds / n_labels if n_labels and seconds else None


def learned_version_text(batch_time_ms: int, marks: Sequence[Status]) -> str:
    """Return a text on the version that learned a label; "" if no later training has begun.

    `batch_time_ms` is the time of the label's batch. The version is the first deployed version
    whose training began in a later batch, as a training may begin before a label of its batch.
    """
    trained = [m["version"] for m in marks if m["kind"] in _TRAININGS and m["time"] > batch_time_ms]
    if not trained:
        return ""
    deployed = [m["version"] for m in marks if m["kind"] == "promoted"]
    version = next((one for one in deployed if one >= trained[0]), None)
    return f"by version {trained[0]} in training" if version is None else f"in version {version}"


_TRAININGS = ("trained", "drift")


def _accuracy_at_time(time: int, points: Sequence[Status]) -> Estimate | None:
    known = [point for point in points if point.get("accuracy") is not None]
    until = [point for point in known if point["time"] <= time]
    chosen = until[-1:] or known[:1]
    return chosen[0]["accuracy"] if chosen else None


def progress_text(
    progress: LabellingProgress,
    n_open: int,
    gain: AccuracyGain | None,
    *,
    has_record: bool | None = None,
    training: str = "",
) -> str:
    """Describe the labelling progress in a line; `has_record` is true if a record is shown.

    `training` is the end of the line, see `training_text`.
    `n_open` is the number of open requests, and may not count the shown record yet. If the page
    shows no record, the open requests are leased by others, or answered and not yet read by the
    pipeline.

    >>> gain = AccuracyGain(0.041, 0.032)
    >>> progress_text(LabellingProgress(8, 12.2, 0), 29, gain, has_record=True)
    '8 by you today · 29 open · 12 s a label · accuracy +4 points (± 3) since your first label'
    >>> progress_text(LabellingProgress(), 0, None, has_record=True)
    '0 by you today · 1 open'
    >>> progress_text(LabellingProgress(3), 1, None, has_record=False)
    '3 by you today · none open for you'
    """
    n_open = max(n_open, int(has_record is True))
    waiting = "none open for you" if has_record is False else f"{n_open:,} open"
    parts = [f"{progress.today:,} by you today", waiting]
    if progress.seconds is not None:
        parts.append(f"{progress.seconds:.0f} s a label")
    if gain is not None:
        parts.append(str(gain))
    if training:
        parts.append(training)
    return " · ".join(parts)
