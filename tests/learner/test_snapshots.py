"""A learner that is restored from a snapshot continues as if it had never stopped."""

import json
import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError, ModelFileError
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet
from streamboost.storage import pack_json, read_arrays, unpack_json, write_arrays

NAMES = ["score", "query", "learn", "arrive", "expire", "swap", "foreign", "widen"]
NAMES += ["learn", "retrain", "pause_training", "resume_training"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 25),
    ),
    max_size=14,
)
STRATEGIES = st.builds(
    QueryConfig,
    strategy=st.sampled_from(["margin", "random"]),
    budget=st.sampled_from([0.05, 0.3]),
    audit=st.sampled_from([0.0, 0.2]),
    window=st.just(20),
)
WORKING_SETS = st.sampled_from(
    [WorkingSet(), WorkingSet(size=15), WorkingSet(weights="half_life", half_life=5.5)]
)
SCHEDULES = st.sampled_from(
    [
        Schedule(),
        Schedule(growth=3, extend_every=4, extend_estimators=2, max_estimators=13),
        Schedule(growth=1.3, retrain_every=7, extend_every=None),
        Schedule(growth=1.3, promotion="better", n_evaluation_labels=3),
        Schedule(training="background", extend_every=4, extend_estimators=2),
        Schedule(training="background", promotion="better", n_evaluation_labels=3),
    ]
)


@cache
def foreign():
    """Return a committee of another family, trained when it is first asked for."""
    return GambleClassifier(n_estimators=3).train(X, np.array(Y), seed=1)


class Run:
    """One learner taken through steps; every step's answer is comparable."""

    def __init__(self, learner):
        self.learner = learner
        self.at = 0
        self.width = 3
        self.first_committee = None

    def rows(self, n):
        start, self.at = self.at, (self.at + n) % 250
        padding = np.full((n, self.width - 3), 0.5, dtype=np.float32)
        return slice(start, start + n), np.hstack([X[start : start + n], padding])

    def step(self, name, n):
        where, rows = self.rows(n)
        scored = self.learner.score(rows)
        if name == "score":
            return scored
        if name == "query":
            return self.learner.query(rows, scored, IDS[where])
        if name == "learn":
            return self.learner.learn(IDS[where], rows, Y[where], tick=n, propensity=[0.5] * n)
        if name == "expire":
            return self.learner.expire_requests(IDS[where])
        if name == "swap":
            self.first_committee = self.first_committee or self.learner.committee
            return self.learner.deploy(self.first_committee)
        if name == "foreign":
            return self.learner.deploy(foreign())
        if name == "arrive":
            running = self.learner.trainer.running_training
            return self.learner.deploy(
                self.learner.trainer.wait_for_training(running.version) if running else None
            )
        if name in ("retrain", "pause_training", "resume_training"):
            return getattr(self.learner.trainer, name)()
        self.width += 1
        return self.learner.widen_rows(self.width)


def assert_same_answer(first, second):
    assert type(first) is type(second)
    if not hasattr(first, "__slots__"):
        assert first == second
        return
    for name in first.__slots__:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@settings(max_examples=100, deadline=None)
@given(STEPS, STRATEGIES, WORKING_SETS, SCHEDULES)
def test_a_learner_restored_at_every_step_goes_on_as_if_never_stopped(
    steps, strategy, working_set, schedule
):
    made = {"query": strategy, "working_set": working_set, "schedule": schedule}
    steady, stopped = Run(small(**made)), Run(small(**made))
    saved = stopped.learner.snapshot()
    for name, n in steps:
        stopped.learner = StreamLearner.restore(saved)
        assert_same_answer(stopped.step(name, n), steady.step(name, n))
        saved = stopped.learner.snapshot()
        assert_same(saved, steady.learner.snapshot())


def test_a_snapshot_survives_a_file(tmp_path):
    learner = small(query=QueryConfig(budget=0.3))
    learner.query(X[:80], learner.score(X[:80]), IDS[:80])
    learn(learner, 0, 40, propensity=[0.5] * 40)
    write_arrays(tmp_path / "learner", learner.snapshot(), kind="learner")
    arrays, _ = read_arrays(tmp_path / "learner", kind="learner")
    restored = StreamLearner.restore(arrays)
    assert_same(restored.snapshot(), learner.snapshot())
    assert learn(restored, 40, 80) == learn(learner, 40, 80)
    assert_same(restored.snapshot(), learner.snapshot())


@pytest.mark.parametrize("experts", [["committee", "linear"], ["committee", "young"], "committee"])
def test_a_learner_of_any_experts_is_restored_between_a_label_and_the_next_records(experts):
    learner = small(experts=experts)
    learn(learner, 0, 20)
    restored = StreamLearner.restore(learner.snapshot())
    for one in (learner, restored):
        one.query(X[20:40], one.score(X[20:40]), IDS[20:40])
    assert_same(learner.snapshot(), restored.snapshot())


def test_a_fresh_learner_survives_a_file(tmp_path):
    learner = small()
    write_arrays(tmp_path / "learner", learner.snapshot(), kind="learner")
    restored = StreamLearner.restore(read_arrays(tmp_path / "learner", kind="learner")[0])
    assert_same(restored.snapshot(), learner.snapshot())
    assert restored.n_features is None


@pytest.mark.parametrize("experts", ["committee", ["committee", "linear", "young"]])
def test_snapshots_are_not_changed_by_what_comes_after(experts):
    learner = small(experts=experts, query=QueryConfig(budget=1.0), working_set=WorkingSet(size=30))
    snapshots = []
    for start in range(0, 300, 10):
        snapshots.append((learner.snapshot(), pickle.dumps(learner.snapshot())))
        where = slice(start, start + 10)
        learner.query(X[where], learner.score(X[where]), IDS[where])
        learn(learner, start, start + 10)
        if start % 30 == 20:
            learner.correct(IDS[start - 5 : start], Y[start : start + 5])
        if start == 250:
            learner.rename_class("low", None)
    for snapshot, kept in snapshots:
        assert_same(snapshot, pickle.loads(kept))


class Foreign(SketchLogitBoostClassifier):
    pass


def test_an_estimator_that_a_snapshot_cannot_name_is_refused_there():
    learner = small(estimator=Foreign())
    with pytest.raises(ConfigurationError, match="Foreign"):
        learner.snapshot()


def test_an_estimator_parameter_that_json_cannot_hold_is_refused_by_name():
    learner = small(estimator=SketchLogitBoostClassifier(random_state=np.random.RandomState(0)))
    with pytest.raises(ConfigurationError, match="random_state"):
        learner.snapshot()


def test_arrays_that_are_no_snapshot_are_refused():
    with pytest.raises(ModelFileError, match="not a learner's snapshot"):
        StreamLearner.restore({})
    with pytest.raises(ModelFileError, match="not a learner's snapshot"):
        StreamLearner.restore({"about": np.zeros(3, dtype=np.uint8)})


@pytest.mark.parametrize(
    ("change", "words"),
    [({"format": 99}, "format 99"), ({"estimator": {"name": "Oracle", "params": {}}}, "Oracle")],
)
def test_a_snapshot_of_another_release_is_refused_by_what_it_has(change, words):
    arrays = small().snapshot()
    about = {**unpack_json(arrays["about"]), **change}
    json.dumps(about)
    with pytest.raises(ModelFileError, match=words):
        StreamLearner.restore({**arrays, "about": pack_json(about)})


@settings(max_examples=40, deadline=None)
@given(
    STRATEGIES,
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=6),
)
@pytest.mark.slow
def test_requests_stay_within_budget_whatever_the_delay_and_the_restarts(strategy, delay, batches):
    learner = small(query=strategy, schedule=Schedule(growth=1.5, extend_every=None))
    asked, pending, at = np.zeros(0, dtype=int), [], 0
    for size, restart in batches:
        if restart:
            learner = StreamLearner.restore(learner.snapshot())
        where = [(at + i) % len(X) for i in range(size)]
        ids = [str(at + i) for i in range(size)]
        requests = learner.query(X[where], learner.score(X[where]), ids)
        asked = np.concatenate([asked, np.isin(ids, requests.ids)])
        at += size
        pending += map(int, requests.ids)
        due = [i for i in pending if i + delay < at]
        pending = [i for i in pending if i + delay >= at]
        rows = [i % len(X) for i in due]
        learner.learn([str(i) for i in due], X[rows], [Y[i] for i in rows])
    share = strategy.budget_share
    level = np.concatenate([[0], np.cumsum(asked)]) * share.denominator
    level = level - np.arange(len(level)) * share.numerator
    assert level.max() <= 0
    assert (level - np.minimum.accumulate(level)).max() <= strategy.burst * share.denominator
