"""Forecasts of the accuracy over labels: the history, the fitted curves, and what they say."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from streamboost.evaluation import learning_curve
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.learning_curve import AccuracyHistory, LearningCurve
from streamboost.evaluation.sufficient_stats import BINS, MEAN_COLUMNS, SufficientStats
from streamboost.predictions import Scored

RECORDS, LABELS = 500.0, 100.0


def groups_of(accuracies, noise=0.02, seed=0):
    """Return groups of 500 records and 100 labels each, with estimates around `accuracies`."""
    rng = np.random.default_rng(seed)
    v, rows = RECORDS / LABELS - 1.0, []
    rest = RECORDS - LABELS
    for i, accuracy in enumerate(accuracies):
        y = accuracy + noise * rng.standard_normal()
        sums = dict.fromkeys(MEAN_COLUMNS, 0.0) | {
            "records": RECORDS,
            "rest": rest,
            "known": RECORDS * y,
            "weight": LABELS * v,
            "weight_square": LABELS * v * (v + 1.0),
            # So that the variance of the estimate is noise²: second (rest / weight)² / records².
            "second": (noise * RECORDS * LABELS * v / rest) ** 2,
        }
        rows.append([*sums.values(), LABELS, RECORDS * LABELS * (i + 0.5)])
    return np.array(rows)


def tally(records, labels, right):
    found = SufficientStats(2)
    found.sums["counts"][:2] = records, labels
    found.means[BINS - 1, MEAN_COLUMNS.index("records")] = records
    found.means[BINS - 1, MEAN_COLUMNS.index("known")] = right
    return found


def test_history_merges_older_strides_and_keeps_the_totals():
    history = AccuracyHistory()
    for stride in range(1_000):
        history.add(stride, tally(200, 20, 150), n_known=20.0 * stride)
    assert len(history.sums) == len(history.first_strides) <= 64
    assert history.sums[:, 0].sum() == 200_000
    assert history.sums[:, -2].sum() == 20_000
    assert (np.diff(history.first_strides) > 0).all()
    assert history.first_strides[0] == 0
    known = history.sums[:, -1] / history.sums[:, 0]
    assert (np.diff(known) > 0).all()


def test_correction_changes_the_group_of_its_stride():
    history = AccuracyHistory()
    for stride in range(100):
        history.add(stride, tally(200, 20, 150), n_known=20.0 * stride)
    before = history.sums.copy()
    history.correct(70, tally(0, -1, -1))
    (changed,) = np.flatnonzero((history.sums != before).any(axis=1))
    first = [*history.first_strides, 100]
    assert first[changed] <= 70 < first[changed + 1]
    assert history.sums[changed, -2] == before[changed, -2] - 1


def test_groups_have_enough_labels_and_all_records():
    history = AccuracyHistory()
    for stride in range(33):
        history.add(stride, tally(200, 20, 150), n_known=20.0 * stride)
    groups = history.groups()
    assert groups[:, -2].min() >= 100
    assert groups[:, 0].sum() == 33 * 200


def test_likelihood_of_a_curve_equals_the_integral_over_its_level():
    rng = np.random.default_rng(3)
    y, root = rng.normal(0.8, 0.05, 4), rng.normal(size=(4, 4)) * 0.03
    covariance, shape = root @ root.T + 0.001 * np.eye(4), -rng.random((4, 6))
    gains = 0.2 * learning_curve._GAINS
    curves = learning_curve._fit_curves(y, covariance, shape, gains)

    def log_evidence(k, g):
        normal = multivariate_normal(np.zeros(4), covariance)
        return np.log(quad(lambda q: normal.pdf(y - q - gains[g] * shape[:, k]), -3, 3)[0])

    def log_prior(g):
        return -learning_curve._GAIN_RATE * learning_curve._GAINS[g]

    first = curves["log_weight"][0, 0] - log_evidence(0, 0)
    for k, g in ((2, 5), (5, 15), (1, 9)):
        other = curves["log_weight"][k, g] - log_evidence(k, g) - log_prior(g)
        assert other == pytest.approx(first, abs=1e-6)


def test_level_is_the_mean_weighted_by_precision():
    # Variances of 4e-4 and 1e-4: weights 1 and 4, so (0.8 + 4 * 0.9) / 5 and 4e-4 / 5.
    y, covariance = np.array([0.8, 0.9]), np.diag([4e-4, 1e-4])
    shape = np.zeros((2, 6))
    flat = learning_curve._fit_curves(y, covariance, shape, learning_curve._GAINS)[0, 0]
    assert flat["level"] == pytest.approx(0.88)
    assert flat["variance"] == pytest.approx(8e-5)


def test_gain_and_labels_until_an_accuracy_follow_the_curve():
    curve = LearningCurve(groups_of(np.full(5, 0.8)), 150)
    # One curve: 0.8 + 0.1 (1 - (n + 50) / (150 + 50))^-1.
    curve._curves = np.array([(0.0, 0.8, 0.0, 0.1, 1.0, 0.0)], dtype=learning_curve._CURVE)
    curve._weight = np.ones(1)
    assert curve.gain_after(200).value == pytest.approx(0.05, abs=1e-3)  # 1 - 200 / 400 = 1 / 2
    assert curve.labels_until(0.875).labels == pytest.approx(600.0)  # 1 - 200 / 800 = 3 / 4
    assert curve.labels_until(0.91).labels is None


def test_forecast_follows_a_power_law():
    def law(n):
        return 0.97 - 2.0 * n**-0.5

    curve = LearningCurve(groups_of(law(np.arange(50, 2_000, 100.0)), 0.01), 2_000)
    for labels in (200, 1_000):
        found = curve.accuracy_after(labels)
        assert found.low < law(2_000 + labels) < found.high
        assert found.high - found.low < 0.06
    needed = (2.0 / 0.03) ** 2 - 2_000
    target = curve.labels_until(0.94)
    assert target.low < needed
    assert target.high is None or needed < target.high


def test_accuracy_above_a_plateau_is_not_reached():
    curve = LearningCurve(groups_of(np.full(40, 0.8), 0.01), 4_000)
    found = curve.forecast(2_000)
    assert [one.accuracy for one in found.targets] == [0.85, 0.9, 0.95]
    assert found.targets[1].labels is None
    assert found.targets[1].high is None
    assert 0.8 < found.ceiling < 0.9


def test_reached_accuracy_needs_no_more_labels():
    curve = LearningCurve(groups_of(np.full(20, 0.9), 0.01), 2_000)
    assert curve.labels_until(0.8).labels == 0.0


def test_drift_of_the_past_widens_the_forecast():
    walk = 0.85 + np.cumsum(np.random.default_rng(1).normal(0.0, 0.02, 30)) * 0.7
    steady, drifting = (
        LearningCurve(groups_of(one, 0.01), 3_000).accuracy_after(1_000)
        for one in (np.full(30, 0.85), walk)
    )
    assert drifting.high - drifting.low > 1.5 * (steady.high - steady.low)


def test_estimates_before_a_detected_change_count_less():
    groups = groups_of(np.repeat([0.9, 0.7], [25, 5]), 0.02)
    with_change = LearningCurve(groups, 3_000, [2_500]).accuracy_after(0)
    assert abs(with_change.value - 0.7) < 0.03
    without = LearningCurve(groups, 3_000).accuracy_after(0)
    assert with_change.high - with_change.low < without.high - without.low


def test_forecast_with_a_wide_interval_is_withheld():
    found = LearningCurve(groups_of(np.full(5, 0.7), 0.1), 500).forecast(2_000)
    assert not found.steps
    assert not found.targets
    assert found.n_missing_labels >= 100


def test_missing_labels_narrow_the_interval_to_the_limit():
    # Twice the widest interval: four times the labels are needed.
    assert learning_curve._n_missing_labels(2.0 * learning_curve.WIDEST, 400.0) == 1_200
    assert learning_curve._n_missing_labels(learning_curve.WIDEST, 400.0) == 0


def test_curve_is_finite_at_the_first_labels():
    def law(n):
        return 0.95 - 40.0 / (n + 50.0)

    known = np.array([30.0, 150.0, 250.0, 350.0, 450.0])
    groups = groups_of(law(known), 0.003)
    groups[:, -1] = known * RECORDS
    assert LearningCurve(groups, 500).accuracy_after(200).value == pytest.approx(
        law(700), abs=0.005
    )


def filled(n, budget=0.5, annotators=("ann",), erring=None):
    """Return an evaluation of n records, of which the share `budget` was requested.

    The annotator number `erring` gives wrong labels only.
    """
    rng, evaluation = np.random.default_rng(7), Evaluation(block=10)
    classes = np.array(["no", "yes"], dtype=object)
    for start in range(0, n, 50):
        ids = [str(i) for i in range(start, start + 50)]
        truth = classes[rng.integers(2, size=50)]
        right = rng.random(50) < 0.85
        labels = np.where(right, truth, classes[(truth == "no").astype(int)])
        P = np.where(labels[:, None] == classes, 0.85, 0.15)
        asked = rng.random(50) < budget
        scored = Scored(labels, classes, P, margins=np.full(50, 0.7), version=1)
        evaluation.add_records(ids, scored, np.where(asked, budget, np.nan), np.full(50, budget))
        chosen = np.flatnonzero(asked)
        who = chosen % len(annotators)
        given = np.where(who == erring, classes[(truth[chosen] == "no").astype(int)], truth[chosen])
        sources = [annotators[i] for i in who]
        evaluation.add_labels([ids[i] for i in chosen], given, sources)
    return evaluation


def test_forecast_needs_300_labels():
    assert filled(500).forecast() is None
    found = filled(4_000).forecast()
    assert found.labels > 1_900
    assert found.accuracy.low < 0.85 < found.accuracy.high
    assert found.records_per_label == pytest.approx(2.0, rel=0.1)
    assert [one.labels for one in found.steps] == [200, 1_000]


def test_no_forecast_with_a_label_for_fewer_than_one_record_in_15():
    assert filled(10_000, budget=0.04).forecast() is None


def test_forecast_is_the_same_after_resuming():
    evaluation, other = filled(3_050), Evaluation(block=10)
    other.resume(*evaluation.state())
    assert other.forecast([700]) == evaluation.forecast([700])
    for one in (evaluation, other):
        one.correct_label("40", "no", "yes")
    assert other.forecast() == evaluation.forecast()


def with_left_out(evaluation, *names):
    errors = evaluation.annotator_errors
    errors.left_out = frozenset(errors.number_of(name) for name in names)
    return evaluation


def test_forecast_without_an_annotator_uses_the_labels_of_the_others():
    """`erring` gives wrong labels only: the accuracy with them is far too low."""
    evaluation = filled(4_000, annotators=("ann", "bob", "erring"), erring=2)
    assert with_left_out(evaluation).forecast().accuracy.high < 0.75
    found = with_left_out(evaluation, "erring").forecast()
    assert found.accuracy.low < 0.85 < found.accuracy.high
    assert found.labels > 1_900, "the learner has learned all labels"
    assert found.records_per_label == pytest.approx(2.0, rel=0.1)
    assert [one.labels for one in found.steps] == [200, 1_000]


def test_forecast_needs_300_labels_of_annotators_who_count():
    annotators = ("ann", "eve", "eve", "eve")
    assert with_left_out(filled(2_000, annotators=annotators), "eve").forecast() is None
    assert with_left_out(filled(4_000, annotators=annotators), "eve").forecast() is not None


def test_history_without_annotators_starts_where_labels_are_still_stored():
    evaluation = filled(4_000, annotators=("ann", "bob"))
    strides = evaluation._strides
    whole = strides.history_without_annotators({1})
    assert whole.first_strides == strides.history.first_strides
    assert whole.sums[:, -2].sum() < 0.6 * strides.history.sums[:, -2].sum()
    assert whole.sums[:, 0] == pytest.approx(strides.history.sums[:, 0])
    third = strides.history.first_strides[3]
    stored = strides.labelled_predictions
    gone = [id for id, one in stored._kept.items() if one.stride < third]
    stored.remove(gone)
    assert strides.history_without_annotators({1}).first_strides[0] == third


def test_correction_of_a_label_changes_the_history_without_annotators():
    evaluation = with_left_out(filled(3_000, annotators=("ann", "bob")), "bob")
    ann = evaluation.annotator_errors.number_of("ann")
    before = evaluation.forecast().accuracy
    stored = evaluation._strides.labelled_predictions._kept
    for id, one in list(stored.items()):
        if one.source == ann:
            evaluation.correct_label(id, *(("no", "yes") if one.truth == 0 else ("yes", "no")))
    assert evaluation.forecast().accuracy.high < before.low - 0.3


def rising_accuracy(n_labels):
    return 0.93 - (n_labels + 50.0) ** -0.35


def with_erring_annotator(seed, n=4_000, budget=0.3):
    """Return the labels and evaluation of n records; one of three annotators errs in 30 %."""
    rng, evaluation, n_labels = np.random.default_rng(seed), Evaluation(block=10), 0
    classes = np.array(["no", "yes"], dtype=object)
    for start in range(0, n, 100):
        ids = [str(i) for i in range(start, start + 100)]
        truth, accuracy = rng.integers(2, size=100), rising_accuracy(n_labels)
        predicted = classes[np.where(rng.random(100) < accuracy, truth, 1 - truth)]
        P = np.where(predicted[:, None] == classes, accuracy, 1.0 - accuracy)
        asked = rng.random(100) < budget
        scored = Scored(predicted, classes, P, margins=np.full(100, 0.5), version=1)
        evaluation.add_records(ids, scored, np.where(asked, budget, np.nan), np.full(100, budget))
        chosen = np.flatnonzero(asked)
        who = rng.choice(["ann", "bob", "eve"], len(chosen))
        errs = (who == "eve") & (rng.random(len(chosen)) < 0.3)
        given = classes[np.where(errs, 1 - truth[chosen], truth[chosen])]
        evaluation.add_labels([ids[i] for i in chosen], given, who.tolist())
        n_labels += len(chosen)
    return n_labels, evaluation


@pytest.mark.slow
def test_interval_of_a_forecast_holds_with_an_erring_annotator():
    held, rng = {200: [], 1_000: []}, np.random.default_rng(1)
    for seed in range(120):
        n_labels, evaluation = with_erring_annotator(seed)
        assert evaluation.annotator_errors.left_out
        for step in evaluation.forecast().steps:
            later = rng.binomial(2_000, rising_accuracy(n_labels + step.labels)) / 2_000
            held[step.labels].append(step.accuracy.low <= later <= step.accuracy.high)
    assert all(len(one) > 100 for one in held.values())
    assert all(np.mean(one) >= 0.88 for one in held.values()), held
