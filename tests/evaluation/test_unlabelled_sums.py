"""Metrics from the sums of several processes equal the metrics of one process with every record."""

from dataclasses import asdict

import numpy as np
import pytest

from streamboost.evaluation import sufficient_stats
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.sufficient_stats import UnlabelledSums
from streamboost.predictions import Scored

CLASSES = np.array(["a", "b", "c"], dtype=object)
BATCH = 50


def stream(n, seed=0):
    """Return probabilities (n, 3), labels as likely as these say, chances, and who is asked."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.4, 0.6, 0.8], n)
    truth = np.array([rng.choice(3, p=p) for p in P])
    unsure = P.max(axis=1) < 0.55
    chance = np.where(unsure & (rng.random(n) < 0.6), 1.0, 0.1)
    return P, CLASSES[truth], chance, rng.random(n) < chance


def scored_as(P, classes=CLASSES):
    return Scored(classes[P.argmax(axis=1)], classes, P, np.zeros(len(P)), 1)


def batches(n):
    for start in range(0, n, BATCH):
        yield slice(start, min(start + BATCH, n))


def whole(P, labels, chance, asked, own=None):
    evaluation = Evaluation(block=10)
    ids = np.arange(len(P)).astype(str).tolist()
    for part in batches(len(P)):
        evaluation.add_records(
            ids[part],
            scored_as(P[part]),
            np.where(asked, chance, np.nan)[part],
            committee_labels=None if own is None else own[part],
        )
        rows = np.flatnonzero(asked[part]) + part.start
        evaluation.add_labels([ids[i] for i in rows], labels[rows])
    return evaluation


def apart(P, labels, chance, asked, order=(0, 1, 2), own=None):
    """Judge the same where each batch's other records come as sums, of classes in another order."""
    evaluation, order = Evaluation(block=10), list(order)
    ids = np.arange(len(P)).astype(str).tolist()
    for part in batches(len(P)):
        rows = np.flatnonzero(asked[part]) + part.start
        scored = scored_as(P[part][:, order], CLASSES[order])
        alone = None if own is None else own[part]
        rest = UnlabelledSums.from_scored(scored, rows - part.start, 10, own_labels=alone)
        evaluation.add_records(
            [ids[i] for i in rows],
            scored_as(P[rows]),
            chance[rows],
            committee_labels=None if own is None else own[rows],
        )
        evaluation.add_unlabelled_sums(UnlabelledSums.unpack(rest.classes, rest.pack()))
        evaluation.add_labels([ids[i] for i in rows], labels[rows])
    return evaluation


def flat(value):
    """Return every number of a report, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for one in value for number in flat(one)]
    return [np.nan if value is None else value]


@pytest.mark.parametrize("which", ["since_start", "recent"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("own", [None, CLASSES[np.arange(3_000) % 3]])
def test_sums_of_those_nobody_asked_about_give_the_figures_of_all(which, order, own):
    given = stream(3_000)
    one, other = whole(*given, own), apart(*given, order, own)
    found = [asdict(getattr(evaluation, which)()) for evaluation in (one, other)]
    for name in ("committee_alone", "gain_alone") if own is None else ():
        assert [report.pop(name) is None for report in found] == [False, True]
    found = [[x for x in flat(report) if not isinstance(x, str)] for report in found]
    np.testing.assert_allclose(found[1], found[0], rtol=2e-5, atol=2e-6)


def test_sums_wait_with_the_batch_whose_request_is_open():
    P, _, chance, asked = stream(3 * BATCH)
    evaluation = Evaluation(block=10)
    asked[:] = False
    asked[[10, 60]] = True
    for part in batches(len(P)):
        rows = np.flatnonzero(asked[part]) + part.start
        evaluation.add_records([str(i) for i in rows], scored_as(P[rows]), chance[rows])
        rest = UnlabelledSums.from_scored(scored_as(P[part]), rows - part.start, 10)
        evaluation.add_unlabelled_sums(rest)
    assert evaluation.since_start().records == 0
    evaluation.add_labels(["10"], ["a"])
    assert evaluation.since_start().records == BATCH
    evaluation.expire_requests(["60"])
    assert evaluation.since_start().records == 3 * BATCH


def test_sums_go_on_past_a_request_that_stays_open_and_leave_the_window():
    P, labels, chance, asked = stream(3_000)
    evaluation, first = Evaluation(block=10), np.flatnonzero(asked)[0]
    for part in batches(len(P)):
        rows = np.flatnonzero(asked[part]) + part.start
        evaluation.add_records([str(i) for i in rows], scored_as(P[rows]), chance[rows])
        evaluation.add_unlabelled_sums(
            UnlabelledSums.from_scored(scored_as(P[part]), rows - part.start, 10)
        )
        told = rows[rows != first]
        evaluation.add_labels([str(i) for i in told], labels[told])
    whole, recent = evaluation.since_start(), evaluation.recent()
    assert (whole.records, whole.waiting) == (3_000, 1)
    assert (recent.records, recent.waiting) == (2_000, 0)
    right = (CLASSES[P.argmax(axis=1)] == labels)[1_000:].mean()
    assert recent.committee.accuracy.low <= right <= recent.committee.accuracy.high


@pytest.mark.slow
def test_sums_that_wait_for_long_take_little_room_and_the_figures_stay(monkeypatch):
    def judged():
        P, labels, chance, asked = stream(20_000)
        evaluation = Evaluation(block=10)
        for start in range(0, len(P), 5):
            part = slice(start, start + 5)
            rows = np.flatnonzero(asked[part]) + start
            ids = [str(i) for i in rows]
            evaluation.add_records(ids, scored_as(P[rows]), chance[rows])
            others = UnlabelledSums.from_scored(scored_as(P[part]), rows - start, 10)
            evaluation.add_unlabelled_sums(others)
            answered = rows > 100  # what was asked for before stays open
            evaluation.add_labels(
                [id for id, is_in in zip(ids, answered, strict=True) if is_in],
                labels[rows[answered]],
            )
        return evaluation

    found = judged()
    meta, arrays = found.state()
    assert len(meta["blocks"]) <= sufficient_stats.MOST
    assert sum(array.nbytes for array in arrays.values()) < 2_000_000
    monkeypatch.setattr(sufficient_stats, "MOST", 1_000_000)
    apart = judged()
    assert len(apart.state()[0]["blocks"]) > 3_000
    one, other = (each.since_start() for each in (found, apart))
    assert one.records == other.records == 20_000
    assert flat(asdict(one.committee.accuracy)) == pytest.approx(
        flat(asdict(other.committee.accuracy)), abs=1e-9
    )
    newest = found.recent()
    assert 1_800 <= newest.records <= 2_000  # it moves on by tenths
    assert newest.committee.accuracy.value == pytest.approx(
        apart.recent().committee.accuracy.value, abs=0.02
    )


def test_an_evaluation_goes_on_with_sums_that_wait():
    given = stream(1_000)
    P, labels, chance, asked = given
    straight = apart(*given)
    halves = Evaluation(block=10)
    rows_of = {}
    for number, part in enumerate(batches(len(P))):
        rows = np.flatnonzero(asked[part]) + part.start
        rows_of[number] = rows
        halves.add_records([str(i) for i in rows], scored_as(P[rows]), chance[rows])
        halves.add_unlabelled_sums(
            UnlabelledSums.from_scored(scored_as(P[part]), rows - part.start, 10)
        )
        state, arrays = halves.state()
        halves = Evaluation(block=10)
        halves.resume(state, arrays)
        halves.add_labels([str(i) for i in rows], labels[rows])
    found = [
        [x for x in flat(asdict(e.since_start())) if not isinstance(x, str)]
        for e in (straight, halves)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=2e-5, atol=2e-6)


def test_damaged_sums_are_refused():
    rest = UnlabelledSums.from_scored(scored_as(stream(10)[0]), [], 10)
    with pytest.raises(ValueError, match="sums"):
        UnlabelledSums.unpack(["a", "b"], rest.pack())
    with pytest.raises(ValueError, match="cannot be read"):
        UnlabelledSums.unpack(["a"], b"no")
