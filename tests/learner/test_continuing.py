"""A learner that is restored at any batch continues as if it had never stopped."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet

RNG = np.random.default_rng(12)
X = RNG.random((700, 3), dtype=np.float32)
IDS = [str(i) for i in range(len(X))]

WORKING_SETS = [
    WorkingSet(kind="time", size=40, seconds=3, weights="zipf"),
    WorkingSet(kind="reservoir", size=15),
    WorkingSet(kind="reservoir", size=150, propensity_clip=4),
    WorkingSet(kind="balanced", size=21, weights="half_life", half_life=9, propensity_clip=3),
]
SCHEDULES = [
    Schedule(growth=1.3, on_drift="adwin", drift_signal="both"),
    Schedule(growth=2, extend_every=None, extend_seconds=2, on_drift="page_hinkley"),
    Schedule(growth=2, retrain_seconds=4, on_drift="kswin", drift_signal="both"),
]
LIMITED = Schedule(
    growth=50,
    extend_every=3,
    extend_estimators=2,
    max_estimators=9,
)
BACKGROUND = Schedule(growth=1.5, extend_every=7, training="background", promotion="better")
FOLLOWING = Schedule.per_label(on_drift="adwin", drift_signal="both")
QUERIES = [
    QueryConfig(budget=0.5, audit=0.1),
    QueryConfig(budget=0.2, audit=0.2, initial_credit=5, stream_length=300, strategy="entropy"),
    QueryConfig(budget=0.3, audit=0.2, selection="quantile_filter", strategy="vote_entropy"),
    QueryConfig(budget=0.3, audit=0.1, mode="pool", window=30, query_batch_size=2),
]


@dataclass
class Batch:
    """Batch of `n` records that arrives `passed` milliseconds after the batch before."""

    n: int
    passed: int
    flipped: bool  # the concept is the other one
    told: bool  # labels come with the predictions that the records got
    arrives: bool  # what a thread has trained comes in first


BATCHES = st.lists(
    st.builds(
        Batch, st.integers(0, 60), st.integers(0, 900), st.booleans(), st.booleans(), st.booleans()
    ),
    max_size=10,
)


def made(working_set, schedule, query=QUERIES[0], label_lags=0, **settings):
    return StreamLearner(
        SketchLogitBoostClassifier(
            n_estimators=3,
            max_leaf_nodes=4,
            min_child_weight=0.01,
            categorical_features=list(range(label_lags)),
        ),
        working_set=working_set,
        schedule=schedule,
        query=query,
        random_state=3,
        label_lags=label_lags,
        **settings,
    )


class Following:
    """A learner on a stream: every second label comes, and those of other requests never."""

    def __init__(self, learner):
        self.learner = learner
        self.rows = []  # as they were given to the learner on arrival

    def step(self, batch, tick):
        """Take a batch; return what was asked for and what was trained."""
        learner, start = self.learner, len(self.rows)
        trainings = self.arrive() if batch.arrives else ()
        rows = learner.add_label_lags(X[start : start + batch.n])
        self.rows.extend(rows)
        ids = IDS[start : start + batch.n]
        scored = learner.score(rows)
        asked = learner.query(rows, scored, ids)
        learner.expire_requests([id for id in asked.ids if int(id) % 2])
        chances = dict(zip(asked.ids, asked.propensity.tolist(), strict=True))
        places = sorted({i for i in map(int, [*ids, *asked.ids]) if i % 2 == 0})
        if places:
            labels = np.where((X[places, 0] < 0.5) ^ batch.flipped, "a", "b")
            predicted = [scored.labels[i - start] if i >= start else None for i in places]
            trainings += learner.learn(
                [IDS[i] for i in places],
                np.stack([self.rows[i] for i in places]),
                np.where(X[places, 1] < 0.1, "c", labels),
                tick=tick,
                propensity=[chances.get(IDS[i], np.nan) for i in places],
                predicted=predicted if batch.told else None,
            )
        return asked.ids, trainings

    def arrive(self):
        running = self.learner.trainer.running_training
        made = self.learner.trainer.wait_for_training(running.version) if running else None
        return self.learner.deploy(made)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([WorkingSet(), *WORKING_SETS]),
    st.sampled_from([*SCHEDULES, LIMITED, BACKGROUND, FOLLOWING]),
    st.sampled_from(QUERIES),
    st.integers(0, 2),
    st.booleans(),
    BATCHES,
)
@pytest.mark.slow
def test_a_learner_restored_before_every_batch_goes_on_as_if_never_stopped(
    working_set, schedule, query, label_lags, calibrate, batches
):
    settings = {"query": query, "label_lags": label_lags, "calibrate": calibrate}
    steady, stopped = (Following(made(working_set, schedule, **settings)) for _ in range(2))
    tick = 0
    for batch in batches:
        tick += batch.passed
        stopped.learner = StreamLearner.restore(stopped.learner.snapshot())
        assert steady.step(batch, tick) == stopped.step(batch, tick)
        first, second = steady.learner.snapshot(), stopped.learner.snapshot()
        assert first.keys() == second.keys()
        for name, array in first.items():
            np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_a_drift_before_and_after_a_restart_is_the_same_drift():
    for schedule in SCHEDULES:
        steady = Following(made(WorkingSet(), schedule, experts="committee"))
        for at in range(0, 350, 25):
            steady.step(Batch(25, 0, flipped=False, told=True, arrives=False), at)
        stopped = Following(StreamLearner.restore(steady.learner.snapshot()))
        stopped.rows = list(steady.rows)
        after = Batch(25, 0, flipped=True, told=True, arrives=False)
        kinds = [
            [training.kind for at in range(350, 650, 25) for training in one.step(after, at)[1]]
            for one in (steady, stopped)
        ]
        assert kinds[0] == kinds[1]
        assert "drift" in kinds[0]
