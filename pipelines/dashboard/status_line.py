"""Status line of a pipeline: state, throughput and lag, notices, and the age of the data."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from streamboost.pipelines.dashboard import lag as lags
from streamboost.pipelines.dashboard.annotators import disagreeing_annotators, disagreements_address
from streamboost.pipelines.dashboard.drift import shift_notice, shifted_features
from streamboost.pipelines.dashboard.tables import rollback_origins, version_text
from streamboost.pipelines.dashboard.time_range import total_lag
from streamboost.pipelines.dashboard.versions import significant_recall_drop
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import StatusLine, Tag
from streamboost.pipelines.status.formatting import (
    duration_text,
    number_text,
    time_text,
    with_no_break_spaces,
)
from streamboost.pipelines.status.liveness import heartbeat_time, outage_text

STILL = 60.0
"""Seconds without a commit after which the time of the last commit replaces the throughput."""

FRESH = 60.0
"""Seconds for which an error is shown although batches have been committed since."""

BEAT = 4.0
"""Seconds after which the browser gets a heartbeat of `serve` even if nothing changed."""

UNSTARTED = 'No status yet: start it with "streamboost run".'

Tone = Literal["good", "warn", "bad", "grey"]


URGENCY = (
    *("Error", "Unresponsive", "Stopped", "Not started"),
    *("Paused", "Accuracy drop", "Regression", "Annotator disagreement"),
    *("Rejected messages", "Open requests", "Feature drift", "Stream change"),
    *("Dead letters", "Lowest recall"),
)
"""Titles of all warnings and next steps, the most urgent first."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Warning about a running pipeline, such as feature drift.

    `word` is its title, one of `URGENCY`. `text` is a short description, `link` the page with
    details, and `action` an instruction to the user.
    """

    word: str
    text: str
    link: str
    action: str

    @property
    def urgency(self) -> int:
        """Place of the warning in the order of urgency; 0 is the most urgent."""
        return URGENCY.index(self.word)


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Content of the status line: the status `word`, more texts, warnings, and the last error.

    `age` is the time since the last heartbeat in seconds; None if it is unknown or irrelevant.
    """

    word: str
    tone: Tone
    parts: Sequence[str] = ()
    age: float | None = None
    error: str | None = None
    notices: Sequence[Notice] = ()


def pipeline_status(view: StatusSnapshot, now: float) -> PipelineStatus:
    """Return the status of a pipeline at `now`, in seconds since the epoch."""
    about = view.document("pipeline")
    if not about:
        return PipelineStatus("Not started", "grey", (UNSTARTED,))
    state, last = str(about.get("state", "unknown")), about.get("time")
    beat = heartbeat_time(view.documents)
    age = None if beat is None else max(now - beat / 1000, 0.0)
    trouble = _current_error_text(view, now)
    tone: Tone = "bad" if trouble else "grey"
    if state == "stopped":
        return PipelineStatus("Stopped", tone, _last_batch_texts(last), None, trouble)
    if outage := outage_text(view.documents, view.points, now, is_running=view.runs):
        parts = outage, *_last_batch_texts(last)
        return PipelineStatus("Unresponsive", tone, parts, age, trouble)
    if state in ("retrying", "recovering"):
        tone = "bad" if trouble else "warn"
        return PipelineStatus(state.capitalize(), tone, _last_batch_texts(last), age, trouble)
    notices, pace = _warnings_for_status_line(view), _throughput_texts(view, last, now)
    if trouble:
        return PipelineStatus("Error", "bad", pace, age, trouble, notices)
    if notices:
        return PipelineStatus(notices[0].word, "warn", pace, age, None, notices)
    return PipelineStatus("OK", "good", pace, age)


def _warnings_for_status_line(view: StatusSnapshot) -> list[Notice]:
    """Return the warnings, such as a regression or feature drift, the most urgent first."""
    name, found = view.document("pipeline").get("name"), []
    if view.document("learner").get("paused"):
        link = f"{page_address('/versions', name)}#steer"
        found.append(Notice("Paused", "training is paused", link, "Resume training"))
    if fell := significant_recall_drop(view):
        first, *others = fell.names
        more = f" and {others[0] if len(others) == 1 else len(others)}" * bool(others)
        more += " other classes" * (len(others) > 1)
        link = f"{page_address('/versions', name, a=fell.version)}#since"
        text = f"recall of {first}{more} fell"
        found.append(Notice("Regression", text, link, "Compare versions"))
    if (drop := view.document("evaluation").get("drop")) and drop["low"] > 0.0:
        text = f"accuracy fell by {100 * drop['value']:.1f} points"
        found.append(Notice("Accuracy drop", text, page_address("/quality", name), "See metrics"))
    if (change := view.document("changes").get("newest")) and _recent_committees_lead(view):
        since = f"{change['since_labels'] + 1:,}"
        said = f"the stream changed before label {since}{_change_time_text(view)}"
        said += "; committees of newer labels predict better"
        link = f"{page_address('/quality', name)}#expert-weights"
        found.append(Notice("Stream change", said, link, "Check the expert weights"))
    if moved := shifted_features(view):
        link = page_address("/features", name, feature=moved[0])
        found.append(Notice("Feature drift", shift_notice(view), link, "Check the feature"))
    if names := disagreeing_annotators(view):
        more = f"; so does {names[1]}" if len(names) == 2 else f"; so do {len(names) - 1} more"
        is_shared = view.document("annotators")[names[0]].get("together")
        whom = "other annotators" if is_shared else "confident predictions"
        said = f"{names[0]} disagrees with {whom}{more * (len(names) > 1)}"
        if names[0] in ((view.document("evaluation").get("recent") or {}).get("left_out") or ()):
            said += "; training uses these labels, the accuracy does not"
        link = disagreements_address(view, names[0])
        found.append(Notice("Annotator disagreement", said, link, "Check the annotator"))
    return sorted(found, key=lambda notice: notice.urgency)


def _change_time_text(view: StatusSnapshot) -> str:
    """Say when the newest change of the stream was detected; empty if it is unknown."""
    times = [mark["time"] for mark in view.marks if mark["kind"] == "change"]
    return f" (detected at {time_text(times[-1])})" if times else ""


def _recent_committees_lead(view: StatusSnapshot) -> bool:
    """Return whether the committees trained on the newest labels have the largest weight."""
    weights: Mapping[str, float] = view.document("experts")
    return bool(weights) and max(weights, key=weights.__getitem__) == "young"


def _last_batch_texts(last_commit: float | None) -> tuple[str, ...]:
    return (
        ("no batch committed in this run yet",)
        if last_commit is None
        else (f"last batch at {time_text(last_commit)}",)
    )


def _throughput_texts(
    view: StatusSnapshot, last_commit: float | None, now: float
) -> tuple[str, ...]:
    """Return texts for the status line: throughput or time of the last commit, and lag."""
    if last_commit is None:
        return ("no batch committed in this run yet",)
    point: Mapping[str, Any] = view.points[-1] if view.points else {}
    scored, lag = view.document("workers").values(), total_lag(point.get("lag"))
    learned = float(point.get("records_per_second") or 0.0)
    rate = sum(one["rate"] for one in scored) if scored else learned
    is_still = now - last_commit / 1000 > STILL or (not scored and rate == lag == 0)
    if is_still:
        pace = f"no commit since {time_text(last_commit)}"
    else:
        pace = f"{number_text(float(f'{rate:.2g}'))}/s"
    if view.unscored_records_text is not None:
        behind = () if lag is None else (f"learner lag {number_text(lag)}",)
        parts: tuple[str, ...] = (pace, view.unscored_records_text, *behind)
    elif is_still and lag:
        parts = (f"{pace}; lag {lags.lag_text(view, lag)}",)
    elif is_still:
        parts = (pace if lag is None else f"nothing new since {time_text(last_commit)}, lag 0",)
    else:
        told = f"lag {lags.lag_text(view, lag)}{_catch_up_text(view)}"
        parts = (pace,) if lag is None else (pace, told)
    version, again = view.document("learner").get("version"), rollback_origins(view)
    return (*parts, f"version {version_text(version, again)}") if version in again else parts


def _catch_up_text(view: StatusSnapshot) -> str:
    """Say how long catching up takes, or since when the lag is 0; empty if unknown."""
    left, began = (
        lags.seconds_to_catch_up(view),
        view.get_or_compute("lag since", lambda: lags.zero_lag_since(view.points)),
    )
    if left is not None:
        return f", about {duration_text(float(f'{left:.2g}'))} behind"
    return "" if began is None else f", caught up since {time_text(began)}"


def _current_error_text(view: StatusSnapshot, now: float) -> str | None:
    """Return the time and text of the current error; None if there is none.

    An error is current until a later batch was committed and `FRESH` seconds have passed.
    """
    found, about = view.document("trouble"), view.document("pipeline")
    if not found:
        return None
    then = float(found.get("time") or 0.0)
    is_over = (about.get("time") or 0.0) > then and about.get("state") != "retrying"
    if is_over and now - then / 1000 > FRESH:
        return None
    return f"{time_text(then)}: {found.get('text', '')}"


class StatusPanel:
    """Panel with the status line of a pipeline, and its current error."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._trouble = Tag("p", "", "trouble", role="alert")
        self._trouble.set_visibility(False)

    def show(self, view: StatusSnapshot) -> PipelineStatus:
        """Show the status line for `view` at the present time; return the status."""
        now = time.time()
        found = pipeline_status(view, now)
        said = asdict(found)
        trouble, said["parts"] = (
            said.pop("error"),
            [with_no_break_spaces(part) for part in found.parts],
        )
        said["steps"] = f"{page_address('/', view.document('pipeline').get('name'))}#next-steps"
        if found.age is not None:
            said["age"] = round(found.age)
        self._line.show(**said, beat=int(now / BEAT))
        self._trouble.set_visibility(trouble is not None)
        self._trouble.text = trouble or ""
        return found
