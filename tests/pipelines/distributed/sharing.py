"""A learner and scorers that exchange messages without a broker."""

import json
from types import SimpleNamespace

import numpy as np

from streamboost.connectors.base import Message
from streamboost.connectors.memory import MemoryLog, MemorySink
from streamboost.connectors.messages.schema import Schema
from streamboost.features import Features
from streamboost.learner.estimators import default_estimator
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.distributed.learning import LearnerSinks, LearningPipeline
from streamboost.pipelines.distributed.model_log import ModelLogReader, SnapshotEncoder
from streamboost.pipelines.distributed.partition_task import PartitionTask, TaskSettings
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.runner.batch import BatchInputs
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.state.versions import CommitteeStore
from streamboost.query.config import QueryConfig

FIELDS = {"a": "number", "b": "number", "place": "category", "note": "text"}
STANDING = ("committee", "linear", "text")


def make_learner(schema, budget=0.3, experts=STANDING, relabel=0.0, **schedule):
    fields = schema.fields
    mixed = None if isinstance(fields, str) or schema.numeric != "auto" else Features(fields)
    return StreamLearner(
        default_estimator().set_params(n_estimators=3),
        query=QueryConfig(budget=budget, window=20, relabel=relabel),
        n_features=len(schema.features),
        features=mixed,
        experts=experts,
        schedule=Schedule(**schedule),
    )


def numbers():
    return Schema(numeric=["a", "b"], label="string")


def mixed():
    return Schema(fields=FIELDS, label="string")


def recorded():
    """Return a schema of records with the prediction of another system in `score`."""
    classes = ["left", "right"]
    return Schema(fields=FIELDS, label="string", classes=classes, exclude=["score"])


def records(n, start=0, seed=0):
    """Return `n` messages from offset `start` on; the label is which number is larger."""
    rng = np.random.default_rng([seed, start])
    found = []
    for i in range(start, start + n):
        a, b = rng.random(2).round(3).tolist()
        place, note = rng.choice(["x", "y", "z"]), "big one" if a > b else "small one"
        payload = {"id": f"{seed}.{i}", "a": a, "b": b, "place": str(place), "note": note}
        found.append(message(payload, i))
    return found


def predicted(i, label):
    """Return the prediction of record `i`: a map, label, none or a malformed one; 6 in 10 right."""
    other = "right" if label == "left" else "left"
    given = [None, 0.5, other, {label: 0.2, other: 0.6}, label, label]
    return given[i % 10] if i % 10 < 6 else {label: 1.5, other: 0.5}


def judged(n, start=0, predict=predicted):
    """Return `n` messages as `records` does, with the prediction of another system."""
    given = [json.loads(one.payload) for one in records(n, start)]
    told = [
        record | {"score": predict(i, label_of(json.dumps(record)))}
        for i, record in enumerate(given, start)
    ]
    return [message(one, i) for i, one in enumerate(told, start)]


def message(payload, offset, partition="0"):
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Message(text, partition, offset, len(text), 1_000 + offset)


def label_of(payload):
    record = json.loads(payload)
    return "left" if record["a"] > record["b"] else "right"


def taught(schema, n=60, seed=5):
    """Return a learner that has learned `n` records."""
    learner = make_learner(schema)
    teach(learner, schema, records(n, seed=seed))
    return learner


def teach(learner, schema, messages):
    found, _ = schema.decode(messages)
    labels = [label_of(m.payload) for m in messages]
    if found.values is None:
        return learner.learn(found.ids, found.X, labels)
    X = learner.encode_arrivals(found.values)
    return learner.learn(found.ids, X, labels, records=found.values)


def split(messages):
    """Split messages into pairs of key and value, as a consumer of the topic reads them."""
    return [(key, value) for key, _, value in (m.partition(b"\n") for m in messages)]


def edition_of(learner, schema, number=1):
    """Return what a scorer makes of what a learner publishes."""
    editions = ModelLogReader(make_learner, "topic 'committees'")
    editions.read(split(SnapshotEncoder().encode_snapshot(number, schema, learner)))
    return editions.newest


def settings(budget=0.3, burst=20, relabel=0.0, field=None):
    query = QueryConfig(budget=budget, burst=burst, window=20, relabel=relabel)
    return TaskSettings(query, 7, WindowSize.parse("1h"), "here:1:abc", field)


def task(newest=None, partitions=1, **more):
    return PartitionTask(0, settings(**more), partitions, newest)


def clock(start=1_000):
    return SimpleNamespace(tick=start)


class Learned:
    """A learner, one partition's task, and somebody who answers what it asks."""

    def __init__(self, schema, training="inline", truth=label_of, relabel=0.0, **more):
        field = "score" if "score" in schema.exclude else None
        learner = make_learner(schema, training=training, relabel=relabel)
        join = LabelJoin(WindowSize.parse("1h"), WindowSize.parse("1d"), learner.n_features)
        told = None if field is None else RecordedPredictions(field)
        parts = schema, learner, join, CommitteeStore(None, 3), None, told
        self.pipeline = LearningPipeline(*parts, **more)
        self.inputs, self.effects, self.progress = [], [], []
        self.outputs = LearnerSinks(*(MemorySink(MemoryLog()) for _ in range(4)))
        self.step([], [])
        self.task = task(relabel=relabel, field=field)
        self.truth, self.truth_of = {}, truth

    def step(self, progress, labels):
        tick = 1_000 + len(self.inputs)
        inputs = BatchInputs(tick, {}, progress, labels)
        self.inputs.append(inputs)
        self.effects.append(self.pipeline.step(inputs, None))
        self.effects[-1].messages.messages_by_sink(self.outputs)
        return self.effects[-1]

    def finish_training(self):
        """Let what is being trained serve."""
        trainer = self.pipeline.learner.trainer
        if trainer.running_training:
            made = trainer.wait_for_training(trainer.running_training.version)
            self.pipeline.step(BatchInputs(1_999, {}, [], []), made)

    def edition(self):
        return edition_of(self.pipeline.learner, self.pipeline.schema, self.pipeline.sequence)

    def turn(self, messages, answering=True):
        """Score a batch, and let the learner hear of it and of the answers to it."""
        self.truth |= {json.loads(m.payload)["id"]: self.truth_of(m.payload) for m in messages}
        scored = self.task.step(messages, self.edition(), 1_000, 0)
        asked = [json.loads(r)["id"] for r in scored.messages.requests]
        self.progress.append(message(scored.entry, len(self.progress)))
        answers = [{"id": id, "label": self.truth[id]} for id in asked if answering]
        self.step([self.progress[-1]], [message(a, i) for i, a in enumerate(answers)])
        return asked
