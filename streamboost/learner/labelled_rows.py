"""Labelled rows of the working set, with their classes, record ids and annotators' votes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamboost.checks import Label, labels_to_array, pad_missing_columns
from streamboost.features.layout import Values
from streamboost.learner.working_set import WorkingSet
from streamboost.storage import Arrays

ON_CONFLICT = ("last", "first", "vote")
"""Rules that choose between several labels of a record: the newest, first or most frequent one."""

Vote = tuple[str | None, Label]
"""Annotator, or None if unknown, and label."""


@dataclass(slots=True)
class AnnotatedRow:
    """Votes and predictions for a labelled row that has a record id.

    Attributes
    ----------
    order
        Number of labels learned up to and including the row's label. It identifies the row.
    votes
        Votes on the record, oldest first, with one vote of each named annotator.
    values
        Values of the categorical fields, which a label correction needs; None without such fields.
    guess
        Label predicted on arrival, if its probability was at least 0.9; else None.
    arrival_prediction
        The K classes, and their predicted probabilities on arrival, float32 (K,). None if not
        stored.
    """

    order: int
    votes: list[Vote]
    values: Values | None = None
    guess: Label | None = None
    arrival_prediction: tuple[list[Label], np.ndarray] | None = None

    def add_vote(self, source: str | None, label: Label, rule: str = "last") -> None:
        """Add the vote `label` of the annotator `source`; `rule` is one of `ON_CONFLICT`.

        A new vote replaces the earlier vote of a named annotator; with "first" it is ignored. With
        "vote", votes are ordered by their last changes, as the order decides ties. If `source` is
        None (unknown), no earlier vote is replaced.
        """
        earlier = None if source is None else dict(self.votes).get(source)
        if earlier is not None:
            if rule == "first" or (rule == "vote" and earlier == label):
                return
            self.votes = [vote for vote in self.votes if vote[0] != source]
        self.votes.append((source, label))


def resolve_label(rule: str, votes: Sequence[Vote], current: Label) -> Label:
    """Return the label chosen by `rule`, one of `ON_CONFLICT`; in a tie, the label is `current`.

    >>> resolve_label("vote", [("ann", "ok"), ("bob", "fraud"), (None, "fraud")], "ok")
    'fraud'
    >>> resolve_label("vote", [("ann", "ok"), ("bob", "fraud")], "ok")
    'ok'
    """
    if rule != "vote":
        return current if rule == "first" else votes[-1][1]
    counts: dict[Label, int] = {}
    for _, label in votes:
        counts[label] = counts.get(label, 0) + 1
    return max(counts, key=lambda label: (counts[label], label == current))


@dataclass(slots=True)
class VoteHistory:
    """All votes on a record, oldest first; `label` is its label after the first `n_resolved`.

    The label is stored because in a tie, it depends on votes that were replaced later.

    >>> VoteHistory([("ann", "ok"), ("ann", "fraud")]).replay("first")
    ([('ann', 'ok')], 'ok')
    >>> VoteHistory([("ann", "ok"), ("bob", "fraud")], 2, "fraud").replay("vote")[1]
    'fraud'
    """

    votes: list[Vote]
    n_resolved: int = 0
    label: Label | None = None

    def map_classes(self, new_name: Callable[[Label], Label | None]) -> "VoteHistory":
        """Return the history with `new_name(class)` for each class; None removes the votes."""
        mapped = [(source, new_name(label)) for source, label in self.votes]
        votes = [(source, label) for source, label in mapped if label is not None]
        label = None if self.label is None else new_name(self.label)
        if label is None:
            return VoteHistory(votes)
        n = sum(label is not None for _, label in mapped[: self.n_resolved])
        return VoteHistory(votes, n, label)

    def replay(self, rule: str) -> tuple[list[Vote], Label]:
        """Apply all votes by `rule`, one of `ON_CONFLICT`; return the current votes and the label.

        The history must not be empty.
        """
        row, label = AnnotatedRow(0, self.votes[: self.n_resolved]), self.label
        for source, vote in self.votes[self.n_resolved :]:
            row.add_vote(source, vote, rule)
            label = vote if label is None else resolve_label(rule, row.votes, label)
        assert label is not None
        return row.votes, label


class AnnotatedRows:
    """Annotations of rows, by record id; annotations of evicted rows are removed with a delay."""

    def __init__(self) -> None:
        self._rows: dict[str, AnnotatedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, id: str, row: AnnotatedRow) -> None:
        """Add the annotations of the newest row; they replace those of an older row of this id."""
        self._rows.pop(id, None)  # so that the new entry is the last
        self._rows[id] = row

    def find(self, id: str) -> AnnotatedRow | None:
        """Return the annotations of the record `id`, or None.

        The row itself may have been evicted.
        """
        return self._rows.get(id)

    def release_ids(self, ids: Sequence[str]) -> None:
        """Remove the annotations under `ids`, because new records will use these ids."""
        if not self._rows.keys().isdisjoint(ids):
            for id in ids:
                self._rows.pop(id, None)

    def retain_orders(self, orders: np.ndarray) -> None:
        """Remove all annotations except those whose `order` is in `orders`, int64 (n,)."""
        held = set(orders.tolist())
        self._rows = {id: row for id, row in self._rows.items() if row.order in held}

    def rename_classes(self, new_name: Callable[[Label], Label | None]) -> None:
        """Replace each class in votes and predictions by `new_name(class)`; None drops the vote."""
        for row in self._rows.values():
            row.guess = None if row.guess is None else new_name(row.guess)
            row.arrival_prediction = None
            named = [(source, new_name(label)) for source, label in row.votes]
            row.votes = [(source, label) for source, label in named if label is not None]

    def newest(self) -> Iterable[tuple[str, AnnotatedRow]]:
        """Return pairs of id and annotations, newest row first."""
        return reversed(self._rows.items())

    def items(self) -> Iterable[tuple[str, AnnotatedRow]]:
        """Return pairs of id and annotations, oldest row first."""
        return self._rows.items()

    def state(self, orders: np.ndarray) -> dict[str, Any]:
        """Return the annotations whose `order` is in `orders`, as JSON values for `resume`."""
        self.retain_orders(orders)
        classes: dict[tuple[Label, ...], int] = {}
        rows = []
        for id, row in self._rows.items():
            arrival_prediction = None
            if row.arrival_prediction is not None:
                names = tuple(row.arrival_prediction[0])
                arrival_prediction = (
                    classes.setdefault(names, len(classes)),
                    row.arrival_prediction[1].tolist(),
                )
            rows.append((id, row.order, row.votes, row.values, row.guess, arrival_prediction))
        return {"rows": rows, "classes": list(classes)}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        classes = [list(names) for names in state["classes"]]
        self._rows = {}
        for id, order, votes, values, guess, arrival_prediction in state["rows"]:
            row = AnnotatedRow(order, [(source, label) for source, label in votes])
            row.values = None if values is None else tuple(values)
            row.guess = guess
            if arrival_prediction is not None:
                row.arrival_prediction = (
                    classes[arrival_prediction[0]],
                    np.array(arrival_prediction[1], dtype=np.float32),
                )
            self._rows[id] = row


_FEW = 64
"""Evicted rows may have as many entries as there are stored rows, plus this number."""


class _RetractedRow(NamedTuple):
    """Row with a retracted label: its features `x`, float32 (D,), propensity and weight."""

    x: np.ndarray
    propensity: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSample:
    """Training sample: rows, labels and weights.

    Attributes
    ----------
    X
        float32 (n, D), oldest label first; learning the next label may change the array.
    y
        (n,), the labels.
    weight
        float64 (n,), the training weights; None: all are 1. Their mean is 1, unless weights were
        given with the labels or depend on the trust in labels.
    classes
        The classes of the rows of positive weight, in the order of their first label.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray


class LabelledRows:
    """The working set's rows, and the count of every label ever learned.

    A row with a retracted label is not used in training. It is still found by its id, as the record
    may be labelled again. The number of such rows is at most the size of the working set.
    """

    def __init__(self, working_set: WorkingSet, seeds: np.random.SeedSequence) -> None:
        self.working_set = working_set
        self.counts: dict[Label, int] = {}  # in the order first seen
        self.total = 0
        self.tick = 0  # that of the newest label
        self.origin = 0  # number of labels before the last drift cut
        self._suspected: int | None = None  # the first label after a drift not cut at yet
        self._codes: dict[Label, int] = {}
        self._rows = working_set.make_buffer(seeds)
        self._named = AnnotatedRows()
        self._unlabelled: dict[str, _RetractedRow] = {}  # by id, the newest last
        self.trust: Callable[[np.ndarray], np.ndarray] | None = None
        """Maps sequence numbers of rows (n,) to trust (n,), a factor of the training weights."""

    @property
    def label_type(self) -> type | None:
        """Type of the labels, str or int; None before the first label."""
        return type(next(iter(self.counts))) if self.counts else None

    @property
    def class_counts(self) -> dict[Label, int]:
        """Number of labelled records of each class; classes without records are omitted."""
        return {label: n for label, n in self.counts.items() if n > 0}

    @property
    def n_labelled(self) -> int:
        """Number of labelled records, including records whose rows have been evicted."""
        return sum(self.counts.values())

    @property
    def n_features(self) -> int:
        """Number of features per row."""
        return self._rows.n_features

    def append(
        self,
        row: np.ndarray,
        label: Label,
        tick: int,
        propensity: float,
        n_records: int,
        weight: float = 1.0,
        id: str = "",
        annotations: AnnotatedRow | None = None,
    ) -> None:
        """Add the labelled row of one record.

        `row` (D,) are the features, and `n_records` is the number of records queried before the
        label arrived, at time `tick` (milliseconds since the epoch). `propensity` is the inclusion
        probability of the request, NaN without a request. `weight` is the record's weight in
        training. If `id` is not empty, `find` returns the row by this id, with its `annotations`.
        """
        code = self._codes.setdefault(label, len(self._codes))
        self.counts[label] = self.counts.get(label, 0) + 1
        self.total += 1
        self.tick = tick
        self._rows.append(row, code, tick, propensity, self.total, n_records, weight)
        if id and annotations is not None:
            annotations.order = self.total
            self._named.add(id, annotations)
            if len(self._named) > 2 * (len(self._rows) + len(self._unlabelled)) + _FEW:
                self._named.retain_orders(self._orders_of_all_rows())

    def annotated_rows(self) -> Iterator[tuple[str, AnnotatedRow, Label]]:
        """Yield id, annotations and label of each row that has an id."""
        rows, labels = self._rows.view(), list(self._codes)
        label_of = {
            order: labels[code]
            for order, code in zip(rows.order.tolist(), rows.codes.tolist(), strict=True)
        }
        for id, row in self._named.items():
            if row.order in label_of:
                yield id, row, label_of[row.order]

    def _orders_of_all_rows(self) -> np.ndarray:
        """Return the sequence numbers, int64 (n,), of all rows, also with retracted labels."""
        unlabelled = [row.order for id in self._unlabelled if (row := self._named.find(id))]
        return np.append(self._rows.view().order, np.array(unlabelled, dtype=np.int64))

    def find(self, id: str) -> tuple[AnnotatedRow, np.ndarray, Label | None] | None:
        """Return annotations, features (D,) and label of the row of record `id`.

        Returns None if no row is stored. The label is None if it was retracted.
        """
        named = self._named.find(id)
        if named is not None and id in self._unlabelled:
            return named, self._unlabelled[id].x.copy(), None
        found = self._rows.find_row(named.order) if named else None
        if named is None or found is None:
            return None
        return named, found[0], self._label_of_class_index(found[1])

    def newest_rows(self, limit: int) -> tuple[list[str], list[Label], np.ndarray]:
        """Return ids, labels and features (n, D) of the newest rows with an id, newest first.

        At most `limit` rows are returned. The features are a copy.
        """
        rows, labels = self._rows.view(), list(self._codes)
        named = [(id, row.order) for id, row in islice(self._named.newest(), limit)]
        orders = np.array([order for _, order in named], dtype=np.int64)
        places = np.searchsorted(rows.order, orders)
        there = places < len(rows)
        there[there] = rows.order[places[there]] == orders[there]
        kept = places[there]
        ids = [id for (id, _), is_there in zip(named, there.tolist(), strict=True) if is_there]
        return ids, [labels[code] for code in rows.codes[kept].tolist()], rows.X[kept]

    def _label_of_class_index(self, class_index: int) -> Label:
        return list(self._codes)[class_index]

    def release_ids(self, ids: Sequence[str]) -> None:
        """Release these ids, which new records will use; the old rows remain without an id."""
        self._named.release_ids(ids)
        if self._unlabelled:
            for id in ids:
                self._unlabelled.pop(id, None)

    def correct_label(self, id: str, label: Label | None, tick: int, n_records: int) -> None:
        """Replace the label of the row of `id`, which must exist; None retracts the label.

        This counts as one more label learned, at time `tick`, after `n_records` queried records. If
        a row with a retracted label is labelled again, the row becomes the newest.
        """
        found = self.find(id)
        assert found is not None
        named, row, before = found
        if before is None:
            assert label is not None
            known = self._unlabelled.pop(id)
            row = np.asarray(pad_missing_columns(row[None], self.n_features)[0])
            self.append(row, label, tick, known.propensity, n_records, known.weight, id, named)
            return
        self.counts[before] -= 1
        self.total += 1
        self.tick = tick
        if label is None:
            self._unlabelled[id] = _RetractedRow(
                row, *self._rows.propensity_and_weight(named.order)
            )
            self._rows.drop_row(named.order)
            named.votes, named.guess = [], None
            if len(self._unlabelled) > self.working_set.size:
                self.release_ids([next(iter(self._unlabelled))])
            return
        self.counts[label] = self.counts.get(label, 0) + 1
        self._rows.set_class_index(named.order, self._codes.setdefault(label, len(self._codes)))

    def rename_or_remove_class(self, label: Label, into: Label | None) -> bool:
        """Move the rows of class `label` to class `into`, or drop the rows if `into` is None.

        Returns whether any label of the class was learned so far. This counts as one more label
        learned. Votes for the class are moved or dropped in any case.
        """
        self._named.rename_classes(lambda one: into if one == label else one)
        if label not in self.counts:
            return False
        counted, self.counts[label] = self.counts[label], 0
        self.total += 1
        if into is None:
            self._rows.recode_or_drop_class(self._codes[label], None)
        else:
            self.counts[into] = self.counts.get(into, 0) + counted
            self._rows.recode_or_drop_class(
                self._codes[label], self._codes.setdefault(into, len(self._codes))
            )
        return True

    def first_label_after(self, n_records: int) -> int:
        """Return the sequence number of the first label after `n_records` records were queried."""
        rows = self._rows.view()
        later = rows.order[np.searchsorted(rows.records, n_records, side="right") :]
        return int(later[0]) if len(later) else self.total + 1

    def n_records_at_label(self, sequence: int) -> int:
        """Return the number of records queried when the label number `sequence` was learned.

        If its row has been evicted, the number for the next stored row is returned; 0 without rows.
        """
        rows = self._rows.view()
        later = rows.records[np.searchsorted(rows.order, sequence) :]
        return int(later[0]) if len(later) else 0

    def mark_drift(self, sequence: int) -> None:
        """Mark that a drift began just before the label number `sequence`."""
        self._suspected = sequence

    @property
    def has_suspected_drift(self) -> bool:
        """Whether the start of a drift is marked, and older rows are not dropped yet."""
        return self._suspected is not None

    def drop_rows_before_drift(self) -> bool:
        """Drop the rows from before a marked drift; return whether this was done.

        Nothing is dropped until the newer rows of positive weight have two classes, as a training
        needs.
        """
        if self._suspected is None:
            return False
        rows = self._rows.view()
        later = slice(int(np.searchsorted(rows.order, self._suspected)), None)
        codes, propensity = rows.codes[later], rows.propensity[later]
        if (
            len(
                _distinct_class_indices(
                    codes, self.working_set.training_weights(len(codes), propensity)
                )
            )
            < 2
        ):
            return False
        self._rows.drop_rows_before(self._suspected)
        for id in list(self._unlabelled):
            named = self._named.find(id)
            if named is not None and named.order < self._suspected:
                self.release_ids([id])
        self.origin, self._suspected = self._suspected - 1, None
        return True

    def widen_rows(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        self._rows.widen_rows(n_features)

    def training_sample(self, n_excluded: int = 0) -> TrainingSample:
        """Return the training sample: rows, labels and weights of the working set.

        Rows of the first `n_excluded` labels learned are excluded.
        """
        rows = self._rows.view()
        later = slice(int(np.searchsorted(rows.order, n_excluded, side="right")), None)
        codes, given = rows.codes[later], rows.weight[later]
        weight = self.working_set.training_weights(len(codes), rows.propensity[later])
        if (given != 1).any():
            weight = given.copy() if weight is None else weight * given
        if self.trust is not None:
            trust = self.trust(rows.order[later])
            weight = trust if weight is None else weight * trust
        known = labels_to_array(self.counts)
        classes = known[_distinct_class_indices(codes, weight)]
        return TrainingSample(X=rows.X[later], y=known[codes], weight=weight, classes=classes)

    @property
    def n_evicted(self) -> int:
        """Number of labels learned before the label of the oldest stored row."""
        order = self._rows.view().order
        return int(order[0]) - 1 if len(order) else self.total

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        kept, arrays = self._rows.state()
        state = {
            "counts": list(self.counts.items()),
            "total": self.total,
            "tick": self.tick,
            "origin": self.origin,
            "suspected": self._suspected,
            "kept": kept,
            "named": self._named.state(self._orders_of_all_rows()),
            "unlabelled": list(self._unlabelled),
        }
        unlabelled = list(self._unlabelled.values())
        known = np.array([row[1:] for row in unlabelled], dtype=np.float64)
        return state, arrays | {
            "unlabelled.X": pad_missing_columns([row.x for row in unlabelled], self.n_features),
            "unlabelled.known": known.reshape(len(unlabelled), 2),
        }

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for an equal working set."""
        self.counts = dict(state["counts"])
        self.total = state["total"]
        self.tick = state["tick"]
        self.origin = state["origin"]
        self._suspected = state["suspected"]
        self._codes = {label: code for code, label in enumerate(self.counts)}
        self._rows.resume(state["kept"], arrays)
        self._named.resume(state["named"])
        self._unlabelled = {
            id: _RetractedRow(x.copy(), *known)
            for id, x, known in zip(
                state["unlabelled"],
                arrays["unlabelled.X"],
                arrays["unlabelled.known"].tolist(),
                strict=True,
            )
        }


def _distinct_class_indices(codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the distinct class indices among rows of positive weight, ascending.

    The weight of the oldest rows may underflow to 0: training excludes these rows.
    """
    return np.unique(codes if weight is None else codes[weight > 0])
