"""Going on after any end: the newest checkpoint, and the journalled batches after it once more.

A replay takes the same steps as the run did, without writing anything: the messages of a batch are
read again where its journal entry says, trainings start at the same labels with the same seeds,
and a committee that a thread had trained comes in with the same batch. In one environment (releases
and processor) it ends in the same bits, which the digest of every batch proves. In another one
nothing is compared, and the journal says from which batch on it is another.
"""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.errors import DataError, GapError, StateError
from streamboost.pipelines.checkpoint import Checkpoint
from streamboost.pipelines.effects import Entry
from streamboost.pipelines.environment import differences, environment
from streamboost.pipelines.inputs import Inputs
from streamboost.pipelines.runtime import Pipeline

__all__ = ["Replay", "digest_of", "recover"]

_log = logging.getLogger(__name__)


def recover(
    pipeline: Pipeline, checkpoint: Checkpoint | None, until: int, *, on_gap: str = "stop"
) -> None:
    """Bring `pipeline` to where the batch `until`, the newest committed one, had left it.

    Asked to stop, it ends before.

    Parameters
    ----------
    pipeline : one that knows nothing yet
    checkpoint : where to begin; None: at the beginning of the journal
    on_gap : "stop", or "continue": go on without what a missing part of the journal, the records
        or the labels had taught

    Raises
    ------
    GapError
        When a part is missing and `on_gap` is "stop".
    StateError
        When a batch does not come out as it did.
    """
    replay = Replay(pipeline, checkpoint)
    try:
        replay.run(until)
    except GapError as error:
        if on_gap != "continue":
            raise GapError(
                f'{error}. Or set [pipeline] on_gap = "continue" to go on without what batches '
                f"{pipeline.sequence + 1} to {until} had taught"
            ) from error
        _log.error("%s. What batches %d to %d taught is lost", error, pipeline.sequence + 1, until)
        replay.jump(until)
    replay.conclude()


@dataclass(slots=True)
class Replay:
    """Takes the steps of journalled batches once more."""

    pipeline: Pipeline
    checkpoint: Checkpoint | None
    is_same: bool = True
    """Whether all replayed so far was made in this environment, so that it may be compared."""
    _environment: dict[str, str] | None = None
    _gaps: list[tuple[int, int]] = field(default_factory=list)

    def run(self, until: int) -> None:
        """Replay up to batch `until`."""
        pipeline = self.pipeline
        if self.checkpoint is not None:
            pipeline.restore(*self.checkpoint)
            self._enter(self.checkpoint[1]["environment"])
            self._identify(self.checkpoint[1].get("identities", {}))
        if until <= pipeline.sequence:
            return
        _log.info("replaying batches %d to %d", pipeline.sequence + 1, until)
        self._gaps = [entry.gap for entry in self._entries(until) if entry.gap is not None]
        for entry in self._entries(until):
            if pipeline.stop.requested:
                return
            if any(first <= entry.sequence <= last for first, last in self._gaps):
                continue
            if entry.gap is not None:
                self.jump(entry.gap[1])
            if entry.sequence != pipeline.sequence + 1:
                raise self._missing(entry.sequence - 1)
            self._redo(entry)
        if pipeline.sequence < until:
            raise self._missing(until)

    def jump(self, sequence: int) -> None:
        """Go on after batch `sequence` as if those before it had taught nothing."""
        pipeline = self.pipeline
        pipeline.notes["gap"] = (pipeline.sequence + 1, sequence)
        pipeline.lost_batches += sequence - pipeline.sequence
        pipeline.sequence = sequence

    def conclude(self) -> None:
        """Note in the journal's next entry what has changed since the last one."""
        here, sources = environment(), self.pipeline.intake.identities()
        if self._environment != here:
            self.pipeline.notes["environment"] = here
        if self.pipeline.identities != sources:
            self.pipeline.notes["identities"] = self.pipeline.identities = sources

    def _entries(self, until: int) -> Iterator[Entry]:
        for sequence, message in self.pipeline.transaction.journal(self.pipeline.sequence):
            if sequence > until:
                return
            yield Entry.decode(message)

    def _enter(self, other: dict[str, str]) -> None:
        self._environment = other
        if self.is_same and other != environment():
            self.is_same = False
            _log.warning(
                "batches from %d on were made in another environment (%s): they are replayed "
                "without comparing",
                self.pipeline.sequence + 1,
                differences(other, environment()),
            )

    def _identify(self, known: dict[str, str]) -> None:
        """Note what the sources were; StateError where one is another now."""
        now = self.pipeline.intake.identities()
        for name in known.keys() & now.keys():
            if known[name] != now[name]:
                raise StateError(
                    f"the {name} come from a topic that was deleted and made again since: what it "
                    "holds is not what was read. Put the old one back from a copy, or, to read "
                    "this one from its beginning, give the pipeline another name and an empty "
                    "state"
                )
        self.pipeline.identities = known

    def _redo(self, entry: Entry) -> None:
        pipeline = self.pipeline
        if entry.identities is not None:
            self._identify(entry.identities)
        if entry.environment is not None:
            self._enter(entry.environment)
        known = Inputs(
            entry.tick,
            entry.ranges,
            [],
            [],
            list(entry.commands),
            caught_up=entry.caught_up,
            resumed=entry.resumed,
            deleted=entry.deleted,
        )
        inputs = pipeline.intake.reread(known, entry.read)
        for command in entry.commands:
            if command.version is not None:
                pipeline.versions.fetch(command.version)
        try:
            swap = None if entry.swap is None else pipeline.learner.trainer.wait(entry.swap)
        except DataError as error:
            raise self._differs(entry, str(error)) from error
        effects = pipeline.step(inputs, swap)
        pipeline.is_settled = True
        pipeline.notes = {}
        for observer in pipeline.rehearsals:
            observer(effects)
        if self.is_same and effects.digest != entry.digest:
            raise self._differs(entry, "its digest is another")

    def _differs(self, entry: Entry, how: str) -> StateError:
        return StateError(
            f"batch {entry.sequence} does not come out as it did when it was committed: {how}; "
            "records, labels or journal are not those it was made of: put them back from a copy"
        )

    def _missing(self, last: int) -> GapError:
        first = self.pipeline.sequence + 1
        return GapError(
            f"the journal lacks batches {first} to {last}, and there is no checkpoint after them: "
            "put the log or a checkpoint back from a copy"
        )


def digest_of(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a snapshot, whatever a checkpoint's manifest says besides."""
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(array.tobytes())
    for name in ("sequence", "digest", "tick", "dead_letters", "bootstrapped", "lost_batches"):
        hashed.update(f"{name} {manifest[name]}\n".encode())
    return hashed.hexdigest()
