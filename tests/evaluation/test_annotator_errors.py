import numpy as np
import pytest
from evaluation.judging import made

from streamboost.evaluation.annotator_errors import MOST_SOURCES, UNKNOWN, AnnotatorErrors
from streamboost.evaluation.evaluation import Evaluation

NAMES = ("ann", "bob", "eve")


def feed(evaluation, stream, labels, sources, batch=50):
    for start in range(0, len(stream.y), batch):
        rows = slice(start, start + batch)
        evaluation.add_records(stream.ids(rows), stream.scored(rows), stream.propensity[rows])
        asked = [i for i in range(start, start + batch) if stream.propensity[i] > 0]
        evaluation.add_labels([str(i) for i in asked], labels[asked], [sources[i] for i in asked])
    return evaluation


def by_three(seed, wrong, n=6_000, bad="eve"):
    """Return a stream, and labels by three annotators: the bad one errs as often as `wrong`."""
    stream, rng = made(seed, n, too_sure=1.2), np.random.default_rng(seed)
    sources = [NAMES[i] for i in rng.integers(3, size=n)]
    errs = (np.array(sources) == bad) & (rng.random(n) < wrong)
    labels = np.where(errs, (stream.y + rng.integers(1, 3, size=n)) % 3, stream.y)
    return stream, labels, sources


@pytest.mark.parametrize("wrong", [0.2, 0.4])
def test_the_interval_holds_the_accuracy_though_one_annotator_in_three_errs(wrong):
    held, naive = [], []
    for seed in range(30):
        stream, labels, sources = by_three(seed, wrong)
        report = feed(Evaluation(stream.block), stream, labels, sources).since_start()
        truth = (stream.predicted == stream.y).mean()
        accuracy, before = report.committee.accuracy, report.accuracy_with_left_out
        held.append(accuracy.low <= truth <= accuracy.high)
        unnamed = [None] * len(sources)
        found = feed(Evaluation(stream.block), stream, labels, unnamed).since_start()
        naive.append(found.committee.accuracy.high >= truth)
        assert report.left_out in ((), ("eve",))
        assert (before is None) == (report.left_out == ())
        if before is not None:
            assert before == found.committee.accuracy
    assert np.mean(held) >= 0.9
    assert np.mean(naive) < 0.5


def test_without_those_left_out_the_others_represent_all_records():
    stream, labels, sources = by_three(1, 0.4)
    evaluation = feed(Evaluation(stream.block), stream, labels, sources)
    assert {*evaluation.annotator_errors.names} == {*NAMES}
    report = evaluation.since_start()
    assert report.left_out == ("eve",)
    answered = np.flatnonzero(stream.propensity > 0)
    kept = np.array([sources[i] != "eve" for i in answered])
    assert report.answered == kept.sum()
    chance = stream.propensity[answered]
    share = (1.0 / chance)[kept].sum() / (1.0 / chance).sum()
    other = Evaluation(10**6)  # as if they alone had been asked, with the smaller probability
    stream.propensity = np.full(len(stream.y), np.nan)
    stream.propensity[answered[kept]] = chance[kept] * share
    expected = feed(other, stream, labels, [None] * len(sources)).since_start()
    assert report.committee.accuracy.value == pytest.approx(
        expected.committee.accuracy.value, abs=1e-3
    )


def test_where_every_record_is_labelled_the_others_represent_those_left_out():
    stream, labels, sources = by_three(4, 0.5, n=3_000)
    stream.propensity = np.ones(len(stream.y))
    report = feed(Evaluation(), stream, labels, sources).since_start()
    assert report.left_out == ("eve",)
    accuracy = report.committee.accuracy
    assert accuracy.low <= (stream.predicted == stream.y).mean() <= accuracy.high
    assert 0.0 < accuracy.high - accuracy.low < 0.05


def test_nobody_is_left_out_where_everybody_is_right_as_often():
    n_left_out = 0
    for seed in range(30):
        stream, labels, sources = by_three(seed, 0.0)
        n_left_out += bool(feed(Evaluation(25), stream, labels, sources).since_start().left_out)
    assert n_left_out <= 4


def test_a_change_of_the_stream_is_not_blamed_on_those_who_label_then():
    stream, labels, _ = by_three(3, 0.0)
    late = np.arange(len(labels)) >= 3_000
    labels = np.where(late, (labels + 1) % 3, labels)  # from here on all predictions are wrong
    sources = np.where(late, "bob", "ann").tolist()
    report = feed(Evaluation(stream.block), stream, labels, sources).since_start()
    assert report.left_out == ()
    assert report.committee.accuracy.high < (stream.predicted == stream.y).mean() - 0.2


def test_an_annotator_who_improves_counts_again():
    errors, rng = AnnotatorErrors(), np.random.default_rng(5)

    def label(n, wrong):
        for _ in range(n):
            for name in NAMES:
                errs = rng.random() < (wrong if name == "eve" else 0.05)
                errors.observe(errors.number_of(name), 0.1 if errs else 0.9, 2)

    label(100, 0.5)
    assert errors.left_out == {NAMES.index("eve")}
    label(600, 0.0)
    assert errors.left_out == frozenset()


def test_at_most_part_of_all_labels_is_left_out():
    errors = AnnotatorErrors()
    for i in range(400):
        errors.observe(errors.number_of("one"), 0.05 if i % 2 else 0.95, 2)
        errors.observe(errors.number_of("two"), 0.05 if i % 2 else 0.95, 2)
        errors.observe(errors.number_of("right"), 0.95, 2)
    assert len(errors.left_out) <= 1


def test_names_are_bounded_and_labels_without_a_name_are_nobody_s():
    errors = AnnotatorErrors()
    assert errors.number_of(None) == errors.number_of("") == UNKNOWN
    for i in range(MOST_SOURCES + 5):
        errors.number_of(str(i))
    assert errors.number_of("one more") == UNKNOWN
    assert len(errors.names) == MOST_SOURCES


def test_a_restored_evaluation_goes_on_the_same():
    stream, labels, sources = by_three(2, 0.4, n=4_000)
    whole = feed(Evaluation(stream.block), stream, labels, sources)
    half = Evaluation(stream.block)
    for start in range(0, 4_000, 50):
        rows = slice(start, start + 50)
        half.add_records(stream.ids(rows), stream.scored(rows), stream.propensity[rows])
        asked = [i for i in range(start, start + 50) if stream.propensity[i] > 0]
        half.add_labels([str(i) for i in asked], labels[asked], [sources[i] for i in asked])
        if start % 700 == 0:
            state = half.state()
            half = Evaluation(stream.block)
            half.resume(*state)
    assert half.to_json() == whole.to_json()
    assert half.since_start().left_out == ("eve",)
