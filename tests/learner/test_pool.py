"""Algorithm 4 of Huang (2009): pool-based queries of an array's rows by the committee's margin."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from streamboost import GambleClassifier, SketchLogitBoostClassifier, learn_from_pool
from streamboost.errors import ConfigurationError, DataError


def three_clouds(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (rng.standard_normal((n, 2)) + 2 * np.eye(3, 2)[y]).astype(np.float32), y


def learn(X, y, estimator=None, **settings):
    given = {"first": 10, "each": 5, "random_state": 0} | settings
    model = estimator or GambleClassifier(n_estimators=10, random_state=0)
    return list(learn_from_pool(model, X, lambda rows: y[rows], **given))


def test_every_label_is_bought_once_and_the_last_are_trained_on():
    X, y = three_clouds(48)
    steps = learn(X, y)
    assert [len(step.rows) for step in steps] == [10, 15, 20, 25, 30, 35, 40, 45, 48]
    for step in steps:
        np.testing.assert_array_equal(step.labels, y[step.rows])
    assert sorted(steps[-1].rows.tolist()) == list(range(48))
    whole = GambleClassifier(n_estimators=10, random_state=0).fit(
        X[steps[-1].rows], steps[-1].labels
    )
    np.testing.assert_allclose(
        steps[-1].committee.class_scores(X), whole.committee_.class_scores(X), atol=1e-6
    )


def test_each_buys_the_smallest_margins_of_the_committee_before():
    X, y = three_clouds()
    steps = learn(X, y, most=60)
    for before, after in pairwise(steps):
        F = np.sort(before.committee.class_scores(X), axis=1)
        margin = F[:, -1] - F[:, -2]  # the utility, as printed, is its reciprocal
        new = after.rows[len(before.rows) :]
        left = np.setdiff1d(np.arange(len(X)), after.rows)
        assert margin[new].max() <= margin[left].min() + 1e-9


def test_ties_are_broken_at_random_and_by_the_seed():
    X, y = np.zeros((60, 1)), np.arange(60) % 2
    orders = [learn(X, y, most=20, random_state=seed)[-1].rows.tolist() for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][10:] != sorted(orders[0][10:])


def test_a_share_of_the_rows_is_scored_and_the_best_of_it_bought():
    class Counting(GambleClassifier):
        def train(self, *args, **kwargs):
            return Watched(super().train(*args, **kwargs))

    class Watched:
        def __init__(self, committee):
            self._committee = committee

        def __getattr__(self, name):
            return getattr(self._committee, name)

        def class_scores(self, X):
            scored.append(len(X))
            return self._committee.class_scores(X)

    scored = []
    X, y = three_clouds()
    steps = learn(X, y, Counting(n_estimators=3), most=30, evaluated=0.1)
    assert scored == [19, 19, 18, 18]
    assert len(steps[-1].rows) == 30
    assert len(learn(X, y, each=100, evaluated=0.01)[-1].rows) == 200  # as many as are bought


@pytest.mark.parametrize("strategy", ["entropy", "least_confident", "vote_entropy", "random"])
def test_other_utilities_may_choose(strategy):
    X, y = three_clouds()
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0)
    assert len(learn(X, y, model, most=30, strategy=strategy)[-1].rows) == 30


def test_a_first_draw_of_one_class_is_no_end_and_text_may_grow():
    X, y = three_clouds(40)
    y = np.where(np.arange(40) == 7, "a rare one", "b")
    assert set(learn(X, y, first=1, each=1)[-1].committee.classes) == {"a rare one", "b"}


def test_nothing_is_asked_before_it_is_wanted():
    X, y = three_clouds()
    asked = []
    steps = learn_from_pool(
        GambleClassifier(n_estimators=2), X, lambda rows: asked.append(len(rows)) or y[rows],
        first=10, each=5,
    )  # fmt: skip
    assert asked == []
    next(steps)
    assert asked == [10]


@pytest.mark.slow
def test_asking_beats_drawing_at_random():
    X, y = load_digits(return_X_y=True)

    def error(strategy, seed):
        model = GambleClassifier(n_estimators=30)
        settings = {"first": 60, "each": 20, "most": 260, "random_state": seed}
        *_, last = learn_from_pool(
            model, X[::2], lambda rows: y[::2][rows], strategy=strategy, **settings
        )
        return (last.committee.class_scores(X[1::2]).argmax(axis=1) != y[1::2]).mean()

    asked, drawn = (np.mean([error(u, s) for s in range(2)]) for u in ("margin", "random"))
    assert asked < drawn - 0.01


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"strategy": "nonsense"}, "strategy 'nonsense' is not known"),
        ({"each": 0}, "each is 0"),
        ({"most": 5}, "first is 10 and most 5, of 200 rows"),
        ({"most": 201}, "most 201, of 200 rows"),
        ({"evaluated": 0.0}, "evaluated is 0.0"),
    ],
)
def test_what_cannot_be_is_refused(settings, told):
    X, _ = three_clouds()
    with pytest.raises(ConfigurationError, match=told):
        learn_from_pool(GambleClassifier(), X, None, **{"first": 10, "each": 5} | settings)


def test_a_label_for_each_row_is_wanted():
    X, y = three_clouds()
    steps = learn_from_pool(GambleClassifier(), X, lambda rows: y[:3], first=10, each=5)
    with pytest.raises(DataError, match=r"shape \(3,\) for 10 rows"):
        next(steps)
