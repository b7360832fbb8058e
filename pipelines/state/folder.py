"""The state folder: what a pipeline keeps between two runs.

====================  =====================================================================
``log.db``            the SQLite log: journal and positions where they are not kept in Kafka, and
                      every stream without a path
``checkpoints/``      the whole state after one batch each, sealed, the newest three
``versions/``         the newest committees
``committee.safetensors``  what the pipeline began with, where [bootstrap] names one
``commands.db``       the queue of commands
``status.db``         how it does, for others to look at; it may be deleted at any time
``label_studio.db``   which request is which task of Label Studio
``schema.json``       the schema with its features named
``config.toml``       the configuration the state belongs to, secrets masked
``fingerprint``       of that configuration, secrets included: a salt and a hash
``last_error``        what went wrong last, when, and after which batch
``metrics.token``     what /metrics wants, made when [monitor] has a port
``labelling.db``      who labelled what, and when; written by `serve` alone
``serve.token``       what `serve` wants
``serve.logins/``     who is logged in there, a file each
``lock``              held by the process that runs, which writes its number there
====================  =====================================================================
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_urlsafe

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.state.checkpoints import Checkpoint, Checkpoints
from streamboost.pipelines.state.copies import Copy
from streamboost.pipelines.state.versions import Versions
from streamboost.storage import write_bytes

__all__ = ["LOG", "State", "kept_token"]

LOG = "log.db"
"""The log's file, within the state folder."""

_MOMENT = 0.001
_PATIENCE = 5.0
"""Seconds after which the lock is tried again, and in all."""


class State:
    """The files of one pipeline's state, in the folder `path`."""

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

    def make(self) -> None:
        """Make the folder, which nobody but its owner can look into, if it is not there."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_made(self) -> bool:
        """Whether a run has left anything of what it knows."""
        kept = (self.log, self.config, self._fingerprint, self._schema)
        folders = (self.checkpoints.folder, self.versions)
        with self.told():
            return any(file.exists() for file in kept) or any(
                folder.is_dir() and any(folder.iterdir()) for folder in folders
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process, making it if need be.

        Raises StateError at once while another process holds it. The lock goes with the process,
        however that ends.
        """
        with self.told():
            self.make()
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._hold(descriptor)
            os.truncate(descriptor, 0)
            with suppress(OSError):  # without room for its number the process holds it all the same
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _hold(self, descriptor: int) -> None:
        """Lock the file for this process alone; StateError while another one runs."""
        deadline = time.monotonic() + _PATIENCE
        while not _locked(descriptor, fcntl.LOCK_EX):
            # Those who only look share the lock, for a moment.
            if not _locked(descriptor, fcntl.LOCK_SH) or time.monotonic() > deadline:
                raise self.held()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_MOMENT)

    def held(self) -> StateError:
        """Return the error that says which process holds the folder."""
        return StateError(
            f"{self.path}: process {self._holder()} is running on this state: stop it first, or "
            "give this pipeline a state folder of its own"
        )

    def _holder(self) -> str:
        return (self._read(self._lock) or "").strip()[:32] or "unknown"

    def running(self) -> str | None:
        """Return the id of the process that holds the folder; None where none does."""
        return self._holder() if self.is_running() else None

    def is_running(self) -> bool:
        """Tell whether a process holds the folder now."""
        with self.told():
            if not self._lock.exists():
                return False
            with self._lock.open() as file:
                return not _locked(file.fileno(), fcntl.LOCK_SH)

    def configuration(self) -> str | None:
        """Return the configuration the state was made with, secrets masked; None: nobody knows."""
        return self._read(self.config)

    def keep_configuration(self, configuration: str, fingerprint: str) -> None:
        """Write down the configuration the state is made with."""
        self._write(self.config, configuration)
        self._write(self._fingerprint, fingerprint + "\n")

    def fill(self, origin: Mapping[str, str], copy: Copy | None) -> None:
        """Make an empty folder one that a run goes on from, its fingerprint last."""
        with self.told():
            if copy is not None:
                versions = Versions(self.versions, 1)
                self.versions.mkdir(exist_ok=True)
                for version, blob in copy.versions.items():
                    write_bytes(versions.file(version), blob)
                self.checkpoints.put(copy.sequence, copy.checkpoint)
        self._write(self._schema, origin["schema"])
        self._write(self._fingerprint, origin["fingerprint"] + "\n")

    def schema(self) -> Schema | None:
        """Return the schema that earlier runs settled on, or None."""
        text = self._read(self._schema)
        try:
            return None if text is None else Schema.from_json(text)
        except StateError as error:
            raise StateError(f"{self._schema}: {error}") from error

    def keep_schema(self, schema: Schema) -> None:
        """Write down the schema that all later runs use."""
        self._write(self._schema, schema.to_json())

    def forget_schema(self) -> None:
        """Have the next run settle on one anew."""
        with self.told():
            self._schema.unlink(missing_ok=True)

    def fingerprint(self) -> str:
        """Return what tells the state's configuration from another."""
        return (self._read(self._fingerprint) or "").strip()

    def start_at(self, sequence: int | None) -> Checkpoint | None:
        """Return the newest sound checkpoint of committed batch `sequence` or before.

        None says that the journal has to be replayed from its beginning, or that nothing is
        committed (`sequence` None). Raises StateError where that cannot be, as there are
        checkpoints.
        """
        with self.told():
            known = self.checkpoints.sequences
        if sequence is None:
            if known:
                raise StateError(
                    f"{self.path}: there is a checkpoint of batch {known[0]}, but no batch is "
                    f"committed: the log was removed. {self.begin_anew()}"
                )
            return None
        found = self.checkpoints.newest(sequence)
        if found is not None and found[1]["fingerprint"] != self.fingerprint():
            raise StateError(
                f"{self.path}: the checkpoint of batch {found[1]['sequence']} belongs to another "
                f"state: its files were mixed up. {self.begin_anew()}"
            )
        return found

    def _read(self, path: Path) -> str | None:
        """Return the text of a small file, None where there is none."""
        with self.told():
            try:
                return path.read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _write(self, path: Path, text: str) -> None:
        """Write a small file, unless it is as it should be: its disk may be full."""
        if self._read(path) == text:
            return
        with self.told():
            write_bytes(path, text.encode())

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise what the file system refuses as StateError."""
        try:
            yield
        except (OSError, ModelFileError) as error:
            raise StateError(
                f"the state folder {self.path} cannot be used: {error}; see that it is a folder "
                "that can be read and written, or set [pipeline] state to another"
            ) from error

    def begin_anew(self) -> str:
        """Say how to begin anew."""
        return (
            f"To begin anew, move {self.path} away, and with it the outputs that lie outside it; "
            "the records are then read again from their beginning"
        )


def _locked(descriptor: int, kind: int) -> bool:
    """Tell whether the lock could be had at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def kept_token(path: Path) -> str:
    """Return the token in the file `path`, which is made if it is not there.

    Raises StateError where others may read it, or it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise StateError(
                f"{path}: others than its owner may read the token: `chmod 600 {path}`, and "
                "remove it first if somebody may have, to get a new one"
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
        path.unlink()  # the next start would find it empty
        raise StateError(f"{path} cannot be written: {error}; make room on its disk") from error
    return token
