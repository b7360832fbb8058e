"""Prometheus metrics of a running pipeline."""

import math
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from streamboost.connectors.messages.outgoing import Reason
from streamboost.escaping import escape_line
from streamboost.evaluation.report import Estimate, accuracy_drop
from streamboost.learner.schedule import Kind
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.label_join import IGNORED
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.state.checkpoints import Checkpoints
from streamboost.pipelines.state.folder import LOG

_BOUNDS = {"": "", "low_": ", lower bound", "high_": ", upper bound"}
"""Maps a name part to a help text, for an estimate and the bounds of its 95 % interval."""

_DIFFERENCES = {
    "accuracy_drop": "Accuracy of the earlier records minus that of the newest",
    "accuracy_gain": "Accuracy of the own model, or the committee without other experts, minus "
    "that of the predictions, for the newest records",
}
"""Differences in accuracy, by the start of the metric's name."""

_EVERY = 1.0
"""Seconds between two updates of the accuracy, which take about 0.1 % of the time."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


_OF_ANNOTATORS = {
    "labels": "Labels learned from the annotator.",
    "shared": "Pairs of a label of the annotator and of another annotator for the same record.",
    "agreed": "Such pairs with equal labels.",
    "judged": "Labels of records without another annotator, but with a confident prediction.",
    "confirmed": "Such labels that equal the prediction.",
}

LONGEST_NAME = 200
"""Characters of an annotator's name in the metrics."""

Numbers = dict[str, Any]
"""The numbers that `Pipeline.counters` returns."""


class Metrics(Observer):
    """Observer that exposes Prometheus metrics: counters of the process, and gauges.

    Gauges are read from the pipeline when Prometheus requests the metrics. `clock` returns
    monotonic seconds.
    """

    def __init__(self, runner: Runner, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # CPU time, memory, open files; on Linux
        self._runner = runner
        self._clock = clock
        self._is_stale = True
        self._judged = -math.inf
        self._batches = self._create_counter("batches", "Batches committed.")
        self._records = self._create_counter("records", "Records predicted.")
        self._requests = self._create_counter("requests", "Labels requested.")
        self._labels = self._create_counter(
            "labels", "Labels learned, without those of [initial_data]."
        )
        self._initial_labels = self._create_counter(
            "initial_labels", "Labels of [initial_data] learned."
        )
        self._ignored = self._create_counter(
            "labels_ignored", f"Labels dropped, by kind: {', '.join(IGNORED)}.", "kind", IGNORED
        )
        self._dead = self._create_counter(
            "dead_letters",
            "Messages that were rejected as dead letters.",
            "reason",
            get_args(Reason),
        )
        self._trainings = self._create_counter(
            "trainings", "Trainings started.", "kind", get_args(Kind)
        )
        self._changes = self._create_counter("changes", "Changes of the stream detected.")
        self._notifications = self._create_counter(
            "notifications", "Messages to the webhook of [notify].", "result", ("sent", "failed")
        )
        self._seconds = Histogram(
            "streamboost_batch_seconds",
            "Seconds from reading a batch to its commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._committed = self._create_gauge(
            "last_commit_timestamp_seconds", "Time of the newest commit; 0: no commit."
        )
        self._labelled = self._create_gauge(
            "last_label_timestamp_seconds",
            "Time at which this process last learned a label; 0: never.",
        )
        self._create_source_gauges()
        self._weight = self._create_gauge(
            "expert_weight_ratio", "Share of the expert in the weights of predictions.", "expert"
        )
        self._annotators = {
            name: self._create_gauge(f"annotator_{name}", text, "source")
            for name, text in _OF_ANNOTATORS.items()
        }
        self._of_partitions = {
            key: self._create_gauge(f"partition_{key}", text, "partition")
            for key, text in _OF_PARTITIONS.items()
        }
        self._create_accuracy_gauges()
        self._read = {name: self._create_gauge(name, text) for name, (text, _) in _READ.items()}

    def _create_source_gauges(self) -> None:
        self._lag = self._create_gauge(
            "lag_messages",
            "Unread messages; unread bytes of a JSON Lines or CSV file; missing for compressed "
            "files.",
            "source",
        )
        self._stalled = self._create_gauge(
            "source_stalled", "1 while the lag grows and polls return nothing.", "source"
        )
        self._margin = self._create_gauge(
            "replay_margin_messages",
            "Retained messages of a source before the position of the oldest checkpoint.",
            "source",
        )

    def _create_accuracy_gauges(self) -> None:
        self._accuracy = {
            bound: self._create_gauge(
                f"accuracy_{bound}ratio",
                f"Share of correct predictions for the newest records{text}; NaN: unknown.",
                "predictor",
            )
            for bound, text in _BOUNDS.items()
        }
        self._anytime = [
            self._create_gauge(
                f"anytime_accuracy_{bound}_ratio",
                f"{bound.capitalize()} end of the accuracy's confidence sequence for the newest "
                "records, valid at all times simultaneously; NaN: unknown.",
            )
            for bound in ("lower", "upper")
        ]
        self._drop, self._gain = (
            [
                self._create_gauge(f"{name}_{bound}ratio", f"{text}{more}; NaN: unknown.")
                for bound, more in _BOUNDS.items()
            ]
            for name, text in _DIFFERENCES.items()
        )
        self._recorded = self._create_gauge(
            "recorded_predictions", "Records by their prediction of another system.", "kind"
        )
        self._left_out = self._create_gauge(
            "left_out_annotators",
            "Annotators whose labels are excluded from estimates, as they disagree too often.",
        )
        self._naive = self._create_gauge(
            "asked_accuracy_ratio",
            "Share of correct predictions among requested labels, a biased sample.",
        )
        self._cost = [
            self._create_gauge(
                f"decision_cost{'_' * bool(bound)}{bound.rstrip('_')}",
                f"Mean cost of a decision for the newest records{text}; NaN: unknown, or no costs "
                "are configured.",
            )
            for bound, text in _BOUNDS.items()
        ]
        for gauge in (self._naive, *self._cost, *self._anytime, *self._drop, *self._gain):
            gauge.set(math.nan)

    def on_commit(self, effects: StepResult) -> None:
        """Add the records, requests and labels of a committed batch to the counters."""
        now = time.time()
        self._batches.inc()
        self._records.inc(effects.n_predicted)
        self._requests.inc(len(effects.asked) + len(effects.relabels))
        n_labels = len(effects.joined.ids) - effects.initial_labels
        self._labels.inc(n_labels)
        if n_labels:
            self._labelled.set(now)
        self._initial_labels.inc(effects.initial_labels)
        for kind, n in effects.ignored.items():
            self._ignored.labels(kind).inc(n)
        for letter in effects.dead:
            self._dead.labels(letter.reason).inc()
        for training in effects.trainings:
            self._trainings.labels(training.kind).inc()
        self._changes.inc(len(effects.changes))
        self._seconds.observe(max(now - effects.batch_time_ms / 1000, 0.0))
        self._committed.set(now)
        self._is_stale = True

    def count_notification(self, result: str) -> None:
        """Count a message of [notify], which was "sent" or "failed"; may be called by a thread."""
        self._notifications.labels(result).inc()

    @property
    def is_work_due(self) -> bool:
        """Whether the accuracy gauges must be updated: after a commit, at most once a second."""
        return self._is_stale and self._clock() - self._judged >= _EVERY

    def between_batches(self) -> None:
        """Update the accuracy gauges if an update is due."""
        if not self.is_work_due:
            return
        self._is_stale, self._judged = False, self._clock()
        since_start, report = self._runner.pipeline.learner.evaluation.both_reports()
        differences = accuracy_drop(since_start, report), report.gain_alone
        for gauges, estimate in zip((self._drop, self._gain), differences, strict=True):
            for gauge, value in zip(gauges, _value_and_bounds(estimate), strict=True):
                gauge.set(value)
        for predictor in ("committee", "repeat_last", "majority"):
            known = _value_and_bounds(getattr(report, predictor).accuracy)
            for gauge, value in zip(self._accuracy.values(), known, strict=True):
                gauge.labels(predictor).set(value)
        for gauge, value in zip(
            self._anytime, _value_and_bounds(report.anytime_accuracy)[1:], strict=True
        ):
            gauge.set(value)
        self._left_out.set(len(report.left_out))
        asked = report.committee.naive_accuracy
        self._naive.set(asked.value if asked else math.nan)
        for gauge, value in zip(self._cost, _value_and_bounds(report.cost), strict=True):
            gauge.set(value)

    def expose(self) -> bytes:
        """Update the gauges; return all metrics in Prometheus' text format."""
        loop, backlog = self._runner, self._runner.backlog
        for gauge, values in ((self._lag, backlog.lag), (self._margin, backlog.margin)):
            for source, value in list(values.items()):
                gauge.labels(source).set(value)
        for source in loop.intake.sources:
            self._stalled.labels(source).set(source in backlog.stalled)
        numbers = loop.pipeline.counters()
        for partition, one in numbers.get("workers", {}).items():
            for key, gauge in self._of_partitions.items():
                gauge.labels(partition).set(one[key])
        for kind, n in numbers.get("recorded", {}).items():
            self._recorded.labels(kind).set(n)
        for expert, share in numbers["experts"].items():
            self._weight.labels(expert).set(share)
        totals: dict[tuple[str, str], int] = {}
        for source, counts in numbers["annotators"].items():
            for name in self._annotators:
                series = name, escape_line(source)[:LONGEST_NAME]  # long names may be cut alike
                totals[series] = totals.get(series, 0) + counts[name]
        for (name, source), total in totals.items():
            self._annotators[name].labels(source).set(total)
        for name, (_, read) in _READ.items():
            self._read[name].set(read(loop, numbers))
        return generate_latest(self.registry)

    def _create_counter(
        self,
        name: str,
        help_text: str,
        label_name: str | None = None,
        label_values: Iterable[str] = (),
    ) -> Counter:
        """Create a counter; with a label, initialize each value in `label_values` to 0.

        Without the initial 0, Prometheus would not see the first increase of a series.
        """
        labels = () if label_name is None else (label_name,)
        counter = Counter(f"streamboost_{name}", help_text, labels, registry=self.registry)
        for value in label_values:
            counter.labels(value)
        return counter

    def _create_gauge(self, name: str, help_text: str, *label_names: str) -> Gauge:
        return Gauge(f"streamboost_{name}", help_text, label_names, registry=self.registry)


def _value_and_bounds(estimate: Estimate | None) -> tuple[float, float, float]:
    return (estimate.value, estimate.low, estimate.high) if estimate else (math.nan,) * 3


def _log_size_bytes(checkpoints: Checkpoints | None) -> int:
    if checkpoints is None:
        return 0
    log, size = checkpoints.folder.parent / LOG, 0
    for name in (log.name, f"{log.name}-wal"):
        with suppress(FileNotFoundError):  # there is no log, or its companion was removed
            size += log.with_name(name).stat().st_size
    return size


def _free_disk_space(checkpoints: Checkpoints | None) -> float:
    """Return the free bytes on the disk of the checkpoints; NaN if they are not known."""
    if checkpoints is None:
        return math.nan
    with suppress(OSError):
        return float(shutil.disk_usage(checkpoints.folder.parent).free)
    return math.nan


_OF_PARTITIONS = {
    "lag": "Unread records of the partition, with distributed scoring.",
    "rate": "Records scored per second, with distributed scoring.",
    "version": "Version of the committee that scores the partition, with distributed scoring.",
}

_READ: dict[str, tuple[str, Callable[[Runner, Numbers], float]]] = {
    "committee_version": (
        "Version of the active committee; 0: no committee.",
        lambda loop, numbers: numbers["committee"]["version"],
    ),
    "committee_trees": (
        "Trees of the active committee.",
        lambda loop, numbers: numbers["committee"]["trees"],
    ),
    "known_labels": (
        "Labels learned since the state began.",
        lambda loop, numbers: numbers["committee"]["labels"],
    ),
    "budget_ratio": (
        "Share of the records whose label may be requested.",
        lambda loop, numbers: float(loop.pipeline.learner.query_config.budget_share),
    ),
    "budget_tokens": (
        "Requests that the budget allows now.",
        lambda loop, numbers: numbers["ledger"]["tokens"],
    ),
    "sequence": ("Number of the newest batch.", lambda loop, numbers: numbers["sequence"]),
    "deleted_unread": (
        "Messages that were deleted before they were read.",
        lambda loop, numbers: numbers["deleted_unread"],
    ),
    "checkpoint_sequence": (
        "Number of the batch of the newest checkpoint.",
        lambda loop, numbers: loop.checkpointed,
    ),
    "checkpoint_failed": (
        "1 if the newest due checkpoint failed.",
        lambda loop, numbers: loop.lacks_checkpoint,
    ),
    "last_checkpoint_timestamp_seconds": (
        "Time at which the newest checkpoint was written; 0: no checkpoint.",
        lambda loop, numbers: (
            loop.checkpoints.newest_checkpoint_time() if loop.checkpoints else 0.0
        ),
    ),
    "oldest_checkpoint_timestamp_seconds": (
        "Time at which the oldest checkpoint was written, from which a restart may replay; 0: no "
        "checkpoint.",
        lambda loop, numbers: loop.checkpoints.oldest_checkpoint_time() if loop.checkpoints else 0,
    ),
    "log_bytes": (
        "Size of the SQLite log in the state folder, with its write-ahead log.",
        lambda loop, numbers: _log_size_bytes(loop.checkpoints),
    ),
    "disk_free_bytes": (
        "Free space on the disk of the state folder; NaN: unknown.",
        lambda loop, numbers: _free_disk_space(loop.checkpoints),
    ),
    "held_records": (
        "Records kept to match labels that arrive later.",
        lambda loop, numbers: numbers["join"]["held_records"],
    ),
    "open_requests": (
        "Requests that wait for an answer.",
        lambda loop, numbers: numbers["join"]["open_requests"],
    ),
    "retrying": (
        "1 while a source or a commit is retried.",
        lambda loop, numbers: loop.retrying,
    ),
}
"""Help text of each gauge, and the function that reads its value on scrape."""
