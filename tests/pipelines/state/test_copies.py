"""Copies of checkpoints: written on a background thread, complete or absent, used for a restore."""

import json
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError, ConnectorError, ModelFileError, StateError
from streamboost.pipelines.app import recovery
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.recovery import create_copy_store
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.monitoring.last_error import read_last_error
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.copies import CheckpointCopy, CopyStore, FolderTarget
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import ANY_MOMENT, kill
from tests.pipelines.watching import committing
from tests.waiting import until


def config(folder, copy="copies", **sections):
    pipeline = {"name": "test", "batch_records": 10, "batch_labels": 10, "checkpoint_every": 2}
    tables = {
        "pipeline": pipeline | ({"checkpoint_copy": copy} if copy else {}),
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl"},
        "committee": {"n_estimators": 2},
        "query": {"budget": 0.3},
    }
    return parse(tables | sections, folder, environment={})


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


def predicted(folder):
    with closing(SqliteSource(folder / "state" / "log.db", "predictions")) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


def lose(folder, name="lost"):
    """Have the state folder gone."""
    (folder / "state").rename(folder / name)


def kept(folder, name="test", copy="copies"):
    return CopyStore(FolderTarget(folder / copy), name)


def test_each_checkpoint_is_copied_with_its_committees_and_the_newest_three_stay(tmp_path, grown):
    grown(100)
    run(config(tmp_path), until_idle=True)
    copies, state = kept(tmp_path), State(tmp_path / "state")
    assert copies.sequences[0] == 10
    assert len(copies.sequences) <= 3
    assert (tmp_path / "copies").stat().st_mode & 0o777 == 0o700
    newest = copies.newest()
    assert newest.checkpoint == state.checkpoints.path(10).read_bytes()
    assert sorted(newest.versions) == newest.manifest["versions"] != []
    for version, blob in newest.versions.items():
        assert blob == (state.versions / f"{version:08}.safetensors").read_bytes()
    origin = newest.manifest["origin"]
    assert origin["schema"] == state.schema().to_json()
    assert origin["fingerprint"] == state.fingerprint()
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == sorted(
        copies.file_name(sequence) for sequence in copies.sequences
    )


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.quick_once
def test_a_copy_goes_where_fsspec_leads(tmp_path, grown, kind):
    place = f"memory://{tmp_path.name}/copies" if kind == "memory" else f"file://{tmp_path}/far"
    grown(60)
    run(config(tmp_path, place), until_idle=True)
    copies = create_copy_store(config(tmp_path, place))
    assert copies.sequences[0] == 6
    assert len(copies.sequences) <= 3
    lose(tmp_path)
    with pytest.raises(StateError, match="holds a copy"):
        run(config(tmp_path, place), until_idle=True)
    grown(80)
    assert run(config(tmp_path, place), rebuild=True, until_idle=True) == 8
    assert copies.sequences[0] == 8


def test_a_lost_state_folder_is_made_again_from_a_copy_and_goes_on_at_its_batch(
    tmp_path, grown, caplog
):
    grown(60)
    run(config(tmp_path), until_idle=True)
    learned = describe_pipeline(tmp_path / "state")["checkpoint"]
    lose(tmp_path)
    grown(100)
    assert run(config(tmp_path), rebuild=True, until_idle=True) == 10
    assert "is rebuilt from the copy of batch 6" in caplog.text
    assert "predictions, requests and learning after batch 6" in caplog.text
    assert [p["id"] for p in predicted(tmp_path)] == [str(i) for i in range(60, 100)]
    assert {p["sequence"] for p in predicted(tmp_path)} == {7, 8, 9, 10}
    assert min(p["version"] for p in predicted(tmp_path)) >= learned["committee"]["version"] > 0
    checkpoint = describe_pipeline(tmp_path / "state")["checkpoint"]
    assert checkpoint["ledger"]["records"] == 100
    assert checkpoint["committee"]["labels"] == 100
    assert "bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.slow
def test_what_was_made_again_goes_on_as_the_old_one_would_have(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    lose(tmp_path, "old")
    grown(100)
    run(config(tmp_path), rebuild=True, until_idle=True)
    again = predicted(tmp_path)
    lose(tmp_path, "again")
    (tmp_path / "old").rename(tmp_path / "state")
    run(config(tmp_path, copy=None), until_idle=True)
    assert predicted(tmp_path)[60:] == again


def test_streams_in_the_lost_log_and_commands_begin_anew(tmp_path, grown, make_records):
    """Labels and commands that come after the loss are read from their first."""
    labels = {"labels": {"connector": "sqlite", "stream": "labels"}}
    grown(60)
    records, truth = make_records(100)

    def answer(rows):
        with closing(SqliteSink(tmp_path / "state" / "log.db", "labels")) as sink:
            sink.write(
                [json.dumps({"id": records[i]["id"], "label": truth[i]}).encode() for i in rows]
            )
            sink.flush()

    answer(range(40))
    run(config(tmp_path, **labels), until_idle=True)
    queue_command(tmp_path / "state", Command("pause"))
    run(config(tmp_path, **labels), until_idle=True)
    lose(tmp_path)
    run(config(tmp_path, **labels), rebuild=True, until_idle=True)
    answer(range(40, 45))
    queue_command(tmp_path / "state", Command("resume"))
    run(config(tmp_path, **labels), until_idle=True)
    checkpoint = describe_pipeline(tmp_path / "state")["checkpoint"]
    assert checkpoint["committee"]["labels"] == 45
    assert checkpoint["committee"]["paused"] == 0


@pytest.mark.slow
def test_a_run_that_is_killed_right_after_the_folder_was_made_again_goes_on(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    lose(tmp_path)
    grown(100)
    run(config(tmp_path), rebuild=True, until_idle=True)
    State(tmp_path / "state").checkpoints.remove_after(6)
    assert run(config(tmp_path), until_idle=True) == 10
    assert len(predicted(tmp_path)) == 40
    assert "batches 7 to 10 replayed" in verify_replay(config(tmp_path))


def test_of_a_state_that_was_just_made_again_nothing_is_said_to_be_replayed(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    lose(tmp_path)
    run(config(tmp_path), rebuild=True, until_idle=True)
    assert verify_replay(config(tmp_path)).startswith("there is no batch to replay")


@pytest.mark.slow
def test_a_folder_that_was_lost_is_not_begun_anew_in_silence(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    lose(tmp_path)
    with pytest.raises(
        StateError, match=r"copy of the checkpoint of batch 6 of test.*run --rebuild"
    ):
        run(config(tmp_path), until_idle=True)
    state = next(finding for finding in check_pipeline(config(tmp_path)) if finding.part == "state")
    assert not state.ok
    assert "--rebuild" in state.text
    assert run(config(tmp_path, copy=None), until_idle=True) == 6, "without copies nobody can tell"


def test_a_folder_that_is_not_empty_is_not_filled(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    before = predicted(tmp_path)
    with pytest.raises(StateError, match=r"is not empty, but --rebuild needs an empty"):
        run(config(tmp_path), rebuild=True, until_idle=True)
    assert predicted(tmp_path) == before


def test_without_a_copy_it_is_said_what_one_would_have_kept(tmp_path, grown):
    grown(60)
    with pytest.raises(StateError, match=r"journal was lost with the state folder"):
        run(config(tmp_path, copy=None), rebuild=True, until_idle=True)
    with pytest.raises(StateError, match=r"copies contains no readable checkpoint copy"):
        run(config(tmp_path), rebuild=True, until_idle=True)


def test_a_changed_configuration_is_refused_before_anything_is_written(tmp_path, grown):
    grown(60)
    run(config(tmp_path), until_idle=True)
    lose(tmp_path)
    with pytest.raises(StateError, match=r"\[query\] budget was 0.3 and is 0.1"):
        run(config(tmp_path, query={"budget": 0.1}), rebuild=True, until_idle=True)
    assert not State(tmp_path / "state").has_files
    run(config(tmp_path), rebuild=True, until_idle=True)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_copy_that_is_not_whole_is_none(tmp_path, grown, damage):
    grown(60)
    run(config(tmp_path), until_idle=True)
    copies = kept(tmp_path)
    newest, before = copies.sequences[:2]
    path = tmp_path / "copies" / copies.file_name(newest)
    blob = path.read_bytes()
    flipped = blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:]
    path.write_bytes({"cut": blob[: len(blob) // 2], "flipped": flipped, "empty": b""}[damage])
    with pytest.raises(ModelFileError):
        CheckpointCopy.decode("it", path.read_bytes())
    assert copies.newest().sequence == before
    lose(tmp_path)
    assert run(config(tmp_path), rebuild=True, until_idle=True) == 6
    assert copies.sequences[0] == 6


def test_what_a_killed_process_had_begun_is_cleared_away_and_others_files_stay(tmp_path, grown):
    grown(30)
    folder = tmp_path / "copies"
    folder.mkdir()
    own, others = ".test.0000000001.copy.77", ".test.b.0000000001.copy.78"
    for name in (own, others, "test.b.0000000009.copy", "test.notes"):
        (folder / name).write_bytes(b"x")
    run(config(tmp_path), until_idle=True)
    names = {path.name for path in folder.iterdir()}
    assert own not in names
    assert {others, "test.b.0000000009.copy", "test.notes"} <= names
    assert kept(tmp_path).sequences[0] == 3


@pytest.mark.slow
def test_whenever_a_process_is_killed_each_copy_is_whole(tmp_path, grown):
    """Killed where a file takes its name: a checkpoint, a committee or a copy."""
    grown(200)
    file = tmp_path / "p.toml"
    file.write_text(config(tmp_path).to_toml())
    died, _ = kill(file, [("sealing", n) for n in range(7, 25, 3)] + [(ANY_MOMENT, 0.3)], 4)
    assert len(died) == 4
    copies = kept(tmp_path)
    for sequence in copies.sequences:
        assert (
            CheckpointCopy.decode("it", copies.target.read(copies.file_name(sequence))).sequence
            == sequence
        )
    run(config(tmp_path), until_idle=True)
    assert copies.sequences[0] == 20
    assert all(name.startswith("test.") for name in copies.target.file_names())


@pytest.mark.slow
def test_a_copy_that_fails_is_said_and_ends_nothing(tmp_path, grown, caplog):
    grown(60)
    (tmp_path / "copies").write_text("in the way")
    with pytest.raises(ConnectorError, match="checkpoint_copy"):
        run(config(tmp_path), until_idle=True)
    (tmp_path / "copies").unlink()
    grown(20)
    run(config(tmp_path), until_idle=True)
    for path in (tmp_path / "copies").iterdir():
        path.unlink()
    (tmp_path / "copies").rmdir()
    (tmp_path / "copies").write_text("in the way")
    grown(60)
    assert run(config(tmp_path), until_idle=True) == 6
    assert "the checkpoint of batch 6 is not copied to" in caplog.text
    assert "is not copied to" in read_last_error(tmp_path / "state" / "last_error").text
    (tmp_path / "copies").unlink()
    run(config(tmp_path), until_idle=True)
    assert kept(tmp_path).sequences == [6], "the next run makes up for it"


@pytest.mark.slow
def test_copies_of_another_state_are_left_alone_and_said(tmp_path, grown, caplog):
    grown(100)
    run(config(tmp_path), until_idle=True)
    foreign = kept(tmp_path).sequences
    lose(tmp_path)
    grown(20)
    run(config(tmp_path, copy=None), until_idle=True)
    run(config(tmp_path), until_idle=True)
    assert "there is a copy of the later batch 10, from another state" in caplog.text
    assert kept(tmp_path).sequences == foreign


def test_the_place_may_change_between_runs(tmp_path, grown):
    grown(20)
    run(config(tmp_path, copy=None), until_idle=True)
    grown(40)
    run(config(tmp_path, copy="here"), until_idle=True)
    grown(60)
    run(config(tmp_path, copy="there"), until_idle=True)
    assert kept(tmp_path, copy="here").sequences[0] == 4
    assert kept(tmp_path, copy="there").sequences[0] == 6


def test_check_says_whether_the_place_can_be_written(tmp_path, grown):
    grown(20)

    def found(place):
        findings = check_pipeline(config(tmp_path, place))
        return next(finding for finding in findings if finding.part == "copies")

    assert found("copies").ok
    assert not (tmp_path / "copies").exists()
    assert found(f"memory://{tmp_path.name}/c").text.endswith("can be written; copies there: 0")
    (tmp_path / "file").write_text("")
    assert not found("file/copies").ok
    assert not found(f"file://{tmp_path}/file/copies").ok
    run(config(tmp_path), until_idle=True)
    assert "the newest of batch 2" in found("copies").text


def test_what_no_library_serves_and_what_would_be_lost_is_refused(tmp_path, grown, monkeypatch):
    grown(20)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "fsspec", None)
        with pytest.raises(
            ConfigurationError, match=r"needs fsspec: install streamboost\[remote\]"
        ):
            run(config(tmp_path, "s3://bucket/copies"), until_idle=True)
    with pytest.raises(ConfigurationError, match=r"checkpoint_copy, 'nowhere://x'"):
        run(config(tmp_path, "nowhere://x"), until_idle=True)
    with pytest.raises(ConfigurationError, match="is in the state folder, and would"):
        config(tmp_path, "state/copies")


class Slow(FolderTarget):
    """A folder whose writes block until `going` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.going, self.written, self.at_once = threading.Event(), [], 0

    def write(self, name, blob):
        self.at_once += 1
        assert self.at_once == 1, "never more than one at a time"
        assert self.going.wait(60)
        super().write(name, blob)
        self.written.append(name)
        self.at_once -= 1


@pytest.mark.slow
def test_the_loop_waits_for_no_copy_and_the_newest_takes_the_place_of_those_that_wait(
    tmp_path, grown, monkeypatch
):
    grown(200)
    slow = Slow(tmp_path / "copies")
    monkeypatch.setattr(
        "streamboost.pipelines.app.run.create_copy_store", lambda _: CopyStore(slow, "test")
    )
    seen = []

    def let_go(effects):
        seen.append(effects.sequence)
        if effects.sequence == 19:
            assert slow.written == [], "nineteen batches have passed meanwhile"
            slow.going.set()

    run(config(tmp_path), until_idle=True, observers=[committing(let_go)])
    assert seen == list(range(1, 21))
    assert slow.written[-1] == "test.0000000020.copy"
    assert len(slow.written) <= 3


def test_the_end_of_a_run_waits_for_the_last_copy_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery, "PATIENCE", 0.2)
    monkeypatch.setattr(recovery, "HASTE", 0.1)
    for asked in (False, True):
        going, begun, told, stop = threading.Event(), threading.Event(), [], StopToken()

        def read(sequence, begun=begun, going=going):
            begun.set()
            going.wait(60)

        beside = recovery.CheckpointCopier(
            CopyStore(FolderTarget(tmp_path), "test"), read, told.append
        )
        beside.schedule_copy(7)
        until(begun.is_set)
        if asked:
            stop.request_stop()
        beside.close(stop)
        assert "batch 7 is not copied" in told[0]
        assert "The next run copies the checkpoint" in told[0]
        going.set()
