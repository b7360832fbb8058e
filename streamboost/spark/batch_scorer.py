"""Scorer of Arrow record batches: a committee, the columns that it reads, and their encoder."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.errors import ConfigurationError
from streamboost.features import Features
from streamboost.features.paths import is_within_any
from streamboost.storage import (
    decode_sealed_file,
    encode_sealed_file,
    pack_json,
    select_prefix,
    unpack_json,
)

PREDICTION, PROBABILITIES = "prediction", "probabilities"
"""Names of the columns that a scorer adds to a batch."""

_KIND = "batch scorer"


@dataclass(frozen=True, slots=True, eq=False)
class BatchScorer:
    """Scorer of pyarrow RecordBatches. The scorer itself is serialized and sent to the workers.

    Parameters
    ----------
    committee
        The committee that predicts.
    column_names
        Names of all columns, in the order of the batch. They replace the names in the batch.
    input_columns
        Names of the columns that are read. Without `features`, they are in the order of the
        training.
    features
        Encoder of mixed fields as numbers; None if the committee scores the columns themselves.
    probabilities
        Whether to add the class probabilities.
    """

    committee: Committee
    column_names: tuple[str, ...]
    input_columns: tuple[str, ...]
    features: Features | None = None
    probabilities: bool = False

    @classmethod
    def create(
        cls,
        column_names: Sequence[str],
        committee: Committee,
        *,
        columns: Sequence[str] | None = None,
        features: Features | None = None,
        probabilities: bool = False,
    ) -> Self:
        """Create the scorer of a data frame with the columns `column_names`.

        Raises
        ------
        ConfigurationError
            If a column is missing, ambiguous or has the name of an added column, or if `columns`
            or `features` do not match the committee.
        """
        _require_distinct_column_names(
            column_names, [PREDICTION, *([PROBABILITIES] if probabilities else [])]
        )
        if features is None:
            names = _names_of_columns(column_names, committee, columns)
        elif columns is None:
            names = _names_of_fields(column_names, committee, features)
        else:
            raise ConfigurationError(
                f"columns={list(columns)!r} and features are both given: leave one of them out"
            )
        return cls(committee, tuple(column_names), tuple(names), features, probabilities)

    def score(self, batch: Any) -> Any:
        """Return the pyarrow RecordBatch `batch` with the columns of the predictions added.

        The columns of `batch` are not copied. Raises DataError if a column that the committee
        scores does not hold numbers.
        """
        import pyarrow as pa

        batch, committee = batch.rename_columns(self.column_names), self.committee
        scores = committee.class_scores(self._rows_to_score(batch.select(self.input_columns)))
        classes = pa.array(committee.classes.tolist())
        added = {PREDICTION: classes.take(pa.array(committee.predicted_indices(scores)))}
        if self.probabilities:
            n, K = scores.shape
            ends = pa.array(np.arange(n + 1) * K, type=pa.int32())
            values = pa.array(committee.probabilities(scores).ravel())
            added[PROBABILITIES] = pa.ListArray.from_arrays(ends, values)
        names = [*self.column_names, *added]
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=names)

    def _rows_to_score(self, batch: Any) -> Any:
        """Return the rows to score: `batch` itself, or with `features`, the encoded records."""
        if self.features is None:
            return batch
        records = batch.to_pylist(maps_as_pydicts="strict")
        X = self.features.encode([self.features.values(record) for record in records])
        X[:, self.features.elapsed_seconds_columns] = np.nan
        return X[:, : self.committee.n_features]  # newer classes have columns at the end

    def to_bytes(self) -> bytes:
        """Return the scorer in serialized form, which `from_bytes` reads."""
        arrays = {f"committee.{name}": array for name, array in self.committee.to_arrays().items()}
        if self.features is not None:
            about, own = self.features.state()
            arrays["features"] = pack_json(about)
            arrays |= {f"features.{name}": array for name, array in own.items()}
        about = {
            "there": self.column_names,
            "names": self.input_columns,
            "probabilities": self.probabilities,
        }
        return encode_sealed_file(arrays, kind=_KIND, manifest=about)

    @classmethod
    def from_bytes(cls, serialized: bytes) -> Self:
        """Create a scorer from the result of `to_bytes`; raise ModelFileError if it is damaged."""
        arrays, about = decode_sealed_file("the model of a Spark task", serialized, kind=_KIND)
        committee = Committee.from_arrays(select_prefix(arrays, "committee."))
        features = None
        if "features" in arrays:
            state = unpack_json(arrays["features"])
            features = Features.restore(state, select_prefix(arrays, "features."))
        column_names, names = tuple(about["there"]), tuple(about["names"])
        return cls(committee, column_names, names, features, about["probabilities"])


@lru_cache(maxsize=4)
def load_cached_scorer(serialized: bytes) -> BatchScorer:
    """Return `BatchScorer.from_bytes(serialized)`; the four scorers used last are cached."""
    return BatchScorer.from_bytes(serialized)


def _require_distinct_column_names(column_names: Sequence[str], added: Sequence[str]) -> None:
    """Raise ConfigurationError if a column name occurs twice, or is also in `added`.

    `added` are the names of the columns with predictions.

    As in Spark, the case of names is ignored.
    """
    lower = [name.lower() for name in column_names]
    for name in column_names:
        if name.lower() in added:
            raise ConfigurationError(
                f"df has the column {name!r}, which score adds: rename or drop this column"
            )
        if lower.count(name.lower()) > 1:
            raise ConfigurationError(
                f"df has the column {name!r} more than once: rename or drop one of them"
            )


def _names_of_columns(
    column_names: Sequence[str], committee: Committee, columns: Sequence[str] | None
) -> list[str]:
    """Return the names of the committee's columns in the order of the training."""
    known = list(committee.columns.names) if committee.columns is not None else []
    names = known if columns is None else list(columns)
    if not names:
        raise ConfigurationError(
            "the committee was trained on an array, whose columns have no names: give columns=, "
            f"a list of {committee.n_features} names in the order of the training, or features="
        )
    if isinstance(columns, str) or len(names) != committee.n_features:
        raise ConfigurationError(
            f"columns={columns!r}, and the committee scores {committee.n_features} columns: give "
            f"a list of {committee.n_features} names"
        )
    if known and names != known:
        raise ConfigurationError(
            f"columns={names!r}, and the committee was trained on a frame with other names: "
            f"rename the columns of df to {known}, and leave columns= out"
        )
    if absent := [name for name in names if name not in column_names]:
        raise ConfigurationError(
            f"df lacks the columns {absent}, which the committee scores: add them, with null for "
            "missing values"
        )
    return names


def _names_of_fields(
    column_names: Sequence[str], committee: Committee, features: Features
) -> list[str]:
    """Return the names of the columns that hold the fields of `features`.

    Warns if the committee scores features that depend on the preceding record.
    """
    if len(features) < committee.n_features:
        raise ConfigurationError(
            f"features gives {len(features)} columns, and the committee scores "
            f"{committee.n_features}: give the features of its training, without label_lags"
        )
    fields = [str(name) for name in features.fields]
    if absent := [field for field in fields if not is_within_any(field, frozenset(column_names))]:
        raise ConfigurationError(
            f"df has no column of the fields {absent}: add them, with null for missing values"
        )
    lost = [features.names[c] for c in features.elapsed_seconds_columns if c < committee.n_features]
    if lost:
        warnings.warn(
            f"{lost} depend on the order of the records, which Spark does not keep: they are "
            "missing values",
            stacklevel=4,
        )
    return [
        name for name in column_names if any(is_within_any(f, frozenset({name})) for f in fields)
    ]
