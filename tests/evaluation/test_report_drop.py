"""A drop of the accuracy is reported with the interval of the difference."""

import numpy as np
import pytest

from streamboost.checks import labels_to_array
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.report import accuracy_drop
from streamboost.predictions import Scored

CLASSES = labels_to_array(["a", "b"])


def evaluated(shares, n=6_000, budget=0.1):
    """Return an evaluation of predictions of "a" that are right with each of `shares` in turn."""
    rng = np.random.default_rng(0)
    evaluation = Evaluation(block=10, window=2_000)
    for part, share in enumerate(shares):
        ids = [f"{part}.{i}" for i in range(n)]
        labels, P = np.full(n, "a", dtype=object), np.tile([0.8, 0.2], (n, 1))
        asked = rng.random(n) < budget
        scored = Scored(labels, CLASSES, P, np.zeros(n), 1)
        evaluation.add_records(ids, scored, np.where(asked, budget, np.nan), np.full(n, budget))
        truth = np.where(rng.random(n) < share, "a", "b")
        evaluation.add_labels([ids[i] for i in np.flatnonzero(asked)], truth[asked])
    return evaluation


@pytest.mark.parametrize(("late", "is_dropped"), [(0.6, True), (0.8, False), (0.95, False)])
def test_drop_has_the_interval_of_a_difference(late, is_dropped):
    evaluation = evaluated([0.8, late])
    drop = accuracy_drop(*evaluation.both_reports())
    before = 0.8 * 6 / 10 + late * 4 / 10  # 4,000 of the later records are before the window
    assert drop.low < before - late < drop.high
    assert (drop.low > 0.0) == is_dropped
    assert evaluation.to_json()["drop"]["value"] == drop.value


def test_few_labels_show_no_drop():
    evaluation = evaluated([0.8], n=2_300)
    assert accuracy_drop(*evaluation.both_reports()) is None
