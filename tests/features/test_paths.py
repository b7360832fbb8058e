"""Paths to nested values, and the names of a record's flat view."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.features.paths import (
    flatten,
    is_vector,
    is_within_any,
    path_getter,
    remove_path,
)

RECORD = {"a": {"b": 1, "c": 2}, "a.b": 7, "items": [{"label": 3, "a.b": 5}, [4]]}

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc0", min_size=1, max_size=2), JSON))
@pytest.mark.slow
def test_what_the_flat_view_names_is_found_there(record):
    for path, value in flatten(record).items():
        assert path_getter(path)(record) is value, path


def test_a_key_of_the_whole_name_comes_before_what_is_nested():
    record = {"a": {"b": 1, "b.c": 2}, "a.b": 3}
    assert path_getter("a.b")(record) == 3
    assert path_getter("a.b.c")(record) == 2
    assert flatten(record) == {"a.b": 3, "a.b.c": 2}


def test_what_is_not_there_is_none():
    for path in ("x", "a.x", "a.b.c", "l.7", "l.-1", "l.x", "l.0.y", "t.0", "l.²"):
        assert path_getter(path)({"a": {"b": 1}, "l": [5], "t": "text"}) is None, path


def test_a_null_is_none_whether_whole_or_nested():
    assert path_getter("a.b")({"a.b": None, "a": {"b": 1}}) is None


def test_positions_of_lists_are_parts_of_a_path():
    record = {"items": [{"price": 3, "tags": ["x"]}, 4]}
    assert path_getter("items.0.price")(record) == 3
    assert path_getter("items.0.tags.0")(record) == "x"
    assert path_getter("items.1")(record) == 4


def test_names_may_hold_anything():
    name = 'say "x"\\ \n é'
    assert path_getter(name)({name: 1}) == 1
    assert flatten({name: {name: 1}}) == {f"{name}.{name}": 1}
    assert path_getter("")({"": 2}) == 2


def test_long_lists_and_deep_records_do_not_become_fields_without_end():
    assert len(flatten({"a": ["x"] * 1000})) == 8
    deep = {"a": 1}
    for _ in range(100):
        deep = {"a": deep}
    assert flatten(deep) == {}


def test_a_vector_is_a_list_of_numbers():
    assert is_vector([1, 2.5])
    assert is_vector([])
    assert not any(map(is_vector, ([1, "2"], [True], [None], "12", 5)))


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("a.b", {"a": {"c": 2}, "items": [{"label": 3, "a.b": 5}, [4]]}),
        ("items.0.label", {"a": {"b": 1, "c": 2}, "a.b": 7, "items": [{"a.b": 5}, [4]]}),
        ("items.1.0", {"a": {"b": 1, "c": 2}, "a.b": 7, "items": [RECORD["items"][0], [None]]}),
        ("items.1", {"a": {"b": 1, "c": 2}, "a.b": 7, "items": [RECORD["items"][0], None]}),
        ("items.x", RECORD),
        ("items.9", RECORD),
        ("a.b.c", RECORD),
    ],
)
def test_a_path_that_is_removed_names_nothing_any_more(path, left):
    before = copy.deepcopy(RECORD)
    found = remove_path(RECORD, path)
    assert found == left
    assert before == RECORD
    assert path_getter(path)(found) is None


def test_what_lies_in_a_name_does_so_by_whole_steps():
    names = frozenset({"card", "a.b"})
    assert is_within_any("card", names)
    assert is_within_any("a.b.c.d", names)
    assert not is_within_any("cards.x", names)
    assert not is_within_any("a", names)
