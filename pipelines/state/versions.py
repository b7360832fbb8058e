"""The newest committees of a pipeline, kept so that it can be rolled back to one."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from streamboost.errors import StateError
from streamboost.pipelines.state.checkpoints import KEPT

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Versions"]


class Versions:
    """The newest `most` committees that served or were to serve.

    They are in memory at first; `write` puts them into files, ``NNNNNNNN.safetensors`` in `folder`,
    which `Committee.load` reads. Writing them with each checkpoint is enough: a replay from there
    makes the later ones anew.

    Parameters
    ----------
    folder : where the files are; without one there are none
    most : how many are kept
    """

    def __init__(self, folder: Path | None, most: int) -> None:
        self._folder = folder
        self._most = most
        self._held: dict[int, Committee] = {}
        self._written = set(self._files())

    @property
    def numbers(self) -> list[int]:
        """The versions there are, the oldest first."""
        return sorted(self._held.keys() | self._written)[-self._most :]

    def add(self, committees: "Iterable[Committee | None]") -> None:
        """Keep those of `committees` that are one, the oldest leaving when there are too many."""
        for committee in committees:
            if committee is not None:
                self._held[committee.version] = committee
        for version in sorted(self._held)[: -self._most]:
            del self._held[version]

    def fetch(self, version: int) -> None:
        """Have `version` at hand for `[]`; StateError where it is not kept, or damaged."""
        if version in self._held:
            return
        if self._folder is None or version not in self._written:
            kept = ", ".join(map(str, self.numbers)) or "none"
            raise StateError(f"version {version} is not kept: there are {kept}")
        from streamboost.boosting.committee import Committee  # which loads the kernels

        self._held[version] = Committee.load(self._path(self._folder, version))

    def held(self, version: int) -> "Committee | None":
        """Return `version` if it is in memory."""
        return self._held.get(version)

    def __getitem__(self, version: int) -> "Committee":
        return self._held[version]

    def write(self) -> None:
        """Put into files what is not in one yet."""
        if self._folder is None:
            return
        self._folder.mkdir(exist_ok=True)
        for unfinished in self._folder.glob(".*"):  # what a killed process had begun
            unfinished.unlink(missing_ok=True)
        for version in self.numbers:
            if version not in self._written:
                self._held[version].save(self._path(self._folder, version))
                self._written.add(version)
        # An older checkpoint needs those that were the newest when it was taken.
        for version in sorted(self._written)[: -self._most * KEPT]:
            self._path(self._folder, version).unlink(missing_ok=True)
            self._written.discard(version)

    def forget_after(self, version: int) -> None:
        """Remove the files of versions newer than `version`, whose numbers are given again."""
        if self._folder is None:
            return
        for newer in [n for n in self._written if n > version]:
            self._path(self._folder, newer).unlink(missing_ok=True)
            self._written.discard(newer)

    def file(self, version: int) -> Path:
        """Return the file of `version`; there must be a folder."""
        assert self._folder is not None
        return self._path(self._folder, version)

    def _files(self) -> list[int]:
        if self._folder is None or not self._folder.is_dir():
            return []
        names = [path.stem for path in self._folder.glob("*.safetensors")]
        return [int(name) for name in names if name.isdecimal()]

    @staticmethod
    def _path(folder: Path, version: int) -> Path:
        return folder / f"{version:08}.safetensors"
