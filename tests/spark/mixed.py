"""Records with a text, a nested category, a number and a time, and a learner that knows them."""

from datetime import UTC, datetime, timedelta

import numpy as np

from streamboost import StreamLearner
from streamboost.features import Features

FIELDS = {"note": "text", "device.os": "category", "amount": "number", "at": "time"}
STARTED = datetime(2026, 3, 1, tzinfo=UTC)


def labelled_records(n, seed):
    """Yield `n` records, each with its label."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        bad = bool(rng.random() < 0.4)
        words = ["refund", "claim"] if bad else ["thanks", "hello"]
        record = {
            "note": None if i % 17 == 0 else " ".join(rng.choice([*words, "the", "a"], 4)),
            "device": {"os": ["ios", "linux", "windows"][rng.integers(3)]},
            "amount": float(rng.normal(bad)),
            "at": STARTED + timedelta(minutes=int(rng.integers(100_000))),
        }
        yield record, "bad" if bad else "good"


def train():
    """Return a learner that has learned 400 records, one after another."""
    learner = StreamLearner(features=Features(FIELDS), random_state=0)
    for i, (record, label) in enumerate(labelled_records(400, 0)):
        values = learner.features.values(record)
        X = learner.encode_arrivals([values])
        learner.score_arrivals(X)
        learner.learn([str(i)], X, [label], records=[values])
    return learner


def expected_scores(learner, records):
    """Return the committee's scores of `records`, whose order is unknown."""
    X = learner.encode_records([learner.features.values(record) for record in records])
    X[:, learner.features.names.index("at: seconds since the record before")] = np.nan
    return learner.committee.class_scores(X[:, : learner.committee.n_features])
