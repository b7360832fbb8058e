"""The demo: records through the whole pipeline, with a part of their labels.

They are River's ImageSegments, which are written to an embedded log first and streamed from there,
or anybody's own (`own`). Each record is predicted when it arrives, and that prediction is what
counts; one without a label is wrong.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import DataError, StateError
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import Config, Tables, parse
from streamboost.pipelines.engine.batch import Effects
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.job.run import run
from streamboost.pipelines.stop import Stop

__all__ = [
    "DATASET",
    "FILE",
    "STRATEGIES",
    "Result",
    "RunProgress",
    "Stream",
    "begin",
    "image_segments",
    "play",
    "refuse_settings",
    "truth",
]

DATASET = "ImageSegments"
FILE = "pipeline.toml"
STRATEGIES = ("margin", "random", "repeat_last", "all")
DELAY = 20
"""Records that pass before a label comes."""
FEWEST = 20
"""Records whose accuracy says something."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Records to be played, in their order, and what is true of them.

    `sections` are those of the pipeline file that say where records and labels come from, as seen
    from a folder within that of the demo; `truth` gives each record's label by its id. With
    `fill`, the records are written to the log of the state first. `about` says what they are.
    """

    name: str
    truth: Mapping[str, str]
    sections: Tables
    about: str = ""
    batch: int = 10
    fill: Callable[[Sink], None] | None = None


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
    """Where a run stands.

    `recent` is the accuracy over the newest records, `repeated` that of repeating the last label;
    None: they are too few yet.
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
class Comparison:
    """Compares predictions with the truth, in the order of the records."""

    truth: Mapping[str, str]
    classes: list[str] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    right: int = 0
    newest: deque[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.newest = deque(maxlen=min(max(len(self.truth) // 20, 50), 1_000))

    def add(self, id: str, predicted: object) -> None:
        """Count the prediction for a record."""
        hit = predicted == self.truth[id]
        self.classes.append(self.truth[id])
        self.hits.append(hit)
        if predicted is not None:
            self.newest.append(hit)
        self.right += hit

    @property
    def recent(self) -> float | None:
        """The accuracy over the newest records since one was predicted; None: they are too few."""
        n = len(self.newest)
        return sum(self.newest) / n if n >= FEWEST else None

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
        self, strategy: str, truth: Mapping[str, str], show: Callable[[RunProgress], None]
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


def play(
    strategies: Sequence[str],
    folder: Path,
    stream: Stream | None = None,
    *,
    seed: int,
    budget: float,
    stop: Stop,
    show: Callable[[RunProgress], None],
) -> Iterator[Result]:
    """Run the pipeline once for each of `strategies`, and give their rows in that order.

    Without a `stream`, its records are River's ImageSegments.
    `repeat_last` follows from the run of "margin", which is not repeated for it. Each run leaves
    its pipeline file and state in a folder of its own within `folder`.
    """
    stream = stream or image_segments()
    rows: dict[str, Result] = {}
    for strategy in strategies:
        run_of = "margin" if strategy == "repeat_last" else strategy
        if strategy not in rows:
            config = _prepare(stream, folder / run_of, run_of, seed, budget)
            watch = Watch(run_of, stream.truth, show)
            start = time.perf_counter()
            run(config, until_idle=True, stop=stop, watchers=[watch])
            if stop.requested:
                return
            seconds = time.perf_counter() - start
            if not watch.tally.hits:
                raise DataError(
                    f"{stream.name}: not one record could be used; the dead letters in "
                    f"{config.state / 'log.db'} say why (name a folder to keep with --state)"
                )
            rows[run_of] = watch.tally.row(run_of, watch.labels, seconds)
            if run_of == "margin":
                rows["repeat_last"] = watch.repeated.row("repeat_last", watch.labels, seconds)
        yield rows[strategy]


def refuse_settings(seed: int, budget: float) -> None:
    """Raise ConfigurationError where no run could have these, before anything is written."""
    nowhere = Stream(DATASET, {}, {"source": {"connector": "sqlite", "stream": "records"}})
    parse(pipeline_file(nowhere, "margin", seed, budget), Path(), name="the demo")


def image_segments() -> Stream:
    """Return River's ImageSegments."""
    sections: Tables = {
        "source": {"connector": "sqlite", "stream": "records"},
        "labels": {"connector": "river", "dataset": DATASET, "delay": DELAY},
    }
    labels = {str(index): label for index, label in enumerate(truth())}
    return Stream(DATASET, labels, sections, fill=_fill)


def pipeline_file(stream: Stream, strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the demo's pipeline file; all else is as any pipeline has it."""
    query: dict[str, Any] = {"strategy": strategy}
    if strategy != "all":
        query["budget"] = budget
    pipeline = {"name": f"demo-{strategy}", "seed": seed, "batch_records": stream.batch}
    return {"pipeline": pipeline} | stream.sections | {"query": query}


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


def _prepare(stream: Stream, folder: Path, strategy: str, seed: int, budget: float) -> Config:
    """Write the pipeline file, and the log of records where they are read from there."""
    config = begin(pipeline_file(stream, strategy, seed, budget), folder)
    if stream.fill is not None:
        with closing(SqliteSink(config.state / "log.db", "records")) as log:
            stream.fill(log)
    return config


def _fill(log: Sink) -> None:
    with closing(RiverSource(DATASET)) as source:
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
