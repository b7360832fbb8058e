"""Backup of a state folder, also of a running pipeline, and its restoration.

A backup is a folder with a copy of each file of the state folder, and ``backup.json``, which is
written last. Sessions, the lock, and files that a run creates again (status, newest error) are not
copied.

The order makes the copy consistent: the log is copied after the checkpoints, so that its journal
continues after them; and after the labelling history, so that no answer is missing in both.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from streamboost.connectors.sqlite.database import Database
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.environment import environment
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.config.compatibility import refuse_other_pipeline
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.state import commands
from streamboost.pipelines.state.folder import LOG, State
from streamboost.storage import replace_atomically, sync_to_disk, write_bytes

_MANIFEST = "backup.json"
_LEFT_OUT = {"lock", "last_error", "status.db"}
_COMPANIONS = ("-wal", "-shm", "-journal")
_FOLDERS = ("checkpoints", "versions")
_LAST = (LOG, commands.FILE)
_ATTEMPTS = 5
"""Number of attempts, as checkpoints may be replaced while they are copied."""


class BackupManifest(msgspec.Struct, frozen=True):
    """Manifest of a backup.

    Attributes
    ----------
    format : version of this format
    pipeline : name of the pipeline
    release : release of streamboost that wrote the backup
    checkpoint : batch of the newest checkpoint; 0: there is none
    committed : newest batch in the log; 0: none, or the journal is in Kafka
    files : SHA-256 (hex) of each file, by its path in the folder
    """

    format: int
    pipeline: str
    release: str
    checkpoint: int
    committed: int
    files: dict[str, str]


def back_up(config: Config, folder: Path) -> BackupManifest:
    """Copy the state of a pipeline, which may run meanwhile, to the new folder `folder`.

    Raises
    ------
    StateError
        If the state is empty or belongs to another pipeline, `folder` is not empty, or a file
        cannot be copied.
    ConnectorError
        If SQLite cannot copy a file.
    """
    state = State(config.state)
    if not state.has_files:
        raise StateError(f"{state.path} has no files of a pipeline: run the pipeline first")
    refuse_other_pipeline(config, state)
    if folder.resolve().is_relative_to(state.path.resolve()):
        raise StateError(
            f"{folder} is in the state folder, and would be lost with it: give another folder"
        )
    with _translate_copy_errors(state.path, folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StateError(f"{folder} exists and is not empty: give a new folder")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        State(folder).warn_if_open_to_others()
    for attempt in range(_ATTEMPTS):
        try:
            with _translate_copy_errors(state.path, folder):
                _copy_files(state.path, folder)
                backup = _build_manifest(config, folder)
        except _ChangedMeanwhileError as error:
            if attempt == _ATTEMPTS - 1:
                raise StateError(f"{state.path}: {error}; try again") from error
            continue
        with _translate_copy_errors(state.path, folder):
            _write_manifest(folder, backup)
        break
    return backup


def restore_backup(config: Config, folder: Path) -> BackupManifest:
    """Copy the backup in `folder` to the empty state folder of `config`.

    The backup must be trusted: a run unpickles the River models in it.

    Raises
    ------
    StateError
        If the state folder has files, or the backup is incomplete, damaged, or of another pipeline.
    """
    backup, state = _read_manifest(folder), State(config.state)
    if backup.pipeline != config.name:
        raise StateError(
            f"{folder} is a backup of the pipeline {backup.pipeline!r}, and this is "
            f"{config.name!r}: give a backup of this pipeline"
        )
    with state.hold_lock(), _translate_copy_errors(folder, state.path):
        if found := sorted({path.name for path in state.path.iterdir()} - _LEFT_OUT):
            raise StateError(
                f"{state.path} is not empty ({found[0]}): move it away, or set [pipeline] "
                "state to another folder"
            )
        for name, digest in backup.files.items():
            if _file_digest(folder / name) != digest:
                raise StateError(f"{folder / name} is damaged: use another backup")
        # With a log and without a fingerprint, a run detects an interrupted restoration.
        for name in sorted(backup.files, key=lambda name: (name == "fingerprint", name != LOG)):
            (state.path / name).parent.mkdir(mode=0o700, exist_ok=True)
            _copy_file(folder / name, state.path / name)
    return backup


@contextmanager
def _translate_copy_errors(source: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ModelFileError) as error:
        raise StateError(
            f"{source} cannot be copied to {target}: {error}; make the source readable and the "
            "target writable, with free space, and give an empty folder"
        ) from error


class _ChangedMeanwhileError(Exception):
    """The running pipeline replaced a file that the backup needs."""


def _copy_files(source: Path, target: Path) -> None:
    names = sorted(
        path.name
        for path in source.iterdir()
        if path.is_file()
        and path.name not in _LEFT_OUT
        and not path.name.startswith(".")
        and not path.name.endswith(_COMPANIONS)
    )
    for name in names:
        if name not in _LAST:
            _copy_file_or_database(source / name, target / name)
    for name in _FOLDERS:
        _copy_folder(source / name, target / name)
    for name in _LAST:
        if (source / name).exists():
            _copy_file_or_database(source / name, target / name)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy the files of a folder, and remove copies of an earlier attempt whose source is gone."""
    target.mkdir(mode=0o700, exist_ok=True)
    there = {path.name for path in source.iterdir() if path.is_file()} if source.is_dir() else set()
    for old in target.iterdir():
        if old.name not in there:
            old.unlink()
    for name in sorted(there):
        if not name.startswith("."):
            try:
                _copy_file(source / name, target / name)
            except FileNotFoundError as error:
                raise _ChangedMeanwhileError(f"{name} was replaced while it was copied") from error


def _copy_file_or_database(source: Path, target: Path) -> None:
    if source.suffix != ".db":
        _copy_file(source, target)
        return
    target.unlink(missing_ok=True)
    with closing(Database(source)) as database:
        database.copy_to(target)
    target.chmod(source.stat().st_mode & 0o777)
    sync_to_disk(target)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode; after an interruption, `target` is complete or unchanged."""
    with source.open("rb") as content, replace_atomically(target) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(content, file)
            os.fchmod(file.fileno(), os.fstat(content.fileno()).st_mode & 0o777)


def _write_manifest(folder: Path, backup: BackupManifest) -> None:
    try:
        content = msgspec.json.encode(backup)
    except UnicodeEncodeError as error:
        raise StateError(
            f"the state has a file whose name is not UTF-8 ({error.object!r}): move this file "
            "away, and give a new folder"
        ) from error
    write_bytes(folder / _MANIFEST, content)


def _build_manifest(config: Config, folder: Path) -> BackupManifest:
    """Build the manifest of the copy in `folder`, after a check that a run could start from it."""
    copy = State(folder)
    found = copy.checkpoints.newest()
    checkpoint = 0 if found is None else int(found[1]["sequence"])
    if found is not None:
        if found[1]["fingerprint"] != copy.fingerprint():
            raise _ChangedMeanwhileError("the pipeline was started with another configuration")
        for version in found[1]["versions"]:
            if not (folder / "versions" / f"{version:08}.safetensors").exists():
                raise _ChangedMeanwhileError(f"version {version} was replaced")
    committed = 0
    if not config.commits_to_kafka:
        committed = _check_journal(config, copy, checkpoint)
    files = {path.relative_to(folder).as_posix(): path for path in _copied_files(folder)}
    digests = {name: _file_digest(path) for name, path in files.items()}
    release = environment()["streamboost"]
    return BackupManifest(1, config.name, release, checkpoint, committed, digests)


def _check_journal(config: Config, copy: State, checkpoint: int) -> int:
    """Check that a copied journal continues at `checkpoint`; return its newest committed batch.

    `checkpoint` is the batch of the newest copied checkpoint. Raises `_ChangedMeanwhileError` if
    the journal begins later than the batch after the checkpoint, or ends before the checkpoint."""
    with closing(SqliteTransaction(copy.log, config.name)) as transaction:
        last = transaction.last_committed_batch()
        first = next(transaction.read_journal(), (checkpoint + 1, b""))[0]
    committed = 0 if last is None else last.sequence
    if first > checkpoint + 1 or committed < checkpoint:
        raise _ChangedMeanwhileError("the journal was cut while the checkpoints were copied")
    return committed


def _copied_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != _MANIFEST and not path.name.endswith(_COMPANIONS):
            yield path


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"


def _read_manifest(folder: Path) -> BackupManifest:
    try:
        backup = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=BackupManifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(
            f"{folder} has no complete backup ({error}): give a folder in which `streamboost "
            "backup` has completed"
        ) from error
    if backup.format != 1:
        raise StateError(
            f"{folder} has the backup format {backup.format}: use streamboost {backup.release}"
        )
    for name in backup.files:
        *parents, file = PurePosixPath(name).parts or ("",)
        is_known = parents in ([], *([one] for one in _FOLDERS))
        if not is_known or file in ("", "..", "/") or "\0" in file:
            raise StateError(f"{folder}: {name!r} is no file of a state folder: use another backup")
    return backup
