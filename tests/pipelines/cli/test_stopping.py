"""Shutdown of a pipeline: SIGTERM ends the process within seconds, whatever blocks it."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from tests.pipelines.operated import checkpoints, predicted, put
from tests.pipelines.stopping import lines, stopped
from tests.waiting import until

PIPELINE = """
[pipeline]
name = "test"
batch_records = 20
[source]
connector = "files"
path = "records.jsonl"
follow = true
[labels]
connector = "files"
path = "labels.jsonl"
follow = true
[committee]
n_estimators = {rounds}
[schedule]
training = "background"
"""


def write(folder, make_records, n, rounds=3):
    records, truth = make_records(n)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    for name, messages in (("records", records), ("labels", labels)):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (folder / f"{name}.jsonl").write_text(text)
    (folder / "p.toml").write_text(PIPELINE.format(rounds=rounds))


@pytest.mark.slow
def test_while_no_record_comes(streamboost_command, tmp_path):
    (tmp_path / "p.toml").write_text(PIPELINE.format(rounds=3))
    process = streamboost_command.start("run", "p.toml")
    lines(process, "starting")
    stopped(process)


@pytest.mark.slow
def test_while_a_training_runs_that_takes_long(streamboost_command, tmp_path, make_records):
    write(tmp_path, make_records, 2_000, rounds=50_000)
    process = streamboost_command.start("run", "p.toml")
    log = tmp_path / "state" / "log.db"
    until(lambda: log.exists() and rows(log) > 100)
    assert "Traceback" not in stopped(process)


def rows(log):
    with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as db:
        try:
            return db.execute("SELECT count(*) FROM predictions").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


@pytest.mark.slow
def test_while_somebody_else_holds_the_log(streamboost_command, tmp_path, make_records):
    write(tmp_path, make_records, 10)
    log = tmp_path / "state" / "log.db"
    process = streamboost_command.start("run", "p.toml")
    until(lambda: log.exists() and rows(log) == 10)
    with closing(sqlite3.connect(log, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (tmp_path / "records.jsonl").open("a") as file:
            file.write(json.dumps({"id": "more", "a": 1.0, "b": 0.0}) + "\n")
        time.sleep(0.5)  # it is in the commit by then
        stopped(process)


@pytest.fixture
def frozen(broker):
    """A broker that answers nobody once it is frozen; it is thawed at the end."""
    yield broker
    broker.thaw()


@pytest.mark.kafka
@pytest.mark.slow
def test_while_a_broker_does_not_answer_a_beginning(made, frozen, streamboost_command):
    with closing(frozen.proxy()) as proxy:
        made(reached=f"127.0.0.1:{frozen.proxied_port}")
        frozen.freeze()
        before = proxy.asked
        process = streamboost_command.start("run", "p.toml")
        until(lambda: proxy.asked > before)
        stopped(process)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("more", [0, 500])
def test_while_a_broker_does_not_answer_a_pipeline_at_work(
    made, frozen, make_records, streamboost_command, more
):
    made = made()
    put(made, make_records(40)[0])
    process = streamboost_command.start("run", "p.toml")
    until(lambda: len(predicted(made)) == 40)
    put(made, make_records(more, start=40)[0])
    frozen.freeze()
    time.sleep(1)
    stopped(process)
    frozen.thaw()
    streamboost_command("run", "p.toml", "--until-idle")
    assert predicted(made) == [str(n) for n in range(40 + more)]


@pytest.mark.slow
@pytest.mark.kafka
def test_while_a_broker_does_not_answer_a_replay(made, frozen, make_records, streamboost_command):
    made = made()
    put(made, make_records(2_000)[0])
    streamboost_command("run", "p.toml", "--until-idle")
    checkpoints(made).remove_after(3)
    process = streamboost_command.start("run", "p.toml")
    lines(process, "replaying")
    frozen.freeze()
    stopped(process)
    frozen.thaw()
    streamboost_command("run", "p.toml", "--until-idle")
    assert len(predicted(made)) == 2_000
