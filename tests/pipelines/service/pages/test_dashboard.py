"""What the dashboard's tiles say."""

from streamboost.pipelines.service.pages.dashboard import cost_of
from streamboost.pipelines.service.pages.view import View


def test_the_cost_of_decisions_has_a_tile_where_there_is_one():
    assert cost_of(View()) is None
    assert cost_of(View(documents={"evaluation": {"recent": {"cost": None}}})) is None
    cost = {"value": 0.25, "low": 0.125, "high": 0.5}
    view = View(documents={"evaluation": {"recent": {"cost": cost}}})
    assert cost_of(view) == ("0.250", "0.125 to 0.500, in the mean")
