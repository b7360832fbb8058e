"""Going on after any end: the newest checkpoint, and the journalled batches after it once more.

A replay takes the same steps as the run did, without writing anything: the messages of a batch are
read again where its journal entry says, trainings start at the same labels with the same seeds,
and a committee that a thread had trained comes in with the same batch. In one environment (releases
and processor) it ends in the same bits, which the digest of every batch proves. In another one
nothing is compared, and the journal says from which batch on it is another. Batches that another
release of streamboost made are replayed only when asked to, as they may come out quite differently.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamboost.connectors.base import Transaction
from streamboost.environment import differences, environment
from streamboost.errors import DataError, GapError, ModelFileError, StateError
from streamboost.pipelines.engine.batch import Inputs
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.state.checkpoints import Checkpoint
from streamboost.pipelines.state.journal import JournalEntry

__all__ = ["Replay", "digest_of", "journalled", "made_elsewhere", "recover", "refuse_elsewhere"]

_log = logging.getLogger(__name__)


def journalled(
    transaction: Transaction, checkpoint: Checkpoint | None, until: int
) -> Iterator[JournalEntry]:
    """Give the journal's entries of the batches after `checkpoint`, up to batch `until`."""
    for sequence, message in transaction.journal(checkpoint[1]["sequence"] if checkpoint else 0):
        if sequence > until:
            return
        yield JournalEntry.decode(message)


class Elsewhere(NamedTuple):
    """Batches that another release of streamboost made: the first, the last, and the release."""

    first: int
    last: int
    release: str

    def __str__(self) -> str:
        return f"{self.first} to {self.last} were made by streamboost {self.release}"


def made_elsewhere(
    entries: Iterable[JournalEntry], checkpoint: Checkpoint | None
) -> Elsewhere | None:
    """Return which of the `entries` after `checkpoint` are those of another release."""
    here = environment()["streamboost"]
    release = checkpoint[1]["environment"]["streamboost"] if checkpoint else None
    found = None
    for entry in entries:
        if entry.environment is not None:
            release = entry.environment["streamboost"]
        if release not in (None, here):
            first = found.first if found else entry.sequence
            found = Elsewhere(first, entry.sequence, release)
    return found


def refuse_elsewhere(found: Elsewhere | None) -> None:
    """Raise StateError where there are batches to replay that another release made."""
    if found is not None:
        here = environment()["streamboost"]
        raise StateError(
            f"batches {found.first} to {found.last}, which lie after the newest checkpoint, were "
            f"made by streamboost {found.release}, and this is {here}: run {found.release} until "
            "it has stopped cleanly, then this one; or have this one replay them, without "
            "comparing, by `streamboost run --upgrade`"
        )


def recover(
    loop: Loop,
    checkpoint: Checkpoint | None,
    until: int,
    *,
    on_gap: str = "stop",
    upgrade: bool = False,
) -> None:
    """Bring `loop` to where the batch `until`, the newest committed one, had left it.

    Asked to stop, it ends before. What cannot be read now is tried again until it can.

    Parameters
    ----------
    loop : one whose pipeline knows nothing yet
    checkpoint : where to begin; None: at the beginning of the journal
    on_gap : "stop", or "continue": go on without what a missing part of the journal, the records
        or the labels had taught
    upgrade : whether batches that another release made are replayed too

    Raises
    ------
    GapError
        When a part is missing and `on_gap` is "stop".
    StateError
        When a batch does not come out as it did, or must not be replayed.
    """
    replay = Replay(loop, checkpoint)

    def run() -> None:
        if not upgrade:
            entries = journalled(loop.transaction, checkpoint, until)
            refuse_elsewhere(made_elsewhere(entries, checkpoint))
        replay.run(until)

    try:
        loop.stop.patiently(run, loop.poll_interval)
    except GapError as error:
        first = loop.pipeline.sequence + 1
        if on_gap != "continue":
            raise GapError(
                f'{error}. Or set [pipeline] on_gap = "continue" to go on without what batches '
                f"{first} to {until} had taught"
            ) from error
        _log.error("%s. What batches %d to %d taught is lost", error, first, until)
        replay.jump(until)
    loop.stop.patiently(replay.conclude, loop.poll_interval)


@dataclass(slots=True)
class Replay:
    """Takes the steps of journalled batches once more."""

    loop: Loop
    checkpoint: Checkpoint | None
    is_same: bool = True
    """Whether all replayed so far may be compared: it was made in this environment, by models that
    come to the same."""
    made_here: bool = True
    """Whether all of it was made in this environment."""
    later: Sequence[int] = ()
    """Batches of checkpoints that may lie after missing ones."""
    _environment: dict[str, str] | None = None
    _gaps: list[tuple[int, int]] = field(default_factory=list)

    def run(self, until: int) -> None:
        """Replay up to batch `until`, from where an error left off that may have passed."""
        pipeline = self.loop.pipeline
        if self.checkpoint is not None and not pipeline.sequence:
            self._identify(self.checkpoint[1]["identities"])
            self._begin_alike(self.checkpoint[1].get("origin"))
            self._environment = self.checkpoint[1]["environment"]
            self.loop.restore(*self.checkpoint)
        if until <= pipeline.sequence:
            return
        _log.info("replaying batches %d to %d", pipeline.sequence + 1, until)
        entries = partial(journalled, self.loop.transaction, self.checkpoint, until)
        self._gaps = [entry.gap for entry in entries() if entry.gap is not None]
        for entry in entries():
            if self.loop.stop.requested:
                return
            known = entry.sequence <= pipeline.sequence
            if known or any(first <= entry.sequence <= last for first, last in self._gaps):
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
        for entry in journalled(self.loop.transaction, self.checkpoint, sequence):
            self.loop.intake.expect(entry.bookmarks)
        pipeline = self.loop.pipeline
        pipeline.journal_extras.gap = (pipeline.sequence + 1, sequence)
        pipeline.lost_batches += sequence - pipeline.sequence
        pipeline.sequence = sequence

    def conclude(self) -> None:
        """Note in the journal's next entry what has changed since the last one."""
        here, there = environment(), self._environment
        if there != here:
            self.loop.pipeline.journal_extras.environment = here
            if origin := self.loop.about.get("origin"):
                self.loop.pipeline.journal_extras.origin = origin
        if there is not None and there["streamboost"] != here["streamboost"]:
            _log.info(
                "batch %d, taken over from streamboost %s",
                self.loop.pipeline.sequence,
                there["streamboost"],
            )
        found = self._identities()
        if self.loop.identities != found:
            self.loop.pipeline.journal_extras.identities = self.loop.identities = found

    def _enter(self, entry: JournalEntry) -> None:
        """Note in which environment a batch was made."""
        self._environment = entry.environment or self._environment
        if self.is_same and self._environment not in (None, environment()):
            self.is_same = self.made_here = False
            _log.warning(
                "batches from %d on were made in another environment (%s): they are replayed "
                "without comparing",
                entry.sequence,
                differences(self._environment, environment()),
            )

    def _identify(self, known: dict[str, str]) -> None:
        """Note what sources and journal were; StateError where one is another now."""
        now = self._identities()
        for name in sorted(known.keys() & now.keys()):
            if known[name] != now[name]:
                raise StateError(
                    f"the topic of the {name} was deleted and made again since: what it holds is "
                    "not what was there. Put the old one back from a copy, or, to read this one "
                    "from its beginning, give the pipeline another name and an empty state"
                )
        self.loop.identities = known

    def _begin_alike(self, origin: dict[str, str] | None) -> None:
        """Raise StateError where a run began with another committee than this replay."""
        ours = self.loop.about.get("origin", {}).get("committee")
        if origin is not None and origin.get("committee") != ours:
            raise StateError(
                "the committee at [bootstrap] committee is not the one that the pipeline began "
                f"with, whose SHA-256 is {origin.get('committee')}, and not {ours}: put that one "
                "back from a copy"
            )

    def _identities(self) -> dict[str, str]:
        journal = self.loop.transaction.identity
        return self.loop.intake.identities() | ({"journal": journal} if journal else {})

    def _redo(self, entry: JournalEntry) -> None:
        pipeline = self.loop.pipeline
        if entry.identities is not None:
            self._identify(entry.identities)
        self._begin_alike(entry.origin)
        self._enter(entry)
        known = Inputs(
            entry.tick,
            entry.ranges,
            [],
            [],
            list(entry.commands),
            caught_up=entry.caught_up,
            resumed=entry.resumed,
            deleted=entry.deleted,
            bookmarks=entry.bookmarks,
        )
        inputs = self.loop.intake.reread(known, entry.read)
        for name in ("fields", "rules", "decision"):
            # In place of those that the checkpoint expected of the next batch.
            setattr(pipeline.journal_extras, name, getattr(entry, name))
        try:
            for command in entry.commands:
                if command.version is not None:
                    pipeline.versions.fetch(command.version)
            swap = None if entry.swap is None else pipeline.learner.trainer.wait(entry.swap)
        except (DataError, ModelFileError, StateError) as error:
            if self.is_same and not isinstance(error, DataError):
                raise
            raise self._differs(entry, str(error)) from error
        effects = self.loop.restep(inputs, swap)
        if self.is_same and effects.digest != entry.digest:
            models = pipeline.models
            if models is None or models.is_steady():
                raise self._differs(entry, "its digest is another")
            self.is_same = False
            _log.warning(
                "batch %d comes out otherwise than it did, as River's models depend on the seed of "
                "Python's hashes: it is replayed, as what follows, without comparing",
                entry.sequence,
            )

    def _differs(self, entry: JournalEntry, how: str) -> StateError:
        if not self.is_same:
            there = differences(self._environment, environment())
            return StateError(
                f"batch {entry.sequence} cannot be replayed here ({there}): {how}; finish where it "
                "was made: run that until it has stopped cleanly, then this"
            )
        return StateError(
            f"batch {entry.sequence} does not come out as it did when it was committed: {how}; "
            "records, labels or journal are not those it was made of: put them back from a copy"
        )

    def _missing(self, last: int) -> GapError:
        first = self.loop.pipeline.sequence + 1
        if later := [sequence for sequence in self.later if sequence >= last]:
            return GapError(
                f"the journal lacks batches {first} to {last}, so that the checkpoint of batch "
                f"{min(later)} cannot be compared with a replay. A run does not need them: it "
                f"starts from the checkpoint of batch {max(later)}. To verify all of it, put the "
                "log back from a copy"
            )
        return GapError(
            f"the journal lacks batches {first} to {last}, and there is no checkpoint after them: "
            "put the log or a checkpoint back from a copy"
        )


def digest_of(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a snapshot, whatever a checkpoint's manifest says besides."""
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        if name.startswith("models.") and name.endswith(".pickle"):
            continue  # its bytes may differ where what it does is the same
        array = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(array.tobytes())
    for name in ("sequence", "digest", "tick", "dead_letters", "bootstrapped", "lost_batches"):
        hashed.update(f"{name} {manifest[name]}\n".encode())
    hashed.update(f"deleted_unread {manifest['deleted_unread']}\n".encode())
    return hashed.hexdigest()
