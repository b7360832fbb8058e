"""Evaluation in pool mode: a record can be requested until the record leaves the pool."""

import numpy as np
import pytest
from asking import pool
from evaluation.judging import made

from streamboost.evaluation.delayed_evaluator import DelayedEvaluator
from streamboost.query.config import Requests

WINDOW = 40


def judged(stream, batch, *, answered=1.0, known=(), seed=0):
    """Let a pool's rounds and audits ask about a stream, and judge it by a share of the answers."""
    one = pool(seed, window=WINDOW, query_batch_size=2, budget=0.15, audit=0.4)
    judge = DelayedEvaluator(one.budget.block, calibrate=True, coverage=0.9, pool=WINDOW)
    rng, doubt, ids = np.random.default_rng(seed), 1.0 - stream.P.max(axis=1), stream.ids()
    for first in range(0, len(ids), batch):
        rows = slice(first, first + batch)
        cold = first < 100
        X = doubt[rows].astype(np.float32)[:, None]
        asked = one.select_requests(ids[rows], X, doubt[rows], at_random=cold)
        judge.add_predictions(ids[rows], stream.scored(rows), asked)
        told = [id for id in ids[rows] if id in known]
        one.exclude(told)
        answers = told + [id for id in asked.ids if rng.random() < answered]
        judge.add_labels(answers, stream.y[[int(id) for id in answers]])
        judge.expire_requests(list(set(asked.ids) - set(answers)))
    return judge


def chosen(ids, chance, *, audit):
    n = len(ids)
    return Requests(
        ids, np.ones(n), np.full(n, chance), np.full(n, audit), np.full(n, not audit, dtype=bool)
    )


@pytest.mark.parametrize("answered", [1.0, 0.8])
@pytest.mark.quick_once
def test_the_interval_covers_the_accuracy_and_the_naive_one_does_not(answered):
    honest, naive = [], []
    for seed in range(60):
        stream = made(seed, n=800)
        report = judged(stream, 50, answered=answered, seed=seed).evaluation.since_start()
        truth = (stream.predicted == stream.y)[: report.records].mean()
        for hits, figure in (
            (honest, report.committee.accuracy),
            (naive, report.committee.naive_accuracy),
        ):
            hits.append(figure.low <= truth <= figure.high)
    assert np.mean(honest) >= 0.85
    assert np.mean(naive) <= 0.7


def test_what_is_judged_does_not_depend_on_how_a_stream_is_cut_into_batches():
    stream = made(3, n=600)
    single, whole = (judged(stream, batch).evaluation.since_start() for batch in (1, 50))
    assert single.committee.accuracy == whole.committee.accuracy
    assert single.answered == whole.answered > 50


def test_temperatures_and_label_sets_learn_of_records_asked_about_later():
    judge = judged(made(3, n=800, too_sure=4.0), 1)
    assert judge.temperature.value > 1.0
    assert judge.label_sets.level > 0.9


def test_records_are_judged_once_they_have_left_the_pool_or_their_label_came():
    stream = made(4, n=100)
    judge = DelayedEvaluator(10, calibrate=True, coverage=0.9, pool=WINDOW)
    judge.add_predictions(stream.ids(), stream.scored(), chosen([], 1.0, audit=False))
    assert judge.evaluation.since_start().records == 60
    assert judge.evaluation.n_open_requests == 0
    judge.add_requests(chosen(["60"], 0.3, audit=False))
    assert judge.evaluation.n_open_requests == 1
    judge.add_labels(["60"], stream.y[[60]])
    assert judge.evaluation.since_start().records == 61
    judge.add_requests(chosen(["61"], 0.3, audit=False))
    judge.expire_requests(["61"])
    assert judge.evaluation.since_start().records == 62
    assert judge.evaluation.unanswered == 1


def test_labels_known_unasked_stand_for_themselves_alone():
    stream = made(5, n=600)
    right = (stream.predicted == stream.y)[:560]
    easy = {str(i) for i in np.flatnonzero(right)[::2]}
    report = judged(stream, 20, known=easy).evaluation.since_start()
    accuracy = report.committee.accuracy
    assert accuracy.low <= right[: report.records].mean() <= accuracy.high
    assert report.committee.naive_accuracy.low > right.mean()
