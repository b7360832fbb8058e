"""Default experts against the committee and a schedule per label, on stable and other streams."""

import numpy as np
import pytest
from river import datasets

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import Schedule


def record(row):
    return dict(zip("abcd", row.tolist(), strict=False))


def labels_in_runs():
    return [({"a": i / 50, "b": float(i % 7)}, (i // 30) % 5) for i in range(600)]


def concepts_that_come_again():
    """Three concepts by turns, each of 150 records."""
    rows = np.random.default_rng(0).random((900, 4))
    turn = np.arange(900) // 150 % 3
    at = np.arange(900)
    labels = (rows[at, turn] > 0.5) + 2 * (rows[at, (turn + 1) % 3] > 0.7)
    return list(zip(map(record, rows), labels.tolist(), strict=True))


def a_boundary_that_turns():
    """Two classes on either side of a line that goes round once in 600 records."""
    rows = np.random.default_rng(0).standard_normal((900, 2))
    angle = 2 * np.pi * np.arange(900) / 600
    labels = np.cos(angle) * rows[:, 0] + np.sin(angle) * rows[:, 1] > 0
    return list(zip(map(record, rows), labels.tolist(), strict=True))


def nothing_that_changes():
    rng = np.random.default_rng(0)
    rows = rng.random((700, 4))
    labels = (rows[:, 0] > 0.5) + 1 * (rows[:, 1] + rows[:, 2] > 1)
    labels = np.where(rng.random(700) < 0.05, rng.integers(3, size=700), labels)
    return list(zip(map(record, rows), labels.tolist(), strict=True))


def segments():
    return list(datasets.ImageSegments().take(400))


def accuracy(records, **settings):
    model, right = StreamBoostClassifier(seed=1, **settings), 0
    for x, y in records:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(records)


@pytest.mark.parametrize(
    ("stream", "moves"),
    [
        (labels_in_runs, True),
        (concepts_that_come_again, True),
        (a_boundary_that_turns, True),
        (nothing_that_changes, False),
        (segments, False),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
@pytest.mark.quick_once
def test_the_default_needs_no_word_on_whether_a_stream_moves(stream, moves):
    records = stream()
    default = accuracy(records)
    alone = accuracy(records, experts="committee")
    following = accuracy(records, experts="committee", schedule=Schedule.per_label())
    assert default >= max(alone, following) - 0.025
    if moves:
        assert default > alone + 0.1


# Late labels


def weight_of_sequence(records, labels, delay, both):
    """Return the weight of the label transition expert if labels arrive `delay` records late.

    If `both` is true, the model predicts the probabilities of each record in addition to the label.
    """
    model = StreamBoostClassifier(SketchLogitBoostClassifier(n_estimators=5), seed=1)
    for i, x in enumerate(records):
        model.predict_one(x)
        if both:
            model.predict_proba_one(x)
        if i >= delay:
            model.learn_one(records[i - delay], labels[i - delay])
    blend = model._learner._stacking
    return blend.weights[blend.names.index("transitions")]


@pytest.mark.parametrize("equal", [False, True], ids=["all different", "some equal"])
@pytest.mark.parametrize("both", [False, True], ids=["label", "both"])
@pytest.mark.quick_once
def test_experts_are_judged_by_what_they_said_on_arrival_however_late_labels_are(equal, both):
    rng = np.random.default_rng(0)
    labels = (np.cumsum(rng.random(500) < 0.15) % 2).tolist()  # short runs, which end unseen
    rows = rng.integers(2, size=(500, 2)) if equal else rng.random((500, 2))
    records = [{"a": a, "b": b} for a, b in rows.tolist()]
    assert weight_of_sequence(records, labels, 0, both) > 0.6
    assert weight_of_sequence(records, labels, 40, both) < 0.25


@pytest.mark.parametrize(
    ("experts", "growth", "every"), [("committee", 1.15, 500), ("all", 1.2, 1_500)]
)
def test_a_committee_is_trained_less_often_beside_experts_that_follow_every_label(
    experts, growth, every
):
    schedule = StreamBoostClassifier(experts=experts, seed=1)._learner.schedule
    assert (schedule.growth, schedule.retrain_every) == (growth, every)
    given = Schedule(retrain_every=70)
    assert StreamBoostClassifier(schedule=given, experts=experts)._learner.schedule is given
