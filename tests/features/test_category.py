import math

import numpy as np
import pytest

from streamboost.features import Features, category
from streamboost.features.category import as_category
from tests.features.making import assert_same_state, column, single, teach


def test_values_are_numbered_by_the_labels_that_teach_them_and_not_on_arrival():
    features = single("category")
    features.encode_arrivals([("red",), ("blue",)])
    teach(features, ("blue", "x"), ("red", "x"), ("blue", "y"))
    assert column(features, "red", "blue", "green") == [2, 1, 0]
    assert features.categorical_columns == [0]


def test_a_rare_value_shares_the_place_of_those_unseen_until_it_has_had_enough_labels():
    features = single("category", min_frequency=3)
    for wanted in (0, 0, 1, 1):
        teach(features, ("red", "x"))
        assert column(features, "red", "never") == [wanted, 0]


def test_labels_of_any_class_count_towards_the_least_frequency():
    features = single("category", min_frequency=2)
    teach(features, *((None, k) for k in range(30)))
    teach(features, ("red", 28), ("red", 29))
    assert column(features, "red") == [1]


@pytest.mark.parametrize("value", [None, "", float("nan"), np.float32("nan")], ids=repr)
def test_what_is_missing_is_nan_teaches_nothing_and_is_not_counted(value):
    features = single("category")
    teach(features, (value, "x"))
    assert math.isnan(features.encode_arrivals([(value,)]).item())
    assert not features.unreadable
    teach(features, ("red", "x"))
    assert column(features, "red") == [1]


@pytest.mark.parametrize(
    "value",
    [["a"], {"a": 1}, (), b"a", 1j, 10**5_000, np.array([1, 2])],
    ids=lambda v: str(type(v)),
)
def test_what_is_no_category_is_missing_and_counted(value):
    features = single("category")
    teach(features, (value, "x"))
    assert math.isnan(features.encode_arrivals([(value,)]).item())
    assert features.unreadable == {"a": 1}


def test_numbers_and_booleans_are_the_categories_that_they_read_as():
    assert [as_category(value) for value in (7, 7.0, "7", np.int8(7))] == ["7"] * 4
    assert [as_category(value) for value in (True, "true", np.False_)] == ["true", "true", "false"]
    assert [as_category(value) for value in (-0.0, 0.5, float("inf"))] == ["0", "0.5", "inf"]


def test_long_values_are_told_apart_by_their_beginning_however_they_are_written():
    assert as_category("x" * 300) == "x" * 256
    assert as_category(10**300) == as_category(str(10**300)) == "1" + "0" * 255
    features = single("category")
    teach(features, ("x" * 300, "x"))
    assert column(features, "x" * 256, "x" * 1_000, "x" * 255) == [1, 1, 0]


def numbered(n, labels=("yes", "no")):
    """Return features that have learned n values, each with one label, in turn."""
    features = single("category")
    for i in range(n):
        teach(features, (f"v{i}", labels[i % len(labels)]))
    return features


def test_the_first_253_values_have_numbers_and_more_bring_rates_beside_them():
    features = numbered(253)
    assert column(features, "v0", "v252") == [1, 253]
    assert features.names == ["a"]
    teach(features, ("one more", "yes"))
    assert features.names == ["a", "a: rate of yes", "a: rate of no"]
    assert column(features, "v252", "one more") == [253, 0]
    assert features.categorical_columns == [0]


def test_a_rate_is_that_of_a_value_shrunk_towards_that_of_all_by_ten_labels():
    features = numbered(253)  # 127 labels are yes and 126 no
    teach(features, *[("merchant", "yes")] * 3, ("merchant", "no"))
    yes, no = 127 + 3 + 1, 126 + 1 + 1
    prior = 10 * yes / (yes + no)
    rates = features.encode([("merchant",), ("unheard of",), (None,)])[:, 1:]
    np.testing.assert_allclose(rates[0], [(3 + prior) / 14, (1 + 10 - prior) / 14], rtol=1e-6)
    np.testing.assert_allclose(rates[1], [prior / 10, 1 - prior / 10], rtol=1e-6)
    assert np.isnan(rates[2]).all()


def test_a_rate_never_knows_the_label_of_its_own_record():
    told = [numbered(300) for _ in range(2)]
    rows = [features.encode_arrivals([("merchant",)]) for features in told]
    for features, label in zip(told, ("yes", "no"), strict=True):
        teach(features, ("merchant", label))
    np.testing.assert_array_equal(*rows)
    assert told[0].encode([("merchant",)])[0, 1] > told[1].encode([("merchant",)])[0, 1]


def test_classes_that_come_later_have_rates_up_to_sixteen():
    features = numbered(260)
    rows = len(features.names)
    teach(features, *[("v0", f"class {k}") for k in range(30)])
    assert rows == 3
    assert len(features.names) == 1 + 16
    assert features.encode([("v0",)]).shape == (1, 17)
    assert features.encode([("v0",)])[0, 1:].sum() == pytest.approx(1)


def test_values_without_end_fill_no_memory(monkeypatch):
    monkeypatch.setattr(category, "MOST_VALUES", 300)
    features = numbered(1_000)
    _, arrays = features.state()
    assert [len(array) for array in arrays.values()] == [300]
    assert column(features, "v999", "v252") == [0, 253]
    assert_same_state(Features.restore(*features.state()), features)
