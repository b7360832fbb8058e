"""Versions: the newest committees of a pipeline, kept for rollback."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from streamboost.errors import StateError
from streamboost.pipelines.state.checkpoints import KEPT

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee


class CommitteeStore:
    """Store of the newest committees, keyed by version; they are or were active, or challengers.

    Committees are first kept in memory. `write` saves them as ``NNNNNNNN.safetensors`` in `folder`,
    which `Committee.load` reads. `write` is called with each checkpoint. After a crash, a replay
    from the checkpoint trains later versions again.

    Parameters
    ----------
    folder : folder of the files; None: keep all in memory
    max_versions : number of versions that are kept
    """

    def __init__(self, folder: Path | None, max_versions: int) -> None:
        self._folder = folder
        self._max_versions = max_versions
        self._held: dict[int, Committee] = {}
        self._written = set(self._find_saved_versions())

    @property
    def version_numbers(self) -> list[int]:
        """Numbers of the stored versions, the oldest first."""
        return sorted(self._held.keys() | self._written)[-self._max_versions :]

    def add(self, committees: "Iterable[Committee | None]") -> None:
        """Add the committees that are not None; keep only the newest `max_versions` in memory."""
        for committee in committees:
            if committee is not None:
                self._held[committee.version] = committee
        for version in sorted(self._held)[: -self._max_versions]:
            del self._held[version]

    def load_into_memory(self, version: int) -> None:
        """Load `version` into memory, so that ``store[version]`` returns the committee.

        Raises StateError if the version is not stored.
        Raises ModelFileError if its file is damaged.
        """
        if version in self._held:
            return
        if self._folder is None or version not in self._written:
            kept = ", ".join(map(str, self.version_numbers)) or "none"
            raise StateError(f"version {version} is not kept: there are {kept}")
        from streamboost.boosting.committee import Committee  # which loads the kernels

        self._held[version] = Committee.load(self._path_of_version(self._folder, version))

    def committee(self, version: int) -> "Committee | None":
        """Return the committee of `version` if it is in memory, else None."""
        return self._held.get(version)

    def __getitem__(self, version: int) -> "Committee":
        return self._held[version]

    def write(self) -> None:
        """Save the committees that have no file yet, and delete the files of old versions."""
        if self._folder is None:
            return
        self._folder.mkdir(exist_ok=True)
        for unfinished in self._folder.glob(".*"):  # left by a killed process
            unfinished.unlink(missing_ok=True)
        for version in self.version_numbers:
            if version not in self._written:
                self._held[version].save(self._path_of_version(self._folder, version))
                self._written.add(version)
        # Older checkpoints need the versions that were the newest at their time.
        for version in sorted(self._written)[: -self._max_versions * KEPT]:
            self._path_of_version(self._folder, version).unlink(missing_ok=True)
            self._written.discard(version)

    def remove_after(self, version: int) -> None:
        """Delete the files of versions newer than `version`, whose numbers will be reused."""
        if self._folder is None:
            return
        for newer in [n for n in self._written if n > version]:
            self._path_of_version(self._folder, newer).unlink(missing_ok=True)
            self._written.discard(newer)

    def file_path(self, version: int) -> Path:
        """Return the path of the file of `version`; the store must have a folder."""
        assert self._folder is not None
        return self._path_of_version(self._folder, version)

    def _find_saved_versions(self) -> list[int]:
        if self._folder is None or not self._folder.is_dir():
            return []
        names = [path.stem for path in self._folder.glob("*.safetensors")]
        return [int(name) for name in names if name.isdecimal()]

    @staticmethod
    def _path_of_version(folder: Path, version: int) -> Path:
        return folder / f"{version:08}.safetensors"
