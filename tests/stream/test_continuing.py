"""Stopped and restored at any place, a learner goes on as if it had never stopped."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.boosting.sketch import SketchLogitBoostClassifier
from streamboost.stream import QueryStrategy, Schedule, StreamLearner, WorkingSet

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
    at_limit="drop_oldest",
    shadow=5,
)
# Batch size, milliseconds passed, whether the concept is the other one, and whether labels come
# with the predictions the records got.
BATCHES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 900), st.booleans(), st.booleans()), max_size=10
)


def made(working_set, schedule):
    return StreamLearner(
        SketchLogitBoostClassifier(n_estimators=3, max_leaf_nodes=4, min_child_weight=0.01),
        working_set=working_set,
        schedule=schedule,
        query=QueryStrategy(budget=0.5, audit=0.1),
        random_state=3,
    )


def step(learner, start, n, tick, flipped, told):
    """Query n records and learn every second, with the chances of those that were asked for."""
    rows, ids = X[start : start + n], IDS[start : start + n]
    scored = learner.score(rows)
    asked = learner.query(rows, scored, ids)
    chances = dict(zip(asked.ids, asked.propensity.tolist(), strict=True))
    labels = np.where((rows[:, 0] < 0.5) ^ flipped, "a", np.where(rows[:, 1] < 0.1, "c", "b"))
    trainings = learner.learn(
        ids[::2],
        rows[::2],
        labels[::2],
        tick=tick,
        propensity=[chances.get(id, np.nan) for id in ids[::2]],
        predicted=scored.labels[::2] if told else None,
    )
    return asked.ids, trainings


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(WORKING_SETS), st.sampled_from([*SCHEDULES, LIMITED]), BATCHES)
def test_a_learner_restored_before_every_batch_goes_on_as_if_never_stopped(
    working_set, schedule, batches
):
    steady, stopped = made(working_set, schedule), made(working_set, schedule)
    start = tick = 0
    for n, passed, flipped, told in batches:
        tick += passed
        stopped = StreamLearner.restore(stopped.snapshot())
        taken = [step(one, start, n, tick, flipped, told) for one in (steady, stopped)]
        assert taken[0] == taken[1]
        first, second = steady.snapshot(), stopped.snapshot()
        assert first.keys() == second.keys()
        for name, array in first.items():
            np.testing.assert_array_equal(array, second[name], err_msg=name)
        start += n


def test_a_drift_before_and_after_a_restart_is_the_same_drift():
    for schedule in SCHEDULES:
        steady = made(WorkingSet(), schedule)
        for at in range(0, 350, 25):
            step(steady, at, 25, at, flipped=False, told=True)
        stopped = StreamLearner.restore(steady.snapshot())
        kinds = [
            [t.kind for at in range(350, 650, 25) for t in step(one, at, 25, at, True, True)[1]]
            for one in (steady, stopped)
        ]
        assert kinds[0] == kinds[1]
        assert "drift" in kinds[0]
