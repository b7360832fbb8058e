"""State folder: the files that a pipeline keeps between two runs.

====================  =====================================================================
``log.db``            SQLite log: journal and positions unless they are in Kafka, and every stream
                      without a path
``checkpoints/``      sealed checkpoints of the complete state, the newest three
``versions/``         the newest committees
``committee.safetensors``  the initial committee, if [initial_data] names one
``commands.db``       queue of commands
``status.db``         published status documents; may be deleted at any time
``label_studio.db``   mapping of requests to tasks of Label Studio
``schema.json``       schema with its features
``config.toml``       configuration of the state, secrets masked
``fingerprint``       salt and hash of that configuration, secrets included
``last_error``        newest error with its time and batch
``metrics.token``     token for /metrics, created if [monitor] has a port
``labelling.db``      labels with annotators and times; written only by `serve`
``serve.token``       token for `serve`
``serve.logins/``     sessions of `serve`, a file each
``outage``            empty; exists while `serve` has reported the pipeline as down
``lock``              lock file of the running process, with its process id
====================  =====================================================================
"""

import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_urlsafe

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.state.checkpoints import Checkpoint, Checkpoints
from streamboost.pipelines.state.copies import CheckpointCopy
from streamboost.pipelines.state.versions import CommitteeStore
from streamboost.storage import write_bytes

_log = logging.getLogger(__name__)

LOG = "log.db"
"""Name of the log file in the state folder."""

OUTAGE = "outage"
"""Name of the file that exists while an outage of the pipeline is reported."""

_MOMENT = 0.001
_PATIENCE = 5.0
"""Seconds between attempts to get the lock, and the timeout in seconds."""


class State:
    """State folder of one pipeline, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / LOG
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.versions = path / "versions"
        self.committee = path / "committee.safetensors"
        self.config = path / "config.toml"
        self.last_error = path / "last_error"
        self.token = path / "metrics.token"
        self._fingerprint = path / "fingerprint"
        self._schema = path / "schema.json"
        self._lock = path / "lock"

    def create(self) -> None:
        """Create the folder if it does not exist; only its owner has access."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _is_open_to_others(self) -> bool:
        """Return whether any user of the machine may list or enter the folder."""
        path = self.path.resolve()
        is_reachable = all(one.stat().st_mode & stat.S_IXOTH for one in path.parents)
        return is_reachable and bool(path.stat().st_mode & stat.S_IRWXO)

    def warn_if_open_to_others(self) -> None:
        """Log a warning if other users of the machine have access to the existing folder."""
        if self._is_open_to_others():
            _log.warning(
                "%s and its records are accessible to other users of this machine: chmod 700 this "
                "folder, or a folder above",
                self.path,
                extra={"event": "state_folder_open"},
            )

    @property
    def has_files(self) -> bool:
        """Whether the folder has files of a run: log, configuration, schema or checkpoints."""
        kept = (self.log, self.config, self._fingerprint, self._schema)
        folders = (self.checkpoints.folder, self.versions)
        with self.translate_errors():
            return any(file.exists() for file in kept) or any(
                folder.is_dir() and any(folder.iterdir()) for folder in folders
            )

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Context manager that locks the folder for this process; a missing folder is created.

        A warning is logged if other users have access to the folder, which then existed before.

        If another process holds the lock, StateError is raised at once. The system releases the
        lock with the process, even after a kill.
        """
        with self.translate_errors():
            self.create()
            self.warn_if_open_to_others()
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire_run_lock(descriptor)
            os.truncate(descriptor, 0)
            with suppress(OSError):  # on a full disk the process id is missing, but the lock holds
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _acquire_run_lock(self, descriptor: int) -> None:
        """Get the exclusive lock of the open lock file; StateError if another process holds it."""
        deadline = time.monotonic() + _PATIENCE
        while not try_lock(descriptor, fcntl.LOCK_EX):
            # `is_running` of other processes holds a shared lock for a moment: retry after that.
            if not try_lock(descriptor, fcntl.LOCK_SH) or time.monotonic() > deadline:
                raise self.lock_error()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_MOMENT)

    def lock_error(self) -> StateError:
        """Return an error that names the process that holds the lock."""
        return StateError(
            f"{self.path}: process {self._lock_holder()} is running on this state: stop it first, "
            "or give this pipeline a state folder of its own"
        )

    def _lock_holder(self) -> str:
        return (self._read_text_or_none(self._lock) or "").strip()[:32] or "unknown"

    def running_process_id(self) -> str | None:
        """Return the id of the process that holds the lock, as text, or None."""
        return self._lock_holder() if self.is_running() else None

    def is_running(self) -> bool:
        """Return whether a process holds the lock."""
        with self.translate_errors():
            if not self._lock.exists():
                return False
            with self._lock.open() as file:
                return not try_lock(file.fileno(), fcntl.LOCK_SH)

    def configuration(self) -> str | None:
        """Return the stored configuration (TOML, secrets masked), or None."""
        return self._read_text_or_none(self.config)

    def write_configuration(self, configuration: str, fingerprint: str) -> None:
        """Write the configuration (TOML, secrets masked), and its fingerprint."""
        self._write_text_if_changed(self.config, configuration)
        self._write_text_if_changed(self._fingerprint, fingerprint + "\n")

    def restore_copy(self, origin: Mapping[str, str], copy: CheckpointCopy | None) -> None:
        """Write the files that a run needs to continue into an empty state folder.

        These are the schema and fingerprint of `origin` (`JournalEntry.origin`), and the checkpoint
        and committees of `copy`; None: no checkpoint. The fingerprint is written last, so that an
        interrupted restoration is detected.
        """
        with self.translate_errors():
            if copy is not None:
                versions = CommitteeStore(self.versions, 1)
                self.versions.mkdir(exist_ok=True)
                for version, blob in copy.versions.items():
                    write_bytes(versions.file_path(version), blob)
                self.checkpoints.save_bytes(copy.sequence, copy.checkpoint)
        self._write_text_if_changed(self._schema, origin["schema"])
        self._write_text_if_changed(self._fingerprint, origin["fingerprint"] + "\n")

    def schema(self) -> Schema | None:
        """Return the stored schema of earlier runs, or None."""
        text = self._read_text_or_none(self._schema)
        try:
            return None if text is None else Schema.from_json(text)
        except StateError as error:
            raise StateError(f"{self._schema}: {error}") from error

    def write_schema(self, schema: Schema) -> None:
        """Write the schema for all later runs."""
        self._write_text_if_changed(self._schema, schema.to_json())

    def delete_schema(self) -> None:
        """Delete the schema, so that the next run infers the schema again."""
        with self.translate_errors():
            self._schema.unlink(missing_ok=True)

    def fingerprint(self) -> str:
        """Return the fingerprint (salt and hash) of the stored configuration; empty if missing."""
        return (self._read_text_or_none(self._fingerprint) or "").strip()

    def checkpoint_to_restore(self, committed_sequence: int | None) -> Checkpoint | None:
        """Return the newest undamaged checkpoint up to batch `committed_sequence`.

        Returns None if the journal has to be replayed from its beginning, or if no batch is
        committed (`committed_sequence` None). Raises StateError if checkpoints exist without a
        committed batch, or if the checkpoint belongs to another state.
        """
        with self.translate_errors():
            known = self.checkpoints.sequences
        if committed_sequence is None:
            if known:
                raise StateError(
                    f"{self.path}: there is a checkpoint of batch {known[0]}, but no batch is "
                    f"committed: the log was removed. {self.fresh_start_instruction()}"
                )
            return None
        found = self.checkpoints.newest(committed_sequence)
        if found is not None and found[1]["fingerprint"] != self.fingerprint():
            raise StateError(
                f"{self.path}: the checkpoint of batch {found[1]['sequence']} belongs to another "
                f"state: its files were mixed up. {self.fresh_start_instruction()}"
            )
        return found

    def _read_text_or_none(self, path: Path) -> str | None:
        with self.translate_errors():
            try:
                return path.read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _write_text_if_changed(self, path: Path, text: str) -> None:
        """Write a file only if its text differs, because writing could fail on a full disk."""
        if self._read_text_or_none(path) == text:
            return
        with self.translate_errors():
            write_bytes(path, text.encode())

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Context manager that raises OSError and ModelFileError of its body as StateError."""
        try:
            yield
        except (OSError, ModelFileError) as error:
            raise StateError(
                f"the state folder {self.path} cannot be used: {error}; check that it is a folder "
                "that can be read and written, or set [pipeline] state to another folder"
            ) from error

    def fresh_start_instruction(self) -> str:
        """Return the sentence of error messages that says how to start with an empty state."""
        return (
            f"To start with an empty state, move {self.path} and the outputs outside this folder "
            "away; the records are then read again from their beginning"
        )


def try_lock(descriptor: int, lock_type: int) -> bool:
    """Try to get a lock of `lock_type` without waiting; return whether that succeeded."""
    try:
        fcntl.flock(descriptor, lock_type | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_or_create_token(path: Path) -> str:
    """Return the token in the file `path`; create the file with a random token if missing.

    Raises StateError if other users can read the file, if it is empty, or if writing fails.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise StateError(
                f"{path}: other users may read the token. Remove the file to get a new token, or "
                f"`chmod 600 {path}` if no other user has read it"
            ) from None
        token = path.read_text(encoding="utf-8").strip()
        if not token:
            raise StateError(f"{path} is empty: remove it to get a new token") from None
        return token
    token = token_urlsafe(32)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        path.unlink()  # otherwise the next start would find an empty file
        raise StateError(f"{path} cannot be written: {error}; make room on its disk") from error
    return token
