"""Checkpoints: files with a checksum and the complete state of a pipeline after a batch."""

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from streamboost.errors import ModelFileError
from streamboost.storage import Arrays, decode_sealed_file, read_arrays, write_arrays, write_bytes

_log = logging.getLogger(__name__)

_KIND = "checkpoint"
KEPT = 3
"""Number of checkpoints that are kept, so that a damaged one can be replaced by an older one."""

Checkpoint = tuple[Arrays, dict[str, Any]]
"""The arrays of a pipeline's snapshot, and its manifest."""


class Checkpoints:
    """Store of checkpoints: files ``NNNNNNNNNN`` in `folder`, named by their batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def sequences(self) -> list[int]:
        """Numbers of the batches that have a checkpoint, the newest first."""
        if not self.folder.is_dir():
            return []
        names = [path.name for path in self.folder.iterdir()]
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def save(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Write a checkpoint to disk, then remove all but the newest `KEPT` checkpoints.

        The write is atomic: after a crash, the checkpoint is complete or absent. Raises
        ModelFileError if the write fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_arrays(self.path(manifest["sequence"]), arrays, kind=_KIND, manifest=manifest)
        for sequence in self.sequences[KEPT:]:
            self.path(sequence).unlink(missing_ok=True)
        for unfinished in self.folder.glob(".*"):  # left by a killed process
            unfinished.unlink(missing_ok=True)

    def save_bytes(self, sequence: int, blob: bytes) -> None:
        """Write the checkpoint of batch `sequence`; `blob` is the content of a checkpoint file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.path(sequence), blob)

    def load(self, sequence: int) -> Checkpoint:
        """Return the checkpoint of a batch; ModelFileError if the file is damaged."""
        return read_arrays(self.path(sequence), kind=_KIND)

    @staticmethod
    def decode(name: str, blob: bytes) -> Checkpoint:
        """Return the checkpoint in the file content `blob`.

        Raises ModelFileError if it is damaged; `name` is the name of the file in the error.
        """
        return decode_sealed_file(name, blob, kind=_KIND)

    def newest(self, last_sequence: int | None = None) -> Checkpoint | None:
        """Return the newest undamaged checkpoint up to batch `last_sequence`, or None.

        Damaged checkpoints are skipped with a warning.
        """
        for sequence in self.sequences:
            if last_sequence is not None and sequence > last_sequence:
                continue
            try:
                return self.load(sequence)
            except ModelFileError as error:
                _log.warning(
                    "a damaged checkpoint is skipped: %s",
                    error,
                    extra={"event": "checkpoint_damaged"},
                )
        return None

    def newest_checkpoint_time(self) -> float:
        """Return the write time of the newest checkpoint in seconds since the epoch, or 0."""
        return self._first_write_time(self.sequences)

    def oldest_checkpoint_time(self) -> float:
        """Return the write time of the oldest checkpoint in seconds since the epoch, or 0."""
        return self._first_write_time(reversed(self.sequences))

    def _first_write_time(self, sequences: Iterable[int]) -> float:
        for sequence in sequences:
            with suppress(FileNotFoundError):  # a newer checkpoint may have replaced this one
                return self.path(sequence).stat().st_mtime
        return 0.0

    def remove_after(self, sequence: int) -> None:
        """Remove the checkpoints of batches after `sequence`."""
        for newer in self.sequences:
            if newer > sequence:
                self.path(newer).unlink(missing_ok=True)

    def path(self, sequence: int) -> Path:
        """Return the path of the checkpoint file of a batch."""
        return self.folder / f"{sequence:010}"
