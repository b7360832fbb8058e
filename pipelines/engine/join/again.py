"""Second labels of records that have one, or had one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamboost.pipelines.engine.join.classes import Restored
from streamboost.pipelines.engine.join.held_records import Label
from streamboost.pipelines.engine.join.joined import Gone, Joined, Learned, Waiting, WaitingLabels

if TYPE_CHECKING:
    from streamboost.pipelines.engine.join.join import Join

__all__ = ["drop_again", "labels_of", "rename", "restore_classes", "take_again"]


def take_again(
    join: "Join",
    joined: Joined,
    id: str,
    label: Label | None,
    source: str | None,
    learned: Learned,
) -> None:
    """Apply another label to a record that the learner has, or will have after this batch.

    `standing` is the record's label in the learner; None: the label was taken back.
    """
    counts, rule = join.counts, learned.on_conflict
    _close_again(join, id)
    standing = joined.standing[id] if id in joined.standing else learned.label_of(id)
    if label is None and standing is None:
        counts.void += 1
        return
    joined.take_again(id, label, source, join.held_values(id))
    if label is None:
        counts.taken_back += 1
    elif label == standing:
        counts.duplicate += 1
    elif standing is not None and rule == "first":
        counts.conflicting += 1
        return
    else:
        counts.corrected += 1
    joined.standing[id] = label
    _answer(join, id, label)


def drop_again(join: "Join", id: str, label: Label | None, known: Label) -> None:
    """Count another label of a record whose label was `known`, and which the learner lacks."""
    _close_again(join, id)
    kind = "void" if label is None else "duplicate" if label == known else "conflicting"
    setattr(join.counts, kind, getattr(join.counts, kind) + 1)


def rename(join: "Join", to: Callable[[Label], Label | None]) -> None:
    """Let the labels that are known, or wait, be what `to` has them be; None: nobody's."""
    answers = {id: to(label) for id, label in join._answers.items()}
    join._answers = {id: label for id, label in answers.items() if label is not None}
    for id, gone in join._gone.items():
        if gone.label is not None:
            join._gone[id] = gone._replace(label=to(gone.label))
    renamed = [(one, to(one.label)) for one in join._waiting]
    kept = [one._replace(label=label) for one, label in renamed if label is not None]
    join.counts.unknown += len(renamed) - len(kept)
    join._waiting = WaitingLabels(kept)


def labels_of(join: "Join", label: Label, learned: Learned) -> list[tuple[str, str | None]]:
    """Return ids and sources of the labels of a class that wait, or are known here alone."""
    found = [(one.id, one.source) for one in join._waiting if one.label == label]
    here = join._answers | {id: gone.label for id, gone in join._gone.items()}
    alone = [id for id, one in here.items() if one == label and learned.label_of(id) is None]
    return [*found, *((id, None) for id in alone)]


def restore_classes(join: "Join", restored: Restored, learned: Learned) -> None:
    """Give labels back the classes they had before a merge that is undone."""
    waiting = [_given_back(one, restored) for one in join._waiting]
    join._waiting = WaitingLabels(waiting)
    for id, changes in restored.items():
        _, was, now = changes[-1]
        known = join._known(id)
        if id not in join._waiting and known is not None:
            label = learned.label_of(id)
            _answer(join, id, label if label is not None else now if known == was else known)


def _given_back(one: Waiting, restored: Restored) -> Waiting:
    for source, was, now in reversed(restored.get(one.id, ())):
        if (one.source, one.label) == (source, was):
            return one._replace(label=now)
    return one


def _close_again(join: "Join", id: str) -> None:
    """Let a record go on that was asked about again, if it was, as one that was not."""
    if join._requests.pop(id, None) and join._pinned.pop(id, None):
        join._gone[id] = Gone(join._held_at, join._answers.pop(id), expired=False)


def _answer(join: "Join", id: str, label: Label | None) -> None:
    """Remember another label of a record that had one; None: it has none."""
    if id in join._gone:
        join._gone[id] = join._gone[id]._replace(label=label)
    elif label is None:
        join._answers.pop(id, None)
    elif id in join._window:
        join._answers[id] = label
