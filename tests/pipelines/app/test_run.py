import gc
import json
import logging
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

from streamboost.connectors.sqlite import database
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    DataError,
    StateError,
    UnavailableError,
)
from streamboost.pipelines.app import first_records
from streamboost.pipelines.app.check import delivery_guarantee
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.cli.heap import freeze_gc_after_recovery
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from tests.pipelines.watching import committing


def config(folder, **sections):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10},
        "source": {"connector": "files", "path": "records.jsonl"},
        "committee": {"n_estimators": 2},
    }
    return parse(tables | sections, folder, environment={})


def write(folder, records, name="records.jsonl"):
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / name).write_text(text)
    return text


def messages(folder, stream="predictions"):
    with closing(SqliteSource(folder / "state" / "log.db", stream)) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


def ids(folder):
    return [message["id"] for message in messages(folder)]


def test_each_run_goes_on_where_the_last_one_ended(tmp_path, make_records):
    records, _ = make_records(50)
    for n in (0, 20, 20, 50):
        write(tmp_path, records[:n])
        run(config(tmp_path), until_idle=True)
    assert ids(tmp_path) == [record["id"] for record in records]


class ProcessSettings(Observer):
    """Notes the settings of the collector and the signal handlers between batches."""

    def __init__(self):
        self.seen = []

    @staticmethod
    def now():
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        timer = signal.getitimer(signal.ITIMER_REAL)
        return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), handlers, timer

    def between_batches(self):
        self.seen.append(self.now())


def test_run_from_python_changes_neither_the_collector_nor_signal_handlers(tmp_path, make_records):
    records, _ = make_records(50)
    write(tmp_path, records)
    settings = ProcessSettings()
    before = settings.now()
    run(config(tmp_path), until_idle=True, observers=[settings])
    assert len(settings.seen) >= 5
    assert all(one == before for one in settings.seen)
    assert settings.now() == before


@pytest.mark.slow
def test_the_command_line_freezes_the_heap_of_a_run_and_restores_it(tmp_path, make_records):
    records, _ = make_records(50)
    write(tmp_path, records)
    settings = ProcessSettings()
    before = settings.now()
    with freeze_gc_after_recovery() as freezer:
        run(config(tmp_path), until_idle=True, observers=[freezer, settings])
    _, thresholds, frozen, *_ = settings.seen[-1]
    assert thresholds == (50_000, *before[1][1:])
    assert frozen > before[2]
    after = settings.now()
    assert after[2] <= before[2], "nothing of the run stays frozen; Python 3.12 starts with some"
    assert (*after[:2], *after[3:]) == (*before[:2], *before[3:])


@pytest.mark.parametrize("estimator", ["sketch", "gamble"])
@pytest.mark.quick_once
def test_many_short_runs_write_what_one_long_run_writes(tmp_path, make_records, estimator):
    records, truth = make_records(120)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    sections = {
        "labels": {"connector": "files", "path": "labels.jsonl"},
        "committee": {"estimator": estimator, "n_estimators": 3},
    }
    for name, cuts in (("long", [120]), ("short", range(10, 130, 10))):
        folder = tmp_path / name
        folder.mkdir()
        for n in cuts:
            write(folder, records[:n])
            write(folder, labels[:n], "labels.jsonl")
            run(config(folder, **sections), until_idle=True)
    for stream in ("predictions", "requests"):
        assert messages(tmp_path / "long", stream) == messages(tmp_path / "short", stream)
    assert messages(tmp_path / "long")[-1]["version"] > 5


def test_a_source_that_fails_between_two_batches_loses_nothing(tmp_path, make_records):
    records, _ = make_records(50)
    text = write(tmp_path, records)

    def truncate(effects):
        if effects.sequence == 2:
            (tmp_path / "records.jsonl").write_text("")

    with pytest.raises(ConnectorError, match="truncated"):
        run(config(tmp_path), until_idle=True, observers=[committing(truncate)])
    (tmp_path / "records.jsonl").write_text(text)
    run(config(tmp_path), until_idle=True)
    assert ids(tmp_path) == [record["id"] for record in records]


def test_labels_may_be_put_into_the_log_by_hand(tmp_path, make_records):
    write(tmp_path, make_records(10)[0])
    run(config(tmp_path), until_idle=True)
    with closing(SqliteSink(tmp_path / "state" / "log.db", "labels")) as labels:
        labels.write([b'{"id": "3", "label": "left"}'])
        labels.flush()
    seen = []
    run(config(tmp_path), until_idle=True, observers=[committing(seen.append)])
    assert [effects.joined.labels for effects in seen] == [["left"]]


def test_the_schema_of_the_first_run_holds_for_later_ones(tmp_path, make_records):
    records, _ = make_records(20)
    write(tmp_path, records[:10])
    run(config(tmp_path), until_idle=True)
    write(tmp_path, records[:10] + [record | {"c": 1.0} for record in records[10:]])
    seen = []
    run(config(tmp_path), until_idle=True, observers=[committing(seen.append)])
    assert [effects.records.X.shape for effects in seen] == [(10, 2)]


class Resting(StopToken):
    """Calls `meanwhile` instead of resting, and stops once that gives no more."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = iter(meanwhile)

    def wait(self, seconds):
        if next(self.meanwhile, None) is None:
            self.request_stop()


def growing(folder, lines):
    """Append one line after the other, at each step."""
    for line in lines:
        with (folder / "records.jsonl").open("a") as file:
            file.write(line + "\n")
        yield line


def test_a_live_source_that_begins_with_damage_is_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(first_records, "QUIET", 0.0)
    lines = ["damaged", '{"id": 1', '{"id": 2, "a": 0.5}']
    (tmp_path / "records.jsonl").write_text("")
    run(config(tmp_path), stop=Resting(growing(tmp_path, lines)))
    assert ids(tmp_path) == ["2"]
    assert "Inference is retried when more records arrive" in caplog.text


@pytest.mark.slow
def test_a_live_source_shows_more_than_one_record_before_the_schema_is_settled(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(first_records, "QUIET", float("inf"))
    lines = [f'{{"id": {n}, "a": 1}}' for n in range(499)] + ['{"id": 499, "a": 1, "b": 2}']
    (tmp_path / "records.jsonl").write_text("")
    run(config(tmp_path), stop=Resting(growing(tmp_path, lines)))
    assert State(tmp_path / "state").schema().features == ("a", "b")
    assert len(ids(tmp_path)) == 500


def test_damage_alone_ends_the_wait_once_there_is_enough_of_it(tmp_path):
    (tmp_path / "records.jsonl").write_text("damaged\n" * first_records.INFERRED_FROM)
    with pytest.raises(
        DataError, match=r"none of the 500 messages at the start is a JSON object.*damaged"
    ):
        run(config(tmp_path))


def test_a_log_locked_by_another_process_is_waited_for(tmp_path, make_records, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    records, _ = make_records(30)
    write(tmp_path, records)
    log = tmp_path / "state" / "log.db"
    run(config(tmp_path), until_idle=True)
    write(tmp_path, records + make_records(20, start=30)[0])
    with closing(sqlite3.connect(log, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def meanwhile():
            yield "still locked"
            other.rollback()
            yield "free"

        run(config(tmp_path), until_idle=True, stop=Resting(meanwhile()))
    assert ids(tmp_path) == [str(n) for n in range(50)]
    run(config(tmp_path), until_idle=True)


def test_a_cluster_that_cannot_be_reached_is_waited_for_until_asked_to_stop(
    tmp_path, monkeypatch, caplog
):
    stop, attempts = StopToken(), []

    def refuse(config):
        attempts.append(config)
        if len(attempts) == 3:
            stop.request_stop()
        raise UnavailableError("nobody is there")

    monkeypatch.setattr("streamboost.pipelines.app.run.refuse_missing_topics", refuse)
    kafka = {"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "source": {"connector": "kafka"}}
    patient = config(tmp_path, pipeline={"name": "test", "poll_interval": 0.001}, **kafka)
    with pytest.raises(UnavailableError):
        run(patient, stop=stop)
    assert len(attempts) == 3
    assert caplog.text.count("nobody is there. It is tried again until it succeeds") == 1


def test_a_wait_says_once_that_it_waits_and_once_that_it_goes_on(caplog):
    caplog.set_level(logging.INFO)
    tries = iter([UnavailableError("nobody is there")] * 3)

    def ask():
        if (error := next(tries, None)) is not None:
            raise error
        return "here"

    assert StopToken().retry_until_success(ask, 0.001) == "here"
    assert [record.message for record in caplog.records] == [
        "waiting: nobody is there. It is tried again until it succeeds",
        "continuing: the operation that was retried has succeeded",
    ]


@pytest.mark.parametrize("lost", ["fingerprint", "config.toml"])
@pytest.mark.parametrize("stopped", [True, False])
def test_a_state_that_has_lost_a_file_is_not_begun_anew(tmp_path, make_records, lost, stopped):
    write(tmp_path, make_records(30)[0])
    run(config(tmp_path), until_idle=True)
    (tmp_path / "state" / lost).unlink()
    if not stopped:
        shutil.rmtree(tmp_path / "state" / "checkpoints")
    changed = {"name": "test" if stopped else "other", "seed": 3}
    with pytest.raises(StateError, match=r"is missing, so this state|the changes are unknown"):
        run(config(tmp_path, pipeline=changed), until_idle=True)
    assert len(ids(tmp_path)) == 30


def test_a_state_that_may_only_be_read_can_be_inspected(open_folder, only_reading, make_records):
    write(open_folder, make_records(30)[0])
    run(config(open_folder), until_idle=True)
    with only_reading(open_folder):
        found = describe_pipeline(open_folder / "state")
    assert found["sequence"] == found["checkpoint"]["sequence"] == 3


def test_outputs_may_go_to_files_and_the_guarantee_says_what_that_costs(tmp_path, make_records):
    files = {
        "predictions": {"connector": "files", "path": "out/predictions.jsonl"},
        "requests": {"connector": "files", "path": "out/requests.jsonl"},
        "dead_letters": {"connector": "sqlite", "stream": "dead", "path": "other.db"},
    }
    write(tmp_path, [*make_records(30)[0], {"a": 1}])
    made = config(tmp_path, **files)
    run(made, until_idle=True)
    written = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in written] == [str(i) for i in range(30)]
    assert delivery_guarantee(made).startswith(
        "at least once: predictions, requests and dead_letters are outside the log"
    )
    assert delivery_guarantee(config(tmp_path)).startswith("exactly once")


def test_a_dataset_that_river_does_not_have_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="perhaps 'Phishing' is meant"):
        run(config(tmp_path, source={"connector": "river", "dataset": "Fishing"}))


def test_a_run_leaves_a_status_that_says_what_may_be_given_to_it(tmp_path, make_records):
    write(tmp_path, make_records(50)[0])
    run(config(tmp_path), until_idle=True)
    with closing(StatusReader(tmp_path / "state")) as reader:
        found = reader.document("pipeline")
    assert (found["name"], found["state"], found["sequence"]) == ("test", "stopped", 5)
    assert (found["accepts_labels"], found["accepts_records"]) == (True, False)
    assert found["connectors"]["source"] == "files"
    assert "records.jsonl" not in str(found)


def test_without_an_interval_no_status_is_written(tmp_path, make_records):
    write(tmp_path, make_records(50)[0])
    run(config(tmp_path, monitor={"publish_every": 0.0}), until_idle=True)
    assert not (tmp_path / "state" / "status.db").exists()


def test_what_ends_a_run_stands_in_its_status_without_secrets(tmp_path, make_records):
    tables = {
        "pipeline": {"name": "test"},
        "source": {"connector": "files", "path": "records.jsonl"},
        "predictions": {"connector": "files", "path": "${SECRET}/predictions.jsonl"},
    }
    write(tmp_path, make_records(50)[0])
    (tmp_path / "hunter2").write_text("not a folder")
    secret = parse(tables, tmp_path, environment={"SECRET": "hunter2"})
    with pytest.raises(ConnectorError):
        run(secret, until_idle=True)
    with closing(StatusReader(tmp_path / "state")) as reader:
        trouble = reader.document("trouble")["text"]
        assert [mark["text"] for mark in reader.chart_marks() if mark["kind"] == "trouble"] == [
            trouble
        ]
    assert "${SECRET}/predictions.jsonl" in trouble
    assert "hunter2" not in trouble
