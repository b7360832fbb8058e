"""The state folder: what a pipeline keeps between two runs.

====================  =====================================================================
``log.db``            the SQLite log: journal and positions where they are not kept in Kafka, and
                      every stream without a path
``checkpoints/``      the whole state after one batch each, sealed, the newest three
``versions/``         the newest committees
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
``lock``              held by the process that runs, which writes its number there
====================  =====================================================================
"""

import fcntl
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from streamboost.connectors.files.open import unit_of
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import LOG, Config, Tables
from streamboost.pipelines.state.checkpoints import Checkpoint, Checkpoints
from streamboost.pipelines.state.copies import Copy
from streamboost.pipelines.state.versions import Versions
from streamboost.storage import write_bytes

__all__ = ["State"]

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
        self.config = path / "config.toml"
        self.last_error = path / "last_error"
        self.token = path / "metrics.token"
        self._fingerprint = path / "fingerprint"
        self._schema = path / "schema.json"
        self._lock = path / "lock"

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
            self.path.mkdir(parents=True, exist_ok=True)
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
        holder = (self._read(self._lock) or "").strip()[:32] or "unknown"
        return StateError(
            f"{self.path}: process {holder} is running on this state: stop it first, or give this "
            "pipeline a state folder of its own"
        )

    def is_running(self) -> bool:
        """Tell whether a process holds the folder now."""
        with self.told():
            if not self._lock.exists():
                return False
            with self._lock.open() as file:
                return not _locked(file.fileno(), fcntl.LOCK_SH)

    def name(self) -> str | None:
        """Return the name of the pipeline the state was made for, or None."""
        name = self._kept().get("pipeline", {}).get("name")
        return None if name is None else str(name)

    def commits_to_kafka(self) -> bool:
        """Tell whether the journal of the pipeline the state was made for is kept in Kafka."""
        return bool(self._kept().get("kafka", {}).get("transactions", False))

    def units(self) -> dict[str, str]:
        """Return what the positions of the sources count."""
        kept = self._kept()
        units = {"records": "records", "labels": "labels", "commands": "commands"}
        for source, section in (("records", "source"), ("labels", "labels"), ("bootstrap",) * 2):
            table = kept.get(section, {})
            if table.get("connector", "files") == "files" and "path" in table:
                units[source] = unit_of(str(table["path"]))
            elif table.get("connector") == "kafka":
                units[source] = "offsets"
        # A dataset's position is one in the requests it answers.
        if kept.get("labels", {}).get("connector") == "river":
            units["labels"] = "requests"
        return units

    def adopt(self, config: Config, *, begun: bool) -> None:
        """Note that this state belongs to `config`.

        Raises StateError as `verify` does.
        """
        if not self.verify(config, begun=begun):
            with self.told():
                self._schema.unlink(missing_ok=True)
        salt = self._salt()
        self._write(self.config, config.to_toml())
        self._write(self._fingerprint, config.fingerprint(salt) + "\n")

    def verify(self, config: Config, *, begun: bool) -> bool:
        """Tell whether this state was made by `config`, changing nothing.

        Raises StateError if it was not and has `begun`, holding what another one led to.
        """
        kept = self.fingerprint()
        same = bool(kept) and kept == config.fingerprint(self._salt())
        if begun and not self.is_made:
            raise StateError(
                f"{self.path} is empty, though batches of {config.name} are committed: put it back "
                "from a copy, or have it made again from the journal by `streamboost run --rebuild`"
            )
        if begun and not kept:
            raise StateError(
                f"{self._fingerprint} is missing, so nobody can tell whether this state was "
                f"made by this configuration: put it back from a copy. {self._begin_anew()}"
            )
        if begun and not same:
            raise self._made_by_another(config, self._kept())
        return same

    def refuse_another(self, config: Config, fingerprint: str, configuration: str) -> None:
        """Raise StateError where a state of that `fingerprint` was not made by `config`."""
        if config.fingerprint(fingerprint.partition(":")[0]) != fingerprint:
            raise self._made_by_another(config, tomllib.loads(configuration))

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

    def _made_by_another(self, config: Config, old: Tables) -> StateError:
        return StateError(
            f"{self.path}: this state was made by another configuration: "
            f"{'; '.join(self._changes(config, old))}. Undo the change, or set [pipeline] state to "
            f"a new folder to begin anew. On an existing state these may change: "
            f"{_listed(config.changeable())}"
        )

    def _salt(self) -> str:
        return self.fingerprint().partition(":")[0] or token_hex(16)

    def _kept(self) -> Tables:
        """Return the configuration the state was made with; empty where it cannot be read."""
        try:
            return tomllib.loads(self._read(self.config) or "")
        except ValueError:
            return {}

    def _changes(self, config: Config, old: Tables) -> list[str]:
        """Say what differs from `old`, the configuration the state was made with."""
        if not old:
            return [f"{self.config} cannot be read, so what has changed is not known"]
        changes = []
        for section, values in config.binding().items():
            known = old.get(section, {})
            for key in values:
                before, now = _plain(known.get(key)), _plain(values[key])
                if before == now or (key == "path" and _same_place(config, before, now)):
                    continue
                changes.append(f"[{section}] {key} was {_shown(before)} and is {_shown(now)}")
        names = ", ".join(config.variables.names)
        if changes or not names:
            return changes or ["its paths lead elsewhere now"]
        return [f"an environment variable it names ({names}) has another value"]

    def schema(self) -> Schema | None:
        """Return the schema that earlier runs settled on, or None."""
        text = self._read(self._schema)
        return None if text is None else Schema.from_json(text)

    def keep_schema(self, schema: Schema) -> None:
        """Write down the schema that all later runs use."""
        self._write(self._schema, schema.to_json())

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
                    f"committed: the log was removed. {self._begin_anew()}"
                )
            return None
        found = self.checkpoints.newest(sequence)
        if found is not None and found[1]["fingerprint"] != self.fingerprint():
            raise StateError(
                f"{self.path}: the checkpoint of batch {found[1]['sequence']} belongs to another "
                f"state: its files were mixed up. {self._begin_anew()}"
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

    def _begin_anew(self) -> str:
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


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _same_place(config: Config, before: Any, now: Any) -> bool:
    return None not in (before, now) and config.place(before) == config.place(now)


def _shown(value: Any) -> str:
    return "not set" if value is None else toml.render(value)


def _listed(keys: Mapping[str, set[str]]) -> str:
    return ", ".join(f"[{section}] {' '.join(sorted(names))}" for section, names in keys.items())
