"""Classes that were merged and dropped, and what labels were before."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamboost.connectors.messages.labels import LabelKind, Labels
from streamboost.connectors.messages.written import DeadLetter
from streamboost.errors import StateError
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import as_label, refuse_unmerged
from streamboost.stream.checks import Label

__all__ = ["Classes", "Restored"]

Restored = dict[str, list[tuple[str | None, Label, Label]]]
"""By records' ids: who gave a label, what it was merged into, and what it is again."""

_FIRST_PRUNED = 1_000
"""Records whose labels were merged that are remembered before any is looked for in vain."""


class Classes:
    """Maps each label to the class that it belongs to now, and remembers what merged ones were.

    >>> classes = Classes()
    >>> classes.obey(Command("merge", label="hgih", into="high"), "string")
    ('hgih', 'high')
    >>> classes.obey(Command("drop", label="spam"), "string")
    ('spam', None)
    >>> classes.now("hgih"), classes.now("low"), classes.now("spam")
    ('high', 'low', None)
    >>> classes.note("7", "ann", "hgih"); classes.undo("hgih")
    {'7': [('ann', 'high', 'hgih')]}
    """

    def __init__(self) -> None:
        self._merged: dict[Label, Label] = {}
        self._dropped: dict[Label, None] = {}
        self._were: dict[str, list[tuple[str | None, Label]]] = {}
        self._most = _FIRST_PRUNED

    @property
    def merged(self) -> list[Label]:
        """The classes that were merged into others."""
        return list(self._merged)

    @property
    def named(self) -> list[Label]:
        """The classes that were merged into others or dropped."""
        return [*self._merged, *self._dropped]

    def copy(self) -> "Classes":
        """Return one of the same classes that has no labels, to try commands on."""
        classes = Classes()
        classes._merged, classes._dropped = {**self._merged}, {**self._dropped}
        return classes

    def now(self, label: Label) -> Label | None:
        """Return the class that a label is of; None: it was dropped."""
        while label in self._merged:
            label = self._merged[label]
        return None if label in self._dropped else label

    def check(self, command: Command, kind: LabelKind | None) -> tuple[Label, Label | None]:
        """Return the class that a command is about, and the one that it becomes, None for none.

        `kind` is what labels are. StateError where the command cannot be obeyed.
        """
        assert command.label is not None
        label = as_label(command.label, kind)
        if command.command == "unmerge":
            refuse_unmerged(label, self._merged)
            return label, label
        if command.command == "merge" and label in self._merged:  # its labels would stay there
            raise StateError(
                f"the class {label!r} is merged into {self._merged[label]!r}: undo this first, "
                "with unmerge"
            )
        into = None
        if command.into is not None:
            into = as_label(command.into, kind)
            known = self.now(into)
            if known is None:
                raise StateError(f"the class {into!r} was dropped: merge into another")
            if known == label:
                raise StateError(f"{into!r} was merged into {label!r} before, and is it now")
            into = known
        return label, into

    def obey(self, command: Command, kind: LabelKind | None) -> tuple[Label, Label | None]:
        """Merge or drop a class, also for labels to come; return what `check` does."""
        label, into = self.check(command, kind)
        self._dropped.pop(label, None)
        self._merged.pop(label, None)
        if into is None:
            self._dropped[label] = None
        else:
            self._merged[label] = into
        return label, into

    def undo(self, label: Label) -> Restored:
        """End the merge of a class; return the labels that are of another class now."""
        given = {raw for pairs in self._were.values() for _, raw in pairs}
        before = {raw: self.now(raw) for raw in given}
        del self._merged[label]
        restored: Restored = {}
        for id, pairs in self._were.items():
            for source, raw in pairs:
                was, now = before[raw], self.now(raw)
                if was is not None and now is not None and was != now:
                    restored.setdefault(id, []).append((source, was, now))
        if not self._merged:
            self._were, self._most = {}, _FIRST_PRUNED
        return restored

    def note(self, id: str, source: str | None, label: Label) -> None:
        """Remember what a label was that `source` gave to a record, if it is of a merged class.

        A label of another class takes the place of the one that the same source gave before.
        """
        if source is not None and id in self._were:
            self._were[id] = [pair for pair in self._were[id] if pair[0] != source]
        if label in self._merged:
            self._were.setdefault(id, []).append((source, label))

    def note_all(self, label: Label, votes: Iterable[tuple[str, str | None]]) -> None:
        """Remember that these labels, given by their records' ids and sources, are of a class.

        The class is about to be merged; labels that were merged into it before are known already.
        """
        known = Counter(
            (id, source)
            for id, pairs in self._were.items()
            for source, raw in pairs
            if self.now(raw) == label
        )
        for id, source in votes:
            if known[id, source]:
                known[id, source] -= 1
            else:
                self._were.setdefault(id, []).append((source, label))

    def forget(self, ids: Iterable[str], waits: Callable[[str], bool]) -> None:
        """Forget the labels of records whose ids others bear from now on.

        Labels for which `waits` approves of an id are those of the new record.
        """
        for id in ids if self._were else ():
            if id in self._were and not waits(id):
                del self._were[id]

    def forget_unknown(self, is_known: Callable[[str], bool]) -> None:
        """Forget labels of records that `is_known` does not approve of, once they are many."""
        if len(self._were) > self._most:
            self._were = {id: pairs for id, pairs in self._were.items() if is_known(id)}
            self._most = max(2 * len(self._were), _FIRST_PRUNED)

    def sort(self, labels: Labels, source: str, time: int) -> tuple[Labels, list[DeadLetter]]:
        """Return labels as they are by now, and dead letters of those whose class was dropped."""
        if not (self._merged or self._dropped):
            return labels, []
        now = [None if label is None else self.now(label) for label in labels.labels]
        gone = [i for i, label in enumerate(labels.labels) if now[i] is None and label is not None]
        dead = []
        for i in gone:
            detail = f"the class {labels.labels[i]!r} was dropped: `streamboost tell` was told so"
            message = labels.messages[i]
            dead.append(DeadLetter.of(message, "dropped_class", detail, source=source, time=time))
        left = [i for i in range(len(labels)) if i not in set(gone)]
        for i in left:
            if (label := labels.labels[i]) is None:
                self._were.pop(labels.ids[i], None)
            else:
                self.note(labels.ids[i], labels.sources[i], label)
        sorted_ = Labels(
            [labels.ids[i] for i in left],
            [now[i] for i in left],
            [labels.times[i] for i in left],
            [labels.sources[i] for i in left],
            [labels.messages[i] for i in left],
            labels.kind,
        )
        return sorted_, dead

    def to_json(self) -> dict[str, Any]:
        """Return all there is, for `restore`."""
        return {
            "merged": list(self._merged.items()),
            "dropped": list(self._dropped),
            "were": self._were,
            "most": self._most,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Classes":
        """Return what `to_json` described."""
        classes = cls()
        classes._merged = dict(state["merged"])
        classes._dropped = dict.fromkeys(state["dropped"])
        were = state["were"]
        classes._were = {id: [(who, label) for who, label in were[id]] for id in were}
        classes._most = state["most"]
        return classes
