"""Messages that a pipeline writes: predictions, requests and labels."""

import json

import numpy as np
import pytest

from streamboost.connectors.messages.outgoing import Label, Prediction, Request, features_by_name


def test_a_prediction_has_these_fields():
    prediction = Prediction("7", "today", "grass", 0.5, 1.25, 3, True, 12)
    assert json.loads(prediction.encode()) == {
        "id": "7",
        "time": "today",
        "label": "grass",
        "probability": 0.5,
        "margin": 1.25,
        "version": 3,
        "asked": True,
        "sequence": 12,
    }


def test_before_anything_is_known_a_prediction_has_no_label():
    sent = json.loads(Prediction("7", None, None, None, float("nan"), 0, False, 1).encode())
    assert (sent["label"], sent["probability"], sent["margin"]) == (None, None, None)


def test_a_request_has_these_fields_and_no_number_that_is_not_finite():
    request = Request(
        id="7",
        time=5,
        features={"a": 1.5, "b": None},
        label=2,
        probabilities={1: 0.25, 2: 0.75},
        utility=float("inf"),
        propensity=0.1,
        expires=99,
        sequence=12,
    )
    assert json.loads(request.encode()) == {
        "id": "7",
        "time": 5,
        "features": {"a": 1.5, "b": None},
        "label": 2,
        "probabilities": {"1": 0.25, "2": 0.75},
        "utility": None,
        "propensity": 0.1,
        "expires": 99,
        "sequence": 12,
    }


def test_numpy_scalars_are_written_as_what_they_hold():
    prediction = Prediction(
        np.str_("7"),
        np.int64(5),
        np.int64(2),
        np.float64(0.5),
        np.float32("inf"),
        np.int32(3),
        np.bool_(True),
        np.int64(12),
    )
    assert json.loads(prediction.encode()) == json.loads(
        Prediction("7", 5, 2, 0.5, None, 3, True, 12).encode()
    )


def test_other_values_cannot_stand_in_a_message():
    with pytest.raises(NotImplementedError, match="object"):
        Prediction("7", None, object(), 0.5, 0.5, 3, True, 12).encode()


def test_a_label_leaves_out_what_is_not_known():
    assert Label("7", 3).encode() == b'{"id":"7","label":3}'
    assert json.loads(Label("7", "x", 5, "Ada").encode()) == {
        "id": "7",
        "label": "x",
        "time": 5,
        "source": "Ada",
    }


def test_features_are_named_as_they_were_received():
    row = np.array([0.1, 218, -2.0405545, np.nan, np.inf], np.float32)
    assert features_by_name(["a", "b", "c", "d", "e"], row) == {
        "a": 0.1,
        "b": 218.0,
        "c": -2.0405545,
        "d": None,
        "e": None,
    }


def test_each_value_needs_a_name():
    with pytest.raises(ValueError, match="zip"):
        features_by_name(["a"], np.zeros(2, np.float32))
