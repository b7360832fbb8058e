"""Nearest labelled records of a request, for annotators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.learner.labelled_rows import AnnotatedRow, LabelledRows
from streamboost.learner.working_set import WorkingSet
from streamboost.pipelines.status import neighbours
from streamboost.pipelines.status.neighbours import (
    LabelledIndex,
    RecordImages,
    class_medians,
    nearest_labelled_records,
    quartiles,
)
from streamboost.pipelines.status.requests import RequestChanges

NAN = np.nan


def known(X, labels=None, steady=None):
    X = np.array(X, dtype=np.float32)
    names = {f"x{column}": column for column in range(X.shape[1])}
    labels = labels or [str(row % 2) for row in range(len(X))]
    return LabelledIndex([f"l{row}" for row in range(len(X))], labels, X, steady or names)


def row(*values):
    return np.array(values, dtype=np.float32)


def test_the_three_nearest_are_given_the_nearest_first():
    rows = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [9.0, 9.0]]
    found = nearest_labelled_records(known(rows), {"a": row(1.9, 1.9)})
    assert [one["id"] for one in found["a"]] == ["l2", "l1", "l0"]
    assert found["a"][0] == {"id": "l2", "label": "0"}


def test_a_column_of_large_numbers_weighs_no_more_than_another():
    rows = [[0.0, 0.0], [1.0, 10_000.0], [0.0, 10_000.0], [1.0, 0.0]]
    found = nearest_labelled_records(known(rows), {"a": row(1.0, 4_000.0)})
    assert [one["id"] for one in found["a"]][:2] == ["l3", "l1"]


def test_what_learning_changes_is_not_compared():
    rows = [[0.0, 5.0], [1.0, 0.0]]
    found = nearest_labelled_records(known(rows, steady={"x0": 0}), {"a": row(0.1, 0.0)})
    assert found["a"][0]["id"] == "l0"
    nothing = LabelledIndex(["l0"], ["a"], row(1.0).reshape(1, 1), {})
    assert nearest_labelled_records(nothing, {"a": row(1.0)}) == {}


def test_missing_values_and_columns_that_came_later_are_as_usual():
    rows = [[NAN, 1.0], [5.0, 3.0], [6.0, NAN]]
    found = nearest_labelled_records(known(rows), {"a": row(NAN, 1.0), "short": row(5.0)})
    assert found["a"][0]["id"] == "l0"
    assert len(found["short"]) == 3


def test_of_many_requests_only_the_most_useful_are_compared():
    def sent(utility):
        return b'{"probabilities": {}, "expires": null, "utility": %g}' % utility, b"{}"

    new = {str(n): sent(n % 7) for n in range(30)}
    asked = RequestChanges(frozenset(new), new, {id: row(1.0) for id in new})
    assert set(asked.top_request_features(4)) == {"6", "13", "20", "27"}
    assert asked.top_request_features(30) is asked.rows


def test_a_record_is_not_near_itself():
    found = nearest_labelled_records(known([[0.0], [1.0]]), {"l0": row(0.0)})
    assert [one["id"] for one in found["l0"]] == ["l1"]


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 10_000))
def test_the_nearest_are_those_that_a_slow_search_finds(n, columns, seed):
    rng = np.random.default_rng(seed)
    there, asked = rng.normal(size=(n, columns)), rng.normal(size=columns).astype(np.float32)
    now = known(there)
    found = [one["id"] for one in nearest_labelled_records(now, {"a": asked})["a"]]
    deviation = now.X.astype(float).std(axis=0)
    deviation[deviation == 0] = 1.0
    distances = (((now.X - asked) / deviation) ** 2).sum(axis=1)
    assert len(found) == min(n, 3)
    slow = np.sort(distances)[: len(found)]
    assert np.allclose([distances[int(id[1:])] for id in found], slow, atol=1e-4)


def test_quartiles_pass_over_what_is_missing():
    X = np.array([[3.0, NAN], [1.0, NAN], [2.0, NAN], [NAN, NAN]], dtype=np.float32)
    assert quartiles(X) == [(1.0, 2.0, 3.0), None]
    assert quartiles(np.empty((0, 2), dtype=np.float32)) == [None, None]


def test_what_is_typical_of_a_class_is_its_median_once_there_are_some():
    rows = [[1.0, NAN], [2.0, NAN], [9.0, NAN], [5.0, 1.0]]
    found = class_medians(known(rows, ["a", "a", "a", "b"]))
    assert found == {"classes": ["a"], "names": ["x0", "x1"], "medians": [[2.0, None]]}
    assert class_medians(known(np.empty((0, 2)), []))["classes"] == []


def test_of_many_classes_only_so_many_numbers_are_told(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_NUMBERS", 3)
    found = class_medians(known([[1.0, 2.0]] * 6, ["a", "b"] * 3))
    assert (found["names"], found["medians"]) == (["x0"], [[1.0], [1.0]])


def test_small_images_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_LOOKS", 60)
    looks, image = RecordImages(), "data:image/png;base64,AAAA"
    for id in ("a", "b", "b", "c"):
        looks.add_image(id, {"note": "x", "photo": image})
    looks.add_image("large", {"photo": image + "A" * neighbours.SMALL_IMAGE})
    looks.add_image("none", {"note": "x"})
    found = {id: looks.image_field(id) for id in ("a", "b", "c", "large", "none")}
    assert found == {"b": {"picture": image}, "c": {"picture": image}} | {
        id: {} for id in ("a", "large", "none")
    }


def test_the_newest_rows_are_given_with_the_labels_they_have_now():
    rows = LabelledRows(WorkingSet(size=4), np.random.SeedSequence(0))
    rows.widen_rows(1)
    for place in range(6):
        named = AnnotatedRow(0, []) if place != 3 else None
        rows.append(row(place), "ab"[place % 2], 0, NAN, place, id=str(place), annotations=named)
    rows.correct_label("5", "c", 0, 0)
    ids, labels, X = rows.newest_rows(2)
    assert (ids, labels, X.ravel().tolist()) == (["5", "4"], ["c", "a"], [5.0, 4.0])
    ids, labels, X = rows.newest_rows(100)
    assert (ids, X.shape) == (["5", "4", "2"], (3, 1)), "what has left is not there"


@pytest.mark.parametrize("most", [1, 10])
def test_without_labels_there_are_none(most):
    rows = LabelledRows(WorkingSet(size=4), np.random.SeedSequence(0))
    rows.widen_rows(2)
    assert rows.newest_rows(most)[:2] == ([], [])
