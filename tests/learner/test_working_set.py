import numpy as np
import pytest

from streamboost.errors import ConfigurationError
from streamboost.learner.working_set import WorkingSet


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"size": 1}, "size"),
        ({"size": 10.0}, "size"),
        ({"kind": "newest"}, "kind"),
        ({"seconds": 60}, "seconds"),
        ({"kind": "time"}, "seconds"),
        ({"kind": "time", "seconds": 0}, "seconds"),
        ({"kind": "time", "seconds": float("nan")}, "seconds"),
        ({"weights": "newest"}, "weights"),
        ({"half_life": 5}, "half_life"),
        ({"weights": "zipf", "half_life": 5}, "half_life"),
        ({"weights": "half_life"}, "half_life"),
        ({"weights": "half_life", "half_life": 0}, "half_life"),
        ({"weights": "half_life", "half_life": float("inf")}, "half_life"),
        ({"weights": "half_life", "half_life": 10**400}, "half_life"),
        ({"propensity_clip": 1}, "propensity_clip"),
        ({"propensity_clip": float("inf")}, "propensity_clip"),
        ({"propensity_clip": "10"}, "propensity_clip"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong, word):
    with pytest.raises(ConfigurationError, match=f"working set {word}"):
        WorkingSet(**wrong)


def test_a_setting_that_belongs_to_another_choice_is_refused_with_that_choice():
    with pytest.raises(ConfigurationError, match='kind is "sliding": set kind = "time"'):
        WorkingSet(seconds=60)


def test_equal_weights_need_no_array():
    assert WorkingSet().training_weights(5) is None
    assert WorkingSet().training_weights(5, np.full(5, 0.5)) is None


def test_a_weight_halves_with_every_half_life_and_the_mean_is_one():
    weights = WorkingSet(weights="half_life", half_life=2).training_weights(5)
    np.testing.assert_allclose(weights[:-2] * 2, weights[2:])
    assert weights.argmax() == 4
    assert np.isclose(weights.mean(), 1)


def test_weights_of_the_very_old_vanish_without_a_warning():
    assert WorkingSet(weights="half_life", half_life=0.5).training_weights(2000)[0] == 0
    assert WorkingSet(weights="half_life", half_life=5e-324).training_weights(3).tolist() == [
        0,
        0,
        3,
    ]


def test_a_half_life_may_be_any_whole_number_that_a_float_holds():
    assert WorkingSet(weights="half_life", half_life=10**300).training_weights(2).tolist() == [1, 1]


def test_zipf_weighs_the_second_newest_half_as_much_and_the_third_a_third():
    weights = WorkingSet(weights="zipf").training_weights(3)
    np.testing.assert_allclose(weights, np.array([2, 3, 6]) / (11 / 3))


def test_the_rarely_asked_weigh_more_up_to_the_clip_and_the_unasked_as_if_certain():
    chances = np.array([1.0, 0.5, 0.01, 1e-320, np.nan])
    weights = WorkingSet(propensity_clip=10).training_weights(5, chances)
    np.testing.assert_allclose(weights, np.array([1, 2, 10, 10, 1]) / 4.8)


def test_age_and_propensity_multiply():
    chances = np.array([0.25, 1.0, 0.5])
    weights = WorkingSet(weights="half_life", half_life=1, propensity_clip=3).training_weights(
        3, chances
    )
    np.testing.assert_allclose(weights, np.array([0.75, 0.5, 2]) * 3 / 3.25)


def test_the_largest_clip_a_float_holds_gives_no_infinite_weight():
    weights = WorkingSet(propensity_clip=1.7e308).training_weights(3, np.full(3, 1e-320))
    np.testing.assert_array_equal(weights, np.ones(3))


def test_where_nobody_ever_asked_age_alone_counts():
    working_set = WorkingSet(weights="zipf", propensity_clip=5)
    np.testing.assert_array_equal(
        working_set.training_weights(4),
        working_set.training_weights(4, np.full(4, np.nan)),
        strict=True,
    )
