import json

import numpy as np
import pytest
from evaluation.judging import made
from hypothesis import given, settings
from hypothesis import strategies as st
from river import metrics
from sklearn.metrics import (
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
)
from slow import slow

from streamboost.errors import ConfigurationError, DataError
from streamboost.evaluation.evaluation import Evaluation
from streamboost.predictions import Scored
from streamboost.storage import read_arrays, write_arrays


def everything(seed=1, n=600):
    stream = made(seed, n)
    stream.propensity = np.ones(n)
    return stream


def covers(figure, truth):
    return figure.low <= truth <= figure.high


@pytest.mark.parametrize(
    ("drift", "drawn"), [(0.0, True), (1.5, False), *slow((0.0, False), (1.5, True))]
)
def test_the_honest_interval_covers_the_accuracy_and_the_naive_one_does_not(drift, drawn):
    honest, naive = [], []
    for seed in range(100):
        stream = made(seed, n=1000, drift=drift, drawn=drawn)
        figures = stream.feed(Evaluation(stream.block), batch=1000).since_start().committee
        truth = (stream.predicted == stream.y).mean()
        honest.append(covers(figures.accuracy, truth))
        naive.append(covers(figures.naive_accuracy, truth))
    assert np.mean(honest) >= 0.9
    assert np.mean(naive) <= 0.5


@pytest.mark.slow
def test_every_figure_is_covered_in_nine_runs_of_ten():
    hits = []
    for seed in range(50):
        stream = made(100 + seed)
        report = stream.feed(Evaluation(stream.block), batch=500).since_start()
        y, guess = stream.y, stream.predicted
        sure = stream.P.max(axis=1)
        top = sure >= 0.9
        last = report.reliability[-1]
        one = next(found for found in report.classes if found.label == 1)
        hits.append(
            [
                covers(report.committee.balanced_accuracy, balanced_accuracy_score(y, guess)),
                covers(report.committee.kappa, cohen_kappa_score(y, guess)),
                covers(report.log_loss, log_loss(y, stream.P)),
                covers(one.share, (y == 1).mean()),
                covers(one.recall, (guess == 1)[y == 1].mean()),
                covers(one.precision, (y == 1)[guess == 1].mean()),
                covers(last.accuracy, (guess == y)[top].mean()),
            ]
        )
    assert (np.mean(hits, axis=0) >= 0.88).all()


def test_with_every_label_the_figures_are_scikit_learns_and_certain():
    stream = everything()
    report = stream.feed(Evaluation()).since_start()
    y, guess = stream.y, stream.predicted
    figures = report.committee
    expected = [
        (figures.accuracy, (y == guess).mean()),
        (figures.naive_accuracy, (y == guess).mean()),
        (figures.balanced_accuracy, balanced_accuracy_score(y, guess)),
        (figures.kappa, cohen_kappa_score(y, guess)),
        (report.log_loss, log_loss(y, stream.P)),
    ]
    recalls = recall_score(y, guess, average=None)
    precisions = precision_score(y, guess, average=None)
    for found in report.classes:
        expected.append((found.recall, recalls[found.label]))
        expected.append((found.precision, precisions[found.label]))
        expected.append((found.share, (y == found.label).mean()))
    for figure, value in expected:
        assert figure.value == pytest.approx(value)
        if figure is not figures.naive_accuracy:
            assert figure.high - figure.low == pytest.approx(0.0, abs=1e-12)


def test_any_river_metric_reads_the_estimated_confusion_matrix():
    stream = everything()
    report = stream.feed(Evaluation()).since_start()
    found = report.update_river_metric(metrics.MacroF1()).get()
    assert found == pytest.approx(f1_score(stream.y, stream.predicted, average="macro"))


def test_the_baselines_repeat_the_newest_and_the_commonest_label_known():
    stream = everything(n=80)
    report = stream.feed(Evaluation(), batch=1).since_start()
    y = stream.y
    assert report.repeat_last.accuracy.value == pytest.approx((y[1:] == y[:-1]).sum() / 80)
    given, counts = -1, [0, 0, 0]
    right = 0
    for label in y.tolist():
        right += label == given
        counts[label] += 1
        if given < 0 or counts[label] > counts[given]:  # where two tie, the first to get there
            given = label
    assert report.majority.accuracy.value == pytest.approx(right / 80)


def test_where_a_rule_decides_the_estimate_is_the_difference_estimator():
    stream = made(3, drawn=False)
    figure = stream.feed(Evaluation(stream.block)).since_start().committee.accuracy
    e = (stream.predicted != stream.y).astype(float)
    g = 1.0 - stream.P.max(axis=1)
    audits = (stream.propensity > 0) & ~stream.selected
    rest = ~stream.selected
    total = e[stream.selected].sum() + g[rest].sum() + rest.sum() * (e - g)[audits].mean()
    assert 1.0 - figure.value == pytest.approx(total / len(e))


def test_over_all_places_of_the_audits_the_estimate_is_right_on_average():
    stream = made(4, n=1000, drift=1.0)
    rng = np.random.default_rng(5)
    p = 0.3 * (1.0 - stream.P.max(axis=1))
    values = []
    for _ in range(150):
        audit = np.zeros(1000, dtype=bool)
        audit[np.arange(0, 1000, 25) + rng.integers(25, size=40)] = True
        asked = audit | (rng.random(1000) < p)
        stream.propensity = np.where(asked, 1.0 - (1.0 - p) * 0.96, np.nan)
        figures = stream.feed(Evaluation(25), batch=1000).since_start().committee
        values.append(figures.accuracy.value)
    error = np.std(values) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx((stream.predicted == stream.y).mean(), abs=3 * error)


def test_labels_that_nobody_asked_for_do_not_estimate():
    stream = made(6)
    evaluation = stream.feed(Evaluation(stream.block))
    before = evaluation.since_start()
    unasked = np.flatnonzero(np.isnan(stream.propensity))
    evaluation.add_labels([str(i) for i in unasked], stream.y[unasked])
    assert evaluation.since_start() == before


def test_judging_goes_on_past_an_open_request_whose_label_counts_when_it_comes():
    stream, late, soon = everything(n=300), Evaluation(), Evaluation()
    for evaluation in (late, soon):
        evaluation.add_records(stream.ids(), stream.scored(), stream.propensity)
    late.add_labels(stream.ids()[1:], stream.y[1:])
    report = late.since_start()
    assert (report.records, report.answered, report.waiting, late.n_open_requests) == (
        300,
        299,
        1,
        1,
    )
    accuracy = report.committee.accuracy
    assert 0.0 < accuracy.high - accuracy.low <= 2.0 * 2.0 / 300
    late.add_labels(["0"], stream.y[:1])
    soon.add_labels([*stream.ids()[1:], "0"], [*stream.y[1:], stream.y[0]])
    assert late.since_start() == soon.since_start()
    assert late.since_start().committee.accuracy.low == (stream.predicted == stream.y).mean()


def test_records_after_the_newest_label_are_not_judged():
    stream = everything(n=300)
    evaluation = Evaluation()
    evaluation.add_records(stream.ids(), stream.scored(), stream.propensity)
    evaluation.add_labels(["120"], stream.y[[120]])
    assert evaluation.since_start().records == 121


def test_a_request_that_nobody_answers_does_not_hold_the_window_up():
    stream = everything(n=1000)
    stream.predicted[:700] = (stream.y[:700] + 1) % 3
    stream.predicted[700:] = stream.y[700:]
    evaluation = Evaluation(window=200)
    evaluation.add_records(stream.ids(), stream.scored(), stream.propensity)
    evaluation.add_labels(stream.ids()[1:], stream.y[1:])
    recent = evaluation.recent()
    assert recent.committee.accuracy.value == 1.0
    assert (180 <= recent.records <= 200, recent.waiting) == (True, 0)
    assert evaluation.since_start().waiting == 1


@pytest.mark.parametrize("slowly", [600, *slow(250)])
@pytest.mark.slow
def test_labels_that_come_fast_do_not_speak_for_those_that_come_slowly(slowly):
    hits = []
    for seed in range(20):
        stream = made(seed, n=1500)
        right = stream.predicted == stream.y
        chance = np.clip(0.3 * (1.0 - stream.P.max(axis=1)) + 0.05, 0.0, 1.0)
        asked = np.random.default_rng(seed).random(1500) < chance
        evaluation = Evaluation(40)
        for first in range(0, 1500, 50):
            rows = slice(first, first + 50)
            told = np.where(asked, chance, np.nan)[rows]
            evaluation.add_records(stream.ids(rows), stream.scored(rows), told, chance[rows])
            due = first - np.where(right, 50, slowly) // 50 * 50
            came = np.flatnonzero(asked & (np.arange(1500) // 50 * 50 == due))
            evaluation.add_labels([str(i) for i in came], stream.y[came])
        report = evaluation.since_start()
        assert report.records > 1350
        assert report.waiting > 0
        hits.append(covers(report.committee.accuracy, right[: report.records].mean()))
    assert np.mean(hits) >= 0.9


def test_hard_questions_that_are_passed_over_leave_the_figures_honest():
    hits = []
    for seed in range(20):
        stream = made(300 + seed, n=1500)
        chance = np.full(1500, 0.2)
        rng = np.random.default_rng(seed)
        asked = np.flatnonzero(rng.random(1500) < chance)
        evaluation = Evaluation(40)
        told = np.full(1500, np.nan)
        told[asked] = 0.2
        evaluation.add_records(stream.ids(), stream.scored(), told, chance)
        easy = rng.random(len(asked)) < stream.P.max(axis=1)[asked] ** 2
        evaluation.expire_requests([str(i) for i in asked[~easy]])
        evaluation.add_labels([str(i) for i in asked[easy]], stream.y[asked[easy]])
        accuracy = evaluation.since_start().committee.accuracy
        hits.append(covers(accuracy, (stream.predicted == stream.y).mean()))
    assert np.mean(hits) >= 0.9


def test_open_requests_are_spoken_for_after_a_restart_as_before():
    stream = made(15, n=900)
    kept, resumed = Evaluation(stream.block, window=300), Evaluation(stream.block, window=300)
    stream.feed(kept, delay=4)
    answered = np.flatnonzero(stream.propensity > 0)[5:]
    kept.add_labels([str(i) for i in answered[answered > 700]], stream.y[answered[answered > 700]])
    kept.add_records(["new", "newer"], stream.scored(slice(2)), [0.1, 0.1])
    kept.add_labels(["newer"], [0])
    state, arrays = kept.state()
    resumed.resume(json.loads(json.dumps(state)), arrays)
    assert kept.recent().waiting == 1
    assert (kept.recent(), kept.since_start()) == (resumed.recent(), resumed.since_start())


def test_labels_lost_at_random_leave_the_figures_honest():
    hits = []
    for seed in range(50):
        stream = made(200 + seed, n=1000)
        evaluation = Evaluation(stream.block)
        evaluation.add_records(stream.ids(), stream.scored(), stream.propensity)
        asked = np.flatnonzero(stream.propensity > 0)
        kept = np.random.default_rng(seed).random(len(asked)) < 0.7
        evaluation.expire_requests([str(i) for i in asked[~kept]])
        evaluation.add_labels([str(i) for i in asked[kept]], stream.y[asked[kept]])
        assert evaluation.unanswered == np.count_nonzero(~kept)
        figures = evaluation.since_start().committee
        hits.append(covers(figures.accuracy, (stream.predicted == stream.y).mean()))
    assert np.mean(hits) >= 0.9


def test_one_lost_label_of_many_widens_the_interval_by_no_more_than_that_record():
    stream = everything(n=500)
    evaluation = Evaluation()
    evaluation.add_records(stream.ids(), stream.scored(), stream.propensity)
    evaluation.expire_requests(["7"])
    evaluation.add_labels(stream.ids(), stream.y)
    accuracy = evaluation.since_start().committee.accuracy
    assert covers(accuracy, (stream.predicted == stream.y).mean())
    assert 0.0 < accuracy.high - accuracy.low <= 2.0 * 2.0 / 500


def test_patience_bounds_the_wait_and_the_memory():
    stream = everything(n=500)
    evaluation = Evaluation(patience=100, window=200)
    for i in range(500):
        evaluation.add_records([str(i)], stream.scored(slice(i, i + 1)), [1.0])
        assert len(evaluation._queue) <= 100 + 20
    assert evaluation.unanswered == 400
    evaluation.add_labels(["3"], [0])  # too late
    assert evaluation.since_start().answered == 0


def test_the_window_holds_the_newest_records_alone():
    stream = everything(n=1000)
    stream.predicted[:800] = (stream.y[:800] + 1) % 3
    stream.predicted[800:] = stream.y[800:]
    evaluation = stream.feed(Evaluation(window=200))
    assert evaluation.since_start().committee.accuracy.value == pytest.approx(0.2)
    recent = evaluation.recent()
    assert recent.committee.accuracy.value == 1.0
    assert 180 <= recent.records <= 200


@pytest.mark.parametrize(("window", "delay"), [(200, 0), (200, 7), (5_000, 7)])
def test_both_reports_together_are_those_told_one_by_one(window, delay):
    stream = made(3, n=900)
    evaluation = stream.feed(Evaluation(stream.block, window), batch=50, delay=delay)
    assert evaluation.both_reports() == (evaluation.since_start(), evaluation.recent())


def test_records_before_the_first_prediction_count_as_wrong_once_there_is_one():
    evaluation = Evaluation()
    none = Scored(
        np.array([None, None]), np.array([], dtype=object), np.zeros((2, 0)), np.zeros(2), 0
    )
    evaluation.add_records(["a", "b"], none, np.ones(2))
    evaluation.add_labels(["a", "b"], ["x", "y"])
    report = evaluation.since_start()
    assert report.committee.accuracy is None
    assert report.log_loss is None
    assert [(found.label, found.recall) for found in report.classes] == [("x", None), ("y", None)]
    classes = np.array(["x", "y"], dtype=object)
    later = Scored(classes[:1], classes, np.array([[0.9, 0.1]]), np.ones(1), 1)
    evaluation.add_records(["c"], later, np.ones(1))
    evaluation.add_labels(["c"], ["x"])
    assert evaluation.since_start().committee.accuracy.value == 1 / 3


def test_too_few_audits_give_no_figure_rather_than_a_guess():
    stream = made(8, n=90, drawn=False)
    figures = stream.feed(Evaluation(stream.block)).since_start().committee
    assert figures.accuracy is None
    assert figures.naive_accuracy is not None


def test_without_audits_a_rule_gives_no_honest_figure():
    stream = made(9)
    assert stream.feed(Evaluation()).since_start().committee.accuracy is None


def test_a_class_that_appears_late_joins_the_figures():
    stream = made(10, n=400)
    stream.propensity[:] = 1.0
    stream.y[300:] = 5
    report = stream.feed(Evaluation()).since_start()
    found = {one.label: one for one in report.classes}
    assert found[5].share.value == pytest.approx(0.25)
    assert found[5].recall.value == 0.0


@settings(max_examples=10, deadline=None)
@given(
    cut=st.integers(0, 299),
    batch=st.integers(1, 70),
    delay=st.integers(0, 3),
    window=st.integers(1, 90),
)
@pytest.mark.slow
def test_going_on_from_a_state_is_never_having_stopped(cut, batch, delay, window):
    stream = made(11, n=300)
    cut -= cut % batch
    kept, resumed = (Evaluation(stream.block, window=window) for _ in range(2))
    stream.feed(kept, batch=batch, delay=delay, stop=cut)
    state, arrays = kept.state()
    resumed.resume(json.loads(json.dumps(state)), {name: a.copy() for name, a in arrays.items()})
    for evaluation in (kept, resumed):
        stream.feed(evaluation, batch=batch, delay=delay, start=cut)
    assert json.dumps(kept.state()[0]) == json.dumps(resumed.state()[0])
    for name, array in kept.state()[1].items():
        np.testing.assert_array_equal(array, resumed.state()[1][name])
    assert kept.recent() == resumed.recent()


def test_figures_do_not_depend_on_how_records_are_cut_into_batches():
    stream = made(12)
    one, many = (stream.feed(Evaluation(stream.block), batch=n) for n in (1500, 300))
    for name in ("accuracy", "balanced_accuracy", "kappa"):
        first, second = (getattr(found.since_start().committee, name) for found in (one, many))
        assert first == second


@pytest.mark.parametrize("setting", [{"block": -1}, {"window": 0}, {"patience": -1}])
def test_wrong_settings_are_refused(setting):
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        Evaluation(**setting)


def test_what_does_not_fit_the_records_is_refused():
    stream = made(13, n=10)
    with pytest.raises(DataError, match="ids"):
        Evaluation().add_records(["1"], stream.scored(), stream.propensity)
    with pytest.raises(DataError, match="propensity"):
        Evaluation().add_records(stream.ids(), stream.scored(), np.zeros(10))


def test_a_state_survives_the_file_that_snapshots_are_kept_in(tmp_path):
    stream = made(14, n=700)
    kept = stream.feed(Evaluation(stream.block), stop=500)
    state, arrays = kept.state()
    write_arrays(tmp_path / "state", arrays, kind="test", manifest={"state": state})
    arrays, manifest = read_arrays(tmp_path / "state", kind="test")
    resumed = Evaluation(stream.block)
    resumed.resume(manifest["state"], arrays)
    for evaluation in (kept, resumed):
        stream.feed(evaluation, start=500)
    assert kept.to_json() == resumed.to_json()


@pytest.mark.parametrize("batch", [20, 500])
def test_the_window_has_enough_labels_and_no_more_records_than_it_needs(batch):
    rng = np.random.default_rng(8)
    n = 30_000
    stream = made(8, n)
    stream.propensity = np.where(rng.random(n) < 0.01, 0.01, np.nan)
    evaluation = Evaluation(100, window=1_000, min_labels=50)
    for start in range(0, n, 500):
        stream.feed(evaluation, batch=batch, start=start, stop=start + 500)
        whole, recent = evaluation.both_reports()
        assert recent.answered >= min(whole.answered, 50)
        assert recent.records >= min(whole.records, 900)
        assert recent.answered <= 50 + 10 + 10  # a group more, and labels of one stride more


def test_where_labels_are_frequent_the_window_is_one_of_records():
    stream = everything(n=5_000)
    evaluation = stream.feed(Evaluation(window=1_000, min_labels=50))
    assert 900 <= evaluation.recent().records <= 1_000


def test_a_correction_reaches_the_group_of_its_record():
    rng = np.random.default_rng(9)
    stream = made(9, n := 8_000)
    stream.propensity = np.where(rng.random(n) < 0.02, 0.02, np.nan)
    evaluations = [stream.feed(Evaluation(50, window=500, min_labels=60)) for _ in range(2)]
    asked = np.flatnonzero(stream.propensity > 0)
    first = evaluations[0].recent().records
    in_window = [i for i in asked if i >= n - first + 100]
    for i in in_window:
        evaluations[1].correct_label(str(i), int(stream.y[i]), int(stream.predicted[i]))
    before, after = (one.recent() for one in evaluations)
    assert after.committee.naive_accuracy.value > before.committee.naive_accuracy.value
    assert after.answered == before.answered
    outside = [i for i in asked if i < n - first - 600][-20:]
    for i in outside:
        evaluations[1].correct_label(str(i), int(stream.y[i]), int(stream.predicted[i]))
    assert evaluations[1].recent() == after
