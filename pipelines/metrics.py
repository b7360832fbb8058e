"""What a running pipeline tells Prometheus."""

import time

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from streamboost.connectors.messages import DeadLetter
from streamboost.pipelines.effects import Effects
from streamboost.pipelines.runtime import Pipeline

__all__ = ["Metrics"]

_decode = msgspec.json.Decoder(DeadLetter).decode

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts what batches did since the process began; called with the effects of each.

    What is not a count is read from the pipeline when somebody asks, so that the loop has next to
    nothing to do for it.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.registry = CollectorRegistry()
        self._pipeline = pipeline
        self._batches = self._counter("batches", "Batches committed.")
        self._records = self._counter("records", "Records predicted.")
        self._requests = self._counter("requests", "Labels asked for.")
        self._labels = self._counter("labels", "Labels learned, those of [bootstrap] not counted.")
        self._bootstrap = self._counter("bootstrap_labels", "Labels known beforehand, learned.")
        self._ignored = self._counter("labels_ignored", "Labels dropped.", "kind")
        self._dead = self._counter("dead_letters", "Messages that could not be used.", "reason")
        self._trainings = self._counter("trainings", "Trainings started.", "kind")
        self._seconds = Histogram(
            "streamboost_batch_seconds",
            "From reading a batch to its commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._committed = self._gauge(
            "last_commit_timestamp_seconds", "When the newest batch was committed; 0: none was."
        )
        self._lag = self._gauge("lag_messages", "Messages there are to be read.", "source")
        self._stalled = self._gauge(
            "source_stalled", "1 while the lag grows and polls return nothing.", "source"
        )
        self._margin = self._gauge(
            "replay_margin_messages",
            "Messages a source holds beyond what the oldest checkpoint needs.",
            "source",
        )
        self._read_from(pipeline)

    def __call__(self, effects: Effects) -> None:
        """Count one batch."""
        now = time.time()
        self._batches.inc()
        self._records.inc(len(effects.records))
        self._requests.inc(len(effects.asked))
        self._labels.inc(len(effects.joined.ids) - effects.bootstrapped)
        self._bootstrap.inc(effects.bootstrapped)
        for kind, n in effects.ignored.items():
            self._ignored.labels(kind).inc(n)
        for message in effects.messages.dead_letters:
            self._dead.labels(_decode(message).reason).inc()
        for training in effects.trainings:
            self._trainings.labels(training.kind).inc()
        self._seconds.observe(max(now - effects.tick / 1000, 0.0))
        self._committed.set(now)

    def expose(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        watch = self._pipeline.watch
        for gauge, values in ((self._lag, watch.lag), (self._margin, watch.margin)):
            for source, value in list(values.items()):
                gauge.labels(source).set(value)
        for source in self._pipeline.intake.sources:
            self._stalled.labels(source).set(source in watch.stalled)
        return generate_latest(self.registry)

    def _read_from(self, pipeline: Pipeline) -> None:
        def version() -> float:
            committee = pipeline.learner.committee
            return committee.version if committee else 0

        def trees() -> float:
            committee = pipeline.learner.committee
            return committee.n_trees if committee else 0

        read = {
            "sequence": ("The newest batch.", lambda: pipeline.sequence),
            "checkpoint_sequence": (
                "The batch of the newest checkpoint.",
                lambda: pipeline.checkpointed,
            ),
            "checkpoint_failed": (
                "1 while the newest checkpoint that was due could not be taken.",
                lambda: pipeline.lacks_checkpoint,
            ),
            "committee_version": ("Of the committee that serves; 0: none.", version),
            "committee_trees": ("Trees in it.", trees),
            "known_labels": (
                "Labels learned since the state began.",
                lambda: pipeline.learner.n_labels,
            ),
            "held_records": (
                "Records kept for labels to come.",
                lambda: pipeline.join.in_numbers()["held_records"],
            ),
            "open_requests": (
                "Requests that wait for an answer.",
                lambda: pipeline.join.in_numbers()["open_requests"],
            ),
            "retrying": ("1 while a source or a commit is tried again.", lambda: pipeline.retrying),
        }
        for name, (text, value) in read.items():
            self._gauge(name, text).set_function(value)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"streamboost_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"streamboost_{name}", text, labels, registry=self.registry)
