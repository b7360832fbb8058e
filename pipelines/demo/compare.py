"""Demo that compares query strategies: runs a pipeline with each strategy on the same records.

The records are River's ImageSegments, written to an embedded log first and streamed from there, or
the user's own (`own`). The evaluation is prequential: each record is predicted on arrival, and a
prediction of None counts as wrong.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import DataError, StateError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import Config, Tables, parse
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State

DATASET = "ImageSegments"
FILE = "pipeline.toml"
STRATEGIES = ("margin", "random", "repeat_last", "all")
DELAY = 20
"""Label delay, in records."""
FEWEST = 20
"""Minimum number of records for a recent accuracy."""


@dataclass(frozen=True, slots=True)
class LabelledStream:
    """Records for the demo to replay, with their true labels; `batch` records are read at once.

    `sections` are the pipeline file's sections for records and labels, with paths relative to a
    subfolder of the demo's folder. `truth` maps record ids to labels. `fill` writes the records to
    the pipeline's log before a run; None: they are in files. `about` describes the records.
    """

    name: str
    truth: Mapping[str, str]
    sections: Tables
    about: str = ""
    batch: int = 10
    fill: Callable[[Sink], None] | None = None


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """Prequential result of one strategy over all records.

    `labels` is the number of labels bought, `accuracy_second_half` the accuracy on the later half
    of the records, and `balanced_accuracy` the mean recall of the classes. `forecast` is the
    forecast of the accuracy over more labels (`Forecast` as a mapping); empty: none.
    """

    strategy: str
    records: int
    labels: int
    accuracy: float
    accuracy_second_half: float
    balanced_accuracy: float
    seconds: float
    records_per_second: float
    forecast: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run after `records` of all `of` records.

    `recent` is the accuracy in the sliding window, and `repeated` the accuracy there of a baseline
    that repeats the last label. Both are None with too few records. `labels` is the number of
    requested labels.
    """

    strategy: str
    records: int
    of: int
    accuracy: float
    labels: int
    trees: int
    recent: float | None = None
    repeated: float | None = None


@dataclass(slots=True)
class PrequentialAccuracy:
    """Accumulator of prequential accuracy: compares predictions with the true labels `truth`."""

    truth: Mapping[str, str]
    classes: list[str] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    right: int = 0
    recent_hits: deque[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.recent_hits = deque(maxlen=min(max(len(self.truth) // 20, 50), 1_000))

    def add(self, id: str, predicted: object) -> None:
        """Count the prediction of record `id` as correct or wrong."""
        hit = predicted == self.truth[id]
        self.classes.append(self.truth[id])
        self.hits.append(hit)
        if predicted is not None:
            self.recent_hits.append(hit)
        self.right += hit

    @property
    def recent(self) -> float | None:
        """Accuracy in the sliding window of predicted records; None with too few records."""
        n = len(self.recent_hits)
        return sum(self.recent_hits) / n if n >= FEWEST else None

    def result(self, strategy: str, labels: int, seconds: float) -> StrategyResult:
        """Return the result over all counted records, of a run that took `seconds`."""
        n, half = len(self.hits), len(self.hits) // 2
        recalls = []
        for name in sorted(set(self.classes)):
            own = [hit for hit, cls in zip(self.hits, self.classes, strict=True) if cls == name]
            recalls.append(sum(own) / len(own))
        return StrategyResult(
            strategy=strategy,
            records=n,
            labels=labels,
            accuracy=self.right / n,
            accuracy_second_half=sum(self.hits[half:]) / (n - half),
            balanced_accuracy=sum(recalls) / len(recalls),
            seconds=seconds,
            records_per_second=n / seconds,
        )


class AccuracyObserver(Observer):
    """Observer of a run that measures the accuracy of the run and of a baseline.

    The baseline predicts the last label: for every record, the newest label of earlier batches.
    """

    def __init__(
        self, strategy: str, truth: Mapping[str, str], show: Callable[[RunProgress], None]
    ) -> None:
        self.tally = PrequentialAccuracy(truth)
        self.repeated = PrequentialAccuracy(truth)
        self.labels = 0
        self._strategy = strategy
        self._show = show
        self._newest: object = None

    def on_commit(self, effects: StepResult) -> None:
        """Count the predictions and requests of one batch, and show the progress."""
        predictions = effects.scored.labels.tolist()
        for id, predicted in zip(effects.records.ids, predictions, strict=True):
            self.tally.add(id, predicted)
            self.repeated.add(id, self._newest)
        self.labels += len(effects.asked.ids)
        if effects.joined.labels:
            self._newest = effects.joined.labels[-1]
        n = len(self.tally.hits)
        self._show(
            RunProgress(
                self._strategy,
                n,
                len(self.tally.truth),
                self.tally.right / max(n, 1),
                self.labels,
                effects.committee.n_trees if effects.committee else 0,
                self.tally.recent,
                self.repeated.recent,
            )
        )


def run_demo(
    strategies: Sequence[str],
    folder: Path,
    stream: LabelledStream | None = None,
    *,
    seed: int,
    budget: float,
    stop: StopToken,
    show: Callable[[RunProgress], None],
) -> Iterator[StrategyResult]:
    """Run the pipeline once for each of `strategies`, and yield their results in that order.

    Without a `stream`, the records are River's ImageSegments. The result of "repeat_last", the
    baseline, comes from the run of "margin". `show` is called with the progress. Each run writes
    its pipeline file and state to its own subfolder of `folder`.
    """
    stream = stream or load_image_segments()
    rows: dict[str, StrategyResult] = {}
    for strategy in strategies:
        run_of = "margin" if strategy == "repeat_last" else strategy
        if strategy not in rows:
            config = _create_pipeline_with_records(stream, folder / run_of, run_of, seed, budget)
            watch = AccuracyObserver(run_of, stream.truth, show)
            start = time.perf_counter()
            run(config, until_idle=True, stop=stop, observers=[watch])
            if stop.requested:
                return
            seconds = time.perf_counter() - start
            if not watch.tally.hits:
                raise DataError(
                    f"{stream.name}: all records are dead letters: see the reasons in "
                    f"{config.state / 'log.db'} (keep this file with --state FOLDER)"
                )
            result = watch.tally.result(run_of, watch.labels, seconds)
            checkpoint = State(config.state).checkpoints.newest()
            forecast = {} if checkpoint is None else checkpoint[1]["forecast"]
            rows[run_of] = replace(result, forecast=forecast)
            if run_of == "margin":
                rows["repeat_last"] = watch.repeated.result("repeat_last", watch.labels, seconds)
        yield rows[strategy]


def refuse_invalid_settings(seed: int, budget: float) -> None:
    """Raise ConfigurationError for an invalid seed or budget, before anything is written."""
    nowhere = LabelledStream(DATASET, {}, {"source": {"connector": "sqlite", "stream": "records"}})
    parse(pipeline_sections(nowhere, "margin", seed, budget), Path(), name="the demo")


def load_image_segments() -> LabelledStream:
    """Return the records of River's ImageSegments data set, with labels, as a `LabelledStream`."""
    sections: Tables = {
        "source": {"connector": "sqlite", "stream": "records"},
        "labels": {"connector": "river", "dataset": DATASET, "delay": DELAY},
    }
    labels = {str(index): label for index, label in enumerate(load_true_labels())}
    return LabelledStream(DATASET, labels, sections, fill=_write_dataset_records)


def pipeline_sections(stream: LabelledStream, strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the demo's pipeline file; other settings keep their defaults."""
    query: dict[str, Any] = {"strategy": strategy}
    if strategy != "all":
        query["budget"] = budget
    pipeline = {"name": f"demo-{strategy}", "seed": seed, "batch_records": stream.batch}
    return {"pipeline": pipeline} | stream.sections | {"query": query}


def create_pipeline(sections: Tables, folder: Path) -> Config:
    """Write the pipeline file and create the state folder; StateError if the state exists."""
    config = parse(sections, folder.absolute(), name="the demo")
    if config.state.exists():
        raise StateError(
            f"{folder} has an earlier demo: give another folder, or move this folder away"
        )
    State(config.state).create()
    (folder / FILE).write_text(toml.format_sections(sections), encoding="utf-8")
    return config


def _create_pipeline_with_records(
    stream: LabelledStream, folder: Path, strategy: str, seed: int, budget: float
) -> Config:
    config = create_pipeline(pipeline_sections(stream, strategy, seed, budget), folder)
    if stream.fill is not None:
        with closing(SqliteSink(config.state / "log.db", "records")) as log:
            stream.fill(log)
    return config


def _write_dataset_records(log: Sink) -> None:
    with closing(RiverSource(DATASET)) as source:
        while messages := source.poll(1000):
            log.write([message.payload for message in messages])
    log.flush()


def load_true_labels() -> list[str]:
    """Return the true label of every ImageSegments record, in stream order."""
    records = RiverSource(DATASET)
    requests = MemoryLog()
    requests.append([message.payload for message in records.poll(sys.maxsize)])
    oracle = RiverOracle(DATASET, MemorySource(requests), 0, records)
    labels, _ = Schema().decode_labels(oracle.poll(sys.maxsize))
    return labels.labels
