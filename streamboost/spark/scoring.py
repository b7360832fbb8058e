"""Predictions of a committee as columns of a Spark data frame, of a batch or of a stream."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from streamboost.boosting.committee import Committee
from streamboost.errors import DataError
from streamboost.features import Features
from streamboost.spark.batch_scorer import (
    PREDICTION,
    PROBABILITIES,
    BatchScorer,
    load_cached_scorer,
)

_TYPES = {
    "U": "StringType",
    "O": "StringType",
    "b": "BooleanType",
    "i": "LongType",
    "u": "LongType",
    "f": "DoubleType",
}
"""Mapping from the dtype kind of the classes to the Spark type of the predictions."""


def score(
    df: Any,
    model: Committee | str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    features: Features | None = None,
    probabilities: bool = False,
) -> Any:
    """Return the Spark data frame `df` with the committee's prediction of each row.

    `df` is a batch or a stream. `DataFrame.mapInArrow` runs the committee in Spark's Python
    workers, where streamboost must be installed. The model is read once, in the calling process,
    and each worker loads the model once. Predictions do not depend on partitions or batches.

    Parameters
    ----------
    df
        A `pyspark.sql.DataFrame`.
    model
        A committee, or the path of a file that `Committee.save` wrote, on the calling machine.
    columns
        Names of the D columns to score, in the order of the training. Required for a committee that
        was trained on an array. A committee that was trained on a frame finds its columns by name.
    features
        Encoder of the records that the committee was trained on, such as `learner.features`, for
        mixed fields: texts, categories, times, vectors and nested fields. A value of another type
        is missing. Rows of Spark have no order, so the feature "seconds since the preceding record"
        is missing, too.
    probabilities
        Whether to add the column `probabilities`, array<double> (K,), in the order of
        `Committee.classes`.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `df`, and the column `prediction`: string, bigint, boolean or double, as the
        classes are.

    Raises
    ------
    ConfigurationError
        If `df` lacks a column, has a column twice or has a column of the output, or if `columns` or
        `features` do not match the committee.
    DataError
        If `df` is not a Spark data frame, or `model` is not a committee. Also in a worker, as
        Spark's PythonException, if a column does not hold numbers.
    ModelFileError
        If the file is not a committee's.
    """
    if not hasattr(df, "mapInArrow"):
        library = type(df).__module__.partition(".")[0]
        raise DataError(
            f"df is a {library}.{type(df).__name__}: give a Spark data frame, such as "
            "spark.createDataFrame(df)"
        )
    if not isinstance(model, Committee | str | os.PathLike):
        raise DataError(
            f"model is a {type(model).__name__}: give a committee, such as classifier.committee_, "
            "or the path of its file"
        )
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

    committee = model if isinstance(model, Committee) else Committee.load(model)
    scorer = BatchScorer.create(
        df.columns, committee, columns=columns, features=features, probabilities=probabilities
    )
    serialized = scorer.to_bytes()

    def score_batches(batches: Iterator[Any]) -> Iterator[Any]:
        return map(load_cached_scorer(serialized).score, batches)

    added = [StructField(PREDICTION, _spark_type_of_classes(committee))]
    if probabilities:
        added.append(StructField(PROBABILITIES, ArrayType(DoubleType())))
    plain = df.toDF(*map(str, range(len(df.columns))))  # mapInArrow refuses names with dots
    return plain.mapInArrow(score_batches, StructType([*df.schema.fields, *added]))


def _spark_type_of_classes(committee: Committee) -> Any:
    """Return the Spark type of the committee's class labels."""
    from pyspark.sql import types

    return getattr(types, _TYPES[committee.classes.dtype.kind])()
