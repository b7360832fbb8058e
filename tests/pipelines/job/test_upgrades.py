"""A state of the release before: taken over where it was stopped cleanly, else when told to."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import streamboost
from streamboost import Committee, storage
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.config.file import load
from streamboost.pipelines.job.check import check
from streamboost.pipelines.job.run import run
from streamboost.pipelines.job.verify import verify
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry

BEFORE = Path(__file__).parents[2] / "release_0_1"
HERE = streamboost.__version__


@pytest.fixture
def left_behind(tmp_path):
    """Return a function that gives the pipeline file of a copy of what a release left behind."""

    def copy(kind, more=0, release="release_0_1"):
        shutil.copytree(BEFORE.parent / release / kind, tmp_path, dirs_exist_ok=True)
        for name in ("records.jsonl", "labels.jsonl"):
            shutil.copy(BEFORE / name, tmp_path)
        if more:
            grow(tmp_path, more)
        return tmp_path / "pipeline.toml"

    return copy


def grow(folder, n):
    """Let the records come again under new ids, with all their labels."""
    lines = (BEFORE / "records.jsonl").read_text().splitlines()[:n]
    records = [json.loads(line) for line in lines]
    with (folder / "records.jsonl").open("a") as file, (folder / "labels.jsonl").open("a") as known:
        for record in records:
            id = f"again {record['id']}"
            file.write(json.dumps(record | {"id": id}) + "\n")
            label = "left" if record["a"] > record["b"] else "right"
            known.write(json.dumps({"id": id, "label": label}) + "\n")


def predicted(file):
    with closing(SqliteSource(file.parent / "state" / "log.db", "predictions")) as source:
        return [json.loads(message.payload)["id"] for message in source.poll(1_000_000)]


def entries(file):
    with closing(SqliteTransaction(file.parent / "state" / "log.db", "kept")) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.journal()]


def oldest(file, at_least):
    """Return the batch of the oldest checkpoint that is not of the release before."""
    sequences = State(file.parent / "state").checkpoints.sequences
    return min(sequence for sequence in sequences if sequence >= at_least)


def test_a_model_file_of_the_release_before_scores_as_it_did():
    known = json.loads((BEFORE / "scores.json").read_text())
    committee = Committee.load(BEFORE / "committee.safetensors")
    scores = committee.decision(np.array(known["X"], dtype=float))
    np.testing.assert_allclose(scores, known["scores"], rtol=0, atol=1e-12)
    assert committee.classes[committee.best(scores)].tolist() == known["labels"]


def test_a_state_that_was_stopped_cleanly_is_taken_over_by_itself(left_behind, caplog):
    caplog.set_level("INFO")
    file = left_behind("stopped", more=100)
    assert run(load(file), until_idle=True) > 15
    assert "batch 10, taken over from streamboost 0.1.0" in caplog.text
    assert len(set(predicted(file))) == len(predicted(file)) == 300
    noted = {e.sequence: e.environment["streamboost"] for e in entries(file) if e.environment}
    assert noted == {1: "0.1.0", 11: HERE}


def test_what_lies_after_the_take_over_is_verified(left_behind):
    file = left_behind("stopped", more=100)
    newest = run(load(file), until_idle=True)
    said = verify(load(file))
    assert "batches 1 to 10 were made by streamboost 0.1.0 and cannot be compared" in said
    assert f"batches {oldest(file, 10) + 1} to {newest} replayed: bit for bit the" in said


def test_what_the_release_before_made_alone_is_not_verified_but_said(left_behind):
    with pytest.raises(
        StateError, match=r"batches 1 to 10 were made by streamboost 0\.1\.0"
    ) as told:
        verify(load(left_behind("stopped")))
    assert "digest" not in str(told.value)


def test_a_killed_state_names_the_release_to_finish_with_and_changes_nothing(left_behind):
    file = left_behind("killed", more=100)
    before = (len(entries(file)), predicted(file))
    with pytest.raises(StateError) as told:
        run(load(file), until_idle=True)
    assert (
        "batches 5 to 7, which lie after the newest checkpoint, were made by streamboost 0.1.0"
        in (str(told.value))
    )
    assert f"this is {HERE}: run 0.1.0 until it has stopped cleanly" in str(told.value)
    assert "streamboost run --upgrade" in str(told.value)
    assert (len(entries(file)), predicted(file)) == before
    standing = next(finding for finding in check(load(file)) if finding.part == "state")
    assert not standing.ok
    assert "run 0.1.0 until" in standing.text


def test_a_killed_state_is_taken_over_when_told_to_and_verified_from_there(
    left_behind, streamboost_command
):
    file = left_behind("killed", more=100)
    _, said = streamboost_command("run", "--upgrade", "--until-idle", str(file))
    assert "batches from 5 on were made in another environment (streamboost 0.1.0 is now" in said
    assert "batch 7, taken over from streamboost 0.1.0" in said
    assert sorted(predicted(file)) == sorted({*predicted(file)})
    assert len(predicted(file)) == 300
    noted = {e.sequence: e.environment["streamboost"] for e in entries(file) if e.environment}
    assert noted == {1: "0.1.0", 8: HERE}
    replayed = f"batches {oldest(file, 7) + 1} to {len(entries(file))} replayed: bit for bit"
    assert replayed in verify(load(file))
    run(load(file), until_idle=True)


def test_a_kill_after_the_take_over_is_compared_again(left_behind, caplog):
    file = left_behind("stopped", more=100)
    newest = run(load(file), until_idle=True)
    State(file.parent / "state").checkpoints.drop_after(newest - 1)
    assert run(load(file), until_idle=True) == newest
    assert "without comparing" not in caplog.text
    spoil(file, newest)
    State(file.parent / "state").checkpoints.drop_after(newest - 1)
    with pytest.raises(StateError, match="digest is another"):
        run(load(file), until_idle=True)


def spoil(file, sequence):
    """Give the journal another digest for a batch."""
    with closing(sqlite3.connect(file.parent / "state" / "log.db")) as log, log:
        log.execute(
            'UPDATE _journal SET entry = replace(entry, \'"digest":"\', \'"digest":"f\') '
            "WHERE sequence = ?",
            (sequence,),
        )


def test_what_cannot_even_be_replayed_uncompared_says_with_what_to_finish(left_behind):
    file = left_behind("killed")
    with closing(sqlite3.connect(file.parent / "state" / "log.db")) as log, log:
        log.execute(
            """UPDATE _journal SET entry = replace(entry, '"swap":null', '"swap":99') """
            "WHERE sequence = 6"
        )
    with pytest.raises(StateError) as told:
        run(load(file), until_idle=True, upgrade=True)
    assert "batch 6 cannot be replayed here (streamboost 0.1.0 is now" in str(told.value)
    assert "version 99 cannot be waited for" in str(told.value)
    assert "finish where it was made" in str(told.value)


def test_a_file_of_two_releases_before_is_refused_with_the_release_that_reads_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "FORMAT", "0.0")
    storage.write_arrays(tmp_path / "old", {"a": np.arange(3)}, kind="test")
    with pytest.raises(
        ModelFileError, match=r"format '0\.0'.*reads 0\.2 and 0\.1.*streamboost 0\.0"
    ):
        storage.read_arrays(tmp_path / "old", kind="test")


def test_what_this_release_has_written_to_is_not_taken_for_the_one_befores(left_behind):
    file = left_behind("stopped", more=20)
    run(load(file), until_idle=True)
    with closing(sqlite3.connect(file.parent / "state" / "log.db")) as log:
        assert log.execute("SELECT version FROM _format").fetchall() == [(2,)]


@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_a_state_goes_on_wherever_the_code_has_moved(left_behind, kind):
    file = left_behind(kind, more=100, release="release_0_2")
    newest = run(load(file), until_idle=True, upgrade=kind == "killed")
    assert newest > 13
    assert len(set(predicted(file))) == len(predicted(file)) == 300
    assert [entry.sequence for entry in entries(file)] == list(range(1, newest + 1))
    known = State(file.parent / "state").checkpoints.newest()[1]
    assert known["join"]["records"] == 300
