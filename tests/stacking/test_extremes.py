"""Extreme numbers, classes and weights: predictions remain probabilities."""

import numpy as np
import pytest
from learner.small_learner import Y, small

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import QueryConfig, Schedule, StreamLearner

MOST = np.finfo(np.float32).max
RNG = np.random.default_rng(9)
WHOLE = RNG.random((120, 3), dtype=np.float32)


def served(rows, labels, *, batch=4, **more):
    """Take records through a learner, checking all that is said; return it."""
    learner = StreamLearner(
        SketchLogitBoostClassifier(n_estimators=4, max_leaf_nodes=4, min_child_weight=0.01),
        query=QueryConfig(budget=1.0),
        schedule=Schedule(growth=1.5, extend_every=None),
    )
    for start in range(0, len(rows), batch):
        these = slice(start, start + batch)
        scored = checked(learner.score(rows[these]))
        ids = [str(start + i) for i in range(len(scored))]
        learner.query(rows[these], scored, ids)
        weights = {name: given[these] for name, given in more.items()}
        learner.learn(ids, rows[these], labels[these], **weights)
    checked(learner.score(rows))
    twin = StreamLearner.restore(learner.snapshot())
    np.testing.assert_array_equal(learner.score(rows).experts, twin.score(rows).experts)
    return learner


def checked(scored):
    for numbers in (scored.probabilities, scored.margins, scored.experts):
        assert numbers is None or np.isfinite(numbers).all()
    if scored.experts is not None:
        np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1)
        assert scored.experts.min() >= -6.0
        assert scored.experts.max() <= 1e-6
    return scored


ROWS = {
    "all missing": np.full_like(WHOLE, np.nan),
    "all the same": np.ones_like(WHOLE),
    "the same or missing": np.where(WHOLE > 0.5, np.float32(3), np.float32(np.nan)),
    "as large as can be": np.where(WHOLE > 0.5, MOST, -MOST),
    "seldom so large": np.where(WHOLE > 0.95, MOST, WHOLE),
    "as small as can be": WHOLE * np.float32(1e-44),
    "far from 0": WHOLE + np.float32(1e6),
    "one column": WHOLE[:, :1],
    "300 columns": np.tile(WHOLE, (1, 100)),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_whatever_the_numbers_probabilities_are_told(rows):
    learner = served(rows, Y[:120])
    assert np.isfinite(learner._stacking.weights).all()


LABELS = {
    "one class": ["only"] * 120,
    "whole numbers": [(-5, 0, 2**62)[i % 3] for i in range(120)],
    "every label another": [str(i) for i in range(120)],
    "text beyond ASCII": [("jä", "nò", "\0")[i % 3] for i in range(120)],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_whatever_the_labels_probabilities_are_told(labels):
    learner = served(WHOLE, labels)
    assert set(learner.score(WHOLE).classes.tolist()) <= set(labels)


@pytest.mark.parametrize("weight", [1e-12, 1e9])
def test_whatever_records_weigh_probabilities_are_told(weight):
    learner = served(WHOLE, Y[:120], weight=np.where(np.arange(120) % 3, weight, 1.0))
    assert np.isfinite(learner._stacking.weights).all()


@pytest.mark.slow
def test_of_more_classes_than_tables_have_room_for_all_are_told():
    classes = np.concatenate([np.arange(300), RNG.integers(0, 300, 300)])
    rows = np.column_stack([classes, RNG.random(600)]).astype(np.float32)
    learner = served(rows, [str(k) for k in classes], batch=100)
    scored = learner.score(rows[-100:])
    assert len(scored.classes) == 300
    right = scored.labels == [str(k) for k in classes[-100:]]
    assert right[classes[-100:] < 256].mean() > 0.1
    assert right[classes[-100:] >= 256].mean() > 0.1


def test_a_stream_without_columns_is_told_by_what_follows_what():
    learner = small(n_features=1)
    nothing, right = np.full((1, 1), np.nan, dtype=np.float32), 0
    for i in range(100):
        right += learner.predict(nothing)[0] == "abc"[i % 3]
        learner.learn([str(i)], nothing, ["abc"[i % 3]])
    assert right > 80
