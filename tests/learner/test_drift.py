import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import DataError
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet
from streamboost.learner.drift import RiseDetector

DETECTORS = ("adwin", "page_hinkley", "kswin")
RNG = np.random.default_rng(8)
X = RNG.random((1200, 2), dtype=np.float32)


def found(detector, values):
    """Return (place, values since the change) of every change for the worse."""
    results = [(i, detector.update(value)) for i, value in enumerate(values)]
    return [(i, n) for i, n in results if n is not None]


def errors(*parts, seed=0):
    """Return wrong predictions as (share, number) parts say."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.random(n) < share for share, n in parts])


@pytest.mark.parametrize("kind", DETECTORS)
@pytest.mark.quick_once
def test_a_change_for_the_worse_is_found_and_where_it_began(kind):
    (found_at, n), *more = found(RiseDetector(kind, seed=1), errors((0.1, 600), (0.8, 150)))
    assert found_at > 600
    assert abs(found_at + 1 - n - 600) <= 50
    assert not more


@pytest.mark.parametrize("kind", DETECTORS)
@pytest.mark.quick_once
def test_a_change_for_the_better_is_none(kind):
    assert found(RiseDetector(kind, seed=1), errors((0.8, 600), (0.1, 300))) == []


@pytest.mark.parametrize("kind", DETECTORS)
@pytest.mark.quick_once
def test_a_change_is_found_from_where_it_began_also_after_a_bad_beginning(kind):
    last = None
    detector = RiseDetector(kind, seed=1)
    for i, wrong in enumerate(errors((0.7, 60), (0.1, 900), (0.7, 100))):
        n = detector.update(wrong)
        last = last or (None if n is None else i + 1 - n)
    assert last is not None
    assert abs(last - 960) <= 50


@pytest.mark.parametrize("kind", ["adwin", "page_hinkley"])
def test_where_nothing_changes_nothing_is_found(kind):
    assert found(RiseDetector(kind, seed=1), errors((0.2, 20_000))) == []


@pytest.mark.slow
def test_the_values_kept_are_bounded_and_a_long_quiet_time_hides_no_change():
    detector = RiseDetector("adwin", seed=1)
    lengths = []
    for wrong in errors((0.1, 9_000)):
        assert detector.update(wrong) is None
        lengths.append(len(detector.state()))
    assert max(lengths) < 4096
    assert len(found(detector, errors((0.8, 100), seed=3))) == 1


@pytest.mark.parametrize("kind", DETECTORS)
@settings(max_examples=15, deadline=None)
@given(before=st.integers(0, 300), seed=st.integers(0, 5))
@pytest.mark.quick_once
def test_a_resumed_detector_finds_what_the_other_finds(kind, before, seed):
    values = errors((0.05, 200), (0.9, 100), seed=seed)
    steady, resumed = RiseDetector(kind, seed=seed), RiseDetector(kind, seed=seed)
    first = found(steady, values[:before])
    resumed.resume(steady.state())
    assert len(first) <= 1
    assert found(resumed, values[before:]) == found(steady, values[before:])


def test_a_detector_resumed_beyond_its_bound_goes_on_as_if_never_stopped():
    values = errors((0.1, 5_000), (0.6, 300))
    steady, resumed = RiseDetector("adwin", seed=0), RiseDetector("adwin", seed=0)
    assert found(steady, values[:4_500]) == []
    resumed.resume(steady.state())
    assert found(resumed, values[4_500:]) == found(steady, values[4_500:]) != []


def concept(rows, flipped):
    """Return labels that a stump can tell, the other way round where `flipped`."""
    return np.where((rows[:, 0] < 0.5) ^ flipped, "a", "b").tolist()


def learner(on_drift="adwin", drift_signal="error", working_set=None, **schedule):
    settings = {"growth": 1e9, "extend_every": None, "retrain_every": 400} | schedule
    return StreamLearner(
        SketchLogitBoostClassifier(n_estimators=6, max_leaf_nodes=4, min_child_weight=0.01),
        working_set=working_set or WorkingSet(),
        schedule=Schedule(on_drift=on_drift, drift_signal=drift_signal, **settings),
        query=QueryConfig(budget=1, audit=0),
        random_state=4,
        experts="committee",
    )


def learn(one, start, stop, flipped, **more):
    ids = [str(i) for i in range(start, stop)]
    return one.learn(ids, X[start:stop], concept(X[start:stop], flipped), **more)


def test_drift_retrains_on_the_rows_since_the_change_and_drops_the_others():
    one = learner()
    learn(one, 0, 450, False)
    trainings = learn(one, 450, 560, True)
    (drift,) = [t for t in trainings if t.kind == "drift"]
    held = one.snapshot()["rows.order"]
    assert 450 < drift.labels < 500
    assert abs(int(held[0]) - 451) <= 5
    rows = X[held[0] - 1 : drift.labels]
    expected = one.estimator.train(rows, np.array(concept(rows, True)), seed=drift.seed)
    np.testing.assert_array_equal(one.committee.class_scores(X), expected.class_scores(X))
    assert np.mean(one.predict(X) == np.array(concept(X, True))) > 0.95


def test_without_a_detector_old_rows_stay():
    one = learner(on_drift=None)
    learn(one, 0, 450, False)
    learn(one, 450, 560, True)
    assert len(one.snapshot()["rows.order"]) == 560
    assert np.mean(one.predict(X) == np.array(concept(X, False))) > 0.9


def test_growth_starts_again_from_the_change():
    one = learner(growth=1.5, retrain_every=None)
    learn(one, 0, 450, False)
    trainings = learn(one, 450, 560, True)
    at = next(i for i, t in enumerate(trainings) if t.kind == "drift")
    steps = np.diff([t.labels for t in trainings[at:]])
    assert len(steps) >= 2
    assert steps[0] < 25


def test_a_cut_that_would_leave_one_class_waits_for_the_second():
    one = learner()
    learn(one, 0, 450, False)
    rows = X[450:560]
    trainings = one.learn([""] * 100, rows[:100], ["b"] * 100)
    assert [t.kind for t in trainings] == []
    assert len(one.snapshot()["rows.order"]) == 550
    (training,) = one.learn([""], rows[100:101], ["a"])
    assert training.kind == "drift"
    assert len(one.snapshot()["rows.order"]) < 110


def test_the_committee_is_judged_by_the_prediction_on_arrival_where_that_is_given():
    told, asked = learner(), learner()
    for one, predicted in [(told, ["b"] * 150), (asked, None)]:
        learn(one, 0, 300, False)
        one.learn([""] * 150, X[300:450], concept(X[300:450], False), predicted=predicted)
    assert told.snapshot()["rows.order"][0] > 250
    assert asked.snapshot()["rows.order"][0] == 1


def test_predictions_of_another_number_are_refused():
    one = learner()
    with pytest.raises(DataError, match="2 predictions for 3 records"):
        one.learn([""] * 3, X[:3], ["a", "b", "a"], predicted=["a", None])


def test_the_margin_notices_without_labels_and_the_next_of_two_classes_retrain():
    one = learner(drift_signal="margin", first=300)
    labels = np.array(concept(X, False))
    doubtful = X[:, 1] > 0.5
    labels[doubtful] = RNG.choice(["a", "b"], doubtful.sum())
    one.learn([""] * 300, X[:300], labels[:300])
    for rows in (X[~doubtful][:400], X[doubtful][:150]):
        for at in range(0, len(rows), 50):
            batch = rows[at : at + 50]
            one.query(batch, one.score(batch), [""] * len(batch))
    assert one.learn([""], X[:1], ["a"]) == ()
    (training,) = one.learn([""] * 2, X[1:3], ["a", "b"])
    assert training.kind == "drift"
    assert one.snapshot()["rows.order"].tolist() == [301, 302, 303]


def test_a_temperature_that_moves_is_no_drift():
    learner = StreamLearner(
        SketchLogitBoostClassifier(n_estimators=5),
        schedule=Schedule(growth=50, on_drift="page_hinkley", drift_signal="margin"),
        query=QueryConfig(budget=0.5),
    )
    learner.learn(["a", "b"], X[:2], ["low", "high"])
    scored = learner.score(X[:300])
    learner.query(X[:300], scored, [str(i) for i in range(300)])
    own = learner.snapshot()["drift.margin"]
    temperature = learner.evaluator.temperature
    temperature.resume(temperature.state() | {"value": 4.0})
    warm = learner.score(X[:300])
    assert warm.probabilities.max() < scored.probabilities.max()
    learner.query(X[:300], warm, [str(i) for i in range(300, 600)])
    values = learner.snapshot()["drift.margin"]
    np.testing.assert_allclose(values, np.tile(own, 2), atol=1e-9)


def test_without_predictions_the_committee_is_judged_as_it_is_corrected():
    labels = ["low", "high"] * 10 + ["new"] * 40
    told, untold = (
        StreamLearner(
            SketchLogitBoostClassifier(n_estimators=5),
            schedule=Schedule.per_label(growth=50, on_drift="adwin"),
        )
        for _ in range(2)
    )
    for i, label in enumerate(labels):
        row = X[i : i + 1]
        predicted = told.predict(row) if told.committee else None
        told.learn([str(i)], row, [label], predicted=predicted)
        untold.learn([str(i)], row, [label])
    wrong = untold.snapshot()["drift.error"]
    np.testing.assert_array_equal(wrong, told.snapshot()["drift.error"])
    assert wrong[-30:].mean() < 0.2
