"""Pipelines that evaluate the predictions which records carry."""

import pytest
from serving import put, read

from streamboost.connectors.messages.schema import parse_classes
from streamboost.errors import ConfigurationError
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.models.recorded import RecordedPrediction
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


@pytest.mark.parametrize(
    ("value", "classes", "kind", "label"),
    [
        (1, (0, 1), "integer", 1),
        (1.0, (0, 1), "integer", 1),
        (
            "True",
            parse_classes([False, True], None)[1],
            "boolean",
            parse_classes([True], None)[1][0],
        ),
    ],
)
def test_recorded_label_is_matched_with_its_class(value, classes, kind, label):
    recorded = RecordedPrediction("score", classes, kind)
    assert recorded.predict_proba_one({"score": value}) == {label: 1.0}


@pytest.mark.parametrize("p", [-0.1, float("nan"), float("inf")])
def test_invalid_probability_is_refused(p):
    recorded = RecordedPrediction("score", ("a", "b"), "string")
    with pytest.raises(ValueError, match="is no prediction"):
        recorded.predict_proba_one({"score.a": p, "score.b": 0.5})


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
