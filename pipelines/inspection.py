"""What a state folder says about its pipeline."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from streamboost.connectors.sqlite import SqliteTransaction
from streamboost.errors import StateError
from streamboost.pipelines import figures
from streamboost.pipelines.state import State

__all__ = ["describe", "in_words"]

_WORDS = {
    "committee": {
        "labels": "labels learned",
        "version": "of the committee that serves",
        "rounds": "of boosting in it",
        "trees": "in it",
        "classes": "it tells apart",
        "running": "the version that is being trained",
        "challenger": "the version that is judged before it may serve",
        "paused": "yes: nothing is trained, and the committee stays",
    },
    "ledger": {
        "requests": "labels asked for",
        "audits": "of them at random",
        "answered": "of them learned",
        "expired": "of them given up",
        "tokens": "labels that could still be asked for",
    },
    "join": {
        "records": "predicted",
        "duplicate_ids": "records whose id was held already (dead letters)",
        "labels": "labels that came",
        "answered": "labels that answered a request (learned)",
        "unasked": "labels that came without a request (learned)",
        "early": "labels that came before their record",
        "late": "labels that came after their record had left the join window (dropped)",
        "expired": "labels that came after their request had expired (dropped)",
        "duplicate": "labels that came again with the same value (dropped)",
        "conflicting": "labels that came again with another value (dropped: the first stays)",
        "unknown": "labels whose record never came (dropped)",
        "held_records": "records kept for labels to come",
        "open_requests": "requests that wait for an answer",
        "waiting_labels": "labels that wait for their record",
    },
}
_TITLES = {"committee": "learner", "ledger": "budget", "join": "records and labels"}


def describe(path: Path) -> dict[str, Any]:
    """Return what is known of the pipeline whose state is at `path`, as JSON can hold it.

    `sequence` and `positions` are those of the newest committed batch, `units` what the positions
    count. What stands under `checkpoint` is as of the newest one, whose batch it names.
    """
    state = State(path)
    name = state.name()
    if name is None:
        raise StateError(
            f"{path} is not the state folder of a pipeline: name the folder that [pipeline] state "
            "of its file names, or the file"
        )
    with closing(SqliteTransaction(state.log, name)) as transaction:
        committed = transaction.committed()
    saved = state.checkpoints.newest()
    return {
        "name": name,
        "running": state.is_running(),
        "sequence": committed.sequence if committed else 0,
        "positions": committed.positions if committed else {},
        "units": state.units(),
        "checkpoint": saved[1] if saved else None,
    }


def in_words(found: dict[str, Any]) -> str:
    """Return what `describe` found, for a person to read."""
    running = "running" if found["running"] else "not running"
    sequence, checkpoint = found["sequence"], found["checkpoint"]
    lines = [f"pipeline {found['name']}: {running}, {_many(sequence, 'batch')} committed"]
    if not sequence and checkpoint is None:
        return "\n".join([*lines, "nothing has been read yet"])
    for source, position in found["positions"].items():
        unit = found["units"].get(source, "records")
        if source in ("commands", "bootstrap") and not any(position.values()):
            continue
        for partition, offset in position.items():
            place = f", partition {partition}" if len(position) > 1 else ""
            lines.append(f"{source + place:<16} goes on after {offset:,} {unit}")
    if checkpoint is None:
        return "\n".join([*lines, "no checkpoint yet: a restart replays from the beginning"])
    behind = sequence - checkpoint["sequence"]
    ago = f", {_many(behind, 'batch')} ago (a restart replays from there)" if behind else ""
    lines.append(f"as of the checkpoint of batch {checkpoint['sequence']}{ago}:")
    lines += _counters(checkpoint)
    lines += figures.in_words(checkpoint["evaluation"])
    if versions := checkpoint["versions"]:
        lines.append(f"  versions kept    {' '.join(map(str, versions))}")
    if checkpoint["lost_batches"]:
        lines.append(f"  lost             {_many(checkpoint['lost_batches'], 'batch')} of labels")
    return "\n".join(lines)


def _counters(checkpoint: Mapping[str, Any]) -> Iterator[str]:
    for part, words in _WORDS.items():
        rows = [(key, checkpoint[part].get(key, 0), text) for key, text in words.items()]
        if part == "ledger":
            text = "labels known beforehand (learned; they cost nothing)"
            rows.append(("bootstrapped", checkpoint["bootstrapped"], text))
        if part == "join":
            rows.append(("dead_letters", checkpoint["dead_letters"], "messages not usable"))
        rows = [row for row in rows if row[1]]
        if rows:
            yield f"  {_TITLES[part]}"
        for key, value, text in rows:
            yield f"    {key.replace('_', ' '):<15} {value:>10,.10g}  {text}"


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}es"
