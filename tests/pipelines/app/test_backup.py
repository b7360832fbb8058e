"""Backups of running pipelines, and their restoration."""

import json
import os
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from streamboost.connectors.sqlite.database import Database
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError, StateError
from streamboost.pipelines.app import backup as backups
from streamboost.pipelines.app.backup import back_up, restore_backup
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from tests.pipelines.app.test_retention import piped, rows, write
from tests.pipelines.watching import committing
from tests.slow import slow


def digests_of_journal(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "aging")) as transaction:
        journal = [JournalEntry.decode(message) for _, message in transaction.read_journal()]
    return {entry.sequence: entry.digest for entry in journal}


@pytest.fixture
def restored(tmp_path):
    """Return a function that restores a backup of the pipeline in another folder."""

    def restore(copy, retention=200):
        there = tmp_path / f"there {len(list(tmp_path.iterdir()))}"
        there.mkdir()
        made = restore_backup(load(piped(there, retention)), copy)
        return there, made

    return restore


@pytest.mark.parametrize("retention", [60, *slow("none")])
def test_backup_of_a_running_pipeline_continues_with_the_same_bits(
    tmp_path, make_records, restored, retention
):
    here = tmp_path / "here"
    here.mkdir()
    config = load(piped(here, retention))
    write(here, make_records, 200)
    ids = [record["id"] for record in make_records(200)[0]]
    digests, copies = {}, {}

    def copy(effects):
        digests[effects.sequence] = effects.digest
        if effects.sequence in (1, 5, 23):  # before, at and after checkpoints
            copies[effects.sequence] = back_up(config, tmp_path / f"copy {effects.sequence}")

    run(config, until_idle=True, observers=[committing(copy)])
    for sequence, made in copies.items():
        assert made.committed == sequence
        there, _ = restored(tmp_path / f"copy {sequence}", retention)
        assert digests_of_journal(there).items() <= digests.items()
        run(load(there / "p.toml"), until_idle=True)  # compares what it replays bit for bit
        predictions = rows(there, "predictions")
        first, last = predictions[0][0], predictions[-1][0]
        assert [offset for offset, _ in predictions] == list(range(first, 200))
        assert last == 199
        assert retention != "none" or first == 0
        for offset, payload in predictions:
            assert json.loads(payload)["id"] == ids[offset]
        assert "bit for bit" in verify_replay(load(there / "p.toml"))


def stopped(tmp_path, make_records):
    here = tmp_path / "here"
    here.mkdir()
    config = load(piped(here, 200))
    write(here, make_records, 100)
    run(config, until_idle=True)
    return here, config


def test_all_files_but_those_of_a_process_are_copied(tmp_path, make_records, restored):
    _, config = stopped(tmp_path, make_records)
    queue_command(config.state, Command("pause"))
    (config.state / "serve.token").write_text("secret")
    (config.state / "serve.token").chmod(0o600)
    made = back_up(config, tmp_path / "copy")
    there, _ = restored(tmp_path / "copy")
    names = {path.relative_to(config.state).as_posix() for path in config.state.rglob("*")}
    names = {name for name in names if (config.state / name).is_file()}
    expected = {
        name
        for name in names
        if not name.endswith(("-wal", "-shm")) and name not in {"lock", "status.db", "last_error"}
    }
    assert made.files.keys() == expected
    assert (there / "state" / "serve.token").stat().st_mode & 0o777 == 0o600
    for folder in (tmp_path / "copy", there / "state"):
        assert folder.stat().st_mode & 0o077 == 0
    run(load(there / "p.toml"), until_idle=True)
    write(there, make_records, 10, 100)
    run(load(there / "p.toml"), until_idle=True)
    assert State(there / "state").checkpoints.newest()[1]["committee"]["paused"]


def test_a_checkpoint_that_is_replaced_meanwhile_is_copied_again(
    tmp_path, make_records, monkeypatch
):
    _, config = stopped(tmp_path, make_records)
    original, attempts = backups._copy_file, []

    def copy(source, target):
        if source.parent.name == "checkpoints":
            attempts.append(source.name)
            if len(attempts) == 1:
                raise FileNotFoundError(source)
        original(source, target)

    monkeypatch.setattr(backups, "_copy_file", copy)
    assert back_up(config, tmp_path / "copy").checkpoint
    assert len(attempts) > 1


@pytest.mark.parametrize("name", ["log.db", "fingerprint", "checkpoints", "versions"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_damaged_backup_is_refused_before_anything_is_restored(
    tmp_path, make_records, name, is_missing
):
    here, config = stopped(tmp_path, make_records)
    back_up(config, tmp_path / "copy")
    file = tmp_path / "copy" / name
    file = min(file.iterdir()) if file.is_dir() else file
    if is_missing:
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    shutil.move(here / "state", tmp_path / "lost")
    with pytest.raises(StateError, match="is damaged"):
        restore_backup(config, tmp_path / "copy")
    assert {path.name for path in config.state.iterdir()} == {"lock"}


@pytest.mark.parametrize(
    "name",
    ["../p.toml", "/etc/hosts", "..", "versions/../x", "a/b", "versions/..", "", ".", "a\0b"],
)
def test_backup_restores_nothing_outside_the_state_folder(tmp_path, make_records, name):
    here, config = stopped(tmp_path, make_records)
    back_up(config, tmp_path / "copy")
    manifest = tmp_path / "copy" / "backup.json"
    told = json.loads(manifest.read_text())
    told["files"][name] = "missing"
    manifest.write_text(json.dumps(told))
    shutil.move(here / "state", tmp_path / "lost")
    with pytest.raises(StateError, match="no file of a state folder"):
        restore_backup(config, tmp_path / "copy")


def test_what_cannot_be_copied_or_restored_is_refused(tmp_path, make_records):
    _, config = stopped(tmp_path, make_records)
    made = back_up(config, tmp_path / "copy")
    with pytest.raises(StateError, match="is not empty"):
        back_up(config, tmp_path / "copy")
    with pytest.raises(StateError, match="is not empty"):
        restore_backup(config, tmp_path / "copy")
    with pytest.raises(StateError, match="no complete backup"):
        restore_backup(config, tmp_path / "none")
    (tmp_path / "copy" / "backup.json").unlink()
    with pytest.raises(StateError, match="no complete backup"):
        restore_backup(config, tmp_path / "copy")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StateError, match="run the pipeline first"):
        back_up(load(piped(other, 200)), tmp_path / "copy 2")
    text = (other / "p.toml").read_text().replace('"aging"', '"others"')
    (other / "p.toml").write_text(text)
    with pytest.raises(StateError, match="is in the state folder"):
        back_up(config, config.state / "copies" / "1")
    back_up(config, tmp_path / "copy 3")
    with pytest.raises(StateError, match="of the pipeline 'aging'"):
        restore_backup(load(other / "p.toml"), tmp_path / "copy 3")
    assert made.committed == made.checkpoint > 10


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_run_refuses_a_restoration_that_was_interrupted(
    tmp_path, make_records, restored, monkeypatch, has_checkpoint
):
    here, config = stopped(tmp_path, make_records)
    if not has_checkpoint:
        shutil.rmtree(here / "state" / "checkpoints")
        with closing(sqlite3.connect(here / "state" / "log.db")) as log, log:
            log.execute("DELETE FROM _journal WHERE sequence > 3")
            log.execute("UPDATE _committed SET sequence = 3")
    made = back_up(config, tmp_path / "copy")
    original = shutil.copyfileobj
    for n_complete in range(len(made.files)):
        there = tmp_path / f"there {n_complete}"
        there.mkdir()
        other = load(piped(there, 200))
        n = iter(range(n_complete + 1))

        def copy(content, file, n=n, n_complete=n_complete):
            if next(n) < n_complete:
                original(content, file)
            else:
                file.write(content.read(50))
                raise KeyboardInterrupt

        monkeypatch.setattr(shutil, "copyfileobj", copy)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(other, tmp_path / "copy")
        monkeypatch.undo()
        names = {path.name for path in (there / "state").rglob("*") if path.is_file()}
        assert len(names - {"lock"}) == n_complete, "nothing is left of the file in progress"
        if n_complete:
            with pytest.raises(StateError, match="fingerprint is missing"):
                run(other, until_idle=True)
            with pytest.raises(StateError, match="is not empty"):
                restore_backup(other, tmp_path / "copy")


def test_large_logs_are_restored_in_little_memory(tmp_path, make_records, restored):
    here, config = stopped(tmp_path, make_records)
    with closing(SqliteSink(here / "state" / "log.db", "others")) as sink:
        sink.write([bytes(1_000_000)] * 20)
        sink.flush()
    back_up(config, tmp_path / "copy")
    tracemalloc.start()
    try:
        restored(tmp_path / "copy")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_state_of_another_pipeline_is_not_copied(tmp_path, make_records):
    here, _ = stopped(tmp_path, make_records)
    file = here / "p.toml"
    file.write_text(file.read_text().replace('"aging"', '"others"'))
    with pytest.raises(StateError, match="state of the pipeline 'aging', and this is 'others'"):
        back_up(load(file), tmp_path / "copy")


def test_file_name_that_is_no_text_is_refused(tmp_path, make_records):
    _, config = stopped(tmp_path, make_records)
    Path(os.fsdecode(os.fsencode(config.state) + b"/\xff")).touch()
    with pytest.raises(StateError, match=r"not UTF-8 .*udcff"):
        back_up(config, tmp_path / "copy")


def test_only_regular_files_are_copied(tmp_path, make_records):
    _, config = stopped(tmp_path, make_records)
    for folder in (config.state, config.state / "versions", config.state / "checkpoints"):
        os.mkfifo(folder / "pipe")
        (folder / "folder").mkdir()
        (folder / "dangling").symlink_to("nowhere")
    made = back_up(config, tmp_path / "copy")
    assert not {Path(name).name for name in made.files} & {"pipe", "folder", "dangling"}


def test_warning_if_others_can_read_the_backup(tmp_path, make_records, open_folder, caplog):
    _, config = stopped(tmp_path, make_records)
    back_up(config, open_folder)
    assert f"{open_folder} and its records are accessible to other users" in caplog.text


def test_error_names_the_folder_that_cannot_be_written(tmp_path, make_records):
    _, config = stopped(tmp_path, make_records)
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"copied to .*file/copy: .*target writable"):
        back_up(config, tmp_path / "file" / "copy")
    with (
        closing(Database(config.state / "log.db")) as database,
        pytest.raises(ConnectorError, match=r"cannot use .*missing/copy\.db"),
    ):
        database.copy_to(tmp_path / "missing" / "copy.db")
