"""Copies of checkpoints, and their use to rebuild a lost state folder.

The journal is the write-ahead log of batches. A journal in Kafka survives the loss of the folder.
Its first entry has the schema and configuration of the pipeline. The pipeline replays the journal
from its first entry, or from a copy of a checkpoint, up to the newest batch. A journal in SQLite is
lost with the folder, so the pipeline continues from the newest copy.

The initial committee is stored in the state folder, because a replay needs the same committee.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from streamboost.connectors.base import CommittedBatch, Transaction
from streamboost.connectors.files.rotation import open_regular_file
from streamboost.connectors.sqlite.database import Database, append_payloads
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    GapError,
    ModelFileError,
    StateError,
)
from streamboost.pipelines.app.factories import river_factories_by_section
from streamboost.pipelines.config.compatibility import refuse_incompatible_config
from streamboost.pipelines.config.connectors.base import Endpoint
from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.replay import find_missing_batches, journal_entries
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state import commands
from streamboost.pipelines.state.copies import CheckpointCopy, CopyStore, FolderTarget, RemoteTarget
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from streamboost.storage import decode_sealed_file, write_bytes

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InitialModel:
    """Initial committee (warm start), and the SHA-256 of its file."""

    committee: "Committee"
    digest: str


def load_initial_model(config: Config, state: State) -> InitialModel | None:
    """Return the initial committee of the pipeline; None: no initial committee.

    Raises ConfigurationError if its file cannot be read.
    """
    blob = _load_initial_committee_bytes(config, state)
    if blob is None:
        return None
    from streamboost.boosting.committee import Committee  # which loads the kernels

    where = f"[initial_data] committee = {config.sections.initial_data.committee!r}"
    try:
        arrays, _ = decode_sealed_file(where, blob, kind="committee")
        committee = Committee.from_arrays(arrays)
    except ModelFileError as error:
        raise ConfigurationError(
            f"{where} is not a committee file: {error}; set a file that `committee_.save` wrote"
        ) from error
    return InitialModel(committee, hashlib.sha256(blob).hexdigest())


def save_initial_model(config: Config, state: State, *, state_has_begun: bool) -> None:
    """Copy the file of the initial committee into the folder of `state`.

    If the pipeline has run before (`state_has_begun`), a committee in the folder stays. A warning
    is logged if the file has changed since. Raises ConfigurationError if the file cannot be read.
    """
    named = config.sections.initial_data.committee
    if named is None:
        return
    if not (state_has_begun and state.committee.exists()):
        blob = _read_committee_file(config, named)
        with state.translate_errors():
            write_bytes(state.committee, blob)
        return
    file = config.resolve_path(named)
    if file.is_file() and file.read_bytes() != state.committee.read_bytes():
        _log.warning(
            "%s has changed since the pipeline began; the initial committee in the state is used",
            file,
            extra={"event": "initial_committee_changed"},
        )


def _load_initial_committee_bytes(config: Config, state: State) -> bytes | None:
    named = config.sections.initial_data.committee
    if named is None:
        return None
    with state.translate_errors():
        if state.committee.exists():
            return state.committee.read_bytes()
    return _read_committee_file(config, named)


def _read_committee_file(config: Config, path: str) -> bytes:
    try:
        with open_regular_file(config.resolve_path(path)) as file:
            return file.read()
    except (OSError, ConnectorError) as error:
        raise ConfigurationError(
            f"[initial_data] committee = {path!r} cannot be read: {error}; paths start at the "
            "folder of the pipeline file"
        ) from error


PATIENCE = 60.0
"""Timeout in seconds for the last copy at the end of a run."""

HASTE = 1.5
"""Timeout in seconds after a stop request; the next run makes a missing copy."""

_POLL_INTERVAL = 0.05


def wait_for_thread(thread: Thread, stop: StopToken, patience: float) -> bool:
    """Wait for the end of `thread`, at most `patience` seconds, or `HASTE` after a stop request.

    Returns whether the thread has ended.
    """
    until = time.monotonic() + patience
    while thread.is_alive() and time.monotonic() < until:
        if stop.requested:
            until = min(until, time.monotonic() + HASTE)
            thread.join(max(0.0, until - time.monotonic()))
        else:
            thread.join(_POLL_INTERVAL)
    return not thread.is_alive()


class CheckpointCopier(Observer):
    """Observer with a thread that copies checkpoints, each time the newest one.

    Checkpoints that are replaced by a newer one before their copy begins are not copied.

    Parameters
    ----------
    copies : store that the copies are written to
    read : function from a batch's number to the `CheckpointCopy` of its checkpoint
    notify_error : function that is called between batches with the text of an error
    """

    def __init__(
        self,
        copies: CopyStore,
        read: Callable[[int], CheckpointCopy],
        notify_error: Callable[[str], None],
    ) -> None:
        self._copies = copies
        self._read = read
        self._notify_error = notify_error
        self._changed = Condition()
        self._next_sequence: int | None = None
        self._current_sequence: int | None = None
        self._is_closing = False
        self._error = ""
        self._thread = Thread(
            target=self._copy_checkpoints_until_closed, name="copies", daemon=True
        )
        self._thread.start()

    def schedule_copy(self, sequence: int) -> None:
        """Schedule a copy of the checkpoint of batch `sequence`; it replaces a scheduled copy."""
        with self._changed:
            self._next_sequence = sequence
            self._changed.notify()

    def on_checkpoint(self, now: RecordCountAndBatchTime, manifest: Mapping[str, Any]) -> None:
        """Schedule a copy of a new checkpoint."""
        self.schedule_copy(manifest["sequence"])

    def between_batches(self) -> None:
        """Call `notify_error` if a copy has failed since the previous call."""
        with self._changed:
            trouble, self._error = self._error, ""
        if trouble:
            self._notify_error(trouble)

    def close(self, stop: StopToken) -> None:
        """Wait for the last copy, at most `PATIENCE` seconds, or `HASTE` after a stop request.

        If the copy is not complete by then, `notify_error` is called.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        wait_for_thread(self._thread, stop, PATIENCE)
        with self._changed:
            missing = self._next_sequence or self._current_sequence
            if missing is not None:
                self._record_copy_failure(
                    missing,
                    "the copy did not finish before shutdown. The next run copies the checkpoint",
                )
        self.between_batches()

    def _copy_checkpoints_until_closed(self) -> None:
        while (sequence := self._wait_for_scheduled_batch()) is not None:
            try:
                self._copy_checkpoint(sequence)
            # An uncaught exception would end the thread, and with it all copies, silently.
            except Exception as error:
                with self._changed:
                    is_late = (
                        isinstance(error, FileNotFoundError) and self._next_sequence is not None
                    )
                    if not is_late:  # late: newer checkpoints have replaced the files
                        self._record_copy_failure(sequence, str(error) or repr(error))

    def _wait_for_scheduled_batch(self) -> int | None:
        with self._changed:
            self._current_sequence = None
            while self._next_sequence is None:
                if self._is_closing:
                    return None
                self._changed.wait()
            self._current_sequence, self._next_sequence = self._next_sequence, None
            return self._current_sequence

    def _copy_checkpoint(self, sequence: int) -> None:
        copy = self._read(sequence)
        newest = max(self._copies.sequences, default=0)
        if newest > sequence:
            raise StateError(
                f"there is a copy of the later batch {newest}, from another state: move "
                f"{self._copies.file_name(newest)} away, or set another [pipeline] checkpoint_copy"
            )
        self._copies.write(copy)

    def _record_copy_failure(self, sequence: int, reason: str) -> None:
        self._error = (
            f"the checkpoint of batch {sequence} is not copied to {self._copies.target}: {reason}"
        )


def create_copy_store(config: Config) -> CopyStore | None:
    """Return the store of checkpoint copies; None: no copies are configured.

    Raises ConfigurationError if the package for the protocol of the address is not installed.
    """
    where = config.sections.pipeline.checkpoint_copy
    if where is None:
        return None
    return CopyStore(
        RemoteTarget(where) if "://" in where else FolderTarget(config.resolve_path(where)),
        config.name,
    )


def copy_store_for_rebuild(config: Config) -> CopyStore | None:
    """Return the store of the copies that a rebuild can use.

    None if no copies are configured, or if they contain pickled River models.
    """
    # Pickles of models are only read from the folder in which they were written.
    return None if river_factories_by_section(config) else create_copy_store(config)


@contextmanager
def copy_checkpoints(copies: CopyStore | None, runner: Runner) -> Iterator[None]:
    """Context manager that copies the newest checkpoint, and then each one that `runner` saves."""
    checkpoints, versions = runner.checkpoints, runner.pipeline.versions
    if copies is None or checkpoints is None:
        yield
        return

    def read_copy(sequence: int) -> CheckpointCopy:
        path = checkpoints.path(sequence)
        copy = CheckpointCopy.from_files(str(path), path.read_bytes(), {})
        files = {version: versions.file_path(version) for version in copy.manifest["versions"]}
        return CheckpointCopy(
            copy.checkpoint, {n: file.read_bytes() for n, file in files.items()}, copy.manifest
        )

    def notify_error(text: str) -> None:
        _log.warning("%s", text, extra={"event": "checkpoint_copy_failed"})
        runner.notify_error(text)

    copier = CheckpointCopier(copies, read_copy, notify_error)
    for newest in checkpoints.sequences[:1]:
        copier.schedule_copy(newest)
    runner.observers.append(copier)
    try:
        yield
    finally:
        copier.close(runner.stop)


def refuse_lost_state(
    config: Config, committed: CommittedBatch | None, copies: CopyStore | None
) -> None:
    """Raise StateError if no batch is committed, but a copy of an earlier state exists."""
    if committed is not None or copies is None or not (known := copies.sequences):
        return
    remedy = "If the state folder is lost, continue from this copy by `streamboost run --rebuild`"
    if config.commits_to_kafka:
        remedy = "If the journal's topic was deleted, this copy cannot be used"
    raise StateError(
        f"no batch is committed, but {copies.target} holds a copy of the checkpoint of batch "
        f"{known[0]} of {config.name}. {remedy}. To start with an empty state, move "
        f"{copies.file_name(known[0])} and the other copies of {config.name} away"
    )


def rebuild_state(
    config: Config,
    state: State,
    transaction: Transaction,
    committed: CommittedBatch | None,
    copies: CopyStore | None,
) -> CommittedBatch:
    """Rebuild a lost state folder from the journal or the newest copy of a checkpoint.

    Returns the batch and the source positions to continue from.

    Raises
    ------
    GapError
        If the first entries of the journal were deleted, and no copy exists.
    StateError
        If the folder is not empty, if neither journal nor copy exists, or if they belong to another
        configuration.
    """
    if state.has_files:
        raise StateError(
            f"{state.path} is not empty, but --rebuild needs an empty state folder: run without "
            "--rebuild, or move the folder away first"
        )
    copy = copies.newest() if copies is not None else None
    if isinstance(transaction, SqliteTransaction):
        committed = _committed_batch_of_copy(config, copy, copies)
        origin = _verify_origin_configuration(
            config, state, copy.manifest["origin"] if copy else {}
        )
        transaction.initialize_last_batch(committed)
    else:
        if committed is None:
            raise StateError(
                f"the journal of {config.name} is empty, so the state cannot be rebuilt: run "
                "without --rebuild to start with an empty state"
            )
        begun = (
            _load_origin_from_journal(transaction, copies)
            if copy is None
            else _load_origin_from_copy(config, copy, transaction, committed)
        )
        origin = _verify_origin_configuration(config, state, begun)
    state.restore_copy(origin, copy)
    _restore_command_offset(state, committed)
    made = "the journal"
    if copy is not None and copies is not None:
        copies.rename_newer_copies(copy.sequence)  # damaged, or of another release
        made = f"the copy of batch {copy.sequence} in {copies.target}"
    _log.warning(
        "%s is rebuilt from %s. Lost: %s",
        state.path,
        made,
        _describe_lost_data(config, copy),
        extra={"event": "state_rebuilt"},
    )
    left = {k: v for k, v in committed.positions.items() if k not in _lost_source_names(config)}
    return CommittedBatch(committed.sequence, left)


def _verify_origin_configuration(
    config: Config, state: State, origin: dict[str, str]
) -> dict[str, str]:
    """Return `origin` (schema, configuration, fingerprint) if it was written for `config`.

    Raises StateError if the fingerprint is that of another configuration.
    """
    refuse_incompatible_config(config, state, origin["fingerprint"], origin["configuration"])
    return origin


def _committed_batch_of_copy(
    config: Config, copy: CheckpointCopy | None, copies: CopyStore | None
) -> CommittedBatch:
    """Return the batch of a copy, without the positions of sources lost with the state folder."""
    if copy is None:
        which = "[pipeline] checkpoint_copy is not set"
        if copies is not None:
            which = f"{copies.target} contains no readable checkpoint copy"
        elif config.sections.pipeline.checkpoint_copy is not None:
            which = (
                "the copies at [pipeline] checkpoint_copy contain River models as pickles, which "
                "a rebuild does not read"
            )
        raise StateError(
            f"cannot rebuild the state of {config.name}: the journal was lost with the state "
            f"folder, and {which}. Run without --rebuild to start with an empty state"
        )
    left = {
        k: v for k, v in copy.manifest["positions"].items() if k not in _lost_source_names(config)
    }
    return CommittedBatch(copy.sequence, left)


def _load_origin_from_journal(transaction: Transaction, copies: CopyStore | None) -> dict[str, str]:
    """Return `origin` of the journal's first entry; GapError if this entry was deleted."""
    first, message = next(transaction.read_journal(), (0, b""))
    if first > 1:
        remedy = "set [pipeline] checkpoint_copy to the location of a copy"
        if copies is not None:
            remedy = f"put a checkpoint copy into {copies.target}, which has no readable copy"
        raise GapError(
            f"the journal begins with batch {first}, so that earlier batches cannot be "
            f"replayed: {remedy}"
        )
    origin = JournalEntry.decode(message).origin
    assert origin is not None, "the first entry has the data to rebuild a state folder"
    return origin


def _load_origin_from_copy(
    config: Config, copy: CheckpointCopy, transaction: Transaction, committed: CommittedBatch
) -> dict[str, str]:
    """Return `origin` (schema, configuration, fingerprint) of a checkpoint's copy.

    Raises StateError if the copy belongs to another journal, and GapError if the journal lacks
    batches after the copy, unless [pipeline] on_data_loss is "continue".
    """
    sequence = copy.sequence
    found = next(iter(transaction.read_journal(sequence - 1)), None)
    is_gone = found is not None and found[0] > sequence
    digest = JournalEntry.decode(found[1]).digest if found is not None and not is_gone else ""
    # A state that gave up the batches before its checkpoint has the digest of an earlier batch.
    is_comparable = not is_gone and not copy.manifest["journal_extras"].get("gap")
    if sequence > committed.sequence or (is_comparable and digest != copy.manifest["digest"]):
        raise StateError(
            f"the copy of batch {sequence} does not belong to this journal, which ends with batch "
            f"{committed.sequence}: set [pipeline] checkpoint_copy to the location of this "
            "pipeline's copies, or delete the key to replay from the journal's beginning"
        )
    entries = journal_entries(transaction, ({}, copy.manifest), committed.sequence)
    lost = find_missing_batches(entries, sequence, committed.sequence)
    if lost is not None and config.sections.pipeline.on_data_loss != "continue":
        raise GapError(
            f"the newest readable copy is of batch {sequence}, and the journal lacks batches "
            f"{lost[0]} to {lost[1]}: restore a newer copy, or set [pipeline] on_data_loss = "
            f'"continue" to continue without learning from batches {lost[0]} to '
            f"{committed.sequence}"
        )
    origin: dict[str, str] = copy.manifest["origin"]
    return origin


def _lost_source_names(config: Config) -> set[str]:
    """Return the names of the sources that were streams of log.db in the lost state folder.

    Their messages are lost, so these sources are read from the beginning.
    """
    sections = config.sections
    asked = getattr(sections, next(iter(sections.labels.outputs_read_by_oracle), "labels"))
    read: dict[str, Endpoint] = {"records": sections.source, "labels": asked}
    return {name for name, section in read.items() if _is_stored_in_state_log(config, section)}


def _restore_command_offset(state: State, committed: CommittedBatch) -> None:
    """Create the command queue so that its next offset is the committed position of commands."""
    read = committed.positions.get("commands", {}).get("0", 0)
    with (
        closing(Database(state.path / commands.FILE)) as queue,
        queue.write_transaction() as connection,
    ):
        append_payloads(connection, commands.STREAM, [b""])
        connection.execute(f'DELETE FROM "{commands.STREAM}"')
        last = (read - 1, commands.STREAM)
        connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", last)


def _is_stored_in_state_log(config: Config, section: Endpoint) -> bool:
    place = section.location(config.connector_context)
    return place is not None and place.system == os.path.realpath(config.connector_context.log)


def _describe_lost_data(config: Config, copy: CheckpointCopy | None) -> str:
    lost = (
        "queued commands, the history in status.db, the annotators of labels (labelling.db), Label "
        "Studio's tasks (label_studio.db) and the tokens"
    )
    if copy is not None and not config.commits_to_kafka:
        again = sorted({"records", "labels"} - _lost_source_names(config))
        lost += (
            ", the streams of log.db, and the predictions, requests and learning after batch "
            f"{copy.sequence}. After this batch, {' and '.join(again) or 'no messages'} are read "
            "again, and earlier requests are not counted in the budget"
        )
    return lost
