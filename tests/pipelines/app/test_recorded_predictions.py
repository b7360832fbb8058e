"""Pipelines that evaluate the predictions which records carry."""

import json
from contextlib import closing

import numpy as np
import pytest
from serving import put, read

from streamboost.connectors.base import Message
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import ConfigurationError
from streamboost.export import read_layout
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.export import export
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import kill

PIPELINE = """
[pipeline]
name = "judged"
batch_records = 20
batch_labels = 20
checkpoint_every = 4
[schema]
classes = {classes}
[source]
connector = "sqlite"
stream = "records"
[query]
budget = 0.5
[model]
prediction_field = "score"
"""


def make(tmp_path, make_records, predict, classes='["left", "right"]', n=200):
    """Write a pipeline whose records carry `predict(i, label)`; return its file and the labels."""
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE.format(classes=classes))
    config = load(file)
    records, truth = make_records(n, 0)
    told = [
        record | predict(i, y) for i, (record, y) in enumerate(zip(records, truth, strict=True))
    ]
    put(config, "records", told)
    put(config, "labels", [{"id": r["id"], "label": y} for r, y in zip(told, truth, strict=True)])
    return file, truth


def other(label):
    return "right" if label == "left" else "left"


def estimate(config):
    since_start = describe_pipeline(config.state)["checkpoint"]["evaluation"]["since_start"]
    return since_start["committee"]["accuracy"]


@pytest.mark.parametrize("shape", ["label", "map"])
def test_recorded_predictions_are_evaluated_exactly_once_through_kills(
    tmp_path, make_records, shape
):
    said = []

    def predict(i, label):
        said.append(label if i % 5 else other(label))
        probabilities = {said[-1]: 1.6, other(said[-1]): 0.4}  # the sum is 2
        return {"score": said[-1] if shape == "label" else probabilities}

    file, _ = make(tmp_path, make_records, predict)
    config = load(file)
    died, _ = kill(file, [("stepped", 3), ("committed", 3), ("checkpointed", 1)], 3)
    assert len(died) == 3
    run(config, until_idle=True)
    assert [one["label"] for one in read(config, "predictions")] == said
    accuracy = estimate(config)
    assert accuracy["low"] <= 0.8 <= accuracy["high"]
    assert "replayed: bit for bit" in verify_replay(config)


def test_missing_and_malformed_predictions_keep_their_records(tmp_path, make_records):
    bad = [{}, {"score": "unknown"}, {"score": None}]
    file, truth = make(
        tmp_path, make_records, lambda i, y: bad[i % 10] if i % 10 < 3 else {"score": y}
    )
    run(load(file), until_idle=True)
    predicted = [one["label"] for one in read(load(file), "predictions")]
    assert predicted == [None if i % 10 < 3 else y for i, y in enumerate(truth)]
    accuracy = estimate(load(file))
    assert accuracy["low"] <= 0.7 <= accuracy["high"] < 1.0, "a missing prediction is an error"
    description = describe_pipeline(load(file).state)
    counts = description["checkpoint"]["recorded"]
    assert counts == {"valid": 140, "labels_alone": 140, "missing": 40, "malformed": 20}
    assert "malformed               20" in format_description(description)


@pytest.mark.parametrize(
    "score",
    [
        b'{"left": 1%b}' % (b"0" * 400),
        b'{"left": "1e999"}',
        b"1" + b"0" * 400,
        b"[" * 900 + b"]" * 900,
        b'["%b", 1]' % (b"x" * 9_000),
    ],
)
def test_large_and_nested_predictions_are_malformed_and_do_not_end_the_run(
    tmp_path, make_records, score
):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": y}, n=40)
    config = load(file)
    run(config, until_idle=True)
    record = json.dumps(make_records(1, 90)[0][0] | {"id": "odd"}).encode()
    with closing(SqliteSink(config.state / "log.db", "records")) as sink:
        sink.write([b'%b, "score": %b}' % (record[:-1], score)])
        sink.flush()
    run(config, until_idle=True)
    assert not read(config, "dead_letters")
    assert read(config, "predictions")[40]["label"] is None
    assert describe_pipeline(config.state)["checkpoint"]["recorded"]["malformed"] == 1


def read_one(value, classes=("a", "b"), field="score", now=lambda label: label):
    """Return the labels, probabilities and counts of the prediction `value` in one record."""
    recorded = RecordedPredictions(field)
    record = {} if value is None else {field: value}
    message = Message(json.dumps(record).encode(), "0", 0, 1)
    scored = recorded.read([message], Schema(classes=classes, numeric=["x"]), now)
    return scored.labels[0], scored.probabilities[0].tolist(), recorded


@pytest.mark.parametrize(
    ("value", "classes", "label"),
    [
        ("a", ("a", "b"), "a"),
        (1, (0, 1), 1),
        (1.0, (0, 1), 1),
        ("1", (0, 1), 1),
        (True, (False, True), "true"),
    ],
)
def test_label_alone_has_no_probabilities(value, classes, label):
    found, probabilities, counts = read_one(value, classes)
    assert found == label
    assert np.isnan(probabilities).all()
    assert counts.to_json() == {"valid": 1, "labels_alone": 1, "missing": 0, "malformed": 0}


@pytest.mark.parametrize(
    ("value", "classes", "label", "expected"),
    [
        ({"b": 1.5, "a": 0.5}, ("a", "b"), "b", [0.25, 0.75]),
        ({"1": 0.75}, (0, 1), 1, [0.0, 1.0]),
        ([0.25, 0.75], ("a", "b"), "b", [0.25, 0.75]),
        ([0.25, 0.75], ("a", "b", "added later"), "b", [0.25, 0.75, 0.0]),
    ],
)
def test_probabilities_are_divided_by_their_sum(value, classes, label, expected):
    assert read_one(value, classes)[:2] == (label, expected)


@pytest.mark.parametrize(
    "value",
    ["c", 0.5, {"a": -0.1, "b": 0.5}, {"a": "x"}, {"a": 0, "b": 0}, {"c": 1.0}, [1.0], [0.1] * 3],
)
def test_malformed_prediction_is_counted_and_has_no_label(value):
    label, probabilities, counts = read_one(value)
    assert label is None
    assert np.isnan(probabilities).all()
    assert counts.to_json() == {"valid": 0, "labels_alone": 0, "missing": 0, "malformed": 1}


def test_malformed_predictions_are_logged_at_growing_counts(caplog):
    recorded = RecordedPredictions("score")
    messages = [Message(b'{"score": "c"}', "0", i, 1) for i in range(12)]
    recorded.read(messages, Schema(classes=["a", "b"], numeric=["x"]), lambda label: label)
    found = [one.getMessage() for one in caplog.records]
    assert [text.split(": ")[1][:10] for text in found] == ["1 records ", "10 records"]
    assert "'c' is no class of [schema] classes" in found[0]


def test_missing_prediction_is_no_malformed_one():
    assert read_one(None)[2].to_json()["missing"] == 1


def test_columns_of_a_table_are_a_map():
    recorded = RecordedPredictions("score")
    message = Message(b'{"score.a": "0.1", "score.b": "0.9"}', "0", 0, 1)
    scored = recorded.read([message], Schema(classes=["a", "b"], numeric=["x"]), lambda one: one)
    assert scored.labels.tolist() == ["b"]


def test_merged_class_has_the_probabilities_of_both():
    label, probabilities, _ = read_one({"a": 0.3, "b": 0.3, "c": 0.4}, ("a", "b", "c"), now=merge)
    assert (label, probabilities) == ("b", [0.6, 0.4])


def merge(label):
    return "b" if label == "a" else label


def test_class_that_is_added_later_is_not_malformed(tmp_path, make_records):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": y}, n=100)
    run(load(file), until_idle=True)
    file.write_text(PIPELINE.format(classes='["left", "right", "new"]'))
    records, _ = make_records(40, 1)
    later = [r | {"id": f"later {i}", "score": "new"} for i, r in enumerate(records)]
    put(load(file), "records", later)
    run(load(file), until_idle=True)
    counts = describe_pipeline(load(file).state)["checkpoint"]["recorded"]
    assert counts == {"valid": 140, "labels_alone": 140, "missing": 0, "malformed": 0}
    assert [one["label"] for one in read(load(file), "predictions")][-40:] == ["new"] * 40
    assert "replayed: bit for bit" in verify_replay(load(file))


def test_own_model_is_trained_without_the_prediction_and_compared(tmp_path, make_records):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": {y: 0.6, other(y): 0.4}})
    run(load(file), until_idle=True)
    description = describe_pipeline(load(file).state)
    checkpoint = description["checkpoint"]
    assert "score" not in State(load(file).state).schema().features
    assert checkpoint["committee"]["version"] > 0
    gain = checkpoint["shadow_models"]["own model"]["since_start"]["gain"]
    assert -1.0 <= gain["low"] <= gain["value"] <= gain["high"] <= 0.0
    text = format_description(description)
    assert "own model" in text
    assert "labels alone" not in text


def test_prediction_field_needs_classes(tmp_path):
    (tmp_path / "p.toml").write_text(PIPELINE.format(classes="[]"))
    with pytest.raises(ConfigurationError, match=r"list them in \[schema\] classes"):
        load(tmp_path / "p.toml")


@pytest.mark.parametrize("more", ['river = "models:one"', None])
def test_model_needs_one_of_river_and_prediction_field(tmp_path, more):
    text = PIPELINE.format(classes='["left", "right"]')
    text = text + more if more else text.replace('prediction_field = "score"', "")
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigurationError, match="needs one of river and prediction_field"):
        load(tmp_path / "p.toml")


@pytest.mark.parametrize(
    ("field", "is_ok", "said"),
    [("score", True, "16 valid, 16 labels alone, 4 missing"), ("other", False, "20 missing")],
)
def test_check_counts_the_first_predictions(tmp_path, make_records, field, is_ok, said):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": y} if i % 5 else {}, n=20)
    file.write_text(file.read_text().replace('"score"', f'"{field}"'))
    (found,) = [one for one in check_pipeline(load(file)) if one.part == "model"]
    assert found.ok == is_ok
    assert said in found.text


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ('numeric = ["a"]', r"\[model\]: reads all fields: delete \[schema\] numeric"),
        ('fields.score = "category"', r"prediction_field: is a feature in \[schema.fields\]"),
    ],
)
def test_settings_that_make_the_prediction_a_feature_are_refused(tmp_path, setting, error):
    text = PIPELINE.format(classes='["left", "right"]')
    (tmp_path / "p.toml").write_text(text.replace("[source]", f"{setting}\n[source]"))
    with pytest.raises(ConfigurationError, match=error) as found:
        load(tmp_path / "p.toml")
    assert "exclude" not in str(found.value), "nobody has set it"


def test_decisions_are_refused(tmp_path):
    text = PIPELINE.format(classes='["left", "right"]') + "[decision]\nthreshold.left = 0.9\n"
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigurationError, match="that system decides"):
        load(tmp_path / "p.toml")


def test_recorded_predictions_run_next_to_shadow_models(tmp_path, make_records):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": y})
    (tmp_path / "bayes.py").write_text(
        "from river import naive_bayes\n\ndef make():\n    return naive_bayes.GaussianNB()\n"
    )
    file.write_text(file.read_text() + '[shadow_models.nb]\nriver = "bayes:make"\n')
    run(load(file), until_idle=True)
    found = describe_pipeline(load(file).state)["checkpoint"]["shadow_models"]
    assert list(found) == ["nb", "own model"]
    assert found["nb"]["since_start"]["committee"]["accuracy"] is not None


def test_export_does_not_state_the_accuracy_of_the_other_system(tmp_path, make_records):
    file, _ = make(tmp_path, make_records, lambda i, y: {"score": y})
    file.write_text(file.read_text() + '[committee]\nexperts = "committee"\n')
    run(load(file), until_idle=True)
    export(load(file), "lightgbm", output=tmp_path / "model.txt")
    recent = describe_pipeline(load(file).state)["checkpoint"]["evaluation"]["recent"]
    stated = read_layout(tmp_path / "model.txt").about["accuracy"]
    assert stated == recent["committee_alone"]["accuracy"]
    assert stated != recent["committee"]["accuracy"]
