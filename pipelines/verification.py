"""Proving a state: replaying the journal must end in the same bits."""

from contextlib import closing

from streamboost.errors import StateError
from streamboost.pipelines.assembly import build_pipeline
from streamboost.pipelines.checkpoint import Checkpoint
from streamboost.pipelines.config import Config
from streamboost.pipelines.connections import connect
from streamboost.pipelines.damage import refuse_damage
from streamboost.pipelines.recovery import Replay, digest_of
from streamboost.pipelines.state import State

__all__ = ["verify"]


def verify(config: Config) -> str:
    """Replay the journal up to the newest checkpoint and compare the two, writing nothing.

    It begins at the journal's beginning where that is still there, else at the oldest checkpoint.
    The pipeline may be running meanwhile. Returns what was found to hold.

    Raises
    ------
    GapError
        When there is nothing to replay from.
    StateError
        When the log is damaged, a batch or the state does not come out as it did, or was made in
        another environment.
    """
    state = State(config.state)
    newest, schema = state.checkpoints.newest(), state.schema()
    if newest is None or schema is None:
        raise StateError(f"{state.path}: there is no checkpoint to verify: run the pipeline first")
    refuse_damage(state.log)
    until = newest[1]["sequence"]
    with closing(connect(config, state.log)) as connectors:
        first = next(connectors.transaction.journal(), (0, b""))[0]
        start = None if first == 1 else _oldest(state)
        begin = start[1]["sequence"] if start else 0
        pipeline = build_pipeline(config, state, schema, connectors)
        replay = Replay(pipeline, start)
        replay.run(until)
        found, expected = digest_of(*pipeline.snapshot()), digest_of(*newest)
    if not replay.is_same:
        raise StateError(
            f"{state.path}: not all of it was made with these releases on this processor, so that "
            "nothing can be said of its bits; verify it where it was made"
        )
    if found != expected:
        raise StateError(
            f"{state.path}: replaying batches {begin + 1} to {until} ends in another state than "
            f"the checkpoint of batch {until}: {found} instead of {expected}"
        )
    return f"batches {begin + 1} to {until} replayed: bit for bit the checkpoint's state {found}"


def _oldest(state: State) -> Checkpoint:
    return state.checkpoints.load(state.checkpoints.sequences[-1])
