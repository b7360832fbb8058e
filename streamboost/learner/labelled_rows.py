"""Labelled rows of the working set, with their classes, record ids and annotators' votes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamboost.checks import Label, as_array, as_wide
from streamboost.features.layout import Values
from streamboost.learner.working_set import WorkingSet
from streamboost.storage import Arrays

__all__ = [
    "ON_CONFLICT",
    "AnnotatedRow",
    "AnnotatedRows",
    "LabelledRows",
    "Sample",
    "Vote",
    "resolve_label",
]

ON_CONFLICT = ("last", "first", "vote")
"""Rules for a record with several labels: the newest, the first, or the most frequent holds."""

Vote = tuple[str | None, Label]
"""Annotator, or None if unknown, and label."""


@dataclass(slots=True)
class AnnotatedRow:
    """Annotations of a row that has an id.

    Attributes
    ----------
    order
        Number of labels learned, including this one.
    votes
        Labels by annotator, oldest first; only the newest label of each named annotator.
    values
        Field values of the record, where there are categories: corrections update running rates.
    guess
        Confident prediction on arrival; None: not confident, or not known.
    arrival_prediction
        Labels with their probabilities float32 (K,) on arrival; None: not kept.
    """

    order: int
    votes: list[Vote]
    values: Values | None = None
    guess: Label | None = None
    arrival_prediction: tuple[list[Label], np.ndarray] | None = None

    def add_vote(self, source: str | None, label: Label) -> None:
        """Add a vote; it replaces an earlier vote of the same named source."""
        if source is not None:
            self.votes = [vote for vote in self.votes if vote[0] != source]
        self.votes.append((source, label))


def resolve_label(rule: str, votes: Sequence[Vote], current: Label) -> Label:
    """Return the label chosen from the votes by a rule of `ON_CONFLICT`; `current` in a tie.

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


class AnnotatedRows:
    """Index of annotated rows by id; entries of evicted rows are removed lazily."""

    def __init__(self) -> None:
        self._rows: dict[str, AnnotatedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, id: str, row: AnnotatedRow) -> None:
        """Add the newest row; it replaces an older row of the same id."""
        self._rows.pop(id, None)  # so that the new entry is the last
        self._rows[id] = row

    def find(self, id: str) -> AnnotatedRow | None:
        """Return the annotations of an id, or None; the row may have been evicted."""
        return self._rows.get(id)

    def release(self, ids: Iterable[str]) -> None:
        """Remove the entries of these ids, which will be reused for other records."""
        if self._rows:
            for id in ids:
                self._rows.pop(id, None)

    def retain(self, orders: np.ndarray) -> None:
        """Remove all entries except the entries with these `orders`, int64 (n,)."""
        held = set(orders.tolist())
        self._rows = {id: row for id, row in self._rows.items() if row.order in held}

    def map_classes(self, new_name: Callable[[Label], Label | None]) -> None:
        """Map the classes of votes and predictions by `new_name`; None drops the vote."""
        for row in self._rows.values():
            row.guess = None if row.guess is None else new_name(row.guess)
            row.arrival_prediction = None
            named = [(source, new_name(label)) for source, label in row.votes]
            row.votes = [(source, label) for source, label in named if label is not None]

    def newest(self) -> Iterable[tuple[str, AnnotatedRow]]:
        """Return ids and rows, newest first."""
        return reversed(self._rows.items())

    def items(self) -> Iterable[tuple[str, AnnotatedRow]]:
        """Return ids and rows, oldest first."""
        return self._rows.items()

    def state(self, orders: np.ndarray) -> dict[str, Any]:
        """Return the entries of rows of these `orders`, for JSON."""
        self.retain(orders)
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
        """Restore the result of `state`."""
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
"""Entries of evicted rows that are tolerated, in addition to as many as there are rows."""


class _Unlabelled(NamedTuple):
    """Row with a retracted label: features float32 (D,), propensity and weight."""

    x: np.ndarray
    propensity: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Training sample: rows, labels and weights.

    Attributes
    ----------
    X
        float32 (n, D), oldest label first; a view that the next label may change.
    y
        (n,), the labels.
    weight
        float64 (n,), with mean 1 before the weights given with the labels; None: all are 1.
    classes
        The labels of the rows of positive weight, in the order in which the learner saw them.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray


class LabelledRows:
    """The working set's rows, and the count of every label ever learned.

    A row with a retracted label is not used in training. It is still found by its id, as the record
    may be labelled again. There are at most as many such rows as the working set may hold.
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
        self._unlabelled: dict[str, _Unlabelled] = {}  # by id, the newest last
        self.trust: Callable[[np.ndarray], np.ndarray] | None = None
        """Computes trust weights (n,) of the rows with these orders (n,), as a further factor."""

    @property
    def kind(self) -> type | None:
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
        records: int,
        weight: float = 1.0,
        id: str = "",
        named: AnnotatedRow | None = None,
    ) -> None:
        """Add one row (D,) and its label, which arrived after `records` records were queried.

        `weight` is the row's weight in training. If `id` is not empty, the row is found by it,
        with the annotations `named`.
        """
        code = self._codes.setdefault(label, len(self._codes))
        self.counts[label] = self.counts.get(label, 0) + 1
        self.total += 1
        self.tick = tick
        self._rows.append(row, code, tick, propensity, self.total, records, weight)
        if id and named is not None:
            named.order = self.total
            self._named.add(id, named)
            if len(self._named) > 2 * (len(self._rows) + len(self._unlabelled)) + _FEW:
                self._named.retain(self._stored_orders())

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

    def _stored_orders(self) -> np.ndarray:
        """Return the sequence numbers, int64 (n,), of all rows, also with retracted labels."""
        unlabelled = [row.order for id in self._unlabelled if (row := self._named.find(id))]
        return np.append(self._rows.view().order, np.array(unlabelled, dtype=np.int64))

    def find(self, id: str) -> tuple[AnnotatedRow, np.ndarray, Label | None] | None:
        """Return annotations, features (D,) and label of a record's row, or None if not stored.

        The label is None if it was retracted.
        """
        named = self._named.find(id)
        if named is not None and id in self._unlabelled:
            return named, self._unlabelled[id].x.copy(), None
        found = self._rows.row(named.order) if named else None
        if named is None or found is None:
            return None
        return named, found[0], self._label_of_code(found[1])

    def newest(self, most: int) -> tuple[list[str], list[Label], np.ndarray]:
        """Return ids, labels and a copy of the features (n, D) of at most `most` rows.

        These are the newest rows with an id, newest first.
        """
        rows, labels = self._rows.view(), list(self._codes)
        named = [(id, row.order) for id, row in islice(self._named.newest(), most)]
        orders = np.array([order for _, order in named], dtype=np.int64)
        places = np.searchsorted(rows.order, orders)
        there = places < len(rows)
        there[there] = rows.order[places[there]] == orders[there]
        kept = places[there]
        ids = [id for (id, _), is_there in zip(named, there.tolist(), strict=True) if is_there]
        return ids, [labels[code] for code in rows.codes[kept].tolist()], rows.X[kept]

    def _label_of_code(self, code: int) -> Label:
        return list(self._codes)[code]

    def release(self, ids: Iterable[str]) -> None:
        """Release ids, to be reused for other records; rows with these ids stay, without an id."""
        ids = list(ids)
        self._named.release(ids)
        if self._unlabelled:
            for id in ids:
                self._unlabelled.pop(id, None)

    def correct(self, id: str, label: Label | None, tick: int, records: int) -> None:
        """Replace the label of the row of `id`, which must exist; None retracts the label.

        This counts as one more label learned, after `records` records were queried. If a retracted
        row is labelled again, the row becomes the newest.
        """
        found = self.find(id)
        assert found is not None
        named, row, before = found
        if before is None:
            assert label is not None
            known = self._unlabelled.pop(id)
            row = np.asarray(as_wide(row[None], self.n_features)[0])
            self.append(row, label, tick, known.propensity, records, known.weight, id, named)
            return
        self.counts[before] -= 1
        self.total += 1
        self.tick = tick
        if label is None:
            self._unlabelled[id] = _Unlabelled(row, *self._rows.propensity_and_weight(named.order))
            self._rows.drop(named.order)
            named.votes, named.guess = [], None
            if len(self._unlabelled) > self.working_set.size:
                self.release([next(iter(self._unlabelled))])
            return
        self.counts[label] = self.counts.get(label, 0) + 1
        self._rows.set_class_index(named.order, self._codes.setdefault(label, len(self._codes)))

    def rename_or_remove_class(self, label: Label, into: Label | None) -> bool:
        """Move the rows of class `label` to class `into`, or drop the rows if `into` is None.

        Returns whether the class existed. This counts as one more label learned.
        """
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
        self._named.map_classes(lambda one: into if one == label else one)
        return True

    def first_order_after(self, records: int) -> int:
        """Return the number of the first stored label that arrived after `records` queries."""
        rows = self._rows.view()
        later = rows.order[np.searchsorted(rows.records, records, side="right") :]
        return int(later[0]) if len(later) else self.total + 1

    def mark_drift(self, order: int) -> None:
        """Mark a drift that began before the label with this `order` (its number) arrived."""
        self._suspected = order

    @property
    def has_suspected_drift(self) -> bool:
        """Whether a drift is marked; `drop_rows_before_drift` then drops the rows before it."""
        return self._suspected is not None

    def drop_rows_before_drift(self) -> bool:
        """Drop the rows from before a suspected drift, if two classes are left; return whether.

        They can train if the rows of positive weight are of two classes; until then all rows stay.
        """
        if self._suspected is None:
            return False
        rows = self._rows.view()
        later = slice(int(np.searchsorted(rows.order, self._suspected)), None)
        codes, propensity = rows.codes[later], rows.propensity[later]
        if len(_distinct_codes(codes, self.working_set.weigh(len(codes), propensity))) < 2:
            return False
        self._rows.drop_before(self._suspected)
        for id in list(self._unlabelled):
            named = self._named.find(id)
            if named is not None and named.order < self._suspected:
                self.release([id])
        self.origin, self._suspected = self._suspected - 1, None
        return True

    def widen(self, n_features: int) -> None:
        """Set the number of features to `n_features`; new columns of stored rows are missing."""
        self._rows.widen(n_features)

    def sample(self, since: int = 0) -> Sample:
        """Return the working set's rows, labels and weights, of labels after the first `since`."""
        rows = self._rows.view()
        later = slice(int(np.searchsorted(rows.order, since, side="right")), None)
        codes, given = rows.codes[later], rows.weight[later]
        weight = self.working_set.weigh(len(codes), rows.propensity[later])
        if (given != 1).any():
            weight = given.copy() if weight is None else weight * given
        if self.trust is not None:
            trust = self.trust(rows.order[later])
            weight = trust if weight is None else weight * trust
        known = as_array(self.counts)
        classes = known[_distinct_codes(codes, weight)]
        return Sample(X=rows.X[later], y=known[codes], weight=weight, classes=classes)

    @property
    def n_evicted(self) -> int:
        """Number of labels that arrived before the label of the oldest stored row."""
        order = self._rows.view().order
        return int(order[0]) - 1 if len(order) else self.total

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a dictionary for JSON, and arrays."""
        kept, arrays = self._rows.state()
        state = {
            "counts": list(self.counts.items()),
            "total": self.total,
            "tick": self.tick,
            "origin": self.origin,
            "suspected": self._suspected,
            "kept": kept,
            "named": self._named.state(self._stored_orders()),
            "unlabelled": list(self._unlabelled),
        }
        unlabelled = list(self._unlabelled.values())
        known = np.array([row[1:] for row in unlabelled], dtype=np.float64)
        return state, arrays | {
            "unlabelled.X": as_wide([row.x for row in unlabelled], self.n_features),
            "unlabelled.known": known.reshape(len(unlabelled), 2),
        }

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Restore the result of `state` with an equal working set."""
        self.counts = dict(state["counts"])
        self.total = state["total"]
        self.tick = state["tick"]
        self.origin = state["origin"]
        self._suspected = state["suspected"]
        self._codes = {label: code for code, label in enumerate(self.counts)}
        self._rows.resume(state["kept"], arrays)
        self._named.resume(state["named"])
        self._unlabelled = {
            id: _Unlabelled(x.copy(), *known)
            for id, x, known in zip(
                state["unlabelled"],
                arrays["unlabelled.X"],
                arrays["unlabelled.known"].tolist(),
                strict=True,
            )
        }


def _distinct_codes(codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the distinct class indices among rows of positive weight, ascending.

    The weight of the oldest rows may underflow to 0: training excludes these rows.
    """
    return np.unique(codes if weight is None else codes[weight > 0])
