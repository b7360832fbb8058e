"""Accuracy gain from an annotator's labels, with its uncertainty."""

import pytest

from streamboost.pipelines.dashboard.labelling_progress import (
    AccuracyGain,
    AccuracyGainTracker,
    effect_text,
    learned_version_text,
    training_text,
)
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


def mark(kind, version, time):
    return {"kind": kind, "version": version, "time": time}


def test_a_label_is_learned_by_the_first_deployed_version_that_was_trained_after_it():
    marks = [mark("trained", 7, 100), mark("promoted", 7, 150), mark("trained", 8, 200)]
    assert learned_version_text(99, marks) == "in version 7"
    assert learned_version_text(100, marks) == "by version 8 in training", (
        "it may have come after 7"
    )
    assert learned_version_text(200, marks) == ""
    later = [*marks, mark("trained", 9, 300), mark("promoted", 9, 400)]
    assert learned_version_text(100, later) == "in version 9", "8 was discarded"


def before_training(left, n_labels=0):
    """Return the status of a pipeline that had `n_labels` labels in each of ten minutes."""
    points = [{"time": 60_000 * i, "seconds": 60.0, "labels": n_labels} for i in range(10)]
    old = {"time": -3_600_000, "seconds": 60.0, "labels": 10_000}
    documents = {"learner": {"until_training": left}}
    return StatusSnapshot(points=[old, *points], documents=documents)


def test_training_text_gives_labels_and_time_until_the_next_training():
    assert training_text(before_training(24, 2)) == (
        "next training after 24 more labels, in about 12 min"
    )
    assert training_text(before_training(24)) == "next training after 24 more labels"


@pytest.mark.parametrize("left", [0, 1])
def test_training_text_names_the_next_label_if_that_makes_a_training_due(left):
    assert training_text(before_training(left, 2)) == "the next label starts a training"


def test_training_text_is_empty_while_no_training_runs():
    assert training_text(before_training(None, 2)) == ""
    assert training_text(StatusSnapshot()) == ""


def test_other_experts_learn_each_label_at_once():
    view = before_training(24)
    assert effect_text(view) == "next training after 24 more labels"
    experts = StatusSnapshot(
        documents=view.documents | {"experts": {"committee": 0.5, "runs": 0.5}}
    )
    assert effect_text(experts).endswith("; the other experts learn each label at once")
    assert effect_text(StatusSnapshot()).startswith("no training")
