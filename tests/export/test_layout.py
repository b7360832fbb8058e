"""A layout encodes records in another program as the pipeline's features do."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest

from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.export import RecordLayout, encode, read_layout
from streamboost.export.layout import LAYOUT, TABLES
from streamboost.features import Features

FIELDS = {"a": "number", "device.os": "category", "note": "text", "at": "time"}
RECORDS = [
    {"a": 1.5, "device": {"os": "ios"}, "note": "cheap pills", "at": 1_772_350_200},
    {"a": "2.5", "device.os": "linux", "note": "see you", "at": "2026-03-01T09:00:00Z"},
    {"a": None, "device": {"os": ["ios"]}, "note": 7},
]


def learned_features():
    features = Features(FIELDS)
    values = [features.values(record) for record in RECORDS]
    features.encode_arrivals(values)
    for value, label in zip(values, ("spam", "ham", "ham"), strict=True):
        features.learn(value, label)
    return features


def sent(layout):
    """The layout after it was written and read."""
    return RecordLayout.from_metadata(layout.to_metadata())


def test_rows_are_those_of_the_features_also_in_several_calls():
    features = learned_features()
    layout = sent(RecordLayout(len(features), features))
    expected = features.encode_arrivals([features.values(record) for record in RECORDS * 2])
    X = np.concatenate([encode(RECORDS, layout), encode(RECORDS, layout)])
    assert X.dtype == np.float32
    assert np.array_equal(X, expected, equal_nan=True)
    assert not np.isnan(X[0]).any()


def test_older_committee_gets_its_own_columns():
    features = learned_features()
    X = sent(RecordLayout(3, features)).encode(RECORDS)
    assert X.shape == (3, 3)
    assert X.flags.c_contiguous


def test_hidden_values_are_missing():
    layout = RecordLayout(2, Features({"box": "category", "a": "number"}), hidden=("box.id",))
    X = sent(layout).encode([{"box": {"id": 3}, "a": 1.0}, {"box": "red", "a": 1.0}])
    assert np.isnan(X[0, 0])
    assert not np.isnan(X[1, 0])


def test_sentence_encoder_is_loaded_where_the_records_are_scored(monkeypatch):
    module = ModuleType("lengths")
    module.encode = lambda texts: np.array([[len(text), 1.0] for text in texts])
    monkeypatch.setitem(sys.modules, "lengths", module)
    features = Features({"note": {"type": "text", "encoder": "lengths:encode"}})
    metadata = RecordLayout(2, features).to_metadata()
    expected = features.encode([features.values(record) for record in RECORDS[:2]])
    found = RecordLayout.from_metadata(metadata).encode(RECORDS[:2])
    assert np.array_equal(found, expected[:, :2])
    monkeypatch.setitem(sys.modules, "lengths", None)
    with pytest.raises(ConfigurationError, match="lengths"):
        RecordLayout.from_metadata(metadata).encode(RECORDS)


@pytest.mark.parametrize("value", ["1.5", True, [1.0]], ids=str)
def test_values_of_number_fields_that_are_no_numbers_are_refused(value):
    layout = RecordLayout(1, numbers=("a",))
    with pytest.raises(DataError, match=r"record 1, field 'a': .* is no number"):
        layout.encode([{"a": 1}, {"a": value}])


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400, float("inf")], ids=lambda v: str(v)[:9])
def test_numbers_too_large_for_float32_are_refused(value):
    layout = RecordLayout(2, numbers=("a", "b"))
    with pytest.raises(DataError, match=r"record 0, field 'b': .* too large for a float32"):
        layout.encode([{"a": 1, "b": value}])


def test_no_records_give_no_rows():
    assert RecordLayout(2, numbers=("a", "b")).encode([]).shape == (0, 2)
    features = learned_features()
    assert RecordLayout(4, features).encode([]).shape == (0, 4)


def test_record_that_is_no_object_is_refused():
    with pytest.raises(DataError, match=r"record 1 is a str"):
        RecordLayout(1, numbers=("a",)).encode([{}, "{}"])


def test_metadata_without_a_sound_layout_is_refused():
    features = learned_features()
    good = RecordLayout(4, features).to_metadata()
    other_format = json.dumps(json.loads(good[LAYOUT]) | {"format": 99})
    for bad in (
        {},
        good | {LAYOUT: "{}"},
        good | {LAYOUT: "["},
        good | {LAYOUT: other_format},
        good | {TABLES: "AAAA"},
        {LAYOUT: good[LAYOUT]},
    ):
        with pytest.raises(ModelFileError, match="export the committee"):
            RecordLayout.from_metadata(bad)


@pytest.mark.parametrize(
    "content", [b"tree\n\xff", b'tree\nstreamboost.layout="{\x00}"\n', b"junk"]
)
def test_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFileError, match="model: is no exported file, or damaged"):
        read_layout(tmp_path / "model")
