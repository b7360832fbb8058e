"""Incremental updates of charts and tables that a browser already shows."""

import pytest
from nicegui.events import GenericEventArguments

from streamboost.pipelines.dashboard.tables import Cell
from streamboost.pipelines.dashboard.widgets import (
    changed_cells,
    chart_spec_change,
    event_fields,
    json_cells,
)


def spec(*rows, ends=(10, 30), marks=()):
    return {"rows": [list(row) for row in rows], "ends": list(ends), "marks": list(marks)}


def test_of_a_chart_that_shows_all_there_is_the_new_row_alone_is_told():
    before, after = spec((10, 1), (30, 2)), spec((10, 1), (30, 2), (40, 3), ends=(10, 40))
    assert chart_spec_change(before, after) == {"put": [[40, 3]]}
    assert chart_spec_change(before, before) == {}


def test_a_newest_row_that_grows_takes_the_place_of_the_one_before():
    before, after = spec((10, 1), (30, 2)), spec((10, 1), (31, 2), ends=(10, 31))
    assert chart_spec_change(before, after) == {"gone": [30], "put": [[31, 2]]}


@pytest.mark.parametrize(
    "after",
    [
        spec((30, 2), (40, 3), ends=(20, 40)),  # it moves with time
        spec((10, 1), (30, 2), (40, 3), ends=(10, 35)),  # it was stopped
        spec((10, 1), ends=(10, 30)),
        spec((10, 1), (30, 2), ends=(5, 30)),
        spec(ends=(10, 30)),
    ],
)
def test_an_axis_that_does_otherwise_than_follow_its_newest_row_is_told_its_ends(after):
    assert chart_spec_change(spec((10, 1), (30, 2)), after)["ends"] == after["ends"]


def test_marks_are_told_where_they_differ_also_when_none_are_left():
    before = spec((10, 1), (30, 2), marks=["drift"])
    assert chart_spec_change(before, spec((10, 1), (30, 2))) == {"marks": []}


def test_a_number_and_its_unit_stand_in_one_line():
    (row,) = json_cells([["94.2 % (88.0 to 95.1)", Cell("12 ms"), "3 of 4"]])
    assert row == ["94.2\u00a0% (88.0 to 95.1)", {"text": "12\u00a0ms"}, "3 of 4"]


def test_of_a_cell_what_differs_is_told_and_what_it_has_no_longer_as_none():
    before = json_cells([["a", Cell("1 %", bar=0.1, colour="good"), Cell("7", link="/x"), "b"]])
    after = json_cells([["a", Cell("2 %", bar=0.2, colour="good"), Cell("7"), Cell("c")]])
    assert changed_cells(before, after) == [
        [0, 1, {"text": "2\u00a0%", "bar": 0.2}],
        [0, 2, {"link": None}],
        [0, 3, {"text": "c"}],
    ]
    assert changed_cells(after, after) == []


@pytest.mark.parametrize("sent", [None, 7, "number", [{"number": 1}], True])
def test_event_whose_arguments_are_no_object_has_no_fields(sent):
    assert event_fields(GenericEventArguments(sender=None, client=None, args=sent)) == {}
    fields = {"number": 1}
    assert event_fields(GenericEventArguments(sender=None, client=None, args=fields)) == fields
