"""Tiles of the dashboard."""

from streamboost.pipelines.dashboard.overview import decision_cost_texts
from streamboost.pipelines.dashboard.view import StatusSnapshot


def test_the_cost_of_decisions_has_a_tile_where_there_is_one():
    assert decision_cost_texts(StatusSnapshot()) is None
    assert (
        decision_cost_texts(StatusSnapshot(documents={"evaluation": {"recent": {"cost": None}}}))
        is None
    )
    cost = {"value": 0.25, "low": 0.125, "high": 0.5}
    view = StatusSnapshot(documents={"evaluation": {"recent": {"cost": cost}}})
    assert decision_cost_texts(view) == ("0.250", "0.125 to 0.500, 95 % interval of the mean")
