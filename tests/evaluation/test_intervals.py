"""Confidence intervals from sums, against the slow computation from each record's residual."""

import numpy as np
import pytest
from evaluation.judging import made
from scipy.stats import t as student

from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.report import (
    Estimate,
    LinearizedMetric,
    difference_estimate,
    estimate_metric,
    estimate_metric_by_class,
    make_report,
    naive_accuracy,
)
from streamboost.evaluation.sufficient_stats import PREDICTORS, EvaluatedRecords, SufficientStats


def figure(name, cells):
    """Return a figure of the confusion matrix `cells` (predicted, true)."""
    n, right = cells.sum(), np.diag(cells)
    if name == "accuracy":
        return right.sum() / n
    if name == "balanced_accuracy":
        return (right / cells.sum(axis=0)).mean()
    chance = (cells.sum(axis=0) * cells.sum(axis=1)).sum() / n**2
    return (right.sum() / n - chance) / (1.0 - chance)


def slopes(name, cells, rows):
    """Return the figure's numeric derivative by each cell; row sums are known and stay."""
    found = np.zeros_like(cells)
    for a, c in np.ndindex(*cells.shape):
        value = []
        for step in (1e-4, -1e-4):
            moved = cells.copy()
            moved[a, c] += step
            value.append(figure_given(name, moved, rows))
        found[a, c] = (value[0] - value[1]) / 2e-4
    return found


def figure_given(name, cells, rows):
    """Return the figure where the numbers of records predicted, `rows`, are known."""
    n = rows.sum()
    if name == "balanced_accuracy":
        return figure(name, cells)
    if name == "accuracy":
        return np.diag(cells).sum() / n
    chance = (cells.sum(axis=0) * rows).sum() / n**2
    return (np.diag(cells).sum() / n - chance) / (1.0 - chance)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "kappa"])
@pytest.mark.parametrize("drawn", [True, False])
def test_the_interval_is_that_of_the_records_linearized_residuals(name, drawn):
    stream = made(21, n=900, drawn=drawn)
    found = getattr(stream.feed(Evaluation(stream.block), batch=900).since_start().committee, name)
    asked = stream.propensity > 0
    truth = np.eye(3)[stream.y]
    d = (truth - stream.P)[asked]
    a = stream.predicted[asked]
    v = 1.0 / stream.propensity[asked] - 1.0
    u = v * (v + 1.0)
    rest = (~asked).sum()
    guess = np.where(asked[:, None], truth, stream.P)
    cells = np.array([guess[stream.predicted == k].sum(axis=0) for k in range(3)])
    cells += rest / v.sum() * np.array([(v[:, None] * d)[a == k].sum(axis=0) for k in range(3)])
    rows = np.bincount(stream.predicted, minlength=3)
    slope = slopes(name, cells, rows)
    residual = (slope[a] * d).sum(axis=1)
    steep, P = slope[stream.predicted], stream.P
    others = 1.0 / np.where(asked, stream.propensity, 1.0 / stream.block) - 1.0
    model = others @ ((P * steep**2).sum(axis=1) - (P * steep).sum(axis=1) ** 2)
    effective = v.sum() ** 2 / (v**2).sum()
    doubt = others @ ((steep - (P * steep).sum(axis=1, keepdims=True)) ** 2).sum(axis=1) / 2.0
    more = model + doubt / effective
    mean = (v * residual).sum() / v.sum()
    seen = (u * (residual - mean) ** 2).sum() * (rest / v.sum()) ** 2
    above, below = ((effective * seen + 10.0 * one) / (effective + 10.0) for one in (model, more))
    quantile = student.ppf(0.975, effective + 9.0)
    assert found.value == pytest.approx(figure(name, cells))
    assert found.high - found.value == pytest.approx(quantile * np.sqrt(above), rel=1e-4)
    below = quantile * np.sqrt(max(below, more))
    assert found.value - found.low == pytest.approx(below, rel=1e-4)


@pytest.mark.parametrize("falls", [True, False])
def test_figures_on_each_class_have_the_intervals_they_have_alone(falls):
    stream = made(5, n=900)
    tally = SufficientStats(3)
    truth = np.where(stream.propensity > 0, stream.y, -1)
    predicted = np.stack([stream.predicted] * len(PREDICTORS), axis=1)
    tally.add(
        EvaluatedRecords(
            stream.P, predicted, truth, 1.0 / np.nan_to_num(stream.propensity, nan=0.1) - 1.0
        )
    )
    values, t, w = np.random.default_rng(5).normal(size=(3, 3))
    together = estimate_metric_by_class(tally, values, t, w, mistakes_lower=falls)
    for k, unit in enumerate(np.eye(3)):
        alone = estimate_metric(
            tally, 0, LinearizedMetric(values[k], t[k] * unit, w[k] * unit, falls)
        )
        assert (together[k].value, together[k].low, together[k].high) == pytest.approx(
            (alone.value, alone.low, alone.high)
        )


def test_a_total_that_mistakes_lower_leaves_room_for_more_of_them_below_alone():
    """25 labels with inclusion probability 1/5 represent 100 other records: e = 25."""
    sums = {"rest": 100.0, "known": 25.0, "weight": 100.0, "weight_square": 500.0, "shift": 0.0}
    sums |= {"first": 0.0, "second": 50.0, "model": 85.0, "doubt": 375.0}
    falls, either = difference_estimate(**sums, mistakes_lower=True), difference_estimate(**sums)
    quantile = student.ppf(0.975, 34.0)
    assert falls.value == either.value == 25.0
    # 85 + 375 / 25 = 100 is more than the mixture, (25 * 50 + 10 * 100) / 35
    assert 25.0 - falls.low == pytest.approx(quantile * np.sqrt(100.0))
    assert falls.high - 25.0 == pytest.approx(quantile * np.sqrt((25 * 50 + 10 * 85) / 35))
    assert (either.low, either.high) == pytest.approx((falls.low, 50.0 - falls.low))


def test_what_a_mistake_of_the_committee_does_to_others_is_either():
    figures = figures_of(0)
    assert figures.repeat_last.accuracy.low == figures.committee.accuracy.low
    assert figures.classes[0].share.high == 1.0
    report_ = figures_of(400)
    own, other = report_.committee.accuracy, report_.repeat_last.accuracy
    assert own.high - own.value < own.value - own.low
    assert other.high - other.value == pytest.approx(other.value - other.low)


def tally_of(mistakes, chance=0.05, n=4000, seed=0):
    """Return sums of a committee with confident predictions and `mistakes` errors in `n` records.

    All records have the same inclusion probability, `chance`.
    """
    rng = np.random.default_rng(seed)
    truth = np.zeros(n, dtype=np.int64)
    truth[rng.choice(n, mistakes, replace=False)] = 1
    P = np.tile([0.999, 0.0006, 0.0004], (n, 1))
    asked = rng.random(n) < chance
    tally = SufficientStats(3)
    others = np.full(n, 1.0 / chance - 1.0)
    predicted = np.zeros((n, len(PREDICTORS)), dtype=np.int64)
    tally.add(EvaluatedRecords(P, predicted, np.where(asked, truth, -1), others))
    return tally


def figures_of(*arguments, **settings):
    return make_report(tally_of(*arguments, **settings), ["a", "b", "c"], 0, 1.5)


def test_labels_without_a_mistake_leave_room_for_some():
    figures = figures_of(0)
    for found in (
        figures.committee.accuracy,
        figures.repeat_last.accuracy,
        figures.classes[0].precision,
        figures.reliability[9].accuracy,
        figures.classes[0].share,
    ):
        assert 1.5 < figures.answered * (1.0 - found.low) < 3.0


def test_a_mistake_that_was_caught_widens_the_interval_but_little_more():
    caught = figures_of(400).committee.accuracy
    width = 2.0 * 1.96 * np.sqrt(0.1 * 0.9 * 19.0 / 4000)
    assert caught.high - caught.low == pytest.approx(width, rel=0.15)


@pytest.mark.slow
def test_a_committee_that_is_too_sure_is_covered_though_few_of_its_mistakes_are_caught():
    found = [figures_of(60, seed=seed).committee.accuracy for seed in range(200)]
    held = np.mean([one.low <= 1.0 - 60 / 4000 <= one.high for one in found])
    assert held >= 0.9


def test_tallies_of_parts_add_up_to_that_of_the_whole():
    stream = made(22, n=400)
    truth = np.where(stream.propensity > 0, stream.y, -1)
    predicted = np.column_stack([stream.predicted] * len(PREDICTORS))
    others = np.nan_to_num(1.0 / stream.propensity - 1.0)

    def tally(rows):
        made_of = SufficientStats(3)
        made_of.add(EvaluatedRecords(stream.P[rows], predicted[rows], truth[rows], others[rows]))
        return made_of

    whole, first = tally(slice(None)), tally(slice(0, 150))
    first.merge(tally(slice(150, None)))
    for name, array in whole.state().items():
        np.testing.assert_allclose(first.state()[name], array, atol=1e-9)


def test_room_for_more_classes_changes_no_sum():
    stream = made(23, n=200)
    tally = SufficientStats(3)
    predicted = np.column_stack([stream.predicted] * len(PREDICTORS))
    tally.add(EvaluatedRecords(stream.P, predicted, stream.y, np.zeros(200)))
    before = {name: array.copy() for name, array in tally.state().items()}
    tally.extend_classes(7)
    for name, array in tally.state().items():
        old = tuple(slice(n) for n in before[name].shape)
        np.testing.assert_array_equal(array[old], before[name])
        assert np.count_nonzero(array) == np.count_nonzero(before[name])
    assert tally.sums["cells"].shape == (len(PREDICTORS), 7, 7)


def test_a_total_without_unknown_parts_is_certain():
    nothing = dict.fromkeys(
        ("rest", "weight", "weight_square", "shift", "first", "second", "model", "doubt"), 0.0
    )
    assert difference_estimate(known=7.0, **nothing) == Estimate(7.0, 7.0, 7.0)


def test_no_answers_give_no_naive_figure():
    assert naive_accuracy(0.0, 0.0) is None
    assert naive_accuracy(30.0, 40.0).value == 0.75
