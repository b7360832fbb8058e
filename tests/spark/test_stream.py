"""Structured streaming through kills: each record once in the sink's log, with the same bits."""

import json
import os
import signal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from waiting import until

from streamboost import SketchLogitBoostClassifier
from streamboost.boosting.committee import Committee
from tests.spark.environment import missing, start
from tests.spark.stream import NAMES

RECORDS, FILES = 100_000, 50
CLASSES = np.array(["low", "mid", "high"])


def rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, len(NAMES)))


@pytest.fixture
def folder(tmp_path):
    """A folder with the records in files of different times, and a committee."""
    if lacking := missing():
        pytest.skip(lacking)
    (tmp_path / "in").mkdir()
    X = rows(RECORDS, 1)
    for i, part in enumerate(np.array_split(np.arange(RECORDS), FILES)):
        columns = dict(zip(NAMES, X[part].T, strict=True))
        parquet.write_table(pa.table({"id": part, **columns}), tmp_path / "in" / f"{i:02}.parquet")
    taught = rows(2_000, 2)
    y = CLASSES[np.digitize(taught[:, 0] * taught[:, 1], [-0.3, 0.3])]
    model = SketchLogitBoostClassifier(n_estimators=50, random_state=0).fit(taught, y)
    model.committee_.save(tmp_path / "model")
    return tmp_path


def logged(out):
    """Return the files that the sink's log names: it has a file for each committed batch."""
    lines = [
        line
        for path in (out / "_spark_metadata").glob("[0-9]*")
        for line in path.read_text().splitlines()[1:]  # the first line is the version
    ]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]


def unlogged(out):
    """Return the data files that the sink's log does not name."""
    return sorted(set(out.glob("*.parquet")) - set(logged(out)))


def kill_in_a_batch(folder, log):
    """Run the query until a batch is committed and the next one is being written; kill it."""
    out = folder / "out"
    before, leftovers = len(logged(out)), set(unlogged(out))
    process = start(log, "-m", "tests.spark.stream", str(folder))
    try:
        until(lambda: process.poll() is not None or len(logged(out)) > before)
        until(lambda: process.poll() is not None or set(unlogged(out)) > leftovers)
        assert process.poll() is None, log.read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_each_record_is_scored_once_after_two_kills(folder):
    out, log = folder / "out", folder / "log"
    for _ in range(2):
        kill_in_a_batch(folder, log)
    process = start(log, "-m", "tests.spark.stream", str(folder))
    assert process.wait(300) == 0, log.read_text()
    found = pa.concat_tables(parquet.read_table(path) for path in logged(out)).sort_by("id")
    assert found["id"].to_pylist() == list(range(RECORDS))
    committee = Committee.load(folder / "model")
    expected = committee.predicted_indices(committee.class_scores(rows(RECORDS, 1)))
    assert found["prediction"].to_pylist() == committee.classes[expected].tolist()
    assert f"Spark reads {RECORDS} records" in log.read_text()
    assert unlogged(out), "no kill left a file that the log does not name"
