import pickle

import numpy as np
import pandas as pd
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing
from slow import first_of_each, slow

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError, DataError
from streamboost.learner import Schedule, WorkingSet

CHECKS = first_of_each(checks.yield_checks(StreamBoostClassifier()))
SEGMENTS = list(datasets.ImageSegments().take(300))


class NumbersOnly(SketchLogitBoostClassifier):
    """A user's own estimator, without categorical_features."""

    def __init__(self, n_estimators=5):
        super().__init__(n_estimators=n_estimators)


def learned(n=60, **settings):
    model = StreamBoostClassifier(**{"seed": 1, **settings})
    for x, y in SEGMENTS[:n]:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "model",
    [
        StreamBoostClassifier(SketchLogitBoostClassifier(n_estimators=3)),
        *slow(StreamBoostClassifier()),
    ],
    ids=["3 rounds", "default"],
)
def test_river_check(check, model):
    check(model.clone())


def test_no_river_check_is_skipped():
    assert StreamBoostClassifier()._unit_test_skips() == set()


def test_nothing_is_predicted_before_the_first_label():
    model = StreamBoostClassifier()
    frame = pd.DataFrame([{"a": 1.0}, {"a": 2.0}], index=[7, 3])
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_many(frame).tolist() == [None, None]
    assert model.predict_proba_many(frame).shape == (2, 0)


def test_the_only_class_so_far_is_predicted():
    model = StreamBoostClassifier()
    model.learn_one({"a": 1.0}, "spam")
    assert model.predict_one({"a": 5.0}) == "spam"
    assert model.predict_proba_one({"a": 5.0}) == {"spam": 1.0}


def test_a_record_without_features_can_be_learned_and_predicted():
    model = StreamBoostClassifier()
    for y in ["spam", "ham", "ham"]:
        model.learn_one({}, y)
    assert model.predict_one({}) == "ham"
    model.learn_one({"a": 1.0}, "ham")
    assert sum(model.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1)


def test_predictions_can_be_explained():
    assert StreamBoostClassifier().committee is None
    model = learned(schedule=Schedule(growth=1.15, extend_every=10), label_lags=1)
    committee = model.committee
    owed = committee.contributions(np.zeros((1, committee.n_features)))
    n_fields = len(SEGMENTS[0][0])
    assert owed.shape == (1, len(committee.classes), 1 + n_fields + 1)


def test_labels_come_back_as_they_were_given():
    model = StreamBoostClassifier()
    for i in range(20):
        model.learn_one({"a": i % 2}, bool(i % 2))
    assert model.predict_one({"a": 1}) is True
    assert set(model.predict_proba_one({"a": 1})) == {True, False}


@pytest.mark.parametrize(
    "settings", [{}, {"label_lags": 2, "schedule": Schedule.per_label()}], ids=["default", "lags"]
)
def test_learning_many_equals_learning_one_by_one(settings):
    records = [dict(x, kind=f"k{i % 3}") for i, (x, _) in enumerate(SEGMENTS[:150])]
    for x in records[:30]:
        del x["kind"]  # it joins amid the first batch
    records[70]["region-centroid-row"] = None
    labels = [y for _, y in SEGMENTS[:150]]
    one, many = learned(0, **settings), learned(0, **settings)
    for x, y in zip(records[:120], labels, strict=False):
        one.learn_one(x, y)
    frame, answers = pd.DataFrame(records[:120]), pd.Series(labels[:120])
    for start, stop in [(0, 50), (50, 51), (51, 120)]:
        many.learn_many(frame[start:stop], answers[start:stop])
    for x in records[120:]:
        assert one.predict_proba_one(x) == many.predict_proba_one(x)


def test_predicting_many_keeps_the_index():
    model = learned()
    frame = pd.DataFrame([x for x, _ in SEGMENTS[60:65]], index=list("edcba"))
    assert model.predict_many(frame).index.tolist() == list("edcba")
    chances = model.predict_proba_many(frame)
    assert chances.index.tolist() == list("edcba")
    assert chances.idxmax(axis="columns").tolist() == model.predict_many(frame).tolist()


def test_a_feature_that_joins_late_is_used():
    model = StreamBoostClassifier(seed=1)
    rng = np.random.default_rng(0)
    for i in range(120):
        y = int(rng.integers(2))
        model.learn_one({"noise": rng.random()} | ({"signal": y} if i >= 40 else {}), y)
    assert [model.predict_one({"noise": 0.5, "signal": s}) for s in (0, 1)] == [0, 1]


def test_text_is_learned_as_categories_that_may_join_late():
    model = StreamBoostClassifier(seed=1)
    rng = np.random.default_rng(0)
    wanted = {"red": "stop", "amber": "stop", "green": "go", "blue": "go"}
    for i in range(160):
        colour = list(wanted)[rng.integers(2 if i < 60 else 4)]
        x = {"noise": rng.random(), "place": "here"} if i < 20 else {"noise": rng.random()}
        model.learn_one(x | {"colour": colour}, wanted[colour])
    assert {c: model.predict_one({"noise": 0.5, "colour": c}) for c in wanted} == wanted
    assert model.predict_one({"colour": "mauve"}) in ("stop", "go")


def test_text_and_lags_are_refused_with_an_estimator_that_takes_no_categories():
    estimator = NumbersOnly()
    with pytest.raises(DataError, match="feature 'colour' is 'red'"):
        StreamBoostClassifier(estimator).learn_one({"colour": "red"}, 1)
    with pytest.raises(ConfigurationError, match="NumbersOnly takes no categories"):
        StreamBoostClassifier(estimator, label_lags=1)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_predictions_and_another_seed_others():
    x = SEGMENTS[200][0]
    assert learned().predict_proba_one(x) == learned().predict_proba_one(x)
    assert learned().predict_proba_one(x) != learned(seed=2).predict_proba_one(x)


def test_a_pickled_model_goes_on_as_if_never_stopped():
    model = learned(80)
    twin = pickle.loads(pickle.dumps(model))
    for x, y in SEGMENTS[80:140]:
        assert model.predict_proba_one(x) == twin.predict_proba_one(x)
        model.learn_one(x, y)
        twin.learn_one(x, y)


def test_settings_reach_the_learner():
    model = learned(
        90,
        estimator=GambleClassifier(n_estimators=7),
        working_set=WorkingSet(size=50, weights="half_life", half_life=20),
        schedule=Schedule(growth=1.5, extend_every=None),
    )
    learner = model._learner
    assert learner.committee.n_rounds <= 7
    assert learner.working_set == model.working_set
    assert learner.schedule == model.schedule


@pytest.mark.slow
def test_label_sets_hold_the_true_label_as_often_as_asked():
    model = StreamBoostClassifier(coverage=0.8, seed=1)
    held = []
    for x, y in datasets.ImageSegments().take(1200):
        held.append(y in model.predict_set_one(x))
        model.learn_one(x, y)
    assert np.mean(held) == pytest.approx(0.8, abs=0.04)


def test_label_sets_are_refused_where_no_coverage_was_asked_for():
    with pytest.raises(ConfigurationError, match="coverage"):
        StreamBoostClassifier().predict_set_one({"a": 1.0})


RUNS = [(y, {"a": i / 50, "b": float(i % 7)}) for i in range(600) for y in [(i // 30) % 5]]


def accuracy(model, records=RUNS):
    stream = ((x, y) for y, x in records)
    return evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get()


@pytest.mark.slow
def test_a_schedule_per_label_follows_labels_that_follow_one_another_and_so_do_the_experts():
    alone, following = (
        accuracy(StreamBoostClassifier(schedule=schedule, experts="committee", seed=1))
        for schedule in (None, Schedule.per_label())
    )
    assert following >= 0.93 > alone + 0.05
    assert accuracy(StreamBoostClassifier(seed=1)) >= following - 0.02


def test_lags_let_the_committee_follow_labels():
    rng = np.random.default_rng(3)
    labels = np.flatnonzero(rng.random(600) < 0.1)
    records = [(int(np.searchsorted(labels, i) % 2), {"noise": rng.random()}) for i in range(600)]
    plain, lagged = (
        StreamBoostClassifier(label_lags=n, experts="committee", seed=1) for n in (0, 1)
    )
    assert accuracy(plain, records) < 0.65
    assert accuracy(lagged, records) > 0.85


def test_a_record_is_learned_with_the_lags_it_was_predicted_with_however_late_its_label():
    now, late = (StreamBoostClassifier(label_lags=2, seed=1) for _ in range(2))
    known = [({"a": 0.0}, "up"), ({"a": 1.0}, "down"), ({"a": 2.0}, "up")]
    for x, y in known:
        for model in (now, late):
            model.learn_one(x, y)
    late.predict_one({"a": 3.0})
    late.predict_proba_one({"a": 3.0})
    for model in (now, late):
        model.learn_one({"a": 4.0}, "down")
        model.learn_one({"a": 3.0}, "up")
    learned_rows = [m._learner.snapshot()["rows.X"][-1].tolist() for m in (now, late)]
    assert learned_rows == [[1, 0, 3], [0, 1, 3]]  # up is 0 and down 1, the newest first
    assert len(late._pending_rows) == 0


@pytest.mark.parametrize("delay", [1, 25])
def test_delayed_labels_are_learned(delay):
    model = StreamBoostClassifier(label_lags=1, schedule=Schedule.per_label(), seed=1)
    stream = ((dict(x, moment=i), y) for i, (x, y) in enumerate(SEGMENTS))
    right = evaluate.progressive_val_score(
        stream, model, metrics.Accuracy(), moment="moment", delay=delay
    )
    assert right.get() > 0.6


@pytest.mark.slow
def test_it_works_within_a_pipeline():
    numbers = compose.Discard("kind") | preprocessing.StandardScaler()
    model = (numbers + compose.SelectType(str)) | StreamBoostClassifier(seed=1)
    assert accuracy(model, [(y, dict(x, kind="same")) for x, y in SEGMENTS]) > 0.8
    assert model.clone().predict_one(SEGMENTS[0][0]) is None


@pytest.mark.slow
def test_it_runs_on_the_track_for_several_classes():
    track = evaluate.MultiClassClassificationTrack()
    segments = next(d for d in track if isinstance(d, datasets.ImageSegments))
    *_, last = track.run(StreamBoostClassifier(seed=1), segments)
    assert last["Step"] == 2310
    assert last["Accuracy"].get() >= 0.955


def test_the_estimator_given_stays_as_it_was():
    estimator = GambleClassifier(n_estimators=5)
    learned(30, estimator=estimator, label_lags=1)
    assert estimator.categorical_features == "from_dtype"
    assert not hasattr(estimator, "classes_")


def test_a_clone_has_the_settings_and_knows_nothing():
    model = learned(40, schedule=Schedule.per_label(), label_lags=2)
    twin = model.clone()
    assert (twin.schedule, twin.label_lags) == (model.schedule, model.label_lags)
    assert twin.predict_one(SEGMENTS[0][0]) is None


@pytest.mark.parametrize("wrong", [-1, 1.5, True, None])
def test_label_lags_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="label_lags"):
        StreamBoostClassifier(label_lags=wrong)
