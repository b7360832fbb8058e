"""Mapping of labels to current classes after merges and drops, with the original labels."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamboost.checks import Label
from streamboost.connectors.messages.labels import LabelKind, Labels
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.errors import StateError
from streamboost.learner.labelled_rows import VoteHistory
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import refuse_class_not_merged, to_label

Restored = dict[str, VoteHistory]
"""Maps a record id to all votes on the record, with their restored classes."""

LabelsOf = Callable[[str], VoteHistory | None]
"""Returns the votes on the record with the given id; None if further labels have no effect."""

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
    >>> classes.store_original_labels({"7": VoteHistory([("ann", "hgih")])})
    >>> classes.unmerge("hgih")["7"].votes
    [('ann', 'hgih')]
    """

    def __init__(self) -> None:
        self._merged_into: dict[Label, Label] = {}
        self._dropped: dict[Label, None] = {}
        self._originals: dict[str, VoteHistory] = {}  # all labels of records with a merged one
        self._most = _FIRST_PRUNED

    @property
    def merged_classes(self) -> list[Label]:
        """The classes that were merged into others."""
        return list(self._merged_into)

    @property
    def dropped_classes(self) -> list[Label]:
        """The classes whose labels are dropped."""
        return list(self._dropped)

    @property
    def removed_classes(self) -> list[Label]:
        """The classes that were merged into others or dropped."""
        return [*self._merged_into, *self._dropped]

    def copy(self) -> "LabelMapping":
        """Return a copy without original labels, on which commands can be validated."""
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
            refuse_class_not_merged(label, self._merged_into)
            return label, label
        if command.command == "merge" and label in self._merged_into:  # old labels would not move
            raise StateError(
                f"the class {label!r} is merged into {self._merged_into[label]!r}: undo this "
                "first, with unmerge"
            )
        into = None
        if command.into is not None:
            into = to_label(command.into, label_type)
            known = self.current_class(into)
            if known is None:
                raise StateError(f"the class {into!r} was dropped: merge into another class")
            if known == label:
                raise StateError(
                    f"{into!r} is merged into {label!r} itself: unmerge {into!r} first"
                )
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
        """Undo the merge of class `label`; return the votes on each record whose label changes."""
        given = {raw for history in self._originals.values() for _, raw in history.votes}
        before = {raw: self.current_class(raw) for raw in given}
        del self._merged_into[label]
        now = {raw: self.current_class(raw) for raw in given}
        restored: Restored = {
            id: history.map_classes(self.current_class)
            for id, history in self._originals.items()
            if any(before[raw] != now[raw] for _, raw in history.votes)
        }
        if not self._merged_into:
            self._originals, self._most = {}, _FIRST_PRUNED
        return restored

    def store_original_labels(self, labels: Mapping[str, VoteHistory]) -> None:
        """Store the votes on records, keyed by record id, before a voted class is merged.

        Records whose votes are stored already are skipped.
        """
        for id, history in labels.items():
            self._originals.setdefault(id, history)

    def _track_label(
        self,
        id: str,
        source: str | None,
        label: Label | None,
        histories: dict[str, VoteHistory],
        labels_of: LabelsOf,
    ) -> None:
        """Add a vote to a record's history; store the history if `label` belongs to a merged class.

        If `label` is None, all votes on the record are retracted. `histories` caches the histories
        of the records in this batch, and is updated. `labels_of` returns the votes before this
        batch; if it returns None for a record that is not in `histories`, the vote is ignored.
        """
        if id not in histories:
            before = labels_of(id)
            if before is None:  # a further label of this record has no effect
                return
            histories[id] = self._originals.get(id, before)
        if label is None:
            self._originals.pop(id, None)
            histories[id] = VoteHistory([])
            return
        histories[id].votes.append((source, label))
        if label in self._merged_into:
            self._originals[id] = histories[id]

    def remove_votes_of(self, source: str) -> None:
        """Remove the votes of an annotator from the original labels."""
        for id, history in list(self._originals.items()):
            votes = [vote for vote in history.votes if vote[0] != source]
            if not votes:
                del self._originals[id]
            elif len(votes) < len(history.votes):
                self._originals[id] = VoteHistory(votes)

    def remove_original_labels(self, ids: Iterable[str], n_pending: Callable[[str], int]) -> None:
        """Remove the original labels of earlier records with the same ids as new records.

        `n_pending` returns the number of labels that wait for a new record. These newest labels
        stay stored; older labels have expired, or belong to an earlier record.
        """
        for id in ids if self._originals else ():
            history, n = self._originals.pop(id, None), n_pending(id)
            if history is not None and n:
                self._originals[id] = VoteHistory(history.votes[-n:])

    def prune_original_labels(self, is_known: Callable[[str], bool]) -> None:
        """If many records have original labels, remove those of records that are not `is_known`."""
        if len(self._originals) > self._most:
            self._originals = {id: one for id, one in self._originals.items() if is_known(id)}
            self._most = max(2 * len(self._originals), _FIRST_PRUNED)

    def map_labels(
        self,
        labels: Labels,
        source: str,
        batch_time_ms: int,
        labels_of: LabelsOf = lambda _: VoteHistory([]),
    ) -> tuple[Labels, list[DeadLetter]]:
        """Return the labels with their current classes, and dead letters for dropped classes.

        A label of a dropped class is left out, and becomes a dead letter. `labels_of` returns the
        earlier votes on a record, or None if further labels have no effect.
        """
        if not (self._merged_into or self._dropped):
            return labels, []
        now = [None if label is None else self.current_class(label) for label in labels.labels]
        gone = [i for i, label in enumerate(labels.labels) if now[i] is None and label is not None]
        dead = []
        for i in gone:
            detail = (
                f"the class {labels.labels[i]!r} was dropped by `streamboost control`: to accept "
                "its labels again, merge the class into another"
            )
            message = labels.messages[i]
            dead.append(
                DeadLetter.from_message(
                    message, "dropped_class", detail, source=source, time=batch_time_ms
                )
            )
        left = [i for i in range(len(labels)) if i not in set(gone)]
        histories: dict[str, VoteHistory] = {}
        for i in left:
            self._track_label(
                labels.ids[i], labels.sources[i], labels.labels[i], histories, labels_of
            )
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
            "were": {
                id: [[*one.votes], one.n_resolved, one.label] for id, one in self._originals.items()
            },
            "most": self._most,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "LabelMapping":
        """Return a mapping with the state that `to_json` returned."""
        classes = cls()
        classes._merged_into = dict(state["merged"])
        classes._dropped = dict.fromkeys(state["dropped"])
        classes._originals = {
            id: VoteHistory([(source, vote) for source, vote in votes], n, label)
            for id, (votes, n, label) in state["were"].items()
        }
        classes._most = state["most"]
        return classes
