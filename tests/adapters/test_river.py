import pickle

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, evaluate, metrics

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError, DataError

CHECKS = list(checks.yield_checks(StreamBoostClassifier()))
SEGMENTS = list(datasets.ImageSegments().take(300))


def learned(n=60, **settings):
    model = StreamBoostClassifier(**{"seed": 1, **settings})
    for x, y in SEGMENTS[:n]:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize(
    "check", CHECKS, ids=[f"{i}-{check.__name__}" for i, check in enumerate(CHECKS)]
)
def test_river_check(check):
    check(StreamBoostClassifier())


def test_no_river_check_is_skipped():
    assert StreamBoostClassifier()._unit_test_skips() == set()


def test_image_segments_one_by_one_reach_95_percent():
    metric = evaluate.progressive_val_score(
        datasets.ImageSegments(), StreamBoostClassifier(seed=1), metrics.Accuracy()
    )
    assert metric.get() >= 0.95


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


def test_labels_come_back_as_they_were_given():
    model = StreamBoostClassifier()
    for i in range(20):
        model.learn_one({"a": i % 2}, bool(i % 2))
    assert model.predict_one({"a": 1}) is True
    assert set(model.predict_proba_one({"a": 1})) == {True, False}


def test_learning_many_equals_learning_one_by_one():
    one, many = learned(120), StreamBoostClassifier(seed=1)
    frame = pd.DataFrame([x for x, _ in SEGMENTS[:120]])
    labels = pd.Series([y for _, y in SEGMENTS[:120]])
    for start, stop in [(0, 50), (50, 51), (51, 120)]:
        many.learn_many(frame[start:stop], labels[start:stop])
    for x, _ in SEGMENTS[120:150]:
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
        x = {"noise": rng.random()} | ({"signal": i % 2} if i >= 40 else {})
        model.learn_one(x, i % 2)
    assert [model.predict_one({"noise": 0.5, "signal": s}) for s in (0, 1)] == [0, 1]


def test_text_is_refused_by_feature():
    with pytest.raises(DataError, match="feature 'colour' is 'red'"):
        StreamBoostClassifier().learn_one({"colour": "red"}, 1)


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
        window_size=50,
        half_life=20,
        growth=1.5,
        extend_every=None,
    )
    learner = model._learner
    assert learner.committee.n_rounds <= 7
    assert (learner.working_set.size, learner.working_set.half_life) == (50, 20)
    assert learner.schedule.growth == 1.5


def test_a_setting_out_of_range_is_refused():
    with pytest.raises(ConfigurationError, match="growth"):
        StreamBoostClassifier(growth=0.5)


def test_label_sets_hold_the_true_label_as_often_as_asked():
    model = StreamBoostClassifier(coverage=0.8, seed=1)
    held = []
    for x, y in SEGMENTS:
        held.append(y in model.predict_set_one(x))
        model.learn_one(x, y)
    assert np.mean(held) == pytest.approx(0.8, abs=0.04)


def test_label_sets_are_refused_where_no_coverage_was_asked_for():
    with pytest.raises(ConfigurationError, match="coverage"):
        StreamBoostClassifier().predict_set_one({"a": 1.0})
