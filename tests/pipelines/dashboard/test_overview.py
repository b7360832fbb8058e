"""Tiles of the dashboard."""

from streamboost.pipelines.dashboard.overview import cost_of
from streamboost.pipelines.dashboard.view import View


def test_the_cost_of_decisions_has_a_tile_where_there_is_one():
    assert cost_of(View()) is None
    assert cost_of(View(documents={"evaluation": {"recent": {"cost": None}}})) is None
    cost = {"value": 0.25, "low": 0.125, "high": 0.5}
    view = View(documents={"evaluation": {"recent": {"cost": cost}}})
    assert cost_of(view) == ("0.250", "0.125 to 0.500, 95 % interval of the mean")
