import json

import numpy as np
import pytest
from evaluation.judging import made

from streamboost.evaluation.temperature import TemperatureScaling


def learned(stream, weight):
    temperature = TemperatureScaling()
    for i in np.flatnonzero(stream.propensity > 0):
        temperature.update(np.log(stream.P[i]), int(stream.y[i]), float(weight[i]))
    return temperature


def loss(P, y):
    return -np.log(P[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("too_sure", [0.5, 1.0, 2.0, 4.0])
def test_it_finds_how_sure_the_committee_is(too_sure):
    stream = made(31, n=2000, too_sure=too_sure)
    stream.propensity[:] = 1.0
    assert learned(stream, stream.propensity).value == pytest.approx(too_sure, rel=0.2)


def test_the_log_loss_falls_where_the_committee_is_too_sure():
    stream = made(32, n=3000, too_sure=3.0)
    temperature = learned(stream, 1.0 / stream.propensity)
    assert loss(temperature.apply(stream.P), stream.y) < loss(stream.P, stream.y) - 0.05


def test_it_stays_close_to_1_while_few_labels_tell():
    temperature = TemperatureScaling()
    for k in (0, 0, 1):
        temperature.update(np.log([0.9, 0.1]), k)
    assert temperature.value < 1.1
    for k in (0, 0, 1) * 100:
        temperature.update(np.log([0.9, 0.1]), k)
    assert temperature.value >= 2.0


def test_weights_make_up_for_what_was_asked_about():
    """Records of two kinds: easy ones it is right about, and hard ones, all of them asked about."""
    rng = np.random.default_rng(34)
    weighted, plain = TemperatureScaling(), TemperatureScaling()
    logits = np.log([0.9, 0.1])
    for _ in range(3000):
        hard = rng.random() < 0.2
        k = int(rng.random() < (0.4 if hard else 0.05))
        chance = 1.0 if hard else 0.1
        if rng.random() < chance:
            weighted.update(logits, k, 1.0 / chance)
            plain.update(logits, k)
    share = 0.2 * 0.6 + 0.8 * 0.95
    assert weighted.apply(np.array([[0.9, 0.1]]))[0, 0] == pytest.approx(share, abs=0.03)
    assert plain.apply(np.array([[0.9, 0.1]]))[0, 0] < share - 0.1


def test_the_order_of_classes_and_their_sum_stay():
    temperature = TemperatureScaling()
    temperature.resume(temperature.state() | {"value": 3.0})
    P = np.random.default_rng(35).dirichlet(np.full(5, 0.1), size=50)
    P[0] = [1.0, 0.0, 0.0, 0.0, 0.0]
    cooled = temperature.apply(P)
    np.testing.assert_allclose(cooled.sum(axis=1), 1.0)
    np.testing.assert_array_equal(cooled.argmax(axis=1), P.argmax(axis=1))
    assert cooled[0].tolist() == P[0].tolist()
    assert temperature.apply(np.zeros((0, 3))).shape == (0, 3)


def test_a_class_without_a_chance_teaches_nothing():
    temperature = TemperatureScaling()
    before = temperature.state()
    with np.errstate(divide="ignore"):
        temperature.update(np.log([1.0, 0.0]), 1)
    assert temperature.state() == before


def test_going_on_from_a_state_is_never_having_stopped():
    stream = made(36, n=400)
    kept = learned(stream, np.ones(400))
    resumed = TemperatureScaling()
    resumed.resume(json.loads(json.dumps(kept.state())))
    for temperature in (kept, resumed):
        for i in range(50):
            temperature.update(np.log(stream.P[i]), int(stream.y[i]), 1.5)
    assert kept.state() == resumed.state()
