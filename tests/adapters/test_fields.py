"""Conversion of River's dictionaries to rows, and the column order of their features."""

import pickle
from collections import Counter, defaultdict
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.adapters.fields import FieldMapper
from streamboost.adapters.river import StreamBoostClassifier
from streamboost.errors import ConfigurationError, DataError
from streamboost.features import Features
from tests.encoders import tiny

INNER = st.dictionaries(st.sampled_from(["a", "b", "a.b"]), st.integers(0, 9), max_size=3)
VALUES = st.one_of(
    st.floats(-9, 9), st.sampled_from(["red", "blue", None, "four words are text"]), INNER
)
NAMES = st.one_of(st.text(max_size=3), st.integers(0, 9), st.tuples(st.integers(0, 9)))
NESTING = st.sampled_from(["a", "a.b", "b", "a.b.a", 1, "1"])


class Learned:
    """Fields that some records were learned by, and the rows that others have then."""

    def __init__(self, *records, categories=True):
        self.features = Features({})
        self.fields = FieldMapper(self.features, categories=categories)
        for x in records:
            self.learn(x)

    def learn(self, x):
        values = self.fields.to_field_values(x, add_missing=True)
        self.features.encode_arrivals([values])
        self.features.learn(values, "any")

    def row(self, x):
        return self.features.encode([self.fields.to_field_values(x)])

    @property
    def kinds(self):
        return {name: field.kind for name, field in self.features.fields.items()}


def test_what_dictionaries_answer_for_absent_features_is_not_asked_for():
    learned = Learned({"a": 1, "b": 2})
    counted, with_default = Counter(a=1), defaultdict(float, a=1.0)
    for absent in (counted, with_default):
        assert np.isnan(learned.row(absent)[0, 1])
    assert list(with_default) == ["a"]


@given(
    st.lists(
        st.dictionaries(NAMES, VALUES) | st.dictionaries(NESTING, VALUES), min_size=1, max_size=5
    ),
    st.randoms(),
)
@pytest.mark.slow
def test_columns_do_not_depend_on_the_order_inside_a_record(records, random):
    def shuffled(x):
        items = list(x.items())
        random.shuffle(items)
        return {name: shuffled(v) if isinstance(v, dict) else v for name, v in items}

    others = [shuffled(x) for x in records]
    first, second = Learned(*records), Learned(*others)
    assert first.features.names == second.features.names
    for x, other in zip(records, others, strict=True):
        np.testing.assert_array_equal(first.row(x), second.row(other))


def test_new_features_join_behind_the_old_ones():
    learned = Learned({"b": 1, "c": 2}, {"a": 3})
    np.testing.assert_array_equal(learned.row({"a": 3, "b": 1, "c": 2}), [[1, 2, 3]])


def test_features_a_record_lacks_are_missing_and_unknown_ones_left_out():
    learned = Learned({"a": 1, "b": 2})
    np.testing.assert_array_equal(learned.row({"b": 5, "z": "text"}), [[np.nan, 5]])
    assert len(learned.features) == 2


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), np.float32("nan"), Decimal("NaN"), "", " ", pd.NaT, pd.NA],
    ids=str,
)
def test_a_missing_value_is_missing_and_does_not_settle_what_a_feature_holds(value):
    assert np.isnan(Learned({"a": 1}).row({"a": value})).all()
    learned = Learned({"a": value})
    assert len(learned.features) == 0
    learned.learn({"a": "red"})
    learned.learn({"a": value})
    assert learned.kinds == {"a": "category"}
    assert learned.row({"a": "red"}).tolist() == [[1]]
    assert not learned.features.unreadable


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int8(1), Decimal(1), np.float16(1)])
def test_booleans_and_numbers_of_all_kinds_are_numbers(value):
    assert Learned({"a": 1}).row({"a": value}).item() == 1.0
    assert Learned({"a": value}).kinds == {"a": "number"}


TAKEN_FOR = [
    (1.5, "number"),
    (Decimal("1.5"), "number"),
    (10**400, "number"),
    (float("inf"), "number"),
    ("red", "category"),
    ("three words only", "category"),
    ("these are four words", "text"),
    (date(2026, 3, 1), "time"),
    (datetime(2026, 3, 1, 7), "time"),
    (pd.Timestamp("2026-03-01"), "time"),
    ([1, 2.5], "vector"),
    ((1, 2), "vector"),
    (np.array([1.0, 2.0]), "vector"),
]


@pytest.mark.parametrize(("value", "kind"), TAKEN_FOR, ids=lambda value: str(value)[:20])
def test_the_first_value_tells_what_a_feature_holds(value, kind):
    assert Learned({"a": value}).kinds == {"a": kind}


REFUSED = [
    ([], "always as many"),
    (["a", "b"], "join words to one text"),
    ({1, 2}, "join words to one text"),
    (np.array(["a"]), "a ndarray"),
    (np.ones((2, 2)), "a ndarray"),
    (b"1.5", "a bytes"),
    (object(), "a object"),
    (1j, "a complex"),
]


@pytest.mark.parametrize(("value", "words"), REFUSED, ids=lambda value: str(value)[:12])
def test_what_nothing_can_be_learned_from_is_refused_by_feature_and_changes_nothing(value, words):
    learned = Learned({"a": 1})
    with pytest.raises(DataError, match=f"(?s)feature 'colour' is .*{words}"):
        learned.fields.to_field_values({"b": 2, "colour": value}, add_missing=True)
    assert len(learned.features) == 1
    assert learned.row({"a": 2, "colour": value}).tolist() == [[2]]


@pytest.mark.parametrize("value", [1, "red", "1.5", [1], {"a": 1}, np.array(5.0), datetime.max])
def test_once_it_is_settled_what_a_feature_holds_other_values_are_read_or_missing(value):
    first = {"n": 1, "c": "red", "t": "a text of words", "d": date(2026, 3, 1), "v": [1, 2]}
    learned = Learned(first)
    for feature in first:
        learned.learn({feature: value})
        assert learned.row({feature: value}).shape == (1, len(learned.features))
    column = learned.features.names.index("n")
    assert learned.row({"n": "1.5", "c": 3})[0, column] == 1.5


def test_categories_are_refused_where_the_estimator_takes_none_and_texts_are_not():
    learned = Learned({"a": 1}, categories=False)
    for value in ("red", "1.5"):
        with pytest.raises(DataError, match=r"feature 'colour' is .*encode it first"):
            learned.fields.to_field_values({"a": 2, "colour": value}, add_missing=True)
    learned.learn({"note": "this is a text"})
    assert learned.kinds == {"a": "number", "note": "text"}


def test_dictionaries_within_are_read_by_names_with_dots_and_a_whole_name_holds():
    learned = Learned({"device": {"os": "linux", "screen": {"w": 640}}})
    assert learned.kinds == {"device.os": "category", "device.screen.w": "number"}
    assert learned.row({"device": {"screen": {"w": 5}}, "device.screen.w": 6})[0, 1] == 6
    assert learned.row({"device.screen": {"w": 7}, "device": {"screen": {"w": 5}}})[0, 1] == 7


def test_dictionaries_are_looked_into_for_eight_levels():
    x = {"a": 1}
    for _ in range(5_000):
        x = {"a": x}
    assert Learned(x, {"b": 1}).kinds == {"b": "number"}


def short_texts(n):
    return [f"win prize{i}" if i % 2 else f"dear friend{i}" for i in range(n)]


def test_a_category_whose_first_twenty_values_differ_in_words_is_a_text_from_then_on():
    learned = Learned(*({"note": text} for text in short_texts(19)))
    assert learned.kinds == {"note": "category"}
    learned.learn({"note": "one more"})
    assert list(learned.kinds.values()) == ["category", "text"]
    assert learned.features.names[1] == "words for any"


def test_a_category_stays_one_where_values_come_again_or_are_single_words():
    again = Learned(*({"note": text} for text in short_texts(10) * 3))
    single = Learned(*({"note": f"name{i}"} for i in range(40)))
    assert list(again.kinds.values()) == list(single.kinds.values()) == ["category"]
    assert not again.fields._first_values


def test_named_feature_has_the_type_that_is_given(tmp_path):
    tiny.write_encoder(tmp_path)
    note = {"type": "text", "encoder": str(tmp_path), "text": False}
    model = StreamBoostClassifier(seed=1, fields={"note": note, "zip": "category"})
    for n in range(60):
        x = {"note": ["gift", "lunch rent"][n % 2], "zip": n % 3, "deep": {"a": 1}}
        model.learn_one(x, n % 2)
    names = [f"note[{i}]" for i in range(tiny.SIZE)]
    assert model._features.names == ["deep.a", *names, "zip"]
    assert model._features.categorical_columns == [tiny.SIZE + 1]
    assert model.predict_one({"note": "gift", "zip": 1, "deep": {"a": 1}}) == 0
    assert model.clone().fields == model.fields
    copied = pickle.loads(pickle.dumps(model))
    x = {"note": "books lunch", "zip": 2}
    assert copied.predict_proba_one(x) == model.predict_proba_one(x)


def test_invalid_type_of_a_named_feature_is_refused():
    with pytest.raises(ConfigurationError, match="field 'note': type is 'txt'"):
        StreamBoostClassifier(fields={"note": "txt"})
