"""Polling of sources for a batch, and the files that stay open between two batches."""

from contextlib import closing

import pytest
from descriptors import times_open

from streamboost.connectors.oracle.oracle import AnswersOracle, DelayedAnswerIds
from streamboost.connectors.oracle.table import OracleLabels
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.pipelines.runner.batch_reader import BatchReader


def put(path, *payloads):
    with closing(SqliteSink(path, "messages")) as sink:
        sink.write(payloads)
        sink.flush()


def labels_of_their_own(folder):
    put(folder / "labels.db", b'{"id": "0", "label": "sky"}')
    return SqliteSource(folder / "labels.db", "messages")


def labels_known_already(folder):
    (folder / "answers.csv").write_text("id,label\n0,sky\n")
    put(folder / "labels.db", b'{"id": "0"}', b'{"id": "1"}')
    asked, predicted = (SqliteSource(folder / "labels.db", "messages") for _ in range(2))
    return AnswersOracle(
        OracleLabels(folder / "answers.csv"), asked, DelayedAnswerIds(predicted, records=1)
    )


@pytest.mark.parametrize("labels_in", [labels_of_their_own, labels_known_already])
def test_files_stay_open_until_nothing_comes_from_any_of_them(tmp_path, labels_in):
    put(tmp_path / "records.db", b"{}", b"{}")
    records = SqliteSource(tmp_path / "records.db", "messages")
    with closing(records), closing(labels_in(tmp_path)) as labels:
        intake = BatchReader(records, labels, most_records=1, most_labels=1)
        assert [intake.poll().message_counts() for _ in range(2)] == [
            {"records": 1, "labels": 1},
            {"records": 1, "labels": 0},
        ]
        assert times_open(tmp_path / "labels.db"), "opened anew for every poll that brings no label"
        assert intake.poll() is None
        assert not times_open(tmp_path / "labels.db")
        assert not times_open(tmp_path / "records.db")
