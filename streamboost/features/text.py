"""Text encoder: class log probabilities from two online linear models of hashed words."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streamboost.features.layout import ColumnEncoder, ColumnLayout, Values, is_missing
from streamboost.features.words import hash_words
from streamboost.storage import Arrays

MOST_CLASSES = 256
"""Largest number of classes of the text models. Only the first classes learned are used."""

_BUCKETS = 2**18
_LEAST_BUCKETS = 2**8
_TABLES = 3
_RATE = 0.5  # of the softmax
_SMOOTHING = 0.5  # of the word counts, in words
_STEP = 0.2  # learning rate of the two models' weights
_TINY = 1e-6
_NEVER = -20.0  # the bias of a removed class


class TextEncoder(ColumnEncoder):
    """Encoder of the text fields: one column per class, with its log probability from the words.

    Two models are combined. Complement naive Bayes (Rennie et al. 2003) with class priors is better
    with few labels. Softmax regression trained with AdaGrad (Duchi et al. 2011) is better with many
    labels. Its words have weights by inverse document frequency in all records, labelled or not.
    The log probabilities of naive Bayes are divided by the root of the number of words. The models'
    log probabilities are added with weights that are updated at each label. On 7,600 news items and
    5,171 short messages, predicted one by one, the sum is right on 86.7 and 98.4 %. The better
    single model is right on 86.0 and 98.1 %.

    Words are hashed to 2^18 buckets. If the tables would take more than `table_bytes`, the number
    of buckets is halved, so that more words share a bucket. The models have at most 256 classes:
    later classes get no columns.
    """

    is_static = False
    is_stateful = True

    def __init__(self, layout: ColumnLayout, table_bytes: int) -> None:
        self._layout = layout
        self._table_bytes = table_bytes
        self._names: list[Hashable] = []
        self._value_indices: list[int] = []
        self.columns: list[int] = []
        """Column index of each class."""
        self._seen = 0  # number of records
        self._frequency = np.zeros(_BUCKETS, dtype=np.int32)  # of words, in records
        self._words = np.zeros((_BUCKETS, 2), dtype=np.float32)  # in labelled records, by class
        self._weights = np.zeros((_BUCKETS, 2), dtype=np.float32)
        self._squares = np.zeros((_BUCKETS, 2), dtype=np.float32)  # of the weights' gradients
        self._distinct = 0  # number of buckets with words of labelled records
        self._records = np.zeros(2)  # number of labelled records, by class
        self._totals = np.zeros(2)  # sums of _words, by class
        self._bias = np.zeros(2)
        self._bias_squares = np.ones(2)
        self._mix = np.array([0.4, 0.6])
        self._mix_squares = np.ones(2)
        self._newest: tuple[Values, tuple[np.ndarray, np.ndarray]] | None = None
        self._halve_buckets_to_limit()

    def add_field(self, name: Hashable, value_index: int) -> None:
        """Add the field at index `value_index` of a record's values."""
        self._names.append(name)
        self._value_indices.append(value_index)

    def observe(self, values: Values) -> None:
        """Update the state with an arriving record, whose columns are computed already."""
        self._seen += 1
        self._frequency[self._hash_record_words(values)[0]] += 1

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write n records into `X` (n, D); return each field's number of unreadable values."""
        unreadable: Counter[Hashable] = Counter()
        for value, row in zip(values, X, strict=True):
            for name, value_index in zip(self._names, self._value_indices, strict=True):
                given = value[value_index]
                unreadable[name] += not (isinstance(given, str) or is_missing(given))
            if self.columns:
                row[self.columns] = self._combined_log_probabilities(
                    self._log_probabilities_by_model(*self._hash_record_words(value))
                )
        return +unreadable

    def _hash_record_words(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct hash buckets of a record's words, and 1 + log(count) of each.

        The result of the last record is cached, as an arriving record needs it twice.
        """
        if self._newest is not None and self._newest[0] is values:
            return self._newest[1]
        given = [values[value_index] for value_index in self._value_indices]
        texts = [text if isinstance(text, str) else "" for text in given]
        places, counts = hash_words(texts, len(self._frequency))
        self._newest = values, (places, 1.0 + np.log(counts))
        return self._newest[1]

    def _tf_idf_weights(self, buckets: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the tf-idf weights of words (n,), normalized to length 1.

        The arguments are the results of `_hash_record_words`.
        """
        seldom = 1.0 + np.log((self._seen + 1.0) / (self._frequency[buckets] + 1.0))
        weighed = counts * seldom
        return np.asarray(weighed / max(np.sqrt(weighed @ weighed), _TINY))

    def _log_probabilities_by_model(self, buckets: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the class log probabilities of naive Bayes and of softmax regression, (2, K).

        The arguments are the results of `_hash_record_words`.
        """
        n = len(self.columns)
        words = self._words[buckets, :n].astype(np.float64)
        others = words.sum(axis=1, keepdims=True) - words + _SMOOTHING
        totals = self._totals[:n].sum() - self._totals[:n] + _SMOOTHING * (self._distinct + 1)
        bayes = np.log(self._records[:n] + 1.0) - counts @ (np.log(others) - np.log(totals))
        softmax = (
            self._tf_idf_weights(buckets, counts) @ self._weights[buckets, :n] + self._bias[:n]
        )
        scores = [bayes / np.sqrt(max(len(buckets), 1)), softmax]
        return log_softmax(np.stack(scores))

    def _combined_log_probabilities(self, log_probabilities: np.ndarray) -> np.ndarray:
        """Return the class log probabilities (K,) of the weighted sum of both models."""
        return log_softmax(self._mix @ log_probabilities)

    def learn(self, values: Values, class_index: int) -> None:
        """Update the state with a labelled record of class `class_index`."""
        if class_index >= len(self.columns):
            return
        n = len(self.columns)
        places, counts = self._hash_record_words(values)
        log_probabilities = self._log_probabilities_by_model(places, counts)
        off = np.exp(self._combined_log_probabilities(log_probabilities))
        off[class_index] -= 1.0
        slope = log_probabilities @ off
        self._mix_squares += slope * slope
        self._mix = np.maximum(self._mix - _STEP * slope / np.sqrt(self._mix_squares), 0.0)
        off = np.exp(log_probabilities[1])
        off[class_index] -= 1.0
        gradient = np.outer(self._tf_idf_weights(places, counts), off)
        squares = self._squares[places, :n] + gradient * gradient
        self._squares[places, :n] = squares
        self._weights[places, :n] -= _RATE * gradient / np.sqrt(squares + _TINY)
        self._bias_squares[:n] += off * off
        self._bias[:n] -= _RATE * off / np.sqrt(self._bias_squares[:n])
        self._distinct += int((self._words[places].sum(axis=1) == 0.0).sum())
        self._words[places, class_index] += counts
        self._totals[class_index] += counts.sum()
        self._records[class_index] += 1.0

    def correct_label(self, values: Values, old_class: int | None, new_class: int | None) -> None:
        """Learn the record with its new class index `new_class` as one more example.

        Does nothing if `new_class` is None. The earlier label `old_class` is not unlearned.
        """
        if new_class is not None and len(self._hash_record_words(values)[0]):
            self.learn(values, new_class)

    def rename_or_remove_class(self, class_index: int, into: int | None) -> None:
        """Add the word counts of class `class_index` to `into`, and reset its softmax weights.

        If `into` is None, the counts are removed.
        """
        n = len(self.columns)
        if class_index >= n:
            return
        for table in (self._words.T, self._totals, self._records):
            if into is not None and into < n:
                table[into] += table[class_index]
            table[class_index] = 0.0
        self._weights[:, class_index] = 0.0
        self._bias[class_index] = _NEVER
        self._newest = None

    def set_classes(self, classes: Sequence[Hashable]) -> None:
        """Set the known classes, in the order of their first label: new classes are at the end."""
        wanted = min(len(classes), MOST_CLASSES)
        while self._words.shape[1] < wanted:
            self._double_class_capacity()
        for label in classes[len(self.columns) : wanted]:
            self.columns.append(self._layout.add_column(f"words for {label}"))

    def _double_class_capacity(self) -> None:
        """Double the number of classes that the tables have space for.

        If the tables then exceed their size limit, the number of buckets is halved.
        """
        n = self._words.shape[1]
        for name in ("_words", "_weights", "_squares"):
            table = getattr(self, name)
            setattr(self, name, np.hstack([table, np.zeros_like(table)]))
        for name, filler in (("_records", 0.0), ("_totals", 0.0), ("_bias", 0.0)):
            setattr(self, name, np.append(getattr(self, name), np.full(n, filler)))
        self._bias_squares = np.append(self._bias_squares, np.ones(n))
        self._halve_buckets_to_limit()

    def _halve_buckets_to_limit(self) -> None:
        """Halve the number of buckets until the tables take at most `table_bytes`."""
        while self._table_size_in_bytes > self._table_bytes and len(self._words) > _LEAST_BUCKETS:
            for name in ("_frequency", "_words", "_weights", "_squares"):
                table = getattr(self, name)
                half = len(table) // 2
                setattr(self, name, table[:half] + table[half:])
            np.minimum(self._frequency, self._seen, out=self._frequency)
            self._distinct = int((self._words.sum(axis=1) > 0.0).sum())
            self._newest = None

    @property
    def _table_size_in_bytes(self) -> int:
        return self._frequency.nbytes + _TABLES * self._words.nbytes

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state for `resume`: a JSON dictionary, and arrays of the buckets in use."""
        used = np.flatnonzero(self._squares.any(axis=1) | self._words.any(axis=1))
        state = {
            "seen": self._seen,
            "places": len(self._frequency),
            "columns": self.columns,
            "distinct": self._distinct,
        }
        met = np.flatnonzero(self._frequency)
        arrays = {
            "met": met,
            "frequency": self._frequency[met],
            "used": used,
            "words": self._words[used],
            "weights": self._weights[used],
            "squares": self._squares[used],
            **{name: getattr(self, f"_{name}").copy() for name in _SMALL},
        }
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._seen = state["seen"]
        self.columns = list(state["columns"])
        self._distinct = state["distinct"]
        self._newest = None
        self._frequency = np.zeros(state["places"], dtype=np.int32)
        self._frequency[arrays["met"]] = arrays["frequency"]
        for name in ("words", "weights", "squares"):
            table = np.zeros((state["places"], arrays[name].shape[1]), dtype=np.float32)
            table[arrays["used"]] = arrays[name]
            setattr(self, f"_{name}", table)
        for name in _SMALL:
            setattr(self, f"_{name}", arrays[name].copy())


_SMALL = ("records", "totals", "bias", "bias_squares", "mix", "mix_squares")


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return the logarithm of the softmax of scores (..., K) over the last axis."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))
