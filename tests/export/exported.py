"""Committees to export, the rows to score with them, and their scores in other libraries."""

import lightgbm
import numpy as np
import onnxruntime
from families import two_classes_only
from sklearn.base import clone

__all__ = ["fitted_committee", "lightgbm_scores", "onnx_outputs", "rows_to_score"]


def validate_training_rows(n=400, seed=0):
    """Rows of three columns of numbers and one of 40 categories, a part of them missing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 40, n)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int) + (np.nan_to_num(X[:, 3]) % 3 > 1)
    return X, y


def fitted_committee(estimator, *, categories=False, names=("low", "middle", "high")):
    """Fit a copy of `estimator`, to two classes if it supports no more."""
    X, y = validate_training_rows()
    y = np.minimum(y, 1) if two_classes_only(estimator) else y
    model = clone(estimator).set_params(n_estimators=12, random_state=0)
    if categories:
        model.set_params(categorical_features=[3])
    return model.fit(X, np.array(names)[y]).committee_


def rows_to_score(committee, n=2_000, n_on_thresholds=300, seed=1):
    """`n` rows with 5 % missing values, and further rows with a value that equals a threshold.

    The categories include unknown and negative ones.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + n_on_thresholds, 4)).astype(np.float32)
    X[:, 3] = rng.integers(-2, 60, len(X))
    X[rng.random(X.shape) < 0.05] = np.nan
    nodes = committee.learners.nodes
    numbers = nodes if not committee.learners.sets.size else nodes[committee.learners.set_of < 0]
    if len(numbers):
        chosen = numbers[rng.integers(0, len(numbers), n_on_thresholds)]
        X[np.arange(n, len(X)), chosen["feature"]] = chosen["threshold"]
    return X


def onnx_outputs(content, X):
    """The outputs of ONNX Runtime by name."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def lightgbm_scores(text, X):
    """The raw scores of LightGBM, float64 (n, K)."""
    booster = lightgbm.Booster(model_str=text)
    return booster.predict(X, raw_score=True).reshape(len(X), -1)
