"""Restarts on a state folder: checkpoints lost or damaged, gaps, commands, verification."""

import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import GapError, StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.damage import refuse_damaged_log
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from tests.pipelines.watching import committing


def config(folder, **pipeline):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10, "batch_labels": 10} | pipeline,
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl"},
        "committee": {"n_estimators": 2},
    }
    return parse(tables, folder, environment={})


@pytest.fixture
def grown(tmp_path, make_records):
    """Return a function that lets `n` records and their labels stand in the files."""

    def grow(n):
        records, truth = make_records(n)
        labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
        for name, messages in (("records", records), ("labels", labels)):
            text = "".join(json.dumps(message) + "\n" for message in messages)
            (tmp_path / f"{name}.jsonl").write_text(text)

    return grow


def entries(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "test")) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.read_journal()]


def ids(folder):
    with closing(SqliteSource(folder / "state" / "log.db", "predictions")) as source:
        return [json.loads(message.payload)["id"] for message in source.poll(1_000_000)]


def checkpoints(folder):
    return State(folder / "state").checkpoints


def kill(folder, *, after):
    """Leave the state as a kill would have, some batches after checkpoint `after`."""
    checkpoints(folder).remove_after(after)


def test_checkpoints_are_taken_every_so_many_batches_and_at_the_end(tmp_path, grown):
    grown(75)
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    assert checkpoints(tmp_path).sequences == [8, 6, 3]


def test_a_run_that_was_killed_goes_on_without_a_repeat_or_a_loss(tmp_path, grown):
    grown(75)
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    kill(tmp_path, after=3)
    grown(100)
    assert run(config(tmp_path), until_idle=True) == 11
    assert ids(tmp_path) == [str(i) for i in range(100)]
    assert describe_pipeline(tmp_path / "state")["checkpoint"]["ledger"]["answered"] > 0
    assert "batches 1 to 11 replayed: bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.parametrize("lost", ["damaged", "missing"])
@pytest.mark.quick_once
def test_without_its_newest_checkpoint_a_state_goes_on_from_an_older_one(
    tmp_path, grown, lost, caplog
):
    grown(75)
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    path = checkpoints(tmp_path).folder / f"{8:010}"
    if lost == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    grown(80)
    run(config(tmp_path), until_idle=True)
    assert ("is skipped" in caplog.text) == (lost == "damaged")
    assert len(ids(tmp_path)) == 80
    assert "bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.slow
def test_without_any_checkpoint_the_whole_journal_is_replayed(tmp_path, grown):
    grown(75)
    run(config(tmp_path), until_idle=True)
    shutil.rmtree(tmp_path / "state" / "checkpoints")
    shutil.rmtree(tmp_path / "state" / "versions")
    grown(80)
    run(config(tmp_path), until_idle=True)
    assert len(ids(tmp_path)) == 80
    assert "batches 1 to 9 replayed" in verify_replay(config(tmp_path))


def test_a_log_that_was_removed_is_never_an_empty_model(tmp_path, grown):
    grown(30)
    run(config(tmp_path), until_idle=True)
    for path in (tmp_path / "state").glob("log.db*"):
        path.unlink()
    with pytest.raises(
        StateError, match=r"checkpoint of batch 3, but no batch is.*log was removed"
    ):
        run(config(tmp_path), until_idle=True)


def test_a_checkpoint_of_another_state_is_refused(tmp_path, grown):
    grown(30)
    run(config(tmp_path), until_idle=True)
    salt, _, rest = (tmp_path / "state" / "fingerprint").read_text().partition(":")
    checkpoint = checkpoints(tmp_path).newest()
    checkpoint[1]["fingerprint"] = f"{salt}:{rest[::-1].strip()}"
    checkpoints(tmp_path).save(*checkpoint)
    with pytest.raises(StateError, match="belongs to another state"):
        run(config(tmp_path), until_idle=True)


@pytest.fixture
def gapped(tmp_path, grown):
    """A state killed after batch 8 whose journal lacks batches 4 and 5 after a checkpoint of 3."""
    grown(75)
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    kill(tmp_path, after=3)
    with closing(sqlite3.connect(tmp_path / "state" / "log.db")) as log, log:
        log.execute("DELETE FROM _journal WHERE sequence IN (4, 5)")
    return tmp_path


def test_a_gap_in_the_journal_stops_with_the_missing_range(gapped):
    with pytest.raises(GapError, match="the journal lacks batches 4 to 5, and there is no"):
        run(config(gapped), until_idle=True)
    assert len(ids(gapped)) == 75


def test_verify_names_the_checkpoints_after_a_gap_in_the_journal(tmp_path, grown):
    grown(95)
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    with closing(sqlite3.connect(tmp_path / "state" / "log.db")) as log, log:
        log.execute("DELETE FROM _journal WHERE sequence IN (4, 5)")
    newest, *_ = sequences = checkpoints(tmp_path).sequences
    assert len([sequence for sequence in sequences if sequence > 5]) >= 2
    with pytest.raises(GapError, match="lacks batches 4 to 5, so that the checkpoint") as refused:
        verify_replay(config(tmp_path))
    assert f"it starts from the checkpoint of batch {newest}." in str(refused.value)


@pytest.mark.slow
def test_a_gap_may_be_gone_over_which_is_counted_and_journalled(gapped, grown, caplog):
    grown(100)
    run(config(gapped, on_data_loss="continue"), until_idle=True)
    assert "without the records and labels of batches 4 to 8" in caplog.text
    assert ids(gapped) == [str(i) for i in range(100)]
    assert describe_pipeline(gapped / "state")["checkpoint"]["lost_batches"] == 5
    assert [entry.gap for entry in entries(gapped) if entry.gap] == [(4, 8)]


@pytest.mark.slow
def test_a_state_gone_on_over_a_gap_is_replayed_over_the_same_gap(gapped, grown, tmp_path):
    checkpoint = checkpoints(gapped).load(3)
    grown(100)
    run(config(gapped, on_data_loss="continue"), until_idle=True)
    newest = describe_pipeline(gapped / "state")["checkpoint"]
    shutil.rmtree(gapped / "state" / "checkpoints")
    checkpoints(gapped).save(*checkpoint)
    grown(105)
    run(config(gapped), until_idle=True)
    again = describe_pipeline(gapped / "state")["checkpoint"]
    assert again["lost_batches"] == newest["lost_batches"] == 5
    assert "bit for bit" in verify_replay(config(gapped))


@pytest.mark.slow
def test_a_changed_record_is_found_by_verifying_and_by_the_next_restart(tmp_path, grown):
    grown(75)
    path = tmp_path / "records.jsonl"
    # Far from the beginning and the end, which the file is known by.
    lines = [line + " " * 1_000 + "\n" for line in path.read_text().splitlines()]
    path.write_text("".join(lines))
    run(config(tmp_path, checkpoint_every=3), until_idle=True)
    lines[42] = lines[42].replace('"b": 0', '"b": 9')
    path.write_text("".join(lines))
    with pytest.raises(StateError, match="the replay of batch 5 differs"):
        verify_replay(config(tmp_path))
    kill(tmp_path, after=3)
    with pytest.raises(StateError, match="the replay of batch 5 differs"):
        run(config(tmp_path), until_idle=True)


@pytest.mark.slow
def test_a_checkpoint_that_the_journal_does_not_lead_to_is_found_by_verifying(tmp_path, grown):
    grown(75)
    run(config(tmp_path), until_idle=True)
    arrays, manifest = checkpoints(tmp_path).newest()
    arrays["join.window"] = arrays["join.window"] + 1
    checkpoints(tmp_path).save(arrays, manifest)
    with pytest.raises(StateError, match="ends in another state than the checkpoint of batch 8"):
        verify_replay(config(tmp_path))


def test_nothing_is_verified_before_there_is_a_checkpoint(tmp_path, grown):
    grown(10)
    with pytest.raises(StateError, match="no checkpoint to verify"):
        verify_replay(config(tmp_path))


@pytest.mark.slow
def test_a_pipeline_whose_checkpoints_cannot_be_written_goes_on_and_says_so(
    tmp_path, grown, caplog
):
    grown(75)
    run(config(tmp_path, checkpoint_every=1000), until_idle=True)
    folder = checkpoints(tmp_path).folder
    kept = folder.rename(tmp_path / "kept")
    folder.write_text("in the way")
    grown(100)
    with pytest.raises(StateError, match="cannot be used"):
        run(config(tmp_path, checkpoint_every=2), until_idle=True)
    assert "no checkpoint of batch 9" in caplog.text
    assert len(ids(tmp_path)) == 100
    folder.unlink()
    kept.rename(folder)
    assert run(config(tmp_path), until_idle=True) == 11


@pytest.mark.slow
def test_a_rollback_is_obeyed_by_the_next_run_and_by_every_replay(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    versions = describe_pipeline(tmp_path / "state")["checkpoint"]["versions"]
    queue_command(tmp_path / "state", Command("pause"))
    queue_command(tmp_path / "state", Command("rollback", version=versions[0]))
    grown(80)
    run(config(tmp_path), until_idle=True)
    first, *_ = [entry for entry in entries(tmp_path) if entry.commands]
    assert first.promoted == max(versions) + 1
    assert (
        describe_pipeline(tmp_path / "state")["checkpoint"]["committee"]["version"]
        == first.promoted
    )
    kill(tmp_path, after=6)
    assert run(config(tmp_path), until_idle=True) == 8
    assert "bit for bit" in verify_replay(config(tmp_path))


def test_repeats_in_files_can_be_told_by_id_and_dead_letters_by_source_and_position(
    tmp_path, make_records
):
    keys = {"predictions": ["id"], "requests": ["id"], "dead_letters": ["source", "position"]}
    tables = {name: {"connector": "files", "path": f"{name}.jsonl"} for name in keys}
    tables |= {name: {"connector": "files", "path": f"{name}.in"} for name in ("source", "labels")}
    tables |= {"pipeline": {"name": "test", "batch_records": 10}, "query": {"budget": 0.3}}
    made, state = parse(tables, tmp_path, environment={}), tmp_path / "state"
    lines = [json.dumps(record) for record in make_records(90)[0]]
    for name in ("source", "labels"):  # no record is a label
        (tmp_path / f"{name}.in").write_text("".join(f"{line}\n{line}\n{{\n" for line in lines))

    def keep_a_copy(effects):
        if effects.sequence == 3:
            shutil.copytree(state, tmp_path / "kept")

    def written():
        found = {}
        for name in keys:
            text = (tmp_path / f"{name}.jsonl").read_text()
            messages = [json.loads(line) for line in text.splitlines()]
            found[name] = [str([message[key] for key in keys[name]]) for message in messages]
        return found

    run(made, until_idle=True, observers=[committing(keep_a_copy)])
    once = written()
    shutil.rmtree(state)
    (tmp_path / "kept").rename(state)
    run(made, until_idle=True)
    for name, found in written().items():
        assert len(found) > len(once[name]) == len(set(once[name])) == len(set(found))


def spoil(path, page):
    """Write over a page of an SQLite file, which `page` counts from its end."""
    size = 4_096
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - page * size)
        file.write(b"\x0d" + bytes(size - 1))


@pytest.mark.slow
def test_a_log_whose_structure_is_damaged_is_refused_with_its_name_and_the_mend(
    tmp_path, grown, monkeypatch
):
    grown(200)
    run(config(tmp_path), until_idle=True)
    log = tmp_path / "state" / "log.db"
    sound = log.read_bytes()
    refused = 0
    for page in range(1, len(sound) // 4_096):
        spoil(log, page)
        with pytest.raises(StateError, match=r"damaged .*put it back from a copy") as told:
            run(config(tmp_path), until_idle=True)
        refused += str(log) in str(told.value)
        log.write_bytes(sound)
    assert refused > 10
    spoil(log, 1)
    monkeypatch.setattr("streamboost.pipelines.app.run.CHECKED_BYTES", len(sound) - 1)
    assert run(config(tmp_path), until_idle=True) == 20, "too large to be checked at every start"
    with pytest.raises(StateError, match="put it back from a copy"):
        verify_replay(config(tmp_path))
    log.write_bytes(sound)
    assert "bit for bit" in verify_replay(config(tmp_path))


def test_looking_for_damage_ends_when_it_is_time_to_stop(tmp_path):
    path, stop = tmp_path / "log.db", StopToken()
    with closing(SqliteSink(path, "records")) as sink:
        sink.write([b"{}"])
        sink.flush()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match="put it back from a copy"):
        refuse_damaged_log(path, stop=stop)
    stop.request_stop()
    refuse_damaged_log(path, stop=stop)


@pytest.mark.slow
def test_with_an_older_log_put_back_the_state_is_that_of_then(tmp_path, grown):
    grown(40)
    run(config(tmp_path, checkpoint_every=2), until_idle=True)
    log = (tmp_path / "state" / "log.db").read_bytes()
    grown(75)
    run(config(tmp_path, checkpoint_every=2), until_idle=True)
    for path in (tmp_path / "state").glob("log.db-*"):
        path.unlink()
    (tmp_path / "state" / "log.db").write_bytes(log)
    grown(80)
    assert run(config(tmp_path), until_idle=True) == 8
    assert ids(tmp_path) == [str(i) for i in range(80)]
    assert "bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.slow
def test_inspect_and_check_beside_it_never_make_a_run_fail_that_starts(tmp_path, grown):
    ended = threading.Event()

    def look():
        while not ended.is_set():
            describe_pipeline(tmp_path / "state", config(tmp_path))
            list(check_pipeline(config(tmp_path)))

    grown(10)
    run(config(tmp_path), until_idle=True)
    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for n in range(20, 320, 10):
                grown(n)
                run(config(tmp_path), until_idle=True)
        finally:
            ended.set()
        for one in looking:
            one.result(60)
    assert ids(tmp_path) == [str(i) for i in range(310)]
