import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.query.strategies import UTILITIES

SURE, TORN, LEANING = [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1]


def measured(name, evidence):
    return UTILITIES[name].measure(np.array(evidence, dtype=float))


def test_margin_utility_falls_as_the_margin_grows_and_is_finite_on_ties():
    np.testing.assert_array_equal(measured("margin", [0.0, 1.0, 3.0]), [1.0, 0.5, 0.25])
    assert measured("margin", [np.inf])[0] == 0.0


def test_random_utility_is_the_same_for_all():
    np.testing.assert_array_equal(measured("random", [SURE, TORN]), [1.0, 1.0])


def test_least_confidence_is_what_the_best_probability_leaves():
    np.testing.assert_allclose(measured("least_confident", [SURE, TORN, LEANING]), [0, 2 / 3, 0.4])


@pytest.mark.parametrize("name", ["entropy", "vote_entropy"])
def test_entropy_is_0_where_all_agree_and_1_where_nothing_is_known(name):
    sure, torn, leaning = measured(name, [SURE, TORN, LEANING])
    assert (sure, torn) == (0.0, pytest.approx(1.0))
    by_hand = -(0.6 * np.log(0.6) + 0.3 * np.log(0.3) + 0.1 * np.log(0.1)) / np.log(3)
    assert leaning == pytest.approx(by_hand)


@pytest.mark.parametrize("name", ["entropy", "vote_entropy"])
def test_with_one_class_there_is_no_doubt(name):
    np.testing.assert_array_equal(measured(name, [[1.0], [1.0]]), [0.0, 0.0])


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=5))
def test_utilities_of_probabilities_lie_between_0_and_1(rows):
    shares = np.array(rows) + 1e-9
    shares /= shares.sum(axis=1, keepdims=True)
    for name in ("entropy", "vote_entropy", "least_confident"):
        assert (
            (UTILITIES[name].measure(shares) >= 0) & (UTILITIES[name].measure(shares) <= 1)
        ).all()


@pytest.mark.parametrize("name", UTILITIES)
def test_no_records_have_no_utilities(name):
    shape = (0,) if UTILITIES[name].required_input == "margins" else (0, 3)
    assert UTILITIES[name].measure(np.empty(shape)).shape == (0,)
