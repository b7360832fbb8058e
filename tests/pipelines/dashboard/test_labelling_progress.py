"""Accuracy gain from an annotator's labels, with its uncertainty."""

import pytest

from streamboost.pipelines.dashboard.labelling_progress import Gain, Gains
from streamboost.pipelines.dashboard.view import View


def estimate(value, margin):
    return {"value": value, "low": value - margin, "high": value + margin}


def seen(now, *points):
    """A view of the accuracy `now`, and that at each of the times before."""
    found = {"recent": {"committee": {"accuracy": now}}}
    points = [{"time": time, "accuracy": one} for time, one in points]
    return View(documents={"evaluation": found}, points=points)


def test_a_gain_counts_from_the_accuracy_known_at_the_first_label():
    points = (1, None), (2, estimate(0.5, 0.03)), (5, estimate(0.6, 0.03)), (9, estimate(0.8, 0.03))
    view = seen(estimate(0.9, 0.04), *points)
    assert Gains().since(7, view).change == pytest.approx(0.3)
    assert Gains().since(1, view).change == pytest.approx(0.4), "from the first that was known"
    assert Gains().since(7, view).margin == pytest.approx(0.05)


def test_there_is_no_gain_before_a_label_or_a_figure():
    view = seen(estimate(0.9, 0.04), (1, None))
    assert Gains().since(None, view) is None
    assert Gains().since(1, view) is None
    assert Gains().since(1, seen(None, (1, estimate(0.5, 0.1)))) is None


def test_a_start_stays_where_it_was_although_its_point_is_forgotten():
    gains = Gains()
    gains.since(5, seen(estimate(0.7, 0.0), (5, estimate(0.6, 0.0))))
    assert gains.since(5, seen(estimate(0.9, 0.0), (9, estimate(0.8, 0.0)))).change > 0.25


def test_a_first_label_that_is_taken_back_is_none():
    gains = Gains()
    view = seen(estimate(0.75, 0.0), (2, estimate(0.5, 0.0)), (6, estimate(0.7, 0.0)))
    assert gains.since(3, view).change == pytest.approx(0.25)
    assert gains.since(8, view).change == pytest.approx(0.05)


def test_what_may_be_chance_is_not_called_a_gain():
    assert "no clear change" in str(Gain(0.02, 0.03))
    assert "no clear change" in str(Gain(-0.02, 0.03))
    assert str(Gain(-0.06, 0.03)).startswith("-6 points")
