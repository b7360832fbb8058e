"""Retention of the log: what is old is deleted, and a restart finds all that it needs."""

import json
import sqlite3
from contextlib import closing

import pytest

from streamboost.connectors.sqlite import retention as log_retention
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConfigurationError, DeletedError, GapError
from streamboost.pipelines.app import verify
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.retention import LogRetention
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.durations import RecordCountAndBatchTime, WindowSize
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.state.checkpoints import Checkpoints
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import Feed, kill, verified

BATCH, EVERY = 10, 4
PIPELINE = f"""
[pipeline]
name = "aging"
batch_records = {BATCH}
batch_labels = {BATCH}
checkpoint_every = {EVERY}
join_window = 100
retention = RETENTION
[source]
connector = "sqlite"
stream = "records"
[labels]
connector = "sqlite"
stream = "labels"
[requests]
connector = "sqlite"
stream = "requests"
expires_after = 100
[committee]
n_estimators = 3
[query]
budget = 0.3
"""
STREAMS = ("records", "labels", "predictions", "requests", "dead_letters")


def piped(folder, retention):
    """Write a pipeline file whose streams are all in the log of the state; return its path."""
    text = f'"{retention}"' if isinstance(retention, str) else str(retention)
    (folder / "p.toml").write_text(PIPELINE.replace("RETENTION", text))
    return folder / "p.toml"


def send_to(folder):
    """Return a function that appends records and labels to the log."""

    def send(records, labels):
        for name, messages in (("records", records), ("labels", labels)):
            with closing(SqliteSink(folder / "state" / "log.db", name)) as sink:
                sink.write(messages)
                sink.flush()

    return send


def write(folder, make_records, n, start=0):
    records, truth = make_records(n, start)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    send_to(folder)(*([json.dumps(one).encode() for one in some] for some in (records, labels)))


def rows(folder, table, columns="offset, payload"):
    with closing(sqlite3.connect(folder / "state" / "log.db")) as log:
        if not log.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
            return []
        return log.execute(f'SELECT {columns} FROM "{table}" ORDER BY 1').fetchall()


def make_ends_older(folder):
    with closing(sqlite3.connect(folder / "state" / "log.db")) as log, log:
        log.execute("UPDATE _ends SET time_ms = time_ms - 10000")


def assert_restart_continues(folder, make_records, start):
    write(folder, make_records, 30, start)
    run(load(folder / "p.toml"), until_idle=True)
    assert describe_pipeline(folder / "state")["checkpoint"]["join"]["records"] == start + 30


def test_log_holds_the_retention_and_no_more(tmp_path, make_records):
    file = piped(tmp_path, 200)
    write(tmp_path, make_records, 1_000)
    newest = run(load(file), until_idle=True)
    predictions = rows(tmp_path, "predictions")
    first, last = predictions[0][0], predictions[-1][0]
    assert last == 999
    assert [offset for offset, _ in predictions] == list(range(first, 1_000))
    assert 200 <= len(predictions) <= 200 + 200 // 50 + 2 * BATCH * EVERY
    oldest = min(State(tmp_path / "state").checkpoints.sequences)
    assert rows(tmp_path, "_journal", "sequence")[0] == (oldest + 1,)
    for name in ("records", "labels"):
        needed = State(tmp_path / "state").checkpoints.load(oldest)[1]["positions"][name]["0"]
        assert first <= rows(tmp_path, name)[0][0] <= needed
    assert f"batches {oldest + 1} to {newest} replayed: bit for bit" in verify_replay(load(file))
    assert_restart_continues(tmp_path, make_records, 1_000)


@pytest.mark.parametrize("retention", ["none", "30d", 5_000])
def test_nothing_is_deleted_before_its_time(tmp_path, make_records, retention):
    file = piped(tmp_path, retention)
    write(tmp_path, make_records, 400)
    newest = run(load(file), until_idle=True)
    for name in ("records", "labels", "predictions"):
        assert len(rows(tmp_path, name)) == 400, name
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


def test_verification_starts_again_if_the_journal_is_shortened(tmp_path, make_records, monkeypatch):
    file, build_runner = piped(tmp_path, "none"), verify.build_runner
    write(tmp_path, make_records, 200)
    newest = run(load(file), until_idle=True)
    oldest = min(State(tmp_path / "state").checkpoints.sequences)
    assert 1 < oldest < newest

    def shorten_journal(*args):
        with closing(sqlite3.connect(tmp_path / "state" / "log.db")) as log, log:
            log.execute("DELETE FROM _journal WHERE sequence <= ?", (oldest,))
        return build_runner(*args)

    monkeypatch.setattr(verify, "build_runner", shorten_journal)
    assert f"batches {oldest + 1} to {newest} replayed: bit for bit" in verify_replay(load(file))
    with closing(sqlite3.connect(tmp_path / "state" / "log.db")) as log, log:
        log.execute("DELETE FROM _journal WHERE sequence <= ?", (newest - 1,))
    with pytest.raises(GapError, match="lacks batches"):
        verify_replay(load(file))


def test_time_makes_messages_old(tmp_path, make_records):
    file = piped(tmp_path, "1s")
    write(tmp_path, make_records, 200)
    run(load(file), until_idle=True)
    make_ends_older(tmp_path)
    write(tmp_path, make_records, 50, 200)
    run(load(file), until_idle=True)
    first = rows(tmp_path, "predictions")[0][0]
    assert 0 < first <= 200


def test_restart_may_begin_at_the_oldest_checkpoint(tmp_path, make_records):
    file = piped(tmp_path, 20)
    for start in range(0, 600, 100):  # each run begins with checkpoints of another
        write(tmp_path, make_records, 100, start)
        run(load(file), until_idle=True)
    assert rows(tmp_path, "predictions")[0][0] > 300
    state = State(tmp_path / "state")
    before = state.checkpoints.newest()[1]
    newest, middle, oldest = state.checkpoints.sequences
    for sequence in (newest, middle):
        state.checkpoints.path(sequence).write_bytes(b"damaged")
    assert state.checkpoints.newest()[1]["sequence"] == oldest
    run(load(file), until_idle=True)
    after = state.checkpoints.newest()[1]
    assert (after["sequence"], after["digest"]) == (newest, before["digest"])
    assert_restart_continues(tmp_path, make_records, 600)


def test_messages_are_deleted_after_a_new_start_on_an_old_log(tmp_path, make_records):
    file = piped(tmp_path, "1s")
    write(tmp_path, make_records, 200)
    run(load(file), until_idle=True)
    make_ends_older(tmp_path)
    for start in (200, 250):
        write(tmp_path, make_records, 50, start)
        run(load(file), until_idle=True)
    for checkpoint in (tmp_path / "state" / "checkpoints").iterdir():
        checkpoint.unlink()
    with pytest.raises(GapError, match="the journal lacks batches 1 to"):
        run(load(file), until_idle=True)
    file.write_text(file.read_text().replace("[pipeline]", '[pipeline]\non_data_loss = "continue"'))
    write(tmp_path, make_records, 100, 300)
    run(load(file), until_idle=True)  # counts the records from 0 again
    make_ends_older(tmp_path)
    write(tmp_path, make_records, 50, 400)
    run(load(file), until_idle=True)
    # Also messages of the new start; how many depends on the time between batches.
    assert rows(tmp_path, "predictions")[0][0] > 300


def test_unread_labels_are_kept_however_old(tmp_path, make_records):
    file = piped(tmp_path, 50)
    write(tmp_path, make_records, 40)
    run(load(file), until_idle=True)
    records, _ = make_records(600, 40)
    send = send_to(tmp_path)
    late = [json.dumps({"id": "nobody's", "label": "a"}).encode()] * 3_000
    send([json.dumps(one).encode() for one in records], late)
    run(load(file), until_idle=True)
    assert describe_pipeline(tmp_path / "state")["checkpoint"]["join"]["records"] == 640
    position = State(tmp_path / "state").checkpoints.newest()[1]["positions"]["labels"]["0"]
    assert position == 3_040, "all were read"


def test_oracle_finds_the_requests_and_predictions_that_it_needs(tmp_path, make_records):
    file = piped(tmp_path, 60)
    records, truth = make_records(400)
    labelled = [record | {"label": label} for record, label in zip(records, truth, strict=True)]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labelled))
    own = 'connector = "oracle"\npath = "answers.jsonl"\ndelay = 80\n'
    file.write_text(file.read_text().replace('connector = "sqlite"\nstream = "labels"\n', own))
    for start in (0, 200):
        send_to(tmp_path)([json.dumps(one).encode() for one in records[start : start + 200]], [])
        run(load(file), until_idle=True)
    assert rows(tmp_path, "requests")[0][0] > 20
    assert len(rows(tmp_path, "predictions")) == 400
    known = describe_pipeline(tmp_path / "state")["checkpoint"]
    assert known["join"]["open_requests"] <= 80, "those of the newest records"
    assert known["ledger"]["expired"] == 0
    assert known["ledger"]["answered"] + known["join"]["open_requests"] > 80


@pytest.mark.slow
def test_kills_while_old_messages_are_deleted_lose_and_repeat_nothing(tmp_path, make_records):
    file = piped(tmp_path, 60)
    feed = Feed(*make_records(1_200), 30, send_to(tmp_path))
    kills = [("deleting", 1), ("deleted", 1), ("writing", 5), ("deleting", 2)]
    died, file = kill(file, kills * 2, 4, feed)
    assert len(died) == 4
    assert {"deleting", "deleted"} <= set(died)
    newest = run(load(file), until_idle=True)
    predictions = rows(tmp_path, "predictions")
    assert predictions[0][0] > 500
    assert predictions[-1][0] == len(feed.sound) - 1
    for offset, payload in predictions:
        assert json.loads(payload)["id"] == feed.sound[offset]
    known = describe_pipeline(tmp_path / "state")["checkpoint"]
    assert known["ledger"]["records"] == len(feed.sound)
    assert known["committee"]["labels"] == len(feed.sound)
    assert f"to {newest} replayed: bit for bit" in verified(file)


def test_check_tells_the_retention(tmp_path):
    for retention, said in (
        ("30d", "after 30d, messages and journal entries are deleted"),
        (500, "after 500 records, messages"),
        ("none", "grows with each record"),
    ):
        results = {one.part: one.text for one in check_pipeline(load(piped(tmp_path, retention)))}
        assert said in results["retention"]


@pytest.mark.parametrize("retention", ["forever", 0, -5, 1.5, True, "30"])
def test_invalid_retention_is_refused(tmp_path, retention):
    text = json.dumps(retention)
    (tmp_path / "p.toml").write_text(PIPELINE.replace("RETENTION", text))
    with pytest.raises(ConfigurationError, match=r'retention: must be .* or "none"'):
        load(tmp_path / "p.toml")


def test_another_pipeline_that_reads_too_late_reports_the_loss(tmp_path, make_records):
    file = piped(tmp_path, 50)
    write(tmp_path, make_records, 60)
    run(load(file), until_idle=True)
    other = tmp_path / "other"
    other.mkdir()
    source = f'[source]\nconnector = "sqlite"\npath = "{tmp_path}/state/log.db"\nstream = "records"'
    text = piped(other, "none").read_text()
    text = text.replace('[source]\nconnector = "sqlite"\nstream = "records"', source)
    (other / "p.toml").write_text(text)
    run(load(other / "p.toml"), until_idle=True)
    write(tmp_path, make_records, 300, 60)
    run(load(file), until_idle=True)
    first = rows(tmp_path, "records")[0][0]
    assert first > 60
    with pytest.raises(DeletedError, match=f"offsets 60 to {first - 1} of stream 'records'"):
        run(load(other / "p.toml"), until_idle=True)
    lenient = text.replace("[pipeline]", '[pipeline]\non_data_loss = "continue"')
    (other / "p.toml").write_text(lenient)
    run(load(other / "p.toml"), until_idle=True)
    assert len(rows(other, "predictions")) == 60 + 360 - first
    (other / "p.toml").write_text(text)
    write(tmp_path, make_records, 10, 360)
    run(load(other / "p.toml"), until_idle=True)
    known = describe_pipeline(other / "state")["checkpoint"]
    assert known["join"]["records"] == 60 + 370 - first


def test_checkpoints_removed_by_hand_do_not_stop_the_pipeline(tmp_path, make_records, caplog):
    file = piped(tmp_path, 20)
    write(tmp_path, make_records, 200)
    observer = Observer()

    def remove_checkpoints(now, manifest):
        for checkpoint in (tmp_path / "state" / "checkpoints").iterdir():
            checkpoint.unlink()

    observer.on_checkpoint = remove_checkpoints
    run(load(file), until_idle=True, observers=[observer])
    assert "old messages cannot be deleted from the log" in caplog.text
    assert rows(tmp_path, "predictions")[0][0] == 0


def test_journal_entries_are_deleted_before_messages(tmp_path, monkeypatch):
    path = tmp_path / "log.db"
    monkeypatch.setattr(log_retention, "_STEP", 4)
    monkeypatch.setattr(log_retention, "_AT_LEAST", 1)
    with closing(SqliteTransaction(path, "aging")) as transaction:
        for n in range(1, 7):
            transaction.commit(n, [(SqliteSink(path, "predictions"), [b"{}"])], {}, b"{}")
        with closing(log_retention.StreamRetention(path, "aging", ["predictions"])) as retention:
            retention.store_end_offsets((6, 0))
            for journal, predictions in ((2, 6), (2, 2), (2, 1)):  # a step each
                retention.delete_before((6, 0), {}, 4)
                assert len(list(transaction.read_journal())) == journal
                with closing(sqlite3.connect(path)) as log:
                    (n,) = log.execute("SELECT count(*) FROM predictions").fetchone()
                assert n == predictions


def test_free_space_is_returned_to_the_disk(tmp_path):
    path = tmp_path / "log.db"
    with closing(SqliteSink(path, "predictions")) as sink:
        sink.write([bytes(1_200)] * 9_999)
        sink.flush()
        sink.write([b"{}"])
        sink.flush()
    before = path.stat().st_size
    with closing(log_retention.StreamRetention(path, "aging", ["predictions"])) as retention:
        retention.store_end_offsets((1, 0))
        retention.delete_before((1, 0), {}, 0)
    assert path.stat().st_size < before - 7_000_000


def test_deletion_keeps_up_with_any_number_of_messages(tmp_path, monkeypatch):
    path = tmp_path / "log.db"
    monkeypatch.setattr(log_retention, "_STEP", 10)
    monkeypatch.setattr(log_retention, "_AT_LEAST", 20)
    with (
        closing(SqliteSink(path, "predictions")) as sink,
        closing(log_retention.StreamRetention(path, "aging", ["predictions"])) as retention,
    ):
        for n in range(1, 8):
            sink.write([b"{}"] * 100)
            sink.flush()
            retention.store_end_offsets((n, 0))
            retention.delete_before((n, 0), {}, 0)
    with closing(sqlite3.connect(path)) as log:
        assert log.execute("SELECT count(*) FROM predictions").fetchone() == (1,)


def test_transaction_deletes_few_long_messages(tmp_path, monkeypatch):
    path = tmp_path / "log.db"
    monkeypatch.setattr(log_retention, "_STEP_LENGTH", 1_000)
    monkeypatch.setattr(log_retention, "_TOGETHER", 2)
    monkeypatch.setattr(log_retention, "_AT_LEAST", 1)
    with (
        closing(SqliteSink(path, "predictions")) as sink,
        closing(log_retention.StreamRetention(path, "aging", ["predictions"])) as retention,
    ):
        sink.write([b"", b"x" * 400, b"\xff" * 599, b"y", b"z" * 5_000, b"", b"", b"end"])
        sink.flush()
        retention.store_end_offsets((1, 0))
        deleted = [retention.delete_before((1, 0), {}, 0) for _ in range(4)]
    assert deleted == [4, 2, 1, 0]


def test_log_is_found_by_another_path(tmp_path, make_records):
    file = piped(tmp_path, 50)
    (tmp_path / "link").symlink_to("state")
    path = 'connector = "sqlite"\npath = "link/log.db"\nstream = "labels"'
    text = file.read_text().replace('connector = "sqlite"\nstream = "labels"', path)
    file.write_text(text)
    write(tmp_path, make_records, 300)
    run(load(file), until_idle=True)
    assert rows(tmp_path, "labels")[0][0] > 100


def test_only_positions_of_present_checkpoints_are_held(tmp_path):
    log = log_retention.StreamRetention(tmp_path / "log.db", "aging", [])
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    observer = LogRetention(log, checkpoints, WindowSize.parse("30d"), {})
    for n in range(1, 20):
        manifest = {"sequence": n, "positions": {"records": {"0": n}}}
        checkpoints.save({}, manifest)
        observer.on_checkpoint(RecordCountAndBatchTime(n, n), manifest)
    assert sorted(observer._positions) == [17, 18, 19]
