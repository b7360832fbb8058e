import numpy as np
import pytest
from evaluation.judging import made

from streamboost.evaluation.confidence_sequence import (
    relative_width_of_window,
    relative_width_since_start,
)
from streamboost.evaluation.evaluation import Evaluation


@pytest.mark.parametrize(
    ("n", "bound"),
    [(25, 19.34994716), (250, 47.99242932), (2_500, 161.98096604), (100_000, 1185.05132926)],
)
def test_the_sequence_since_the_start_is_the_bound_of_confseq(n, bound):
    # confseq 0.0.11: normal_mixture_bound(v=n, alpha=0.05, v_opt=253.9569472556, alpha_opt=0.05)
    assert relative_width_since_start(n) * 1.959964 * np.sqrt(n) == pytest.approx(bound, abs=1e-7)


def test_in_the_first_period_the_window_s_bound_is_exceeded_as_often_as_planned():
    rng = np.random.default_rng(1)
    n, runs = 400, 4_000
    steps = rng.normal(size=(runs, 2 * n)) / np.sqrt(n)
    path = np.concatenate([np.zeros((runs, 1)), steps.cumsum(axis=1)], axis=1)
    windows = np.abs(path[:, n:] - path[:, :-n]).max(axis=1)
    exceeded = np.mean(windows > 1.959964 * relative_width_of_window(n, n))
    assert 0.018 <= exceeded <= 0.03  # 0.05 / (1 * 2), and less often for a discrete walk


def test_a_window_with_all_labels_has_at_least_the_factor_since_the_start():
    assert relative_width_of_window(30, 30) == relative_width_since_start(30)
    assert relative_width_of_window(300, 300) > relative_width_since_start(300)


def test_factors_of_windows_grow_slowly_and_without_end():
    factors = [relative_width_of_window(10**i, 100) for i in range(2, 12)]
    assert (np.diff(factors) > 0.0).all()
    assert factors[-1] < 5.0


def test_a_confidence_sequence_holds_at_all_times_and_intervals_do_not():
    always = np.ones((60, 4), dtype=bool)
    for seed in range(60):
        stream = made(seed, n=3_000)
        evaluation = Evaluation(stream.block, window=500, min_labels=50)
        right = stream.predicted == stream.y
        for start in range(0, 3_000, 100):
            stream.feed(evaluation, start=start, stop=start + 100)
            reports = evaluation.both_reports()
            end = reports[0].records
            for i, report in enumerate(reports):
                truth = right[end - report.records : end].mean()
                for j, found in enumerate((report.committee.accuracy, report.anytime_accuracy)):
                    always[seed, 2 * i + j] &= found is None or found.low <= truth <= found.high
    pointwise, sequence, of_window, sequence_of_window = always.mean(axis=0)
    assert min(sequence, sequence_of_window) >= 0.94
    assert max(pointwise, of_window) <= 0.85
