"""Constraints on parameters: what they accept, and how they describe it."""

import re

import numpy as np
import pytest

from streamboost import AdaBoostAClassifier, GambleClassifier, SketchLogitBoostClassifier
from streamboost.boosting.constraints import integer_in, number_in
from streamboost.errors import ConfigurationError


@pytest.mark.parametrize(
    ("constraint", "valid", "invalid"),
    [
        (integer_in("[1, 3]"), [1, np.int64(3)], [0, 4, 2.0, True, "2", None, np.nan]),
        (
            number_in("(0, 1]"),
            [1e-300, 1, np.float32(0.5)],
            [0, -0.0, 1.1, np.nan, np.inf, "1", True],
        ),
        (number_in("[0, 1)"), [0, 0.999], [1, -1e-300]),
        (integer_in("[1, inf)"), [10**30], [np.inf, 0]),
        (integer_in("(-inf, inf)"), [-1, 0], [-np.inf, 1.0]),
    ],
)
def test_an_interval_accepts_its_numbers_only(constraint, valid, invalid):
    assert [value for value in valid if not constraint.accepts(value)] == []
    assert [value for value in invalid if constraint.accepts(value)] == []


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            SketchLogitBoostClassifier(max_depth=0),
            "max_depth of SketchLogitBoostClassifier must be an integer in [1, inf) or None, "
            "and is 0",
        ),
        (
            GambleClassifier(step="long"),
            "step of GambleClassifier must be 'paper' or 'scaled' or 'line' or 'exact' or None, "
            "and is 'long'",
        ),
        (
            AdaBoostAClassifier(cost=3),
            "cost of AdaBoostAClassifier must be a dictionary, an array or a sequence or None, "
            "and is 3",
        ),
        (
            SketchLogitBoostClassifier(random_state=-1),
            "random_state of SketchLogitBoostClassifier must be an integer in [0, 4294967295], a "
            "RandomState or None, and is -1",
        ),
        (
            SketchLogitBoostClassifier(early_stopping="yes"),
            "early_stopping of SketchLogitBoostClassifier must be True or False, and is 'yes'",
        ),
    ],
)
def test_an_invalid_value_is_named_with_the_valid_ones(estimator, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        estimator.check_parameters()


@pytest.mark.parametrize(
    "parameters",
    [
        {"random_state": np.random.RandomState(0)},
        {"categorical_features": [0, 2]},
        {"categorical_features": np.array([True, False])},
        {"class_weight": {"a": 2.0}},
        {"class_weight": "balanced"},
        {"max_bins": None, "max_leaf_nodes": None, "learning_rate": None},
        {"n_jobs": -1},
    ],
)
def test_valid_values_are_accepted(parameters):
    SketchLogitBoostClassifier(**parameters).check_parameters()
