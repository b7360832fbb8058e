"""Batches in Spark: the page's programs, and records of mixed fields."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from sklearn.datasets import load_iris

from streamboost import SketchLogitBoostClassifier
from streamboost.boosting.committee import Committee
from streamboost.storage import write_arrays
from tests.spark import mixed
from tests.spark.environment import missing, start

PAGE = (Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "spark.md").read_text()
PROGRAMS = re.findall(r"^```py(?:thon)?\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
RECORDS = [record for record, _ in mixed.labelled_records(300, 1)]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def learner():
    return mixed.train()


@pytest.fixture(scope="module")
def folder(learner, tmp_path_factory):
    """A folder in which a process with Spark has scored batches."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("batch")
    (folder / "page.py").write_text("\n".join(PROGRAMS))
    lines = [json.dumps({"id": i, **one}, default=str) for i, one in enumerate(RECORDS)]
    (folder / "records.jsonl").write_text("\n".join(lines))
    write_arrays(folder / "learner.safetensors", learner.snapshot(), kind="learner")
    X, y = load_iris(return_X_y=True)
    model = SketchLogitBoostClassifier(n_estimators=5).fit(30 * X[:, :2], y)
    model.committee_.save(folder / "unnamed.safetensors")
    log = folder / "log"
    assert start(log, "-m", "tests.spark.batch", str(folder)).wait(300) == 0, log.read_text()
    return folder


def test_programs_of_the_page_score_a_table_and_a_stream(folder):
    committee = Committee.load(folder / "model.safetensors")
    table = parquet.read_table(folder / "predictions").sort_by("id")
    scores = committee.class_scores(parquet.read_table(folder / "records"))
    assert table["id"].to_pylist() == list(range(2_000))
    assert table["probabilities"].to_pylist() == committee.probabilities(scores).tolist()
    streamed = parquet.read_table(folder / "stream").sort_by("id")
    assert streamed["prediction"].to_pylist() == table["prediction"].to_pylist()


def test_page_shows_the_result(folder):
    (shown,) = re.findall(r"^```\n(\+-.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert shown in (folder / "log").read_text()


def test_mixed_fields_are_scored_as_by_the_learner(folder, learner):
    table = parquet.read_table(folder / "mixed").sort_by("id")
    committee, scores = learner.committee, mixed.expected_scores(learner, RECORDS)
    assert table["probabilities"].to_pylist() == committee.probabilities(scores).tolist()
    expected = committee.classes[committee.predicted_indices(scores)]
    assert table["prediction"].to_pylist() == expected.tolist()
    assert len(np.unique(expected)) == 2


def test_columns_may_have_names_with_dots(folder):
    committee = Committee.load(folder / "unnamed.safetensors")
    records = parquet.read_table(folder / "records")
    scores = committee.class_scores(np.column_stack([records["amount"], records["hour"]]))
    table = parquet.read_table(folder / "dotted").sort_by("id")
    assert table["x"].to_pylist() == records["amount"].to_pylist()
    assert table["z"].to_pylist() == committee.predicted_indices(scores).tolist()


def test_invalid_frames_are_refused_before_a_task_runs(folder):
    log = (folder / "log").read_text()
    assert "ConfigurationError: df lacks the columns ['hour']" in log
    assert "DataError: df is a pandas.DataFrame: give a Spark data frame" in log
    assert "DataError: model is a StreamLearner: give a committee" in log
