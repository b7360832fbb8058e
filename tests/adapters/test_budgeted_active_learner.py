import pickle

import numpy as np
import pytest
from river import (
    active,
    base,
    checks,
    datasets,
    ensemble,
    forest,
    linear_model,
    naive_bayes,
    preprocessing,
    tree,
)
from slow import first_of_each, slow

from streamboost.adapters.budgeted_active_learner import BudgetedActiveLearner
from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.learner.schedule import Schedule

SEGMENTS = list(datasets.ImageSegments().take(400))


def quick():
    """Our classifier with few and small trainings, as the checks learn thousands of labels."""
    estimator = SketchLogitBoostClassifier(n_estimators=5)
    return BudgetedActiveLearner(
        StreamBoostClassifier(estimator, schedule=Schedule(growth=2.0, extend_every=None))
    )


CHECKS = first_of_each(checks.yield_checks(quick()))


def run(model, records=SEGMENTS):
    """Return which predictions were right, and which labels were asked for and learned."""
    right, asked = [], []
    for x, y in records:
        prediction, ask = model.predict_one(x)
        right.append(prediction == y)
        asked.append(ask)
        if ask:
            model.learn_one(x, y)
    return np.array(right), np.array(asked)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "make",
    [lambda: BudgetedActiveLearner(linear_model.SoftmaxRegression()), *slow(quick)],
    ids=["softmax", "ours"],
)
def test_river_check(check, make):
    check(make())


def test_no_river_check_is_skipped():
    assert quick()._unit_test_skips() == set()


@pytest.mark.parametrize(
    "classifier",
    [
        naive_bayes.GaussianNB(),
        tree.HoeffdingTreeClassifier(),
        preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    ],
    ids=["bayes", "tree", "softmax pipeline", "two-class pipeline"],
)
@pytest.mark.parametrize("strategy", ["margin", "entropy"])
@pytest.mark.quick_once
def test_around_any_classifier_the_budget_is_kept_and_spent(classifier, strategy):
    records = SEGMENTS
    if "Logistic" in str(classifier):
        records = [(x, y == "sky") for x, y in SEGMENTS]
    _, asked = run(BudgetedActiveLearner(classifier.clone(), 0.1, strategy, seed=1), records)
    assert (np.cumsum(asked) <= 0.1 * np.arange(1, len(asked) + 1) + 1e-9).all()
    assert asked.sum() >= 20


def test_it_goes_on_asking_before_anything_is_learned():
    """A classifier that is never taught has no doubts: River's sampler then asks for nothing."""
    silent = active.EntropySampler(naive_bayes.GaussianNB(), seed=1)
    ours = BudgetedActiveLearner(naive_bayes.GaussianNB(), budget=0.1, seed=1)
    assert not any(silent.predict_one(x)[1] for x, _ in SEGMENTS)
    assert sum(ours.predict_one(x)[1] for x, _ in SEGMENTS) > 30
    assert ours.predict_one(SEGMENTS[0][0])[0] is None


def test_what_is_predicted_is_the_classifiers_own_best():
    model = BudgetedActiveLearner(StreamBoostClassifier(seed=1), seed=1)
    for x, y in SEGMENTS[:100]:
        model.learn_one(x, y)
    for x, _ in SEGMENTS[100:120]:
        chances, ask = model.predict_proba_one(x)
        assert chances == model.classifier.predict_proba_one(x)
        assert type(ask) is bool
        assert model.predict_one(x)[0] == model.classifier.predict_one(x)


@pytest.mark.slow
def test_the_doubtful_records_are_asked_for():
    """Half the records are plain, half lie between the classes."""
    rng = np.random.default_rng(4)
    model = BudgetedActiveLearner(linear_model.LogisticRegression(), budget=0.1, seed=1)
    asked = []
    for i in range(1_000):
        label = bool(rng.integers(2))
        spread = 0.05 if i % 2 else 1.0
        x = {"a": (1 if label else -1) * spread}
        if model.predict_one(x)[1]:
            asked.append(spread < 1)
            model.learn_one(x, label)
    assert np.mean(asked[20:]) > 0.9


@pytest.mark.slow
def test_the_same_seed_asks_for_the_same_records_and_another_for_others():
    def asked(seed):
        model = BudgetedActiveLearner(tree.HoeffdingTreeClassifier(), 0.1, seed=seed)
        return run(model)[1].tolist()

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


@pytest.mark.slow
def test_a_pickled_model_goes_on_as_if_never_stopped():
    model = BudgetedActiveLearner(tree.HoeffdingTreeClassifier(), budget=0.2, seed=1)
    run(model, SEGMENTS[:150])
    twin = pickle.loads(pickle.dumps(model))
    for one, other in zip(run(model, SEGMENTS[150:300]), run(twin, SEGMENTS[150:300]), strict=True):
        np.testing.assert_array_equal(one, other)


def trees():
    return tree.HoeffdingTreeClassifier(grace_period=10)


@pytest.mark.parametrize(
    "ensemble",
    [
        forest.ARFClassifier(n_models=5, seed=1),
        forest.AMFClassifier(n_estimators=5, seed=1),
        ensemble.SRPClassifier(n_models=3, seed=1),
        ensemble.BaggingClassifier(trees(), n_models=5, seed=1),
        ensemble.ADWINBaggingClassifier(trees(), n_models=5, seed=1),
        preprocessing.StandardScaler() | ensemble.BaggingClassifier(trees(), n_models=5, seed=1),
        StreamBoostClassifier(seed=1),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.quick_once
def test_vote_entropy_keeps_and_spends_the_budget_around_ensembles(ensemble):
    model = BudgetedActiveLearner(ensemble.clone(), 0.1, "vote_entropy", seed=1)
    _, asked = run(model)
    assert (np.cumsum(asked) <= 0.1 * np.arange(1, len(asked) + 1) + 1e-9).all()
    assert asked.sum() >= 20


class Votes(base.Ensemble, base.Classifier):
    """Members that vote for what the record names."""

    def __init__(self):
        super().__init__([Member(i) for i in range(4)])

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {"a": 0.5, "b": 0.5}


class Member(base.Classifier):
    def __init__(self, place):
        self.place = place

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return x[self.place]


def test_vote_entropy_requests_the_records_on_which_members_disagree():
    """By hand: votes aaaa have entropy 0, aaab 0.81 bits, aabb 1 bit, the most of two classes."""
    model = BudgetedActiveLearner(Votes(), 0.1, "vote_entropy", seed=1)
    for label in "aabb":
        model.learn_one({}, label)
    rng, asked = np.random.default_rng(1), []
    for _ in range(1_000):
        votes = ["aaaa", "aaab", "aabb"][rng.choice(3, p=[0.6, 0.3, 0.1])]
        if model.predict_one(dict(enumerate(votes)))[1]:
            asked.append(votes)
    assert asked.count("aabb") > asked.count("aaab") > 0  # though there are three times as many
    assert asked.count("aaaa") < 0.1 * len(asked)  # of 60 % of the records


def test_members_that_have_no_vote_yet_abstain():
    model = BudgetedActiveLearner(Votes(), 0.5, "vote_entropy", seed=1)
    for label in "aabb":
        model.learn_one({}, label)
    assert model._label_utility(dict(enumerate([None] * 4)))[0] == 0.0
    assert model._label_utility({0: "a", 1: "b", 2: None, 3: None})[0] == pytest.approx(1.0)


def test_a_committees_members_are_its_stages():
    model = StreamBoostClassifier(seed=1)
    x = SEGMENTS[0][0]
    assert model.predict_votes_one(x) == {}
    for x, y in SEGMENTS[:60]:
        model.learn_one(x, y)
    shares = model.predict_votes_one(x)
    assert set(shares) <= {y for _, y in SEGMENTS}
    assert sum(shares.values()) == pytest.approx(1.0)
    n = model.committee.n_rounds
    assert all(round(n * share, 6) == round(n * share) for share in shares.values())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("vote_entropy", "GaussianNB has no members that vote"), ("entropie", "not known")],
)
def test_a_strategy_that_the_classifier_cannot_serve_is_refused(wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        BudgetedActiveLearner(naive_bayes.GaussianNB(), strategy=wrong)
