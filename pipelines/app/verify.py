"""Verification of a state: compares the newest checkpoint with the result of a replay."""

from contextlib import closing

from streamboost.connectors.base import Transaction
from streamboost.connectors.messages.schema import Schema
from streamboost.environment import environment
from streamboost.errors import GapError, StateError
from streamboost.pipelines.app.connect import Connectors, create_connectors
from streamboost.pipelines.app.run import build_runner
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.replay import (
    OtherReleaseBatches,
    Replay,
    find_other_release_batches,
    journal_entries,
    snapshot_digest,
)
from streamboost.pipelines.state.checkpoints import Checkpoint
from streamboost.pipelines.state.damage import refuse_damaged_log
from streamboost.pipelines.state.folder import State


def verify_replay(config: Config) -> str:
    """Replay the journal to the newest checkpoint, and compare the states; write nothing.

    The replay starts at the beginning of the journal or, if its first entries were deleted, at the
    oldest checkpoint.
    If another release of streamboost made some batches, the replay starts at the oldest checkpoint
    after these batches. The pipeline may run at the same time: if it deletes journal entries that
    the replay needs, the replay starts again. Returns a text with the result.

    Raises
    ------
    GapError
        If journal entries are missing.
    StateError
        If the log is damaged, if a batch or the state differs, or if the state was made in another
        environment.
    """
    state = State(config.state)
    while True:
        newest, schema = state.checkpoints.newest(), state.schema()
        if newest is None or schema is None:
            raise StateError(
                f"{state.path}: there is no checkpoint to verify: run the pipeline first"
            )
        refuse_damaged_log(state.log)
        with closing(create_connectors(config)) as connectors:
            first = _first_journal_batch(connectors.transaction)
            try:
                return _replay_and_compare(config, schema, newest, connectors, first)
            except GapError:
                if _first_journal_batch(connectors.transaction) == first:
                    raise


def _replay_and_compare(
    config: Config, schema: Schema, newest: Checkpoint, connectors: Connectors, first: int
) -> str:
    """Replay a journal whose first batch is `first`; compare the state with `newest`."""
    state, until = State(config.state), newest[1]["sequence"]
    start = None if first == 1 else _oldest_checkpoint(state)
    foreign = find_other_release_batches(
        journal_entries(connectors.transaction, start, until), start
    )
    if foreign is not None:
        _refuse_unverifiable_batches(foreign, until)
        start = _oldest_checkpoint(state, foreign.last)
    begin = start[1]["sequence"] if start else 0
    runner = build_runner(config, state, schema, connectors)
    replay = Replay(runner, start, later=state.checkpoints.sequences)
    replay.run(until)
    found, expected = snapshot_digest(*runner.snapshot()), snapshot_digest(*newest)
    if not replay.is_same and replay.made_here:
        return (
            f"batches {begin + 1} to {until} are replayed, but not compared: River's models "
            "depend on the seed of Python's hashes, see `streamboost check`"
        )
    if not replay.is_same:
        raise StateError(
            f"{state.path}: some batches were made with other releases or on another processor, so "
            "that results cannot be compared: verify the state in that environment"
        )
    if found != expected:
        raise StateError(
            f"{state.path}: replaying batches {begin + 1} to {until} ends in another state than "
            f"the checkpoint of batch {until}: {found} instead of {expected}"
        )
    if begin == until:
        said = f"there is no batch to replay: the only checkpoint is that of batch {until}"
    else:
        said = (
            f"batches {begin + 1} to {until} replayed: bit for bit the checkpoint's state {found}"
        )
    if foreign is None:
        return said
    return f"batches {foreign} and cannot be compared; {said}"


def _first_journal_batch(transaction: Transaction) -> int:
    """Return the number of the first batch in the journal; 0 for an empty journal."""
    return next(transaction.read_journal(), (0, b""))[0]


def _oldest_checkpoint(state: State, min_batch: int = 0) -> Checkpoint:
    return state.checkpoints.load(min(n for n in state.checkpoints.sequences if n >= min_batch))


def _refuse_unverifiable_batches(foreign: OtherReleaseBatches, last_batch: int) -> None:
    if foreign.last >= last_batch:
        raise StateError(
            f"batches {foreign}, and cannot be compared in {environment()['streamboost']}: verify "
            "them with that release, or verify again after this release has made a batch"
        )
