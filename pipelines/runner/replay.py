"""Recovery: restores the newest checkpoint, and replays the journalled batches after it.

A replay repeats the steps of the run without output:

- The messages of a batch are read again from the offsets in its journal entry.
- Trainings start at the same labels with the same seeds.
- A committee that was trained in the background is deployed in the same batch.

In the same environment (releases and processor), the state after a replay is bit-identical, which
the digest of each batch verifies. In another environment, digests are not compared, and the journal
records the first batch of that environment. Batches of another release of streamboost are replayed
only on request (`upgrade`), as their results may differ widely.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamboost.connectors.base import Transaction
from streamboost.environment import describe_differences, environment
from streamboost.errors import DataError, GapError, ModelFileError, StateError
from streamboost.pipelines.runner.batch import BatchInputs
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.state.checkpoints import Checkpoint
from streamboost.pipelines.state.journal import JournalEntry

_log = logging.getLogger(__name__)


ENCODER = "encoder "
"""Prefix of the keys of an environment that have the SHA-256 of a sentence encoder's files."""


def journal_entries(
    transaction: Transaction, checkpoint: Checkpoint | None, last_sequence: int
) -> Iterator[JournalEntry]:
    """Yield the journal entries of the batches after `checkpoint`, up to batch `last_sequence`."""
    for sequence, message in transaction.read_journal(
        checkpoint[1]["sequence"] if checkpoint else 0
    ):
        if sequence > last_sequence:
            return
        yield JournalEntry.decode(message)


def find_missing_batches(
    entries: Iterable[JournalEntry], start: int, last_sequence: int
) -> tuple[int, int] | None:
    """Return the first range (first, last) of batches that the journal lacks; None: no such batch.

    `entries` are the journal entries after batch `start`, up to batch `last_sequence`. Batches that
    an earlier restart skipped (`JournalEntry.gap`) are not needed.
    """
    known = [(entry.sequence, entry.gap) for entry in entries]
    gaps = [gap for _, gap in known if gap is not None]
    newest = start
    for sequence, gap in known:
        if any(first <= sequence <= last for first, last in gaps):
            continue
        newest = newest if gap is None else gap[1]
        if sequence != newest + 1:
            return newest + 1, sequence - 1
        newest = sequence
    return (newest + 1, last_sequence) if newest < last_sequence else None


class OtherReleaseBatches(NamedTuple):
    """Range of batches made by another release of streamboost: first and last batch, release."""

    first: int
    last: int
    release: str

    def __str__(self) -> str:
        return f"{self.first} to {self.last} were made by streamboost {self.release}"


def find_other_release_batches(
    entries: Iterable[JournalEntry], checkpoint: Checkpoint | None
) -> OtherReleaseBatches | None:
    """Return the range of batches in `entries` made by another release; None: no such batch.

    `checkpoint` is the checkpoint before the entries, which has the release at that time.
    """
    here = environment()["streamboost"]
    release = checkpoint[1]["environment"]["streamboost"] if checkpoint else None
    found = None
    for entry in entries:
        if entry.environment is not None:
            release = entry.environment["streamboost"]
        if release not in (None, here):
            first = found.first if found else entry.sequence
            found = OtherReleaseBatches(first, entry.sequence, release)
    return found


def require_same_release(other_release: OtherReleaseBatches | None) -> None:
    """Raise StateError if there are batches of another release: these are not replayed."""
    if other_release is not None:
        first, last, release = other_release.first, other_release.last, other_release.release
        here = environment()["streamboost"]
        raise StateError(
            f"batches {first} to {last} after the newest checkpoint were made by "
            f"streamboost {release}, and this is {here}: run {release} until it "
            "stops cleanly, then this release; or replay the batches with this release, without "
            "comparing results, by `streamboost run --upgrade`"
        )


def require_same_encoders(
    entries: Iterable[JournalEntry], checkpoint: Checkpoint | None, current: dict[str, str]
) -> None:
    """Raise StateError if a sentence encoder has other files than at the newest batch.

    `entries` are the journal entries after `checkpoint`; `current` is this run's environment.
    """
    known = checkpoint[1]["environment"] if checkpoint else {}
    for entry in entries:
        known = entry.environment or known
    for key in sorted(known.keys() & current.keys()):
        if key.startswith(ENCODER) and known[key] != current[key]:
            raise StateError(
                f"encoder {key.removeprefix(ENCODER)!r}: its files have the SHA-256 {current[key]}"
                f", but the state was made with files of SHA-256 {known[key]}: restore the old "
                "files, or continue with the new files by `streamboost run --upgrade`, which keeps "
                "the vectors of learned records"
            )


def recover(
    runner: Runner,
    checkpoint: Checkpoint | None,
    last_sequence: int,
    *,
    on_data_loss: str = "fail",
    upgrade: bool = False,
) -> None:
    """Recover the state of `runner` after batch `last_sequence`, the newest committed batch.

    Recovery ends early on a stop request. Retriable errors of sources are retried until success.

    Parameters
    ----------
    runner : runner with an untrained pipeline
    checkpoint : checkpoint to restore; None: replay the journal from its beginning
    on_data_loss : "fail", or "continue": skip batches whose journal entries, records or labels are
        missing, without learning from them
    upgrade : whether batches made by another release or sentence encoder are replayed too

    Raises
    ------
    GapError
        If data is missing and `on_data_loss` is "fail".
    StateError
        If the digest of a batch differs from the journal, or a batch must not be replayed.
    """
    replay = Replay(runner, checkpoint)
    if upgrade and replay.encoders_without_digest:
        replay.is_same = False

    def run_replay() -> None:
        if not upgrade:
            entries = partial(journal_entries, runner.transaction, checkpoint, last_sequence)
            require_same_release(find_other_release_batches(entries(), checkpoint))
            require_same_encoders(entries(), checkpoint, replay.run_environment)
        replay.run(last_sequence)

    try:
        runner.stop.retry_until_success(run_replay, runner.poll_interval)
    except GapError as error:
        first = runner.pipeline.sequence + 1
        if on_data_loss != "continue":
            raise GapError(
                f'{error}. Or set [pipeline] on_data_loss = "continue" to continue without '
                f"learning from batches {first} to {last_sequence}"
            ) from error
        _log.error(
            "%s. The learner continues without the records and labels of batches %d to %d",
            error,
            first,
            last_sequence,
            extra={"event": "batches_lost"},
        )
        replay.skip_batches_up_to(last_sequence)
    runner.stop.retry_until_success(replay.add_changes_to_journal, runner.poll_interval)


@dataclass(slots=True)
class Replay:
    """Replay of journalled batches in a runner."""

    runner: Runner
    checkpoint: Checkpoint | None
    is_same: bool = True
    """Whether digests are compared: all batches so far were made in this environment, by models
    with reproducible results."""
    made_here: bool = True
    """Whether all batches so far were made in this environment."""
    later: Sequence[int] = ()
    """Batches with checkpoints after the replayed ones; a run can start from these checkpoints."""
    _environment: dict[str, str] | None = None
    _gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def run_environment(self) -> dict[str, str]:
        """The environment of this run, with its sentence encoders."""
        return dict(self.runner.about.get("environment") or environment())

    @property
    def encoders_without_digest(self) -> list[str]:
        """Names of the sentence encoders without a digest: functions, which may have changed."""
        features = self.runner.pipeline.learner.features
        return [] if features is None else features.encoders_without_digest

    def run(self, last_sequence: int) -> None:
        """Replay up to batch `last_sequence`; after a retriable error, continue at that batch."""
        pipeline = self.runner.pipeline
        if self.checkpoint is not None and not pipeline.sequence:
            self._check_source_identities(self.checkpoint[1]["identities"])
            self._check_initial_model(self.checkpoint[1].get("origin"))
            self._environment = self.checkpoint[1]["environment"]
            self.runner.restore(*self.checkpoint)
        if last_sequence <= pipeline.sequence:
            return
        _log.info(
            "replaying batches %d to %d",
            pipeline.sequence + 1,
            last_sequence,
            extra={"event": "replay_started"},
        )
        entries = partial(journal_entries, self.runner.transaction, self.checkpoint, last_sequence)
        self._gaps = [entry.gap for entry in entries() if entry.gap is not None]
        for entry in entries():
            if self.runner.stop.requested:
                return
            known = entry.sequence <= pipeline.sequence
            if known or any(first <= entry.sequence <= last for first, last in self._gaps):
                continue
            if entry.gap is not None:
                self.skip_batches_up_to(entry.gap[1])
            if entry.sequence != pipeline.sequence + 1:
                raise self._missing_batches_error(entry.sequence - 1)
            self._replay_entry(entry)
        if pipeline.sequence < last_sequence:
            raise self._missing_batches_error(last_sequence)

    def skip_batches_up_to(self, sequence: int) -> None:
        """Skip the batches up to number `sequence`, and count them as lost."""
        for entry in journal_entries(self.runner.transaction, self.checkpoint, sequence):
            self.runner.intake.set_expected_bookmarks(entry.bookmarks)
        pipeline = self.runner.pipeline
        pipeline.journal_extras.gap = (pipeline.sequence + 1, sequence)
        pipeline.lost_batches += sequence - pipeline.sequence
        pipeline.sequence = sequence

    def add_changes_to_journal(self) -> None:
        """Add changes of environment and source identities to the next journal entry."""
        here, there = self.run_environment, self._environment
        if there != here:
            self.runner.pipeline.journal_extras.environment = here
            if origin := self.runner.about.get("origin"):
                self.runner.pipeline.journal_extras.origin = origin
        if there is not None and there["streamboost"] != here["streamboost"]:
            _log.info(
                "continuing after batch %d of streamboost %s",
                self.runner.pipeline.sequence,
                there["streamboost"],
                extra={"event": "release_changed"},
            )
        found = self._current_source_identities()
        if self.runner.identities != found:
            self.runner.pipeline.journal_extras.identities = self.runner.identities = found

    def _update_environment(self, entry: JournalEntry) -> None:
        """Store the entry's environment; stop comparing digests if it is not this run's."""
        self._environment = entry.environment or self._environment
        if self.is_same and self._environment not in (None, self.run_environment):
            self.is_same = self.made_here = False
            _log.warning(
                "batches from %d on were made in another environment (%s): the results of their "
                "replay are not compared",
                entry.sequence,
                describe_differences(self._environment, self.run_environment),
                extra={"event": "environment_changed"},
            )

    def _check_source_identities(self, identities: dict[str, str]) -> None:
        """Store `identities`; raise StateError if one differs, as its topic was recreated."""
        now = self._current_source_identities()
        for name in sorted(identities.keys() & now.keys()):
            if identities[name] != now[name]:
                raise StateError(
                    f"the topic of the {name} was deleted and recreated, so its messages are "
                    "others. Restore the old topic from a copy, or, to read the new topic from "
                    "its beginning, give the pipeline another name and an empty state"
                )
        self.runner.identities = identities

    def _check_initial_model(self, origin: dict[str, str] | None) -> None:
        """Raise StateError if `origin`, from the journal, has another initial committee."""
        ours = self.runner.about.get("origin", {}).get("committee")
        if origin is not None and origin.get("committee") != ours:
            raise StateError(
                f"the committee at [initial_data] committee has the SHA-256 {ours}, but the "
                f"pipeline began with SHA-256 {origin.get('committee')}: restore that committee "
                "from a copy"
            )

    def _current_source_identities(self) -> dict[str, str]:
        journal = self.runner.transaction.input_id
        return self.runner.intake.source_identities() | ({"journal": journal} if journal else {})

    def _replay_entry(self, entry: JournalEntry) -> None:
        pipeline = self.runner.pipeline
        if entry.identities is not None:
            self._check_source_identities(entry.identities)
        self._check_initial_model(entry.origin)
        self._update_environment(entry)
        known = BatchInputs(
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
        inputs = self.runner.intake.reread_batch(known, entry.read)
        for name in ("fields", "rules", "decision"):
            # Replaces the extras that the checkpoint holds for the next batch.
            setattr(pipeline.journal_extras, name, getattr(entry, name))
        try:
            for command in entry.commands:
                if command.version is not None:
                    pipeline.versions.load_into_memory(command.version)
            swap = (
                None
                if entry.swap is None
                else pipeline.learner.trainer.wait_for_training(entry.swap)
            )
        except (DataError, ModelFileError, StateError) as error:
            if self.is_same and not isinstance(error, DataError):
                raise
            raise self._replay_mismatch_error(entry, str(error)) from error
        effects = self.runner.replay_step(inputs, swap)
        if self.is_same and effects.digest != entry.digest:
            models = pipeline.models
            if models is None or models.is_steady():
                raise self._replay_mismatch_error(entry, "the digests differ")
            self.is_same = False
            _log.warning(
                "batch %d: the replay gives another result, as River's models depend on Python's "
                "hash seed: from this batch on, results are not compared",
                entry.sequence,
                extra={"event": "replay_not_compared"},
            )

    def _replay_mismatch_error(self, entry: JournalEntry, reason: str) -> StateError:
        if not self.is_same:
            there = describe_differences(self._environment, self.run_environment)
            return StateError(
                f"batch {entry.sequence} cannot be replayed in this environment ({there}): "
                f"{reason}; run the earlier environment until it stops cleanly, then this one"
            )
        functions = ", ".join(self.encoders_without_digest)
        return StateError(
            f"the replay of batch {entry.sequence} differs from the committed batch: {reason}; "
            "records, labels or journal have changed: restore them from a copy"
            + (
                f". If the encoder {functions} returns other vectors now, replay without comparing "
                "by `streamboost run --upgrade`"
                if functions
                else ""
            )
        )

    def _missing_batches_error(self, last: int) -> GapError:
        first = self.runner.pipeline.sequence + 1
        if later := [sequence for sequence in self.later if sequence >= last]:
            return GapError(
                f"the journal lacks batches {first} to {last}, so that the checkpoint of batch "
                f"{min(later)} cannot be compared with a replay. A run does not need these "
                f"batches: it starts from the checkpoint of batch {max(later)}. To verify all "
                "batches, restore the log from a copy"
            )
        return GapError(
            f"the journal lacks batches {first} to {last}, and there is no checkpoint after them: "
            "restore the log or a checkpoint from a copy"
        )


def snapshot_digest(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> str:
    """Return the SHA-256 (hex) of a snapshot, without manifest keys that only checkpoints have."""
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        if name.startswith("models.") and name.endswith(".pickle"):
            continue  # pickles of equal models may differ
        array = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(array.tobytes())
    for name in ("sequence", "digest", "tick", "dead_letters", "initial_labels", "lost_batches"):
        hashed.update(f"{name} {manifest[name]}\n".encode())
    hashed.update(f"deleted_unread {manifest['deleted_unread']}\n".encode())
    return hashed.hexdigest()
