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
from streamboost.storage import decode_sealed, encode_sealed, pack_json, select_prefix, unpack_json

__all__ = ["PREDICTION", "PROBABILITIES", "BatchScorer", "load_once"]

PREDICTION, PROBABILITIES = "prediction", "probabilities"
"""Names of the columns that a scorer adds."""

_KIND = "batch scorer"


@dataclass(frozen=True, slots=True, eq=False)
class BatchScorer:
    """Scorer of pyarrow RecordBatches, which is sent to workers as bytes.

    Parameters
    ----------
    committee
        The committee that predicts.
    there
        Names of all columns of a batch, which replace the names that the batch has.
    names
        Names of the columns to read. Without `features`, they are in the order of the training.
    features
        Encoder of records; None if the committee scores the columns themselves.
    probabilities
        Whether to add the class probabilities.
    """

    committee: Committee
    there: tuple[str, ...]
    names: tuple[str, ...]
    features: Features | None = None
    probabilities: bool = False

    @classmethod
    def create(
        cls,
        there: Sequence[str],
        committee: Committee,
        *,
        columns: Sequence[str] | None = None,
        features: Features | None = None,
        probabilities: bool = False,
    ) -> Self:
        """Create the scorer of a data frame with the columns `there`.

        Raises
        ------
        ConfigurationError
            If a column is missing, ambiguous or has the name of an added column, or if `columns`
            or `features` do not match the committee.
        """
        _require_distinct(there, [PREDICTION, *([PROBABILITIES] if probabilities else [])])
        if features is None:
            names = _names_of_columns(there, committee, columns)
        elif columns is None:
            names = _names_of_fields(there, committee, features)
        else:
            raise ConfigurationError(
                f"columns={list(columns)!r} and features are both given: leave one of them out"
            )
        return cls(committee, tuple(there), tuple(names), features, probabilities)

    def score(self, batch: Any) -> Any:
        """Return the pyarrow RecordBatch `batch` with the columns of the predictions added.

        The given columns are not copied. Raises DataError if a column does not hold numbers.
        """
        import pyarrow as pa

        batch, committee = batch.rename_columns(self.there), self.committee
        scores = committee.class_scores(self._rows(batch.select(self.names)))
        classes = pa.array(committee.classes.tolist())
        added = {PREDICTION: classes.take(pa.array(committee.predicted_indices(scores)))}
        if self.probabilities:
            n, K = scores.shape
            ends = pa.array(np.arange(n + 1) * K, type=pa.int32())
            values = pa.array(committee.probabilities(scores).ravel())
            added[PROBABILITIES] = pa.ListArray.from_arrays(ends, values)
        names = [*self.there, *added]
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=names)

    def _rows(self, batch: Any) -> Any:
        """Return the rows to score: `batch` itself, or an array float32 (n, D) by `features`."""
        if self.features is None:
            return batch
        records = batch.to_pylist(maps_as_pydicts="strict")
        X = self.features.encode([self.features.values(record) for record in records])
        X[:, self.features.order_columns] = np.nan
        return X[:, : self.committee.n_features]  # newer classes have columns at the end

    def to_bytes(self) -> bytes:
        """Return the scorer as bytes for `from_bytes`."""
        arrays = {f"committee.{name}": array for name, array in self.committee.to_arrays().items()}
        if self.features is not None:
            about, own = self.features.state()
            arrays["features"] = pack_json(about)
            arrays |= {f"features.{name}": array for name, array in own.items()}
        about = {
            "there": self.there,
            "names": self.names,
            "probabilities": self.probabilities,
        }
        return encode_sealed(arrays, kind=_KIND, manifest=about)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Create a scorer from the result of `to_bytes`; raise ModelFileError if it is damaged."""
        arrays, about = decode_sealed("the model of a Spark task", packed, kind=_KIND)
        committee = Committee.from_arrays(select_prefix(arrays, "committee."))
        features = None
        if "features" in arrays:
            state = unpack_json(arrays["features"])
            features = Features.restore(state, select_prefix(arrays, "features."))
        there, names = tuple(about["there"]), tuple(about["names"])
        return cls(committee, there, names, features, about["probabilities"])


@lru_cache(maxsize=4)
def load_once(packed: bytes) -> BatchScorer:
    """Return `BatchScorer.from_bytes(packed)`; a process keeps the four scorers used last."""
    return BatchScorer.from_bytes(packed)


def _require_distinct(there: Sequence[str], added: Sequence[str]) -> None:
    """Raise ConfigurationError if a column is there twice, or a column to add is there already.

    Spark ignores the case of names.
    """
    lower = [name.lower() for name in there]
    for name in there:
        if name.lower() in added:
            raise ConfigurationError(
                f"df has the column {name!r}, which score adds: rename or drop this column"
            )
        if lower.count(name.lower()) > 1:
            raise ConfigurationError(
                f"df has the column {name!r} more than once: rename or drop one of them"
            )


def _names_of_columns(
    there: Sequence[str], committee: Committee, columns: Sequence[str] | None
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
    if absent := [name for name in names if name not in there]:
        raise ConfigurationError(
            f"df lacks the columns {absent}, which the committee scores: add them, with null for "
            "missing values"
        )
    return names


def _names_of_fields(there: Sequence[str], committee: Committee, features: Features) -> list[str]:
    """Return the names of the columns that hold the fields of `features`.

    Warns if the committee scores columns that depend on the record before.
    """
    if len(features) < committee.n_features:
        raise ConfigurationError(
            f"features gives {len(features)} columns, and the committee scores "
            f"{committee.n_features}: give the features of its training, without label_lags"
        )
    fields = [str(name) for name in features.fields]
    if absent := [field for field in fields if not is_within_any(field, frozenset(there))]:
        raise ConfigurationError(
            f"df has no column of the fields {absent}: add them, with null for missing values"
        )
    lost = [features.names[c] for c in features.order_columns if c < committee.n_features]
    if lost:
        warnings.warn(
            f"{lost} depend on the order of the records, which Spark does not keep: they are "
            "missing values",
            stacklevel=4,
        )
    return [name for name in there if any(is_within_any(f, frozenset({name})) for f in fields)]
