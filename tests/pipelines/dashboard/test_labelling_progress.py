"""Accuracy gain from an annotator's labels, with its uncertainty."""

import pytest

from streamboost.pipelines.dashboard.labelling_progress import AccuracyGain, AccuracyGainTracker
from streamboost.pipelines.dashboard.view import StatusSnapshot


def estimate(value, margin):
    return {"value": value, "low": value - margin, "high": value + margin}


def seen(now, *points):
    """A view of the accuracy `now`, and that at each of the times before."""
    found = {"recent": {"committee": {"accuracy": now}}}
    points = [{"time": time, "accuracy": one} for time, one in points]
    return StatusSnapshot(documents={"evaluation": found}, points=points)


def test_a_gain_counts_from_the_accuracy_known_at_the_first_label():
    points = (1, None), (2, estimate(0.5, 0.03)), (5, estimate(0.6, 0.03)), (9, estimate(0.8, 0.03))
    view = seen(estimate(0.9, 0.04), *points)
    assert AccuracyGainTracker().gain_since(7, view).change == pytest.approx(0.3)
    assert AccuracyGainTracker().gain_since(1, view).change == pytest.approx(0.4), (
        "from the first that was known"
    )
    assert AccuracyGainTracker().gain_since(7, view).margin == pytest.approx(0.05)


def test_there_is_no_gain_before_a_label_or_a_figure():
    view = seen(estimate(0.9, 0.04), (1, None))
    assert AccuracyGainTracker().gain_since(None, view) is None
    assert AccuracyGainTracker().gain_since(1, view) is None
    assert AccuracyGainTracker().gain_since(1, seen(None, (1, estimate(0.5, 0.1)))) is None


def test_a_start_stays_where_it_was_although_its_point_is_forgotten():
    gains = AccuracyGainTracker()
    gains.gain_since(5, seen(estimate(0.7, 0.0), (5, estimate(0.6, 0.0))))
    assert gains.gain_since(5, seen(estimate(0.9, 0.0), (9, estimate(0.8, 0.0)))).change > 0.25


def test_a_first_label_that_is_taken_back_is_none():
    gains = AccuracyGainTracker()
    view = seen(estimate(0.75, 0.0), (2, estimate(0.5, 0.0)), (6, estimate(0.7, 0.0)))
    assert gains.gain_since(3, view).change == pytest.approx(0.25)
    assert gains.gain_since(8, view).change == pytest.approx(0.05)


def test_what_may_be_chance_is_not_called_a_gain():
    assert "no clear change" in str(AccuracyGain(0.02, 0.03))
    assert "no clear change" in str(AccuracyGain(-0.02, 0.03))
    assert str(AccuracyGain(-0.06, 0.03)).startswith("accuracy -6 points")
