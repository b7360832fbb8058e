"""What a state folder, and the systems it is about, say of a pipeline."""

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from streamboost.connectors.base import Committed
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError, StateError, UnavailableError
from streamboost.pipelines.config.binding import commits_to_kafka, name_of, units
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.job.connect import Connectors, connect
from streamboost.pipelines.monitoring.last_error import last_trouble
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry

__all__ = ["describe"]


def describe(path: Path, config: Config | None = None) -> dict[str, Any]:
    """Return what is known of the pipeline whose state is at `path`, as JSON can hold it.

    `sequence` and `positions` are those of the newest committed batch, `units` what the positions
    count. `apart`: the records are scorers' entries of progress, and the learner counts those asked
    about alone. `lag` is how much there is beyond these, in bytes or messages, where `config`, the
    pipeline's, is given and its sources can tell. What stands under `checkpoint` is as of the
    newest one, whose batch it names; `last_error` is what went wrong last, in this run or an
    earlier one. `unknown` says why something could not be asked: "lag", and "committed" where a
    broker holds the journal; `sequence` and `positions` are the checkpoint's then.
    """
    state = State(path)
    name = name_of(state)
    if name is None and config is not None:
        raise StateError(f"{path}: pipeline {config.name} has not begun: `streamboost run` does")
    if name is None:
        raise StateError(
            f"{path} is not the state folder of a pipeline: name the folder that [pipeline] state "
            "of its file names, or the file"
        )
    saved = state.checkpoints.newest()
    manifest = saved[1] if saved else None
    if config is not None:
        committed, lag, unknown = _asked(config, manifest)
    elif commits_to_kafka(state):
        raise StateError(
            f"{path} is the state of a pipeline whose journal is in Kafka: name its pipeline file"
        )
    else:
        lag, unknown = {}, {}
        with closing(SqliteTransaction(state.log, name)) as transaction:
            committed = transaction.committed()
    trouble = last_trouble(state.last_error)
    return {
        "name": name,
        "running": state.is_running(),
        "apart": config is not None and config.scores_apart,
        "sequence": committed.sequence if committed else 0,
        "positions": committed.positions if committed else {},
        "units": units(state),
        "lag": lag,
        "unknown": unknown,
        "last_error": None if trouble is None else msgspec.structs.asdict(trouble),
        "checkpoint": manifest,
    }


def _asked(
    config: Config, manifest: dict[str, Any] | None
) -> tuple[Committed | None, dict[str, int], dict[str, str]]:
    """Return the newest batch, how much there is beyond it, and why something is not known.

    Where the journal cannot be asked, it is the batch of the newest checkpoint, whose `manifest` is
    given.
    """
    unknown: dict[str, str] = {}
    with closing(connect(config)) as connectors:
        try:
            committed = connectors.transaction.committed()
            marks = _bookmarks(connectors, committed, manifest)
            return committed, _lag(connectors, committed, marks, unknown), unknown
        except UnavailableError as error:
            unknown = dict.fromkeys(("committed", "lag"), str(error))
    known = Committed(manifest["sequence"], manifest["positions"]) if manifest else None
    return known, {}, unknown


def _bookmarks(
    connectors: Connectors, committed: Committed | None, manifest: dict[str, Any] | None
) -> dict[str, str]:
    """Return the bookmarks of the sources after the newest batch, by source.

    The journal has those that changed after the newest checkpoint.
    """
    marks: dict[str, str] = manifest["bookmarks"] if manifest else {}
    after = manifest["sequence"] if manifest else 0
    if committed is not None and committed.sequence > after and (marks or not after):
        for _, message in connectors.transaction.journal(after):
            marks = marks | JournalEntry.decode(message).bookmarks
    return marks


def _lag(
    connectors: Connectors,
    committed: Committed | None,
    marks: dict[str, str],
    unknown: dict[str, str],
) -> dict[str, int]:
    """Return how much there is beyond what is committed, by source, in messages or bytes.

    Where a source cannot be asked, `unknown` is told why.
    """
    positions = committed.positions if committed else {}
    lag = {}
    for name, source in (("records", connectors.records), ("labels", connectors.labels)):
        if not source.replays:
            continue
        try:
            if name in marks:
                source.expect(marks[name])
            source.seek(positions.get(name, {}))
            messages = source.lag()
        except ConnectorError as error:
            unknown["lag"] = str(error)
            break  # the other is likely to be as long in vain
        if messages is not None:
            lag[name] = messages
    return lag
