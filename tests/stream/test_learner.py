import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.storage import pack_json, read_arrays, unpack_json, write_arrays
from streamboost.stream import QueryStrategy, Schedule, StreamLearner, WorkingSet

RNG = np.random.default_rng(12)
X = RNG.random((300, 3), dtype=np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.where(X[:, 0] < 0.3, "low", np.where(X[:, 1] < 0.5, "middle", "high")).tolist()
IDS = [str(i) for i in range(len(X))]


def small(**settings):
    estimator = SketchLogitBoostClassifier(
        n_estimators=8, learning_rate=0.5, max_leaf_nodes=4, min_child_weight=0.01
    )
    return StreamLearner(**{"estimator": estimator, "random_state": 3, **settings})


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def learn(learner, start, stop, **more):
    return learner.learn(IDS[start:stop], X[start:stop], Y[start:stop], **more)


def test_a_class_is_predicted_from_its_first_label_on():
    learner = small()
    assert learner.score(X[:1]).labels.tolist() == [None]
    learn(learner, 0, 1)
    assert learner.score(X[:2]).labels.tolist() == [Y[0], Y[0]]


def test_predicting_gives_the_labels_of_scoring():
    learner = small()
    for stop in (0, 1, 40):
        learn(learner, learner.n_labels, stop)
        assert learner.predict(X).tolist() == learner.score(X).labels.tolist()


def test_the_first_committee_is_trained_as_soon_as_two_classes_have_a_label():
    learner = small()
    first = next(i for i, label in enumerate(Y) if label != Y[0])
    trainings = learn(learner, 0, first + 3)
    assert trainings[0].kind == "first"
    assert trainings[0].labels == first + 1
    assert [t.version for t in trainings] == [1, 2, 3]
    assert learner.committee.version == 3


def test_trainings_do_not_depend_on_how_labels_are_cut_into_batches():
    whole, parts = small(), small()
    trainings = learn(whole, 0, 60)
    cut = [t for a, b in [(0, 1), (1, 30), (30, 30), (30, 60)] for t in learn(parts, a, b)]
    assert tuple(cut) == trainings
    assert_same(whole.snapshot(), parts.snapshot())


def test_every_training_has_its_own_seed_and_the_same_run_the_same_seeds():
    first, second, other = small(), small(), small(random_state=4)
    seeds = [t.seed for t in learn(first, 0, 40)]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [t.seed for t in learn(second, 0, 40)]
    assert seeds[0] != learn(other, 0, 40)[0].seed


def test_asking_leaves_the_seeds_of_trainings_alone():
    asking, silent = small(), small()
    asking.query(X, asking.score(X), IDS)
    assert learn(asking, 0, 40) == learn(silent, 0, 40)


def test_a_committee_is_trained_on_exactly_the_rows_up_to_its_label():
    learner = small()
    last = learn(learner, 0, 50)[-1]
    expected = learner.estimator.train(X[: last.labels], np.array(Y[: last.labels]), seed=last.seed)
    np.testing.assert_array_equal(learner.committee.decision(X), expected.decision(X))


def test_weights_reach_the_training():
    working_set = WorkingSet(size=20, weights="half_life", half_life=4)
    learner = small(working_set=working_set, schedule=Schedule(growth=1.01, extend_every=None))
    last = learn(learner, 0, 50)[-1]
    expected = learner.estimator.train(
        X[30:50], np.array(Y[30:50]), working_set.weigh(20), seed=last.seed
    )
    assert last.labels == 50
    np.testing.assert_array_equal(learner.committee.decision(X), expected.decision(X))


def test_extensions_add_rounds_to_the_committee():
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    rounds = learner.committee.n_rounds
    (training,) = learn(learner, 30, 35)
    assert training.kind == "extend"
    assert learner.committee.n_rounds == rounds + 3


def test_extensions_do_not_put_retraining_off():
    learner = small(schedule=Schedule(growth=2, extend_every=3, retrain_every=10))
    learner.learn(IDS[:28], X[:28], ["a", "b"] * 14)
    done = learner.learn(IDS[28:60], X[28:60], ["a", "b"] * 16)
    assert [t.labels for t in done if t.kind == "retrain"] == [36, 46, 56]
    assert [t.labels for t in done if t.kind == "extend"] == [
        29,
        32,
        35,
        39,
        42,
        45,
        49,
        52,
        55,
        59,
    ]


@pytest.mark.parametrize("estimator", [SketchLogitBoostClassifier, GambleClassifier])
def test_a_class_never_seen_joins_at_the_next_training_even_an_extension(estimator):
    schedule = Schedule(growth=50, extend_every=5, extend_estimators=3)
    learner = small(estimator=estimator(n_estimators=8), schedule=schedule)
    learn(learner, 0, 30)
    labels = ["brand new", *Y[31:35]]
    (training,) = learner.learn(IDS[30:35], X[30:35], labels)
    assert training.kind == "retrain"
    assert "brand new" in learner.committee.classes


def test_a_working_set_of_one_class_keeps_the_committee_there_is():
    learner = small(working_set=WorkingSet(size=4))
    learner.learn(IDS[:2], X[:2], ["a", "b"])
    assert learner.committee.version == 1
    learner.learn(IDS[2:12], X[2:12], ["b"] * 10)
    assert set(learner.committee.classes) == {"a", "b"}
    assert learner.n_labels == 12


def test_rows_whose_weight_vanishes_do_not_count_as_a_second_class():
    learner = small(working_set=WorkingSet(weights="half_life", half_life=0.01))
    learner.learn(IDS[:40], X[:40], ["a"] * 20 + ["b"] * 20)
    assert set(learner.committee.classes) == {"a", "b"}
    assert len(learner.query(X, learner.score(X), IDS)) > 0


def test_labels_that_differ_in_trailing_nuls_are_two_classes_also_after_a_restore():
    learner = small()
    labels = ["a" if x < 0.5 else "a\0" for x in X[:60, 0]]
    learner.learn(IDS[:60], X[:60], labels)
    restored = StreamLearner.restore(learner.snapshot())
    assert set(restored.committee.classes) == {"a", "a\0"}
    assert {*restored.score(X).labels} == {"a", "a\0"}


def test_a_long_label_costs_its_own_length_only():
    learner = small()
    labels = ["x" * 900_000, *Y[1:60]]
    tracemalloc.start()
    learner.learn(IDS[:60], X[:60], labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert learner.classes[0] == labels[0]
    assert peak < 20e6


def test_whole_number_labels_come_back_as_whole_numbers():
    learner = small()
    learner.learn(IDS[:20], X[:20], np.arange(20) % 3 - 1)
    assert {type(label) for label in learner.score(X).labels} == {int}
    assert learner.classes == [-1, 0, 1]


def test_records_are_ranked_by_the_committee_that_serves_now():
    """Scores taken before a training are not compared with margins taken after it."""
    learner = small(query=QueryStrategy(budget=0.3))
    learn(learner, 0, 40)
    stale = learner.score(X[:50])
    learn(learner, 40, 45)
    restored = StreamLearner.restore(learner.snapshot())
    fresh = restored.score(X[:50])
    assert stale.version != fresh.version
    first = learner.query(X[:50], stale, IDS[:50])
    second = restored.query(X[:50], fresh, IDS[:50])
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.utility, second.utility)


def test_the_cold_start_lasts_until_there_are_two_labels_per_class():
    def usefulness_of_requests(n_labels):
        """The mean rank, from 0 to 1, of the requested records among all by utility."""
        learner = small(query=QueryStrategy(budget=0.2, audit=0.0))
        learn(learner, 0, n_labels)
        scored = learner.score(X)
        utility = 1 / (1 + scored.margins)
        asked = learner.query(X, scored, IDS).utility[:, None]
        return np.mean((utility < asked) + 0.5 * (utility == asked))

    assert len(set(Y[:5])) == 3
    assert usefulness_of_requests(5) < 0.6
    assert usefulness_of_requests(6) > 0.7


def test_the_ledger_counts_what_was_asked_answered_and_given_up():
    learner = small(query=QueryStrategy(budget=0.2))
    requests = learner.query(X[:100], learner.score(X[:100]), IDS[:100])
    n = len(requests)
    chances = [requests.propensity[0], np.nan]
    learner.learn([requests.ids[0], "unasked"], X[:2], Y[:2], propensity=chances)
    learner.expire(requests.ids[1:3])
    ledger = learner.ledger
    assert (ledger.records, ledger.requests, ledger.answered, ledger.expired) == (100, n, 1, 2)
    assert ledger.pending == n - 3
    assert ledger.audits == requests.audit.sum()


def test_only_what_was_asked_for_is_answered_or_given_up_and_once():
    learner = small(query=QueryStrategy(budget=0.2))
    requests = learner.query(X[:100], learner.score(X[:100]), IDS[:100])
    first, second = requests.ids[:2]
    for _ in range(2):
        learner.expire([first, "never asked for"])
        learner.learn([first, second], X[:2], Y[:2], propensity=[0.2, 0.2])
    ledger = learner.ledger
    assert (ledger.answered, ledger.expired) == (1, 1)
    assert ledger.pending == len(requests) - 2


@pytest.mark.parametrize("seed", [-1, 0.5, None, "7"])
def test_a_seed_that_is_none_is_refused_by_name(seed):
    with pytest.raises(ConfigurationError, match=r"random_state is .*: give a whole number"):
        StreamLearner(random_state=seed)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ids": IDS[:3]}, "3 ids"),
        ({"y": Y[:5]}, "5 labels"),
        ({"y": [*Y[:3], 7]}, "one kind"),
        ({"X": np.full((4, 3), np.inf)}, "infinite"),
        ({"X": np.ones((4, 2))}, "2 features"),
        ({"propensity": [0.5, 0.5, 0.5, 2.0]}, "propensity"),
        ({"tick": 0.5}, "tick"),
    ],
)
def test_nothing_is_learned_from_a_batch_with_anything_wrong(wrong, words):
    learner = small(n_features=3)
    learn(learner, 0, 10)
    before = learner.snapshot()
    with pytest.raises(DataError, match=words):
        learner.learn(**{"ids": IDS[10:14], "X": X[10:14], "y": Y[10:14], **wrong})
    assert_same(learner.snapshot(), before)


def test_predictions_of_another_batch_are_refused():
    learner = small()
    with pytest.raises(DataError, match="3 predictions for 4"):
        learner.query(X[:4], learner.score(X[:3]), IDS[:4])


def test_an_empty_batch_changes_nothing():
    learner = small(n_features=3)
    before = learner.snapshot()
    assert learner.learn([], X[:0], []) == ()
    assert len(learner.query(X[:0], learner.score(X[:0]), [])) == 0
    assert_same(learner.snapshot(), before)


def test_a_swapped_committee_serves_under_the_next_version():
    learner = small()
    learn(learner, 0, 10)
    old = learner.committee
    learn(learner, 10, 20)
    made = learner.committee.version
    learner.swap(old)
    assert learner.score(X).version == made + 1
    np.testing.assert_array_equal(learner.committee.decision(X), old.decision(X))
    learner.swap(replace(small().estimator.train(X, np.array(Y), seed=1), version=99))
    assert learner.committee.version == made + 2
    (training, *_) = learn(learner, 20, 21)
    assert training.version == made + 3


def test_scores_taken_before_a_swap_are_not_those_of_a_committee_of_the_same_number():
    learner, other = small(query=QueryStrategy(budget=0.3)), small(random_state=9)
    for one in (learner, other):
        learn(one, 0, 40)
    stale = learner.score(X[:50])
    assert stale.version == other.committee.version
    learner.swap(other.committee)
    restored = StreamLearner.restore(learner.snapshot())
    first = learner.query(X[:50], stale, IDS[:50])
    second = restored.query(X[:50], restored.score(X[:50]), IDS[:50])
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.utility, second.utility)


@pytest.mark.parametrize("restart", [False, True])
def test_a_swapped_committee_of_another_family_serves_until_a_training_anew(restart):
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    foreign = GambleClassifier(n_estimators=4).train(X, np.array(Y), seed=1)
    learner.swap(foreign)
    if restart:
        learner = StreamLearner.restore(learner.snapshot())
    np.testing.assert_array_equal(learner.committee.decision(X), foreign.decision(X))
    (training,) = learn(learner, 30, 35)
    assert training.kind == "retrain"
    assert [t.kind for t in learn(learner, 35, 40)] == ["extend"]


def test_a_swapped_committee_of_the_same_family_is_extended():
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    learner.swap(learner.estimator.train(X, np.array(Y), seed=1, n_estimators=20))
    assert [t.kind for t in learn(learner, 30, 35)] == ["extend"]
    assert learner.committee.n_rounds == 23


def test_a_swapped_committee_of_one_class_serves_until_a_training_anew():
    learner = small(query=QueryStrategy(budget=0.3))
    learn(learner, 0, 30)
    learner.swap(learner.estimator.train(X, np.array(["high"] * len(X)), seed=1))
    assert set(learner.score(X).labels) == {"high"}
    learner.query(X, learner.score(X), IDS)
    assert learn(learner, 30, 41)[0].kind == "retrain"


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (Y, np.arange(300) % 2, "classes.0. is 0, and this learner's labels are text"),
        (
            list(range(300)),
            np.array(Y),
            "classes.0. is 'high', and this learner's labels are whole",
        ),
        (list(range(300)), np.arange(300) % 2 / 2, "classes.0. is 0.0: labels are text or whole"),
        (list(range(300)), np.arange(300) % 2 > 0, "classes.0. is False"),
    ],
)
def test_a_committee_whose_classes_are_no_labels_here_is_refused(labels, classes, words):
    learner = small()
    learner.learn(IDS[:10], X[:10], labels[:10])
    before = learner.snapshot()
    with pytest.raises(DataError, match=words):
        learner.swap(learner.estimator.train(X, classes, seed=1))
    assert_same(learner.snapshot(), before)


def test_the_first_labels_are_of_the_kind_of_the_committee_that_serves():
    learner = small()
    learner.swap(learner.estimator.train(X, np.array(Y), seed=1))
    learner = StreamLearner.restore(learner.snapshot())
    with pytest.raises(DataError, match="labels are text"):
        learner.learn(IDS[:1], X[:1], [1])
    learn(learner, 0, 10)


@pytest.mark.parametrize("burst", [1, 20])
@pytest.mark.parametrize("utility", ["random", "margin"])
def test_the_whole_budget_asks_for_every_record(utility, burst):
    learner = small(query=QueryStrategy(utility=utility, budget=1, audit=0, burst=burst))
    for start in range(0, 300, 50):
        rows, ids = X[start : start + 50], IDS[start : start + 50]
        requests = learner.query(rows, learner.score(rows), ids)
        assert requests.ids == ids
        assert (requests.propensity == 1).all()
        learn(learner, start, start + 10)


def test_a_swap_has_earlier_records_measured_anew_even_under_the_same_number():
    learner = small()
    learn(learner, 0, 20)
    learner.query(X[:30], learner.score(X[:30]), IDS[:30])
    other = learner.estimator.train(X, np.array(Y), seed=9)
    learner.swap(replace(other, version=learner.committee.version))
    learner.query(X[:0], learner.score(X[:0]), [])
    measured = learner.snapshot()["window.utility"]
    np.testing.assert_array_equal(measured, 1 / (1 + learner.score(X[:30]).margins))


def test_swapping_nothing_leaves_the_committee():
    learner = small()
    learn(learner, 0, 10)
    committee = learner.committee
    learner.swap(None)
    assert learner.committee is committee


def test_a_committee_of_more_columns_is_refused():
    wide = small().estimator.train(np.ones((4, 9), dtype=np.float32), np.arange(4) % 2, seed=0)
    learner = small(n_features=3)
    with pytest.raises(DataError, match="9 features"):
        learner.swap(wide)


def test_columns_may_join_and_the_next_training_uses_them():
    learner = small(schedule=Schedule(growth=50, extend_every=5))
    learn(learner, 0, 20)
    learner.widen(4)
    wider = np.hstack([X, np.arange(300, dtype=np.float32)[:, None] % 2])
    labels = ["odd" if i % 2 else "even" for i in range(20, 80)]
    assert learner.score(wider[:2]).version == learner.committee.version
    trainings = learner.learn(IDS[20:80], wider[20:80], labels)
    assert trainings[0].kind == "retrain"
    assert learner.committee.n_features == 4
    with pytest.raises(DataError, match="may join but not leave"):
        learner.widen(3)


FOREIGN = GambleClassifier(n_estimators=3).train(X, np.array(Y), seed=1)
NAMES = ["score", "query", "learn", "arrive", "expire", "swap", "foreign", "widen"]
NAMES += ["learn", "retrain", "pause", "go_on"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 25),
    ),
    max_size=14,
)
STRATEGIES = st.builds(
    QueryStrategy,
    utility=st.sampled_from(["margin", "random"]),
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
        Schedule(growth=1.3, promotion="better", shadow=3),
        Schedule(training="background", extend_every=4, extend_estimators=2),
        Schedule(training="background", promotion="better", shadow=3),
    ]
)


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
            return self.learner.expire(IDS[where])
        if name == "swap":
            self.first_committee = self.first_committee or self.learner.committee
            return self.learner.swap(self.first_committee)
        if name == "foreign":
            return self.learner.swap(FOREIGN)
        if name == "arrive":
            running = self.learner.trainer.running
            return self.learner.swap(
                self.learner.trainer.wait(running.version) if running else None
            )
        if name in ("retrain", "pause", "go_on"):
            return getattr(self.learner.trainer, name)()
        self.width += 1
        return self.learner.widen(self.width)


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
    for name, n in steps:
        stopped.learner = StreamLearner.restore(stopped.learner.snapshot())
        assert_same_answer(stopped.step(name, n), steady.step(name, n))
        assert_same(stopped.learner.snapshot(), steady.learner.snapshot())


def test_a_snapshot_survives_a_file(tmp_path):
    learner = small(query=QueryStrategy(budget=0.3))
    learner.query(X[:80], learner.score(X[:80]), IDS[:80])
    learn(learner, 0, 40, propensity=[0.5] * 40)
    write_arrays(tmp_path / "learner", learner.snapshot(), kind="learner")
    arrays, _ = read_arrays(tmp_path / "learner", kind="learner")
    restored = StreamLearner.restore(arrays)
    assert_same(restored.snapshot(), learner.snapshot())
    assert learn(restored, 40, 80) == learn(learner, 40, 80)
    assert_same(restored.snapshot(), learner.snapshot())


def test_a_fresh_learner_survives_a_file(tmp_path):
    learner = small()
    write_arrays(tmp_path / "learner", learner.snapshot(), kind="learner")
    restored = StreamLearner.restore(read_arrays(tmp_path / "learner", kind="learner")[0])
    assert_same(restored.snapshot(), learner.snapshot())
    assert restored.n_features is None


def test_a_snapshot_is_not_changed_by_what_comes_after():
    learner = small(working_set=WorkingSet(size=5))
    learn(learner, 0, 10)
    snapshot = learner.snapshot()
    kept = {name: array.copy() for name, array in snapshot.items()}
    learner.query(X, learner.score(X), IDS)
    learn(learner, 10, 40)
    assert_same(snapshot, kept)


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
    share = strategy.share
    level = np.concatenate([[0], np.cumsum(asked)]) * share.denominator
    level = level - np.arange(len(level)) * share.numerator
    assert level.max() <= 0
    assert (level - np.minimum.accumulate(level)).max() <= strategy.burst * share.denominator
