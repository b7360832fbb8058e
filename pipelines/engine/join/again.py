"""Labels of records that have one: what a join does about them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamboost.pipelines.engine.join.classes import Restored
from streamboost.pipelines.engine.join.held_records import Label
from streamboost.pipelines.engine.join.joined import Gone, Joined, Learned

if TYPE_CHECKING:
    from streamboost.pipelines.engine.join.join import Join

__all__ = ["labels_of", "rename", "restore_classes", "take_again", "wait_again"]


def take_again(
    join: "Join",
    joined: Joined,
    id: str,
    label: Label | None,
    source: str | None,
    learned: Learned,
    known: Label,
) -> None:
    """Take in another label of a record whose label was `known`, if only here."""
    counts, rule = join.counts, learned.on_conflict
    _close_again(join, id)
    standing = known if id in joined.ids else learned.label_of(id)
    is_same = label == (known if standing is None else standing)
    if standing is None or rule is None:
        kind = "void" if label is None else "duplicate" if is_same else "conflicting"
        setattr(counts, kind, getattr(counts, kind) + 1)
        return
    joined.take_again(id, label, source, join.held_values(id))
    if label is None:
        counts.taken_back += 1
    elif is_same:
        counts.duplicate += 1
    elif rule == "first":
        counts.conflicting += 1
        return
    else:
        counts.corrected += 1
    _answer(join, id, label)


def wait_again(
    join: "Join", id: str, label: Label | None, source: str | None, learned: Learned
) -> None:
    """Take in another label of a record for which one waits."""
    if label is None:
        del join._waiting[id]
        join.counts.taken_back += 1
        join.counts.void += 1
    elif label == join._waiting[id].label:
        join.counts.duplicate += 1
    elif learned.on_conflict == "last":
        join._waiting[id] = join._waiting[id]._replace(label=label, source=source)
        join.counts.corrected += 1
    else:
        join.counts.conflicting += 1


def rename(join: "Join", to: Callable[[Label], Label | None]) -> None:
    """Let the labels that are known, or wait, be what `to` has them be; None: nobody's."""
    answers = {id: to(label) for id, label in join._answers.items()}
    join._answers = {id: label for id, label in answers.items() if label is not None}
    for id, gone in join._gone.items():
        if gone.label is not None:
            join._gone[id] = gone._replace(label=to(gone.label))
    for id, waiting in list(join._waiting.items()):
        if (label := to(waiting.label)) is None:
            del join._waiting[id]
            join.counts.unknown += 1
        else:
            join._waiting[id] = waiting._replace(label=label)


def labels_of(join: "Join", label: Label, learned: Learned) -> list[tuple[str, str | None]]:
    """Return ids and sources of the labels of a class that wait, or are known here alone."""
    found = [(id, one.source) for id, one in join._waiting.items() if one.label == label]
    here = join._answers | {id: gone.label for id, gone in join._gone.items()}
    alone = [id for id, one in here.items() if one == label and learned.label_of(id) is None]
    return [*found, *((id, None) for id in alone)]


def restore_classes(join: "Join", restored: Restored, learned: Learned) -> None:
    """Give labels back the classes they had before a merge that is undone."""
    for id, changes in restored.items():
        source, was, now = changes[-1]
        waiting, known = join._waiting.get(id), join._known(id)
        if waiting is not None and (waiting.source, waiting.label) == (source, was):
            join._waiting[id] = waiting._replace(label=now)
        elif known is not None:
            label = learned.label_of(id)
            _answer(join, id, label if label is not None else now if known == was else known)


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
    elif id in join._answers:
        join._answers[id] = label
