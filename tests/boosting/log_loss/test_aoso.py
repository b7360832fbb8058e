"""AOSO-LogitBoost against its plain transcription, and comparisons of its leaf variants."""

from functools import partial

import naive_logit
import numpy as np
import pytest
from naive import newton_leaf
from naive_logit import SETTINGS, scores, small, transcribe
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from slow import seeds

from streamboost import AOSOLogitBoostClassifier

LEAVES = {
    "pair": naive_logit.leaf_pair,
    "vector": newton_leaf,
    "dense": naive_logit.leaf_dense,
}


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("K", [2, 3, 6])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.quick_once
def test_aoso_is_the_plain_transcription(seed, K, leaf):
    X, y, w = small(seed, K=K)
    model = AOSOLogitBoostClassifier(leaf=leaf, **SETTINGS).fit(X, y, sample_weight=w)
    # Ours keeps F and p in float32, and rounds gradients to 30 bits of their sum.
    np.testing.assert_allclose(
        scores(model, X), transcribe(X, y, w, naive_logit.aoso, LEAVES[leaf]), atol=2e-5
    )
    assert model.committee_.n_trees == 4


@pytest.mark.parametrize("K", [2, 3, 6])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.quick_once
def test_so_it_is_with_the_pair_of_the_farthest_gradients(seed, K):
    X, y, w = small(seed, K=K)
    model = AOSOLogitBoostClassifier(leaf="pair", pair_choice="gradient", **SETTINGS)
    leaf = partial(naive_logit.leaf_pair, by_gain=False)
    np.testing.assert_allclose(
        scores(model.fit(X, y, sample_weight=w), X),
        transcribe(X, y, w, naive_logit.aoso, leaf, False),
        atol=2e-5,
    )


def test_a_leaf_of_pairs_moves_two_classes_by_the_same():
    X, y, _ = small(0, K=5)
    model = AOSOLogitBoostClassifier(leaf="pair", n_estimators=10).fit(X, y)
    values = model.committee_.learners.values
    assert ((values != 0).sum(axis=1) <= 2).all()
    np.testing.assert_array_equal(values.max(axis=1), -values.min(axis=1))


@pytest.mark.slow
def test_more_classes_in_a_leaf_learn_faster():
    X, y = load_digits(return_X_y=True)
    loss = {
        leaf: log_loss(
            y[1::2],
            AOSOLogitBoostClassifier(leaf=leaf, n_estimators=40, random_state=0)
            .fit(X[::2], y[::2])
            .predict_proba(X[1::2]),
        )
        for leaf in LEAVES
    }
    assert max(loss["vector"], loss["dense"]) < loss["pair"]


def test_rows_that_are_not_sampled_are_scored_all_the_same():
    X, y = load_digits(return_X_y=True)
    model = AOSOLogitBoostClassifier(n_estimators=150, subsample=0.3, random_state=0)
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.94


@pytest.mark.slow
def test_letter_in_600_trees(shared_data):
    letter = shared_data("letter")
    model = AOSOLogitBoostClassifier(n_estimators=600).fit(letter["X_train"], letter["y_train"])
    assert model.score(letter["X_test"], letter["y_test"]) > 0.967
