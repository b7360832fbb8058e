"""`streamboost demo --predicted FIELD`: the evaluation of predictions in records of the user."""

import json

import numpy as np
import pytest

from streamboost.errors import ConfigurationError, DataError
from streamboost.pipelines.cli.demo import demo
from streamboost.pipelines.demo.own import split_labelled_file
from streamboost.pipelines.demo.predicted import evaluate_predictions, result_lines
from streamboost.pipelines.shutdown import StopToken


@pytest.fixture
def file(tmp_path):
    """Write records whose predictions are right in 90 %, and in 50 % of the later ones."""
    rng = np.random.default_rng(1)
    path = tmp_path / "records.jsonl"
    with path.open("w") as lines:
        for i in range(3_000):
            is_fraud = bool(rng.random() < 0.5)
            is_right = rng.random() < (0.9 if i < 1_500 else 0.5)
            x = rng.normal() + 3.0 * is_fraud
            record = {"x": x, "score": is_fraud == is_right, "is_fraud": is_fraud}
            print(json.dumps(record), file=lines)
    return path


def evaluated(file, field="score"):
    stream = split_labelled_file(file, "is_fraud", None, file.parent / "demo")
    folder = file.parent / "demo" / "predicted"
    return evaluate_predictions(stream, field, folder, seed=0, budget=0.2, stop=StopToken())


def test_few_labels_show_the_accuracy_and_the_drop(file):
    found = evaluated(file)
    assert found.records == 3_000
    assert found.labels <= 600
    assert found.accuracy["low"] < found.right / 3_000 < found.accuracy["high"]
    assert 1_500 < found.drop_records < 2_500
    assert found.drop["low"] > 0.0
    assert found.gain["low"] > 0.0, "the own model is better"
    text = "\n".join(result_lines(found, "score"))
    assert f"drop: reported after {found.drop_records:,} records" in text
    assert "points better" in text
    assert "labels alone: 3,000" in text


def test_field_without_predictions_is_refused(file):
    with pytest.raises(DataError, match="no record has a valid prediction in 'x'"):
        evaluated(file, "x")


def test_options_of_the_comparison_are_refused(file):
    with pytest.raises(ConfigurationError, match="leave out --strategy, --html and --serve"):
        demo(file, "is_fraud", predicted="score", serve=True)
    with pytest.raises(ConfigurationError, match="give the file first"):
        demo(predicted="score")
