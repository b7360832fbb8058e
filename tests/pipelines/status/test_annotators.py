"""Disagreement counts of annotators, without the requests that select doubtful labels."""

import pytest

from streamboost.pipelines.status.annotators import COUNTED, AnnotatorAgreement


def of(source, *labels, again=None, sure=None, doubtful=None):
    """Return what is counted of `source`, of one record with these labels and predictions."""
    record = {"labels": list(labels)}
    if again is not None:
        record["again"] = again
    if sure or doubtful:
        share = 0.95 if sure else 0.5
        record |= {"label": sure or doubtful, "probabilities": {sure or doubtful: share}}
    annotators = AnnotatorAgreement()
    annotators.add_record("7", record)
    return [name for name in COUNTED if annotators.agreement_counts(source)[name]]


ANN, BOB, EVE = (1, "a", "ann"), (2, "b", "bob"), (3, "b", "eve")


def test_a_label_is_compared_with_a_confident_prediction():
    assert of("ann", ANN, sure="a") == ["compared"]
    assert of("ann", ANN, sure="b") == ["compared", "against"]
    assert of("ann", ANN, doubtful="b") == []
    assert of("ann", ANN) == []


def test_of_two_who_contradict_each_other_a_confident_prediction_tells_who_is_against():
    assert of("ann", ANN, BOB) == of("bob", ANN, BOB) == ["together"]
    assert of("ann", ANN, BOB, sure="b") == ["compared", "against", "together"]
    assert of("bob", ANN, BOB, sure="b") == ["compared", "together"]
    assert of("ann", ANN, (2, "a", "bob")) == ["compared", "together"]


def test_whom_two_others_contradict_is_outvoted():
    everything = ["compared", "against", "together", "outvoted"]
    assert of("ann", ANN, BOB, EVE) == everything
    assert of("bob", ANN, BOB, EVE) == ["compared", "together"]
    assert of("ann", ANN, BOB, (3, "c", "eve")) == ["together"], "all three differ"


def test_whoever_is_asked_because_a_label_looks_wrong_is_not_compared():
    asked_again = {"again": 1, "sure": "b"}
    assert of("bob", ANN, BOB, **asked_again) == ["together"]
    assert of("ann", ANN, BOB, **asked_again) == ["compared", "against", "together"]
    assert of("ann", ANN, BOB, again=1) == ["together"], "only that label tells of it"


def test_whom_somebody_who_is_asked_again_confirms_is_not_against_the_others():
    found = of("ann", ANN, (2, "a", "bob"), again=1, sure="b")
    assert found == ["compared", "together"]


@pytest.mark.parametrize("source", ["ann", "bob"])
def test_a_record_counts_by_what_is_known_of_it_last(source):
    annotators = AnnotatorAgreement()
    annotators.add_record("7", {"labels": [ANN, BOB]})
    annotators.add_record("8", {"labels": [ANN, BOB]})
    assert annotators.agreement_counts(source)["together"] == 2
    annotators.add_record("7", {"labels": [ANN, BOB, (3, "a", "bob")]})
    assert annotators.agreement_counts(source) == {
        "compared": 1,
        "against": 0,
        "together": 2,
        "outvoted": 0,
    }
    annotators.remove_record("7")
    annotators.add_record("8", {"labels": [ANN, BOB, (4, None, "ann")]})
    assert not any(annotators.agreement_counts(source).values())
