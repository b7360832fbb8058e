"""Fixtures that the pipelines' tests share."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamboost.connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryTransaction
from streamboost.connectors.messages.schema import Schema
from streamboost.features import Features
from streamboost.learner.estimators import default_estimator
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.runner.batch import OutputSinks
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.state import commands
from streamboost.pipelines.state.journal import JournalEntry
from streamboost.pipelines.state.versions import CommitteeStore
from streamboost.pipelines.status.reader import StatusReader
from streamboost.query.config import QueryConfig
from tests.pipelines.command import Command
from tests.pipelines.publishing import answer
from tests.pipelines.receiving import Receiver
from tests.pipelines.watching import committing


def as_json(messages):
    return [json.dumps(message).encode() for message in messages]


class World:
    """A pipeline over logs in memory, with a clock that one tick passes on each poll."""

    def __init__(
        self,
        *,
        budget=0.5,
        window=50,
        expires_after=100,
        batch=10,
        rounds=5,
        label="string",
        time=None,
        query=None,
        fields=None,
        on_conflict="last",
        label_lags=0,
        **schedule,
    ):
        self.on_conflict, self.label_lags = on_conflict, label_lags
        self.records, self.labels, self.commands = MemoryLog(), MemoryLog(), MemoryLog()
        self.predictions, self.requests, self.dead = MemoryLog(), MemoryLog(), MemoryLog()
        self.transaction = MemoryTransaction()
        self.ticks = itertools.count(1_000, 1_000)
        self.settings = (window, expires_after, batch, rounds)
        known = {"numeric": ["a", "b"]} if fields is None else {"fields": fields}
        self.schema = Schema(**known, label=label, time=time)
        self.mixed = fields is not None
        self.query = QueryConfig(budget=budget, **(query or {}))
        self.schedule = Schedule(**schedule)
        self.loop = self.fresh()

    @property
    def pipeline(self):
        return self.loop.pipeline

    def fresh(self, on_commit=None, **more):
        """Return a loop over the same logs whose pipeline knows nothing; `more` is for the loop."""
        window, expires_after, batch, rounds = self.settings
        intake = BatchReader(
            MemorySource(self.records),
            MemorySource(self.labels),
            MemorySource(self.commands),
            most_records=batch,
            most_labels=batch,
            clock=self.ticks.__next__,
            timer=lambda: 0.0,  # a busy machine must not move the clock
        )
        sinks = (MemorySink(log) for log in (self.predictions, self.requests, self.dead))
        learner = StreamLearner(
            default_estimator().set_params(n_estimators=rounds),
            schedule=self.schedule,
            query=self.query,
            n_features=None if self.mixed else self.label_lags + 2,
            random_state=3,
            features=Features(self.schema.fields) if self.mixed else None,
            on_conflict=self.on_conflict,
            label_lags=self.label_lags,
        )
        join = LabelJoin(
            WindowSize.parse(window), WindowSize.parse(expires_after), learner.n_features
        )
        return Runner(
            Pipeline(self.schema, learner, join, CommitteeStore(None, 10)),
            intake,
            OutputSinks(*sinks),
            self.transaction,
            observers=[committing(on_commit)] if on_commit else [],
            open_sources=lambda: {
                "records": MemorySource(self.records),
                "labels": MemorySource(self.labels),
            },
            **more,
        )

    def feed(self, records=(), labels=()):
        self.records.append(as_json(records))
        self.labels.append(as_json(labels))

    def pass_by(self, records):
        """Let records come as fast as they are read."""
        size = self.settings[2]
        for start in range(0, len(records), size):
            self.feed(records[start : start + size])
            self.run()

    def tell(self, command, *about):
        order = commands.Command(command, *about)
        self.commands.append([msgspec.json.encode(order)])

    def run(self):
        self.loop.run(until_idle=True)

    def entries(self):
        return [JournalEntry.decode(message) for _, message in self.transaction.read_journal()]

    def read(self, name):
        return [json.loads(payload) for payload in getattr(self, name).payloads()]


def make_records(n, start=0, seed=0):
    """Return records whose label is which of their two fields is larger, and those labels."""
    X = np.random.default_rng(seed).random((start + n, 2)).round(3)[start:]
    records = [{"id": str(start + i), "a": a, "b": b} for i, (a, b) in enumerate(X.tolist())]
    labels = ["left" if r["a"] > r["b"] else "right" for r in records]
    return records, labels


@pytest.fixture
def world():
    return World()


@pytest.fixture(scope="session")
def make_world():
    return World


@pytest.fixture(name="make_records", scope="session")
def _make_records():
    return make_records


@contextmanager
def only_reading(folder):
    """Take the permission to write away, also from root, who would not notice otherwise."""
    user = os.geteuid()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.fixture(name="only_reading")
def _only_reading():
    return only_reading


@pytest.fixture
def open_folder():
    """A folder that other users may enter, unlike those of `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of its own, which is soon full."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("`mount -t tmpfs` is refused: run as root on Linux")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    """Write a file into `folder` that leaves no room; return it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@pytest.fixture(name="fill", scope="session")
def _fill():
    return fill


@pytest.fixture
def streamboost_command(tmp_path):
    command = Command(tmp_path)
    yield command
    command.stop_all()


@pytest.fixture
def reader(tmp_path):
    """Reads the status that is published in `tmp_path`."""
    with closing(StatusReader(tmp_path)) as reader:
        yield reader


@pytest.fixture
def grown(world, make_records):
    """A pipeline that has records and some answers to come, and all records' true labels."""
    records, truth = make_records(300)
    for record in records:
        record["text"] = f"This is record {record['id']}."
    world.feed(records)
    answer(world, truth, range(120))
    return world, truth


@pytest.fixture
def made(tmp_path, kafka_servers):
    """Return a function that writes a pipeline file for Kafka and creates its topics."""
    from tests.pipelines.operated import make  # only those who use Kafka load its client library

    return partial(make, tmp_path, kafka_servers)


@pytest.fixture
def receiver():
    with closing(Receiver()) as receiver:
        yield receiver
