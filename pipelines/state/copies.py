"""Copies of checkpoints outside the state folder, in a folder or an object store.

A copy is one file: a checkpoint with its schema and configuration, and the committees for rollback.
The file is sealed by a checksum, which detects truncated and damaged copies.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError, ConnectorError, ModelFileError, StreamBoostError
from streamboost.pipelines.state.checkpoints import KEPT, Checkpoints
from streamboost.storage import decode_sealed_file, encode_sealed_file, select_prefix, write_bytes

_log = logging.getLogger(__name__)

_KIND = "copy"


@dataclass(frozen=True, slots=True)
class CheckpointCopy:
    """Copy of a checkpoint: the content of its file and of the committees' files."""

    checkpoint: bytes
    versions: Mapping[int, bytes]
    manifest: dict[str, Any]
    """Manifest of the checkpoint."""

    @classmethod
    def from_files(
        cls, name: str, checkpoint: bytes, versions: Mapping[int, bytes]
    ) -> "CheckpointCopy":
        """Return a copy with the contents of files; ModelFileError if the checkpoint is damaged.

        `checkpoint` is the content of the checkpoint file, whose name in errors is `name`.
        `versions` are the contents of committee files, keyed by version.
        """
        return cls(checkpoint, versions, Checkpoints.decode(name, checkpoint)[1])

    @property
    def sequence(self) -> int:
        """Number of the checkpoint's batch."""
        return int(self.manifest["sequence"])

    def encode(self) -> bytes:
        """Return the copy as the bytes of one file, with a checksum."""
        files = {"checkpoint": self.checkpoint}
        files |= {f"version.{version}": blob for version, blob in self.versions.items()}
        return encode_sealed_file(
            {k: np.frombuffer(blob, np.uint8) for k, blob in files.items()}, kind=_KIND
        )

    @classmethod
    def decode(cls, name: str, blob: bytes) -> "CheckpointCopy":
        """Decode the result of `encode`; ModelFileError, with the file `name`, if it is damaged."""
        files, _ = decode_sealed_file(name, blob, kind=_KIND)
        versions = {int(n): file.tobytes() for n, file in select_prefix(files, "version.").items()}
        return cls.from_files(name, files["checkpoint"].tobytes(), versions)


class FolderTarget:
    """Storage for copies in a folder of a mounted file system; errors are ConnectorErrors."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def file_names(self) -> list[str]:
        """Return the names of the files, including unfinished ones; [] without the folder."""
        with _errors_as_connector_error(self):
            return [file.name for file in self.path.iterdir()] if self.path.exists() else []

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with _errors_as_connector_error(self):
            return (self.path / name).read_bytes()

    def write(self, name: str, blob: bytes) -> None:
        """Write a file to disk atomically: after a crash, the file is complete or absent."""
        with _errors_as_connector_error(self):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # it has the records' fields
            write_bytes(self.path / name, blob)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with _errors_as_connector_error(self):
            (self.path / name).unlink(missing_ok=True)


class RemoteTarget:
    """Storage for copies at an fsspec address, such as ``s3://bucket/copies``.

    Errors are ConnectorErrors.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            import fsspec
        except ImportError as error:
            raise ConfigurationError(
                f"[pipeline] checkpoint_copy: an address such as {address!r} needs fsspec: install "
                "streamboost[remote], and the protocol's package (s3fs for s3)"
            ) from error
        try:
            fsspec.get_filesystem_class(re.split("::|://", address)[0])
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"[pipeline] checkpoint_copy, {address!r}: {error}") from error

    def __str__(self) -> str:
        return self.address

    def file_names(self) -> list[str]:
        """Return the names of the files."""
        with self._open_file_system() as (system, root):
            system.invalidate_cache()
            try:
                return [path.rpartition("/")[2] for path in system.ls(root, detail=False)]
            except FileNotFoundError:
                return []

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._open_file_system() as (system, root):
            return bytes(system.cat_file(f"{root}/{name}"))

    def write(self, name: str, blob: bytes) -> None:
        """Write a file.

        After a crash, the file may be partial, except in object stores.
        """
        from fsspec.implementations.local import LocalFileSystem

        with self._open_file_system() as (system, root):
            if isinstance(system, LocalFileSystem):  # others need no folders, or create them
                system.makedirs(root, exist_ok=True)
            system.pipe_file(f"{root}/{name}", blob)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._open_file_system() as (system, root):
            system.rm_file(f"{root}/{name}")

    @contextmanager
    def _open_file_system(self) -> Iterator[tuple[Any, str]]:
        from fsspec.core import url_to_fs

        with _errors_as_connector_error(self):
            system, root = url_to_fs(self.address)
            yield system, root.rstrip("/")


@contextmanager
def _errors_as_connector_error(target: FolderTarget | RemoteTarget) -> Iterator[None]:
    """Context manager that raises all exceptions of its body as ConnectorError."""
    try:
        yield
    # File systems raise their own exceptions, many without a common base class.
    except Exception as error:
        text = str(error) if isinstance(error, StreamBoostError) else repr(error)
        raise ConnectorError(
            f"[pipeline] checkpoint_copy, {target}: {text}; check that it can be read and written, "
            "or set another address"
        ) from error


class CopyStore:
    """Store of copies of the newest checkpoints of one pipeline.

    `target` is the storage, which several pipelines may share. `name` is the pipeline's name, with
    which the file names begin.
    """

    def __init__(self, target: FolderTarget | RemoteTarget, name: str) -> None:
        self.target = target
        self._name = name
        self._pattern = re.compile(rf"{re.escape(name)}\.(\d{{10}})\.copy")
        self._unfinished = re.compile(rf"\.{re.escape(name)}\.\d{{10}}\.copy\.\d+")

    @property
    def sequences(self) -> list[int]:
        """Numbers of the batches whose checkpoint has a copy, the newest first."""
        found = (self._pattern.fullmatch(name) for name in self.target.file_names())
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def write(self, copy: CheckpointCopy) -> None:
        """Write a copy, then remove old copies, and unfinished files of killed processes."""
        self.target.write(self.file_name(copy.sequence), copy.encode())
        for sequence in self.sequences[KEPT:]:
            self.target.remove(self.file_name(sequence))
        for name in self.target.file_names():
            if self._unfinished.fullmatch(name):
                self.target.remove(name)

    def newest(self) -> CheckpointCopy | None:
        """Return the newest undamaged copy, or None; damaged copies are skipped with a warning."""
        for sequence in self.sequences:
            name = self.file_name(sequence)
            try:
                return CheckpointCopy.decode(f"{self.target}/{name}", self.target.read(name))
            except ModelFileError as error:
                _log.warning(
                    "a damaged copy is skipped: %s", error, extra={"event": "copy_damaged"}
                )
        return None

    def rename_newer_copies(self, sequence: int) -> None:
        """Rename the copies of batches after `sequence` to ``*.unread``, which are not read."""
        for newer in self.sequences:
            if newer > sequence:
                with suppress(ModelFileError):  # unreadable copies keep their name
                    self.target.write(
                        f"{self.file_name(newer)}.unread", self.target.read(self.file_name(newer))
                    )
                    self.target.remove(self.file_name(newer))

    def file_name(self, sequence: int) -> str:
        """Return the file name of the copy of a batch's checkpoint."""
        return f"{self._name}.{sequence:010}.copy"
