"""The demo: River's ImageSegments through the whole pipeline, with a tenth of its labels.

The records are written to an embedded log first and streamed from there. Each record is
predicted when it arrives, and that prediction is what counts; one without a label is wrong.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import StateError
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import Config, Tables, parse
from streamboost.pipelines.engine.batch import Effects
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.job.run import run
from streamboost.pipelines.stop import Stop

__all__ = ["DATASET", "FILE", "STRATEGIES", "Result", "RunProgress", "begin", "play", "truth"]

DATASET = "ImageSegments"
FILE = "pipeline.toml"
STRATEGIES = ("margin", "random", "repeat_last", "all")


@dataclass(frozen=True, slots=True)
class Result:
    """How one strategy did, over all records as predicted on arrival.

    `labels` were bought; `accuracy_second_half` is over the later half of the records;
    `balanced_accuracy` is the mean over the classes of the share predicted rightly.
    """

    strategy: str
    records: int
    labels: int
    accuracy: float
    accuracy_second_half: float
    balanced_accuracy: float
    seconds: float
    records_per_second: float


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands."""

    strategy: str
    records: int
    of: int
    accuracy: float
    labels: int
    trees: int


@dataclass(slots=True)
class Comparison:
    """Compares predictions with the truth, in the order of the records."""

    truth: Sequence[str]
    classes: list[str] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    right: int = 0

    def add(self, index: int, predicted: object) -> None:
        """Count the prediction for record `index`."""
        hit = predicted == self.truth[index]
        self.classes.append(self.truth[index])
        self.hits.append(hit)
        self.right += hit

    def row(self, strategy: str, labels: int, seconds: float) -> Result:
        """Return the figures over everything counted."""
        n, half = len(self.hits), len(self.hits) // 2
        recalls = []
        for name in sorted(set(self.classes)):
            own = [hit for hit, cls in zip(self.hits, self.classes, strict=True) if cls == name]
            recalls.append(sum(own) / len(own))
        return Result(
            strategy=strategy,
            records=n,
            labels=labels,
            accuracy=self.right / n,
            accuracy_second_half=sum(self.hits[half:]) / (n - half),
            balanced_accuracy=sum(recalls) / len(recalls),
            seconds=seconds,
            records_per_second=n / seconds,
        )


class Watch(Watcher):
    """Follows a run batch by batch: its own accuracy, and that of repeating the last label.

    The latter predicts for every record the newest label that had come in earlier batches.
    """

    def __init__(
        self, strategy: str, truth: Sequence[str], show: Callable[[RunProgress], None]
    ) -> None:
        self.tally = Comparison(truth)
        self.repeated = Comparison(truth)
        self.labels = 0
        self._strategy = strategy
        self._show = show
        self._newest: object = None

    def committed(self, effects: Effects) -> None:
        """Take in one batch."""
        predictions = effects.scored.labels.tolist()
        for id, predicted in zip(effects.records.ids, predictions, strict=True):
            self.tally.add(int(id), predicted)
            self.repeated.add(int(id), self._newest)
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
            )
        )


def play(
    strategies: Sequence[str],
    folder: Path,
    *,
    seed: int,
    budget: float,
    stop: Stop,
    show: Callable[[RunProgress], None],
) -> Iterator[Result]:
    """Run the pipeline once for each of `strategies`, and give their rows in that order.

    `repeat_last` follows from the run of "margin", which is not repeated for it. Each run leaves
    its pipeline file and state in a folder of its own within `folder`.
    """
    labels = truth()
    rows: dict[str, Result] = {}
    for strategy in strategies:
        run_of = "margin" if strategy == "repeat_last" else strategy
        if strategy not in rows:
            config = _prepare(folder / run_of, run_of, seed, budget)
            watch = Watch(run_of, labels, show)
            start = time.perf_counter()
            run(config, until_idle=True, stop=stop, watchers=[watch])
            if stop.requested:
                return
            seconds = time.perf_counter() - start
            rows[run_of] = watch.tally.row(run_of, watch.labels, seconds)
            if run_of == "margin":
                rows["repeat_last"] = watch.repeated.row("repeat_last", watch.labels, seconds)
        yield rows[strategy]


def pipeline_file(strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the demo's pipeline file; all else is as any pipeline has it."""
    query: dict[str, Any] = {"strategy": strategy}
    if strategy != "all":
        query["budget"] = budget
    return {
        "pipeline": {"name": f"demo-{strategy}", "seed": seed, "batch_records": 10},
        "source": {"connector": "sqlite", "stream": "records"},
        "labels": {"connector": "river", "dataset": DATASET, "delay": 20},
        "query": query,
    }


def begin(sections: Tables, folder: Path) -> Config:
    """Write the pipeline file, and make the folder of its state; StateError where one is there."""
    config = parse(sections, folder.absolute(), name="the demo")
    if config.state.exists():
        raise StateError(
            f"{folder} holds an earlier demo: name another folder, or move that one away"
        )
    config.state.mkdir(parents=True)
    (folder / FILE).write_text(toml.write(sections), encoding="utf-8")
    return config


def _prepare(folder: Path, strategy: str, seed: int, budget: float) -> Config:
    """Write the pipeline file and the log of records."""
    config = begin(pipeline_file(strategy, seed, budget), folder)
    with (
        closing(RiverSource(DATASET)) as source,
        closing(SqliteSink(config.state / "log.db", "records")) as log,
    ):
        _copy(source, log)
    return config


def _copy(source: Source, log: Sink) -> None:
    while messages := source.poll(1000):
        log.write([message.payload for message in messages])
    log.flush()


def truth() -> list[str]:
    """Return the label of every record, in order."""
    records = RiverSource(DATASET)
    requests = MemoryLog()
    requests.append([message.payload for message in records.poll(sys.maxsize)])
    oracle = RiverOracle(DATASET, MemorySource(requests), 0, records)
    labels, _ = Schema().decode_labels(oracle.poll(sys.maxsize))
    return labels.labels
