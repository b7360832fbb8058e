"""Upgrades of a state from another release: automatic after a clean stop, else on request."""

import json
import sqlite3
from contextlib import closing

import pytest

import streamboost
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry

BEFORE, HERE = "0.2.9", streamboost.__version__

PIPELINE = """
[pipeline]
name = "kept"
batch_records = 20
batch_labels = 20
checkpoint_every = 4
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
[committee]
n_estimators = 3
max_leaf_nodes = 6
[schedule]
growth = 1.5
[query]
budget = 0.3
"""


@pytest.fixture
def left_behind(tmp_path):
    """Return a function that gives the pipeline file of a state that another release made.

    It was stopped after batch 10, or killed with batch 4 as its newest checkpoint.
    """

    def make(kind, more=0):
        file = tmp_path / "pipeline.toml"
        file.write_text(PIPELINE)
        grow(tmp_path, 200, every=3)
        assert run(load(file), until_idle=True) == 10
        checkpoints = checkpoints_of(file)
        if kind == "killed":
            checkpoints.remove_after(4)
        for sequence in checkpoints.sequences:
            arrays, manifest = checkpoints.load(sequence)
            manifest["environment"]["streamboost"] = BEFORE
            checkpoints.save(arrays, manifest)
        alter(file, 1, f'"streamboost":"{HERE}"', f'"streamboost":"{BEFORE}"')
        grow(tmp_path, more)
        return file

    return make


def grow(folder, n, every=1):
    """Add `n` records, and the label of each record whose number is a multiple of `every`."""
    path = folder / "records.jsonl"
    first = len(path.read_text().splitlines()) if path.exists() else 0
    with path.open("a") as records, (folder / "labels.jsonl").open("a") as labels:
        for id in range(first, first + n):
            a, b = id * 37 % 101 / 101, id * 53 % 89 / 89
            records.write(json.dumps({"id": str(id), "a": a, "b": b}) + "\n")
            if id % every == 0:
                label = "left" if a > b else "right"
                labels.write(json.dumps({"id": str(id), "label": label}) + "\n")


def checkpoints_of(file):
    return State(file.parent / "state").checkpoints


def predicted(file):
    with closing(SqliteSource(file.parent / "state" / "log.db", "predictions")) as source:
        return [json.loads(message.payload)["id"] for message in source.poll(1_000_000)]


def entries(file):
    with closing(SqliteTransaction(file.parent / "state" / "log.db", "kept")) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.read_journal()]


def alter(file, sequence, old, new):
    """Have the journal entry of a batch say something else."""
    with closing(sqlite3.connect(file.parent / "state" / "log.db")) as log, log:
        log.execute(
            "UPDATE _journal SET entry = replace(CAST(entry AS TEXT), ?, ?) WHERE sequence = ?",
            (old, new, sequence),
        )


def spoil(file, sequence):
    """Give the journal another digest for a batch."""
    alter(file, sequence, '"digest":"', '"digest":"f')


def oldest(file, at_least):
    """Return the batch of the oldest checkpoint that is not of the other release."""
    return min(sequence for sequence in checkpoints_of(file).sequences if sequence >= at_least)


@pytest.mark.slow
def test_a_state_that_was_stopped_cleanly_is_taken_over_by_itself(left_behind, caplog):
    caplog.set_level("INFO")
    file = left_behind("stopped", more=100)
    assert run(load(file), until_idle=True) == 15
    assert f"continuing after batch 10 of streamboost {BEFORE}" in caplog.text
    assert len(set(predicted(file))) == len(predicted(file)) == 300
    noted = {e.sequence: e.environment["streamboost"] for e in entries(file) if e.environment}
    assert noted == {1: BEFORE, 11: HERE}


@pytest.mark.slow
def test_what_lies_after_the_take_over_is_verified(left_behind):
    file = left_behind("stopped", more=100)
    newest = run(load(file), until_idle=True)
    said = verify_replay(load(file))
    assert f"batches 1 to 10 were made by streamboost {BEFORE} and cannot be compared" in said
    assert f"batches {oldest(file, 10) + 1} to {newest} replayed: bit for bit the" in said


def test_what_the_other_release_made_alone_is_not_verified_but_said(left_behind):
    with pytest.raises(
        StateError, match=rf"batches 1 to 10 were made by streamboost {BEFORE}"
    ) as told:
        verify_replay(load(left_behind("stopped")))
    assert "digest" not in str(told.value)


def test_a_killed_state_names_the_release_to_finish_with_and_changes_nothing(left_behind):
    file = left_behind("killed", more=100)
    before = (len(entries(file)), predicted(file))
    with pytest.raises(StateError) as told:
        run(load(file), until_idle=True)
    assert f"batches 5 to 10 after the newest checkpoint were made by streamboost {BEFORE}" in str(
        told.value
    )
    assert f"this is {HERE}: run {BEFORE} until it stops cleanly" in str(told.value)
    assert "streamboost run --upgrade" in str(told.value)
    assert (len(entries(file)), predicted(file)) == before
    standing = next(finding for finding in check_pipeline(load(file)) if finding.part == "state")
    assert not standing.ok
    assert f"run {BEFORE} until" in standing.text


@pytest.mark.slow
def test_a_killed_state_is_taken_over_when_told_to_and_verified_from_there(
    left_behind, streamboost_command
):
    file = left_behind("killed", more=100)
    spoil(file, 6)  # as what the other release computed comes out differently
    _, said = streamboost_command("run", "--upgrade", "--until-idle", str(file))
    assert (
        f"batches from 5 on were made in another environment (streamboost {BEFORE} is now" in said
    )
    assert f"continuing after batch 10 of streamboost {BEFORE}" in said
    assert len(set(predicted(file))) == len(predicted(file)) == 300
    noted = {e.sequence: e.environment["streamboost"] for e in entries(file) if e.environment}
    assert noted == {1: BEFORE, 11: HERE}
    replayed = f"batches {oldest(file, 10) + 1} to {len(entries(file))} replayed: bit for bit"
    assert replayed in verify_replay(load(file))
    run(load(file), until_idle=True)


@pytest.mark.slow
def test_a_kill_after_the_take_over_is_compared_again(left_behind, caplog):
    file = left_behind("stopped", more=100)
    newest = run(load(file), until_idle=True)
    checkpoints_of(file).remove_after(newest - 1)
    assert run(load(file), until_idle=True) == newest
    assert "without comparing" not in caplog.text
    spoil(file, newest)
    checkpoints_of(file).remove_after(newest - 1)
    with pytest.raises(StateError, match="the digests differ"):
        run(load(file), until_idle=True)


def test_what_cannot_even_be_replayed_uncompared_says_with_what_to_finish(left_behind):
    file = left_behind("killed")
    alter(file, 6, '"swap":null', '"swap":99')
    with pytest.raises(StateError) as told:
        run(load(file), until_idle=True, upgrade=True)
    assert f"batch 6 cannot be replayed in this environment (streamboost {BEFORE} is now" in str(
        told.value
    )
    assert "version 99 cannot be waited for" in str(told.value)
    assert "run the earlier environment until it stops" in str(told.value)


def test_a_state_of_another_format_is_refused_by_its_file_and_with_the_remedy(left_behind):
    file = left_behind("stopped")
    schema = file.parent / "state" / "schema.json"
    schema.write_text(schema.read_text().replace('"format": 3', '"format": 2'))
    with pytest.raises(StateError) as told:
        run(load(file), until_idle=True)
    assert str(told.value).startswith(f"{schema}: the saved schema cannot be used: its format is 2")
    assert "with an empty state folder" in str(told.value)


@pytest.mark.parametrize("changed", ["", '"format":2,'])
def test_a_journal_of_another_format_is_refused_by_its_entry(left_behind, changed):
    file = left_behind("stopped")
    for checkpoint in checkpoints_of(file).folder.iterdir():
        checkpoint.unlink()
    alter(file, 1, '"format":3,', changed)
    with pytest.raises(StateError, match=r"the journal entry .*format.*an empty state folder"):
        run(load(file), until_idle=True, upgrade=True)
