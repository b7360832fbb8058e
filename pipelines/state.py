"""The state folder: what a pipeline keeps between two runs.

====================  =====================================================================
``log.db``            the SQLite log: journal, positions, and every stream without a path
``snapshot``          learner and join as of the last orderly stop, sealed
``schema.json``       the schema with its features named
``config.toml``       the configuration the state belongs to, secrets masked
``fingerprint``       of that configuration
``lock``              held by the process that runs, which writes its number there
====================  =====================================================================
"""

import fcntl
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamboost.connectors.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.config import Config, Tables
from streamboost.storage import Arrays, read_arrays, write_arrays

__all__ = ["State"]

_KIND = "pipeline"


class State:
    """The files of one pipeline's state, in the folder `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log.db"
        self.snapshot = path / "snapshot"
        self.config = path / "config.toml"
        self._fingerprint = path / "fingerprint"
        self._schema = path / "schema.json"
        self._lock = path / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process, making it if need be.

        Raises StateError at once while another process holds it. The lock goes with the process,
        however that ends.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                raise StateError(
                    f"{self.path}: process {holder} is running on this state: stop it first, or "
                    "give this pipeline a state folder of its own"
                ) from None
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def is_running(self) -> bool:
        """Tell whether a process holds the folder now."""
        if not self._lock.exists():
            return False
        with self._lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def name(self) -> str | None:
        """Return the name of the pipeline the state was made for, or None."""
        try:
            return str(tomllib.loads(self.config.read_text(encoding="utf-8"))["pipeline"]["name"])
        except (OSError, ValueError, LookupError):
            return None

    def adopt(self, config: Config, *, begun: bool) -> None:
        """Note that this state belongs to `config`.

        Raises StateError if it has `begun`, holding what another configuration led to.
        """
        fingerprint = config.fingerprint()
        if self._fingerprint.exists() and self._fingerprint.read_text().strip() != fingerprint:
            if begun:
                changes = self._changes(config)
                raise StateError(
                    f"{self.path}: this state was made by another configuration: "
                    f"{'; '.join(changes) or 'it cannot be read back'}. Undo the change, or set "
                    "[pipeline] state to a new folder to begin anew"
                )
            self._schema.unlink(missing_ok=True)
        _write(self.config, config.to_toml())
        _write(self._fingerprint, fingerprint + "\n")

    def _changes(self, config: Config) -> list[str]:
        """Say which keys differ from those the state was made with."""
        try:
            old: Tables = tomllib.loads(self.config.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        changes = []
        for section, values in config.binding().items():
            known = old.get(section, {})
            for key in values:
                before, now = _plain(known.get(key)), _plain(values[key])
                if before != now:
                    changes.append(f"[{section}] {key} was {before!r} and is {now!r}")
        return changes

    def schema(self) -> Schema | None:
        """Return the schema that earlier runs settled on, or None."""
        try:
            return Schema.from_json(self._schema.read_bytes())
        except FileNotFoundError:
            return None

    def keep_schema(self, schema: Schema) -> None:
        """Write down the schema that all later runs use."""
        _write(self._schema, schema.to_json())

    def save(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Write the snapshot in place of the one before."""
        write_arrays(self.snapshot, arrays, kind=_KIND, manifest=manifest)

    def load(self) -> tuple[Arrays, dict[str, Any]] | None:
        """Return the snapshot's arrays and manifest, or None if there is none."""
        if not self.snapshot.exists():
            return None
        return read_arrays(self.snapshot, kind=_KIND)

    def load_at(self, sequence: int | None) -> tuple[Arrays, dict[str, Any]] | None:
        """Return the snapshot of committed batch `sequence`; None where nothing is committed.

        Raises StateError where the snapshot is missing, damaged, or of another batch: the
        pipeline did not stop in an orderly way, and its learner is lost.
        """
        try:
            found = self.load()
        except ModelFileError as error:
            raise StateError(f"{error}. {self._begin_anew()}") from error
        snapshot = found[1]["sequence"] if found else None
        if snapshot == sequence:
            return found
        if sequence is None:
            raise StateError(
                f"{self.path}: the snapshot is of batch {snapshot}, but no batch is committed: "
                f"the log was removed. {self._begin_anew()}"
            )
        kept = "there is no snapshot" if found is None else f"the snapshot is of batch {snapshot}"
        raise StateError(
            f"{self.path}: {sequence} batches are committed, but {kept}: the last run did not stop "
            f"in an orderly way, and what it learned since is lost. {self._begin_anew()}"
        )

    def _begin_anew(self) -> str:
        return (
            f"To begin anew, move {self.path} away, and with it the outputs that lie outside it; "
            "the records are then read again from their beginning"
        )


def _write(path: Path, text: str) -> None:
    """Write a small file so that it is found whole or as it was before."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
