"""What a state folder says about its pipeline."""

from contextlib import closing
from pathlib import Path
from typing import Any

from streamboost.connectors.sqlite import SqliteTransaction
from streamboost.errors import StateError
from streamboost.pipelines.state import State

__all__ = ["describe", "in_words"]


def describe(path: Path) -> dict[str, Any]:
    """Return what is known of the pipeline whose state is at `path`, as JSON can hold it.

    `sequence` and `positions` are those of the newest committed batch. What stands under
    `snapshot` is as of the last orderly stop, whose batch it names.
    """
    state = State(path)
    name = state.name()
    if name is None:
        raise StateError(
            f"{path} is not the state folder of a pipeline: name the folder that [pipeline] state "
            "of its file names"
        )
    with closing(SqliteTransaction(state.log, name)) as transaction:
        committed = transaction.committed()
    saved = state.load()
    return {
        "name": name,
        "running": state.is_running(),
        "sequence": committed.sequence if committed else 0,
        "positions": committed.positions if committed else {},
        "snapshot": saved[1] if saved else None,
    }


def in_words(found: dict[str, Any]) -> str:
    """Return what `describe` found, for a person to read."""
    running = "running" if found["running"] else "not running"
    lines = [f"pipeline {found['name']}: {running}, {found['sequence']} batches committed"]
    for source, position in found["positions"].items():
        place = ", ".join(f"partition {p}: {offset}" for p, offset in position.items())
        lines.append(f"  {source:<12} go on at {place}")
    snapshot = found["snapshot"]
    if snapshot is None:
        return "\n".join([*lines, "no snapshot: it has not yet stopped in an orderly way"])
    lines.append(f"as of the snapshot of batch {snapshot['sequence']}:")
    for part in ("committee", "ledger", "join"):
        counts = ", ".join(f"{_plain(k)} {_number(v)}" for k, v in snapshot[part].items())
        lines.append(f"  {part:<12} {counts}")
    if snapshot["sequence"] != found["sequence"] and not found["running"]:
        lines.append(
            "the last run did not stop in an orderly way: its state cannot be gone on from"
        )
    return "\n".join(lines)


def _plain(key: str) -> str:
    return key.replace("_", " ")


def _number(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)
