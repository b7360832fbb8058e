"""Mapping of labels to current classes after merges and drops, with the original labels."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamboost.checks import Label
from streamboost.connectors.messages.labels import LabelKind, Labels
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.errors import StateError
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import refuse_unmerged_class, to_label

__all__ = ["LabelMapping", "Restored"]

Restored = dict[str, list[tuple[str | None, Label, Label]]]
"""By record id: tuples of a label's source, its merged class, and its restored class."""

_FIRST_PRUNED = 1_000
"""Number of records with merged labels at which records unknown to the pipeline are pruned."""


class LabelMapping:
    """Mapping of each label to its current class, with the original labels of merged classes.

    >>> classes = LabelMapping()
    >>> classes.apply_class_command(Command("merge", label="hgih", into="high"), "string")
    ('hgih', 'high')
    >>> classes.apply_class_command(Command("drop", label="spam"), "string")
    ('spam', None)
    >>> [classes.current_class(label) for label in ("hgih", "low", "spam")]
    ['high', 'low', None]
    >>> classes.add_original_label("7", "ann", "hgih"); classes.unmerge("hgih")
    {'7': [('ann', 'high', 'hgih')]}
    """

    def __init__(self) -> None:
        self._merged_into: dict[Label, Label] = {}
        self._dropped: dict[Label, None] = {}
        self._originals: dict[str, list[tuple[str | None, Label]]] = {}
        self._most = _FIRST_PRUNED

    @property
    def merged_classes(self) -> list[Label]:
        """The classes that were merged into others."""
        return list(self._merged_into)

    @property
    def removed_classes(self) -> list[Label]:
        """The classes that were merged into others or dropped."""
        return [*self._merged_into, *self._dropped]

    def copy(self) -> "LabelMapping":
        """Return a copy without original labels, to validate commands."""
        classes = LabelMapping()
        classes._merged_into, classes._dropped = {**self._merged_into}, {**self._dropped}
        return classes

    def current_class(self, label: Label) -> Label | None:
        """Return the current class of a label; None: the class was dropped."""
        while label in self._merged_into:
            label = self._merged_into[label]
        return None if label in self._dropped else label

    def resolve_command_classes(
        self, command: Command, label_type: LabelKind | None
    ) -> tuple[Label, Label | None]:
        """Validate a class command; return its class and the target class (None for a drop).

        Raises StateError if the command cannot be applied.
        """
        assert command.label is not None
        label = to_label(command.label, label_type)
        if command.command == "unmerge":
            refuse_unmerged_class(label, self._merged_into)
            return label, label
        if command.command == "merge" and label in self._merged_into:  # its labels would stay there
            raise StateError(
                f"the class {label!r} is merged into {self._merged_into[label]!r}: undo this "
                "first, with unmerge"
            )
        into = None
        if command.into is not None:
            into = to_label(command.into, label_type)
            known = self.current_class(into)
            if known is None:
                raise StateError(f"the class {into!r} was dropped: merge into another")
            if known == label:
                raise StateError(f"{into!r} was merged into {label!r} before, and is it now")
            into = known
        return label, into

    def apply_class_command(
        self, command: Command, label_type: LabelKind | None
    ) -> tuple[Label, Label | None]:
        """Merge or drop a class, for future labels too; return class and target class (or None)."""
        label, into = self.resolve_command_classes(command, label_type)
        self._dropped.pop(label, None)
        self._merged_into.pop(label, None)
        if into is None:
            self._dropped[label] = None
        else:
            self._merged_into[label] = into
        return label, into

    def unmerge(self, label: Label) -> Restored:
        """Undo the merge of a class; return the changed labels, by record id.

        A changed label is a tuple: source, class after the merge, and restored class.
        """
        given = {raw for pairs in self._originals.values() for _, raw in pairs}
        before = {raw: self.current_class(raw) for raw in given}
        del self._merged_into[label]
        restored: Restored = {}
        for id, pairs in self._originals.items():
            for source, raw in pairs:
                was, now = before[raw], self.current_class(raw)
                if was is not None and now is not None and was != now:
                    restored.setdefault(id, []).append((source, was, now))
        if not self._merged_into:
            self._originals, self._most = {}, _FIRST_PRUNED
        return restored

    def add_original_label(self, id: str, source: str | None, label: Label) -> None:
        """Store the original label that `source` gave to a record, if its class is merged.

        An earlier label of the same source is removed.
        """
        if source is not None and id in self._originals:
            self._originals[id] = [pair for pair in self._originals[id] if pair[0] != source]
        if label in self._merged_into:
            self._originals.setdefault(id, []).append((source, label))

    def add_original_labels(self, label: Label, votes: Iterable[tuple[str, str | None]]) -> None:
        """Store `label` as the original label of records, before its class is merged.

        `votes` are pairs of record id and source. Labels that were merged into the class earlier
        are stored already, and are skipped.
        """
        known = Counter(
            (id, source)
            for id, pairs in self._originals.items()
            for source, raw in pairs
            if self.current_class(raw) == label
        )
        for id, source in votes:
            if known[id, source]:
                known[id, source] -= 1
            else:
                self._originals.setdefault(id, []).append((source, label))

    def remove_original_labels(
        self, ids: Iterable[str], has_pending_label: Callable[[str], bool]
    ) -> None:
        """Remove the original labels of earlier records with the same ids as new records.

        If `has_pending_label` returns True for an id, its labels belong to the new record, and are
        kept.
        """
        for id in ids if self._originals else ():
            if id in self._originals and not has_pending_label(id):
                del self._originals[id]

    def prune_original_labels(self, is_known: Callable[[str], bool]) -> None:
        """If many records have original labels, remove those of records that are not `is_known`."""
        if len(self._originals) > self._most:
            self._originals = {id: pairs for id, pairs in self._originals.items() if is_known(id)}
            self._most = max(2 * len(self._originals), _FIRST_PRUNED)

    def map_labels(
        self, labels: Labels, source: str, batch_time_ms: int
    ) -> tuple[Labels, list[DeadLetter]]:
        """Return the labels with their current classes, and dead letters of dropped classes.

        A label of a dropped class is left out, and becomes a dead letter.
        """
        if not (self._merged_into or self._dropped):
            return labels, []
        now = [None if label is None else self.current_class(label) for label in labels.labels]
        gone = [i for i, label in enumerate(labels.labels) if now[i] is None and label is not None]
        dead = []
        for i in gone:
            detail = (
                f"the class {labels.labels[i]!r} was dropped: `streamboost control` was told so"
            )
            message = labels.messages[i]
            dead.append(
                DeadLetter.from_message(
                    message, "dropped_class", detail, source=source, time=batch_time_ms
                )
            )
        left = [i for i in range(len(labels)) if i not in set(gone)]
        for i in left:
            if (label := labels.labels[i]) is None:
                self._originals.pop(labels.ids[i], None)
            else:
                self.add_original_label(labels.ids[i], labels.sources[i], label)
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
        """Return the complete state as JSON values, for `restore`."""
        return {
            "merged": list(self._merged_into.items()),
            "dropped": list(self._dropped),
            "were": self._originals,
            "most": self._most,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "LabelMapping":
        """Return a mapping with the state that `to_json` returned."""
        classes = cls()
        classes._merged_into = dict(state["merged"])
        classes._dropped = dict.fromkeys(state["dropped"])
        were = state["were"]
        classes._originals = {id: [(who, label) for who, label in were[id]] for id in were}
        classes._most = state["most"]
        return classes
